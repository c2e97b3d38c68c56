"""`usher check` reports what works and what does not, in limited time, and changes nothing."""

import asyncio
import json
import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest
from aiohttp import web

from backends.hardware.gpu_memory import GpuMemory, NvmlProbe
from backends.media import documents, videos
from backends.media.helper import sandbox
from backends.media.helper.sandbox import Barrier
from bot.app import heartbeat
from bot.app.console import show
from bot.app.setup import MIGRATIONS
from bot.cli import check, memory_kept
from bot.cli.findings import Finding, FindingTable, told
from bot.config.loader import Config, ConfigError, parse
from queueing.core.catalog import Catalog
from queueing.core.specs import HostSpec
from queueing.store.engines import open_database
from tests.fakes.llm.llm import serving
from tests.fakes.llm.llm_script import Model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.terminal import FakeTty
from tests.simulation.installation import host, image_model

WORKFLOWS = Path(__file__).parents[3] / "backends" / "workflows"
CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""
PATIENT_S = 30.0
LISTS = frozenset({"/v1/models", "/props", "/version", "/api/tags", "/api/ps", "/api/v1/models"})


def configured(folder: Path, text: str = CONFIG, **environ: str) -> Config:
    return parse(text, environ, folder=folder)


async def found(config: Config, *, try_s: float = PATIENT_S) -> dict[tuple[str, str], Finding]:
    findings = await check.try_everything(config, try_s=try_s)
    return {(finding.what, finding.name): finding for finding in findings}


@asynccontextmanager
async def server(answer: web.Response | None) -> AsyncIterator[str]:
    """Serve one answer for everything; None never answers."""

    async def handle(_: web.Request) -> web.Response:
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return web.Response(status=answer.status, text=answer.text)

    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def test_what_works_is_told_in_aligned_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator could not see at a glance that all is well."""
    assert await check.report(configured(tmp_path)) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("database  usher.sqlite      ok  is created at the first start")
    assert told[1].startswith("backend   stand-in          ok  demo")
    assert any(line.startswith("model     flux on stand-in  ok  ") for line in told)
    assert any(line.startswith("chat      web               ok  ") for line in told)
    assert told[-1] == "Everything works."


@pytest.mark.parametrize(("there", "works"), [(True, True), (False, None)])
async def test_it_says_whether_videos_can_be_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, works: bool | None
) -> None:
    """An operator would hear from people that videos are held back."""
    monkeypatch.setattr(videos, "available", lambda: there)
    comfy = "{kind: comfyui, url: 'http://127.0.0.1:9'}"
    text = CONFIG.replace("{kind: demo}", f"{{kind: demo}}, comfy: {comfy}")
    told = (await found(configured(tmp_path, text)))["videos", "PyAV"]
    assert told.works is works
    assert there or "usher-bot[media]" in told.text
    assert ("videos", "PyAV") not in await found(configured(tmp_path))


@pytest.mark.parametrize("there", [True, False])
async def test_it_says_whether_pdfs_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """An operator would hear from people that their papers are refused."""
    monkeypatch.setattr(documents, "reads_pdfs", lambda: there)
    told = await found(configured(tmp_path, CONFIG))
    assert (("documents", "pypdfium2") in told) is not there


@pytest.mark.parametrize("there", [True, False])
async def test_it_says_whether_recordings_can_be_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """whisper.cpp would refuse voice messages, and the operator would not know why."""
    monkeypatch.setattr(videos, "available", lambda: there)
    text = CONFIG.replace("[stand-in]", "[stand-in], capabilities: [speech-to-text]")
    told = await found(configured(tmp_path, text))
    assert (("recordings", "PyAV") in told) is not there


async def test_it_says_what_strangers_files_could_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator would rely on protection that their kernel does not offer."""
    for offered in (frozenset(Barrier), frozenset({Barrier.CALLS}), frozenset[Barrier]()):
        monkeypatch.setattr(sandbox, "offered", lambda offered=offered: offered)
        told = await found(configured(tmp_path))
        missing = {name for what, name in told if what == "files"}
        assert missing == {Barrier.FILES, Barrier.CALLS} - offered
        assert all(told["files", name].works is None for name in missing)


async def test_nothing_is_made_or_left_behind(tmp_path: Path) -> None:
    """Trying a configuration would create a database, or look like a running bot."""
    await check.report(configured(tmp_path))
    assert not os.listdir(tmp_path)  # noqa: PTH208  there is nothing to wait for


async def test_a_server_that_is_away_fails_alone(tmp_path: Path) -> None:
    """One server that is off would hide what else works, or be reported with status 0."""
    async with server(None) as url:
        pass  # closed again: no one listens there
    text = CONFIG.replace("{kind: demo}", f"{{kind: demo}}, away: {{kind: openai, url: '{url}'}}")
    text = text.replace("[stand-in]", "[stand-in, away], capabilities: [text-to-text]")
    config = configured(tmp_path, text)
    findings = await found(config)
    assert findings["backend", "stand-in"].works is True
    assert findings["model", "flux on stand-in"].works is True
    away = findings["backend", "away"]
    assert (away.works, url in away.text) == (False, True)
    untried = findings["model", "flux on away"]
    assert (untried.works, untried.text) == (None, "not tried: away does not work")
    assert await check.report(config) == 2


async def test_an_address_without_a_server_is_told_without_a_path(tmp_path: Path) -> None:
    """The first path that is tried belongs to one product, and people would look for that one."""
    async with server(None) as url:
        pass
    text = CONFIG.replace("{kind: demo}", f"{{kind: openai, url: '{url}'}}")
    findings = await found(configured(tmp_path, text))
    told = findings["backend", "stand-in"].text
    assert (
        told == f"no usable answer from {url} (cannot connect: connection refused; is it running?)"
    )


@pytest.mark.parametrize("answer", [None, web.Response(text="<html>"), web.Response(status=500)])
async def test_a_server_that_hangs_or_answers_nonsense_fails_in_time(
    tmp_path: Path, answer: web.Response | None
) -> None:
    """The check would hang as long as the server does, or end in a traceback."""
    async with server(answer) as url:
        text = CONFIG.replace("{kind: demo}", f"{{kind: openai, url: '{url}'}}")
        findings = await found(configured(tmp_path, text), try_s=3.0)
    assert findings["backend", "stand-in"].works is False
    assert findings["chat", "web"].works is True


async def test_no_chat_at_all_fails(tmp_path: Path) -> None:
    """A bot that no one can reach would pass."""
    findings = await found(configured(tmp_path, CONFIG.replace("chats: {web: {port: 0}}\n", "")))
    assert findings["chat", "none"].works is False


async def test_secrets_are_hidden_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library's error message would show the token to anyone who sees the screen."""

    async def refuse(_: object) -> str:
        raise RuntimeError("the token canary-of-sixteen-signs is wrong")

    monkeypatch.setattr("bot.platforms.web.platform.Web.check", refuse)
    config = configured(
        tmp_path, CONFIG.replace("port: 0", "token: '${T}'"), T="canary-of-sixteen-signs"
    )
    assert await check.report(config) == 2
    told = capsys.readouterr().out
    assert "canary" not in told
    assert "[hidden] is wrong" in told


async def test_a_servers_words_stay_within_their_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server could clear the operator's screen, or add rows that say all is well."""

    async def answer(_: object) -> str:
        return "\x1b[2Jfine\nbackend  other  ok  [red]all[/red] is :smile: well\r"

    monkeypatch.setattr("bot.platforms.web.platform.Web.check", answer)
    await check.report(configured(tmp_path, CONFIG))
    told = capsys.readouterr().out
    assert "ok  \\u001b[2Jfine backend other ok [red]all[/red] is :smile: well\n" in told
    assert "\x1b" not in told
    assert "\r" not in told


def test_a_narrow_terminal_shows_every_word_and_the_row_it_belongs_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator on a phone would see one letter per line."""
    refused = Finding(
        what="backend", name="comfyui", works=False, text="nothing listens at http://10.0.0.1:8188"
    )
    terminal = FakeTty(monkeypatch, columns=40)
    show(FindingTable([refused, told("", "", "a canary sings")], hide=lambda text: text[:60]))
    assert terminal.words() == (
        "FAILED backend comfyui nothing listens at http://10.0.0.1:8188 - a canary sings"
    )
    assert max(map(len, terminal.lines())) <= 40
    assert "\x1b[" in terminal.getvalue()


# ---------------------------------------------------------------- the database


async def test_a_database_of_this_version_works_and_stays_as_it_is(tmp_path: Path) -> None:
    """The check would lock, change or upgrade the bot's database."""
    database = await open_database(f"sqlite:///{tmp_path}/usher.sqlite", migrations=(MIGRATIONS,))
    await database.aclose()
    before = (tmp_path / "usher.sqlite").read_bytes()
    assert (await found(configured(tmp_path)))["database", "usher.sqlite"].works is True
    assert (tmp_path / "usher.sqlite").read_bytes() == before


async def test_a_database_without_our_tables_gets_none_by_looking(tmp_path: Path) -> None:
    """An operator who only looks would find the file changed."""
    with closing(sqlite3.connect(tmp_path / "usher.sqlite")) as connection:
        connection.execute("CREATE TABLE other (id INTEGER)")
    assert (await found(configured(tmp_path)))["database", "usher.sqlite"].works is True
    with closing(sqlite3.connect(tmp_path / "usher.sqlite")) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")]
    assert tables == ["other"]


async def test_a_newer_a_damaged_and_a_misplaced_database_fail(tmp_path: Path) -> None:
    """The bot would be restarted with a database it cannot use."""
    file = tmp_path / "usher.sqlite"
    database = await open_database(f"sqlite:///{file}", migrations=(MIGRATIONS,))
    await database.aclose()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema:queue'")
    newer = (await found(configured(tmp_path)))["database", "usher.sqlite"]
    assert (newer.works, "newer Usher" in newer.text) == (False, True)
    file.write_bytes(b"no database at all" * 100)
    damaged = (await found(configured(tmp_path)))["database", "usher.sqlite"]
    assert (damaged.works, "not a database" in damaged.text) == (False, True)
    misplaced = (await found(configured(tmp_path / "nowhere")))["database", "usher.sqlite"]
    assert misplaced.works is False


async def test_a_running_bot_is_no_fault(tmp_path: Path) -> None:
    """The check would fail or disturb the bot, although all is well."""
    config = configured(tmp_path)
    running = asyncio.create_task(heartbeat.beat(config.sign_of_life))
    while not heartbeat.is_alive(config.sign_of_life):  # noqa: ASYNC110  a file signals nothing
        await asyncio.sleep(0)
    findings = await found(config)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert findings["database", "usher.sqlite"].text == "in use by the running Usher"
    assert findings["chat", "web"].works is None


# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    ("measured", "works"), [((24_564, 20_000), True), ((12_288, 12_000), False), (None, None)]
)
async def test_a_gpu_is_compared_with_what_is_configured(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: tuple[int, int] | None,
    works: bool | None,
) -> None:
    """The planner would use twice the real memory until the server runs out of it."""

    async def free_mb(_: NvmlProbe, host: HostSpec) -> tuple[int, int] | None:
        return measured

    monkeypatch.setattr(NvmlProbe, "free_mb", free_mb)
    findings = await found(configured(tmp_path, CONFIG.replace("vram:", "gpu: 0, vram:")))
    assert findings["host", "home"].works is works


def _without_a_driver() -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


@pytest.mark.parametrize(
    ("gpu", "what"),
    [
        ("0", "GPU not measured (no NVIDIA driver is installed here)"),
        ("amd:0", "GPU not measured (AMD GPUs can be measured only on Linux"),
        ("system", "main memory not measured (psutil is not installed)"),
    ],
)
async def test_what_cannot_be_measured_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, what: str
) -> None:
    """An operator of a Mac or a Radeon would be asked for an NVIDIA driver, or for nothing."""
    here = partial(GpuMemory, proc=tmp_path / "proc", sys=tmp_path / "sys")
    monkeypatch.setattr(pynvml, "nvmlInit", _without_a_driver)
    monkeypatch.setattr(check, "GpuMemory", here)
    monkeypatch.setitem(sys.modules, "psutil", None)
    findings = await found(configured(tmp_path, CONFIG.replace("vram:", f"gpu: '{gpu}', vram:")))
    finding = findings["host", "home"]
    assert finding.works is None
    assert finding.text.startswith(what)
    assert finding.text.endswith(
        "only the configured memory counts, and other programs are not seen"
    )


def test_a_host_here_without_gpu_is_told_to_be_unwatched() -> None:
    """A game would take the GPU while the operator believes that Usher sees it."""
    cases: list[tuple[str, bool]] = [("http://127.0.0.1:9", False), ("http://192.0.2.1:9", True)]
    for url, watched in cases:
        text = CONFIG.replace("{kind: demo}", f"{{kind: openai, url: '{url}'}}")
        findings = list(check.unwatched(parse(text, {}).catalog()))
        assert [each.name for each in findings] == ([] if watched else ["home"]), url
        for each in findings:
            assert each.works is None, url
            assert "`gpu` is not set" in each.text, url


async def test_what_a_server_offers_is_told(tmp_path: Path) -> None:
    """An operator would not see what `discover: true` brings."""
    text = CONFIG.replace("{kind: demo}", "{kind: demo, discover: true}")
    findings = await found(configured(tmp_path, text))
    assert (
        findings["models", "of stand-in"].text
        == "9 others found: demo-painter, demo-retoucher, demo-lens, demo-writer, demo-camera"
        " and 4 more"
    )


@pytest.mark.parametrize("kind", ["generic", "vllm", "llamacpp", "ollama", "lmstudio"])
@pytest.mark.parametrize(("token", "works"), [("right", True), ("wrong", False), ("", False)])
async def test_a_key_is_tried_where_questions_are_sent(
    tmp_path: Path, kind: str, token: str, works: bool
) -> None:
    """The list of models may be public, so that a wrong key would seem right."""
    async with serving(kind, token="right") as fake:
        fake.public = LISTS
        setting = f", token: {token}" if token else ""
        backend = "lmstudio" if kind == "lmstudio" else "openai"
        texts = f"texts: {{kind: {backend}, url: '{fake.url}'{setting}}}"
        text = CONFIG.replace("{kind: demo}", f"{{kind: demo}}, {texts}")
        row = (await found(configured(tmp_path, text)))["backend", "texts"]
        assert not any(model.loads for model in fake.models.values())
    assert row.works is works
    assert works or "token" in row.text


NO_SYSTEM = (400, {"error": {"message": "System role not supported"}})
NO_TEMPERATURE = (400, {"error": {"message": "Unsupported parameter: 'temperature'"}})
DOWN = (500, {"error": {"message": "list index out of range"}})
BUSY = (400, {"error": "Model is busy"})


REFUSALS: list[tuple[tuple[int, Any] | None, bool, str]] = [
    (None, True, "text-to-text; answers"),
    (NO_SYSTEM, True, "has no system role"),
    (NO_TEMPERATURE, False, "Unsupported parameter: 'temperature'"),
    (DOWN, False, "list index out of range"),
    (BUSY, True, "not asked, because its server is busy"),
]


@pytest.mark.parametrize(
    ("kind", "refusal", "works", "told"),
    [
        pytest.param(
            kind,
            *refused,
            marks=() if kind == "generic" or refused[0] is None else pytest.mark.thorough,
        )
        for kind in ("generic", "vllm", "llamacpp", "ollama", "lmstudio")
        for refused in REFUSALS
    ],
)
async def test_a_model_in_memory_is_asked_for_a_token_with_its_settings(
    tmp_path: Path, kind: str, refusal: tuple[int, Any] | None, works: bool, told: str
) -> None:
    """An operator would hear from people that a setting makes every question fail."""
    name = "lmstudio" if kind == "lmstudio" else "openai"
    async with serving(
        kind, [Model("alpha"), Model("beta")][: 1 if kind == "generic" else 2]
    ) as fake:
        fake.models["alpha"].copies = ["alpha"]
        if refusal is NO_SYSTEM:
            fake.no_system = refusal
        else:
            fake.refusal = refusal
        text = CONFIG.replace("{kind: demo}", f"{{kind: {name}, url: '{fake.url}'}}").replace(
            "{flux: {backends: [stand-in]}}",
            "{alpha: {backends: [stand-in], system: Be brief., temperature: 0.7},"
            " beta: {backends: [stand-in]}}",
        )
        rows = await found(configured(tmp_path, text))
        asked = fake.posted("/v1/chat/completions")
        assert not any(model.loads for model in fake.models.values())
    row = rows["model", "alpha on stand-in"]
    assert (row.works, told in row.text) == (works, True), row.text
    sent = [body for body in asked if isinstance(body["messages"], list)]
    assert all(body["model"] == "alpha" and body["max_tokens"] == 1 for body in sent)
    assert sent[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    other = rows["model", "beta on stand-in"]
    assert other.text == "text-to-text" or not other.works


async def test_what_several_servers_have_is_told(tmp_path: Path) -> None:
    """`/models` would show a name that the table does not have."""
    async with serving("ollama") as one, serving("ollama") as two, serving("lmstudio") as three:
        places = {"one": ("openai", one), "two": ("openai", two), "three": ("lmstudio", three)}
        servers = ", ".join(
            f"{name}: {{kind: {kind}, url: '{server.url}'}}"
            for name, (kind, server) in places.items()
        )
        text = CONFIG.replace("stand-in: {kind: demo}", f"stand-in: {{kind: demo}}, {servers}")
        text += "defaults: {ask: alpha-three}\n"
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    assert [(each.what, each.text) for each in findings if each.name == "alpha"] == [
        ("models", "one and two have it and share its queue"),
        ("models", "three has a different one than one and two; it is offered as alpha-three"),
    ]
    assert not [each for each in findings if each.what == "default"]


async def test_what_a_server_has_and_does_not_offer_is_told(tmp_path: Path) -> None:
    """An operator would miss a model and not learn why it is not offered."""
    async with FakeComfyUI() as fake:
        fake.models["checkpoints"] = {"mystery.safetensors": 1}
        text = CONFIG.replace(
            "{kind: demo}", f"{{kind: comfyui, discover: true, url: '{fake.url}'}}"
        )
        text = text.replace("]}", "], workflow: sdxl.json}")
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    told = [finding.text for finding in findings]
    assert (
        "mystery.safetensors: unknown family; configure a workflow for it (docs/models.md)." in told
    )
    assert [text for text in told if text.startswith("flux1-schnell") and "flux-schnell" in text]


async def test_servers_without_a_single_model_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator would read that everything works, and every request would be refused."""
    async with FakeComfyUI() as fake:
        fake.models["checkpoints"] = {"mystery.safetensors": 1}
        fake.models["diffusion_models"] = {}
        text = f"""
hosts:
  home:
    vram: 8GB
    backends:
      comfyui: {{kind: comfyui, url: '{fake.url}'}}
chats: {{web: {{port: 0}}}}
"""
        assert await check.report(configured(tmp_path, text), try_s=PATIENT_S) == 2
    told = capsys.readouterr().out
    assert "of comfyui    ok      none found" in told, told
    assert "FAILED  no server offers a model yet" in told


async def test_a_default_that_no_server_offers_fails(tmp_path: Path) -> None:
    """Anyone who names no model would be refused because of a misspelt name in the settings."""
    text = CONFIG.replace("{kind: demo}", "{kind: demo, discover: true}")
    text += "defaults: {image: Demo-Painter, ask: demo-wirter}\n"
    text += "styles: {noir: {model: demo-paniter}, oil: {model: demo-painter}}\n"
    text += "rules: [{where: [web], models: [demo-painter]}, {defaults: {ask: demo-wirter}}]\n"
    findings = await found(configured(tmp_path, text))
    assert findings["style", "noir"].works is False
    assert findings["rule", "rules[1]"].works is False
    assert "; did you mean demo-writer or" in findings["rule", "rules[1]"].text
    assert ("rule", "rules[0]") not in findings
    assert ("style", "oil") not in findings
    assert ("default", "image") not in findings
    assert findings["default", "ask"].works is False


async def test_a_lora_that_a_rule_names_and_no_server_has_fails(tmp_path: Path) -> None:
    """People would be refused the LoRA for which the rule was written."""
    rules = "rules: [{where: [web], loras: [INK.safetensors]}, {loras: [inc, ink]}]\n"
    async with FakeComfyUI() as fake:
        text = CONFIG.replace("{kind: demo}", f"{{kind: comfyui, url: '{fake.url}'}}")
        text = text.replace("]}", "], workflow: sdxl.json}") + rules
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
        about = [each for each in findings if each.what == "rule"]
        expected = "no server has the LoRA inc; did you mean ink?"
        assert [(each.name, each.works, each.text) for each in about] == [
            ("rules[1]", False, expected)
        ]
    (silent,) = [
        each
        for each in await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
        if "LoRA inc" in each.text
    ]
    assert silent.works is None


async def test_a_template_that_takes_images_of_any_size_is_named(tmp_path: Path) -> None:
    """A photo from a phone would fill the whole GPU, and the operator would not know why."""
    graph = json.loads((WORKFLOWS / "sdxl-img2img.json").read_text(encoding="utf-8"))
    scale = next(key for key, node in graph.items() if node["class_type"] == "ImageScale")
    for node in graph.values():
        if node["inputs"].get("pixels") == [scale, 0]:
            node["inputs"]["pixels"] = graph[scale]["inputs"]["image"]
    for name, named in (("scaled", False), ("as-it-comes", True)):
        shipped = (WORKFLOWS / "sdxl-img2img.json").read_text(encoding="utf-8")
        own = json.dumps(graph) if named else shipped
        (tmp_path / f"{name}.json").write_text(own, encoding="utf-8")
        async with FakeComfyUI() as fake:
            text = CONFIG.replace("{kind: demo}", f"{{kind: comfyui, url: '{fake.url}'}}")
            text = text.replace("]}", f"], workflow: {tmp_path}/{name}.json}}")
            findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
        notes = [finding.text for finding in findings if "ImageScale" in finding.text]
        assert bool(notes) is named, findings


async def test_a_gpu_smaller_than_configured_is_told(tmp_path: Path) -> None:
    """A typing error in `vram` would only show when the server runs out of memory."""
    async with FakeComfyUI() as fake:
        text = CONFIG.replace("{kind: demo}", f"{{kind: comfyui, url: '{fake.url}'}}")
        text = text.replace("24GB", "999GB").replace("]}", "], workflow: sdxl.json}")
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    notes = [finding.text for finding in findings if not finding.what]
    assert any("home is set to 1022976 MB" in note for note in notes)
    assert [f.works for f in findings if f.what == "backend"] == [True]


@pytest.mark.parametrize(
    ("kind", "vram", "told"),
    [
        ("vllm", "20GB", ["no space on home for flux and beta until this server stops"]),
        ("vllm", "40GB", []),
        ("lmstudio", "20GB", []),
    ],
)
async def test_memory_that_a_server_never_gives_back_is_told(
    tmp_path: Path, kind: str, vram: str, told: list[str]
) -> None:
    """Images would wait forever beside a text model that stays loaded, without a warning."""
    async with serving(kind) as fake:
        text = f"""\
hosts:
  home:
    vram: {vram}
    backends: {{stand-in: {{kind: demo}}, texts: {{kind: openai, url: '{fake.url}'}}}}
models:
  flux: {{backends: [stand-in], vram: 12GB}}
  small: {{backends: [stand-in], vram: 2GB}}
  alpha: {{backends: [texts], vram: 10GB}}
  beta: {{backends: [stand-in, texts], vram: 9GB}}
  gamma: {{backends: [texts]}}
chats: {{web: {{port: 0}}}}
"""
        text = text.replace("openai", "lmstudio") if kind == "lmstudio" else text
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    notes = [finding.text for finding in findings if "unload on request" in finding.text]
    asked = [note for note in notes if "set its `vram`" in note]
    unknown = (
        "texts cannot unload on request, and the size of gamma is unknown: set its `vram`,"
        " or flux, small, alpha and beta may wait forever for space on home."
    )
    assert asked == ([] if kind == "lmstudio" else [unknown])
    notes = [note for note in notes if note not in asked]
    assert len(notes) >= len(told)
    assert all(each in " ".join(notes) for each in told)
    assert told or not notes


def test_what_stays_together_is_told_as_well() -> None:
    """Each of two text models leaves room for images, but both together leave none."""
    models = [
        image_model("flux", vram_mb=10_000),
        image_model("alpha", "one", vram_mb=8000),
        image_model("beta", "two", vram_mb=9000),
    ]
    catalog = Catalog(models, [host("home", "comfy", "one", "two")])
    (told,) = memory_kept.together(catalog, ("one", "two"))
    assert "no space on home for flux until" in told
    assert not list(memory_kept.together(catalog, ("one",)))
    assert not list(memory_kept.together(catalog, ()))


def test_what_stays_beside_preloaded_models_is_told_as_well() -> None:
    """A small model would wait forever, without a warning."""
    models = [
        image_model("small", vram_mb=None),
        image_model("kept", vram_mb=14_000, preload=True),
        image_model("alpha", "one", vram_mb=10_000),
    ]
    catalog = Catalog(models, [host("home", "comfy", "one")])
    (told,) = memory_kept.together(catalog, ("one",))
    assert "no space on home for small until" in told


@pytest.mark.parametrize(
    ("vram", "keep", "others", "told"),
    [
        ("12GB", "keep: 7GB", "big: 6GB", "keep stays in memory because .* on home for big[.]"),
        ("12GB", "keep: 6GB, more: 6GB", "", "keep and more stay .* for keep and more[.]"),
        ("12GB", "keep: 9GB", "small: 2GB", "keep stays .* for small[.]"),
        ("12GB", "keep: 4GB", "small: 5GB", ""),
        ("12GB", "", "big: 6GB, more: 7GB", ""),
    ],
)
async def test_what_has_no_room_beside_preloaded_models_is_told(
    tmp_path: Path, vram: str, keep: str, others: str, told: str
) -> None:
    """Each of its requests would be refused, although everything seems to work."""
    models = [
        f"  {name}: {{backends: [stand-in], vram: {mb}, preload: {str(each is keep).lower()}}}\n"
        for each in (keep, others)
        for name, mb in (pair.split(": ") for pair in each.split(", ") if pair)
    ]
    text = f"hosts: {{home: {{vram: {vram}, backends: {{stand-in: {{kind: demo}}}}}}}}\n"
    text += "models:\n" + "".join(models) + "chats: {web: {port: 0}}\n"
    findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    notes = [finding.text for finding in findings if "preload" in finding.text]
    assert len(notes) == bool(told)
    assert all(re.match(told, note) for note in notes), notes


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("load_s: 100, timeouts: {load_s: 10}", r"Loading m .* timeouts.load_s \(10 s\)"),
        ("service_s: 50, timeouts: {total_s: 30}", r"A request for m .*total_s \(30 s\)"),
        ("load_s: 9, timeouts: {load_s: 10}", ""),
        ("service_s: 5000, timeouts: {total_s: none}", ""),
    ],
)
async def test_a_limit_that_what_is_usual_would_reach_is_told(
    tmp_path: Path, settings: str, told: str
) -> None:
    """Each load or request would be cancelled, although everything seems to work."""
    text = "hosts: {home: {vram: 12GB, backends: {stand-in: {kind: demo}}}}\nmodels:\n"
    text += f"  m: {{backends: [stand-in], vram: 1GB, {settings}}}\nchats: {{web: {{port: 0}}}}\n"
    findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    notes = [finding.text for finding in findings if "cut off" in finding.text]
    assert len(notes) == bool(told)
    assert all(re.match(told, note) for note in notes), notes


async def test_a_gpu_larger_than_configured_is_told(tmp_path: Path) -> None:
    """A person who meant the whole GPU would wonder why so little of it is used."""
    async with FakeComfyUI() as fake:
        text = CONFIG.replace("{kind: demo}", f"{{kind: comfyui, url: '{fake.url}'}}")
        text = text.replace("24GB", "8GB").replace("]}", "], workflow: sdxl.json}")
        findings = await check.try_everything(configured(tmp_path, text), try_s=PATIENT_S)
    told = "It sees 24576 MB; vram is set to 8192 MB, the rest is left to other programs."
    assert told in [finding.text for finding in findings if not finding.what]


async def test_the_address_of_metrics_is_tried(tmp_path: Path) -> None:
    """An operator would look at empty panels and find nothing wrong."""
    with_metrics = f"{CONFIG}metrics: {{port: 0}}\n"
    row = (await found(configured(tmp_path, with_metrics)))["metrics", "127.0.0.1:0"]
    assert row.works
    assert row.text.startswith("Prometheus reads http://127.0.0.1:")
    assert row.text.endswith("/metrics, without a token")
    async with server(web.Response()) as url:
        port = int(url.rpartition(":")[2].strip("/"))
        taken = configured(
            tmp_path, with_metrics.replace("metrics: {port: 0", f"metrics: {{port: {port}")
        )
        row = (await found(taken))["metrics", f"127.0.0.1:{port}"]
    assert row.works is False
    assert row.text.startswith(f"cannot listen on 127.0.0.1:{port}: ")


async def test_the_address_of_the_api_is_tried(tmp_path: Path) -> None:
    """A taken port would only show in the log of the bot, after its start."""
    only = CONFIG.replace("chats: {web: {port: 0}}", "chats: {}\napi: {port: 0, open: true}")
    config = configured(tmp_path, only)
    findings = await found(config)
    row = findings["api", "127.0.0.1:0"]
    assert row.works
    assert "/v1, without a key" in row.text
    assert ("chat", "none") not in findings, "the API alone is enough"
    assert all(finding.works is not False for finding in findings.values())
    async with server(web.Response()) as url:
        port = int(url.rpartition(":")[2].strip("/"))
        taken = configured(tmp_path, only.replace("port: 0", f"port: {port}"))
        row = (await found(taken))["api", f"127.0.0.1:{port}"]
    assert row.works is False
    assert row.text.startswith(f"cannot listen on 127.0.0.1:{port}: ")


async def test_settings_of_the_api_that_disappoint_are_told(tmp_path: Path) -> None:
    """Each such setting would only be noticed by programs that fail, or not at all."""
    cases: list[tuple[str, str]] = [
        ("host: 0.0.0.0", "unencrypted"),
        ("url: http://usher.example.net", "can be intercepted"),
        ("url: https://usher.example.net", "under proxies"),
        ("hold_s: 400", "Node"),
        ("open: false", "/key new"),
    ]
    for settings, word in cases:
        only = CONFIG.replace(
            "chats: {web: {port: 0}}", f"chats: {{}}\napi: {{port: 0, {settings}}}"
        )
        findings = await check.try_everything(configured(tmp_path, only), try_s=PATIENT_S)
        assert any(word in finding.text for finding in findings), settings


async def test_an_api_that_anyone_could_use_is_refused(tmp_path: Path) -> None:
    """Anyone could use the GPUs; `usher run` reads the same file and refuses it as well."""
    cases: list[tuple[str, str]] = [
        ("open: true, host: 0.0.0.0", "must stay on this machine"),
        ("open: true, url: https://usher.example.net", "must stay on this machine"),
        ('cors: ["*"]', "origin"),
        ("cors: [chat.example.net]", "origin"),
        ("cors: [https://chat.example.net/]", "origin"),
        ("webhooks: [app://obsidian.md]", "address"),
        ("cors: [https://me@chat.example.net]", "origin"),
    ]
    for settings, word in cases:
        open_to_all = CONFIG + f"api: {{{settings}}}\n"
        with pytest.raises(ConfigError, match=word):
            configured(tmp_path, open_to_all)
