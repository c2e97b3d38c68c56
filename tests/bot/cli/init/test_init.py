"""`usher init` as a whole: from nothing to a configuration that works, and what stays unchanged."""

import asyncio
import os
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.hardware.gpu_memory import SYSTEM, UNIFIED
from bot.app import process
from bot.cli import check
from bot.cli import main as cli
from bot.cli.init import browser, chats, command, scan, systemd
from bot.cli.init import hosts as gpu
from bot.cli.init.command import InitOptions
from bot.cli.init.terminal import InitFailed, NoQuestions, Terminal
from bot.config.loader import Config, load
from tests.fakes.llm.llm import serving
from tests.fakes.ports import port_of
from tests.fakes.process import ROOT
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.terminal import ScriptedTerminal

NO_ANSWERS = {
    "Address of another server": "",
    "Memory of the GPU": "",
    "Discord bot token": "",
    "Telegram bot token": "",
    "reach the page": "",
    "systemd unit": "",
    "Start Usher now": "no",
}


GPULESS = gpu.gpuless


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test starts is running here, and no token is in the environment."""
    for name in ("TELEGRAM_TOKEN", "TELEGRAM_API", "DISCORD_TOKEN", "LMSTUDIO_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    usually(monkeypatch)

    async def none() -> tuple[int, ...]:
        return ()

    monkeypatch.setattr(gpu, "gpus", none)
    monkeypatch.setattr(gpu, "amd_gpus", lambda: ())
    monkeypatch.setattr(gpu, "gpuless", lambda: False)


def usually(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let servers be expected at these ports instead of the usual ones."""
    monkeypatch.setattr(scan, "PORTS", ports)


OLLAMA = {"kind": "openai", "flavour": "ollama", "description": "Ollama", "models": ("m",)}


def finding(monkeypatch: pytest.MonkeyPatch, **about: Any) -> None:
    """Let a server of that kind be found at every address."""

    async def look(urls: Sequence[str], **_: object) -> tuple[scan.FoundServer, ...]:
        return tuple(scan.FoundServer(url=url, **about) for url in urls)

    monkeypatch.setattr(scan, "look", look)


async def run_init(
    config: Path,
    terminal: Terminal,
    *,
    servers: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    unit_kind: str | None = None,
    url: str | None = None,
    start: command.Start = lambda _config, _page: 99,
) -> int:
    options = InitOptions(config=config, servers=tuple(servers), unit=unit_kind, url=url)
    return await asyncio.to_thread(command.init, options, terminal, checked, start, environ or {})


def checked(config: Config) -> int:
    return process.run(check.report(config))


def without_comments(config: Path) -> list[str]:
    lines = (line.partition("  #")[0].rstrip() for line in config.read_text().splitlines())
    return [line for line in lines if line and not line.lstrip().startswith("#")]


# ---------------------------------------------------------------- from nothing to an answer


@asynccontextmanager
async def usher_running(config: Path) -> AsyncIterator[None]:
    """Run `usher run` with a configuration, from another folder and without its tokens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bot", "run", "-c", str(config)),
        cwd=config.parent.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.thorough
async def test_from_nothing_to_an_answered_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer would have to write a file, know addresses and export tokens before any answer."""
    folder = tmp_path / "usher"
    folder.mkdir()
    config = folder / "config.yaml"
    async with FakeTelegram() as fake, serving("lmstudio") as studio, FakeComfyUI() as comfy:
        silent = port_of(studio)
        usually(monkeypatch, int(comfy.url.rpartition(":")[2]), studio.port, silent)
        with monkeypatch.context() as environ:
            environ.setenv("TELEGRAM_TOKEN", fake.token)
            environ.setenv("TELEGRAM_API", fake.url)
            line = ["init", "--yes", "-c", str(config), "--admin", "telegram:42"]
            assert await asyncio.to_thread(cli.main, line) == 0
        told = capsys.readouterr()
        assert "Everything works." in told.out
        assert fake.token not in told.out + told.err + config.read_text()
        assert sorted(os.listdir(folder)) == ["config.yaml", "usher.env"]  # noqa: PTH208  short
        polls = fake.api.polls
        async with usher_running(config):
            await fake.wait_for(lambda: fake.api.polls > polls)
            fake.person(42).says("/ask why is the sky blue")
            await fake.wait_for(
                lambda: any("the cat sat" in each.shown for each in fake.person(42).chat.from_bot)
            )
    assert studio.posted("/v1/chat/completions")


@pytest.mark.skipif(os.name != "posix", reason="other systems have other rights")
async def test_tokens_are_in_a_private_file_and_nowhere_else(tmp_path: Path) -> None:
    """The token would be in the file that people show each other when they ask for help."""
    async with FakeTelegram() as fake:
        environ = {"TELEGRAM_TOKEN": fake.token, "TELEGRAM_API": fake.url}
        terminal = ScriptedTerminal({**NO_ANSWERS, "Make yourself": "no", "Your id": ""})
        await run_init(tmp_path / "config.yaml", terminal, environ=environ)
    secret = tmp_path / "usher.env"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert f"TELEGRAM_TOKEN={fake.token}" in secret.read_text().splitlines()
    assert fake.token not in (tmp_path / "config.yaml").read_text()
    assert fake.token not in terminal.shown


async def test_the_configuration_is_as_short_as_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer would see settings that no one needs at first."""
    async with serving("lmstudio") as studio:
        usually(monkeypatch, studio.port)
        terminal = ScriptedTerminal({**NO_ANSWERS, "Memory of the GPU": "24GB"})
        assert await run_init(tmp_path / "config.yaml", terminal) == 0
    lines = without_comments(tmp_path / "config.yaml")
    assert lines == [
        "hosts:",
        "  gpu-1:",
        "    vram: 24GB",
        "    backends:",
        f"      lmstudio: {{kind: lmstudio, url: {studio.url}}}",
        "chats:",
        lines[6],  # the page, whose usual port may be taken
        "admins: [web:local]",
    ]
    assert not (tmp_path / "usher.env").exists()
    assert f"{studio.url}  LM Studio (0.4 or newer), 2 models: alpha, beta" in terminal.shown


async def test_it_ends_by_starting_usher_and_opening_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer would have to find the next command and an address in the output."""
    started: list[tuple[Path, str]] = []

    def start(config: Path, page: str) -> int:
        started.append((config, page))
        return 0

    async with serving("lmstudio") as studio:
        usually(monkeypatch, studio.port)
        answers = {**NO_ANSWERS, "Memory of the GPU": "24GB", "Start Usher now": ""}
        config = tmp_path / "config.yaml"
        assert await run_init(config, ScriptedTerminal(answers), start=start) == 0
        web = load(config, {}).chats.web
        assert web is not None
        assert started == [(config, f"http://localhost:{web.port}/")]
        assert await run_init(tmp_path / "other.yaml", NoQuestions(), start=start) == 0
        assert len(started) == 1, "nobody was there to say no"


async def test_a_page_is_opened_once_it_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser would show an error, because the bot needs a moment to start."""
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
        "webbrowser.open", lambda _page: loop.call_soon_threadsafe(opened.set) and True
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with browser.opening(f"http://127.0.0.1:{port}/"):
            assert not opened.is_set()
            taken.listen()
            await opened.wait()
        taken.accept()[0].close()


async def test_without_any_server_it_writes_what_check_explains(tmp_path: Path) -> None:
    """A person who has not started a server yet would get nothing at all."""
    config = tmp_path / "config.yaml"
    status = await run_init(config, ScriptedTerminal(NO_ANSWERS))
    assert status in {0, 2}  # 0 where one of them runs on this machine after all
    assert {spec.kind for spec in load(config, {}).catalog().backends.values()} == {
        "comfyui",
        "lmstudio",
    }
    assert "start it, or correct the address" in config.read_text()


# ---------------------------------------------------------------- servers and GPUs


async def test_servers_of_one_machine_share_a_host_and_others_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers on one GPU would each be given all of its memory."""
    monkeypatch.setattr(scan, "is_here", lambda host: host != "gpu-box")

    async def gpus() -> tuple[int, ...]:
        return 12_282, 24_564

    finding(monkeypatch, **OLLAMA)
    monkeypatch.setattr(gpu, "gpus", gpus)
    servers = ["http://127.0.0.1:1", "http://localhost:1/v1", "http://[::1]:2", "http://gpu-box:1"]
    answers = {**NO_ANSWERS, "Which of them": "1", "Memory of the GPU of gpu-box": "8GB"}
    await run_init(tmp_path / "config.yaml", ScriptedTerminal(answers), servers=servers)
    catalog = load(tmp_path / "config.yaml", {}).catalog()
    hosts = {
        host.name: (host.vram_mb, host.gpu, [spec.url for spec in host.backends])
        for host in catalog.hosts.values()
    }
    assert hosts == {
        "gpu-1": (24 * 1024, "1", ["http://127.0.0.1:1", "http://[::1]:2"]),
        "gpu-2": (8 * 1024, None, ["http://gpu-box:1"]),
    }
    assert list(catalog.backends) == ["ollama", "ollama-2", "ollama-3"]


@pytest.mark.parametrize(
    ("gpuless", "said", "index"),
    [(True, "", "system"), (True, "24GB", None), (False, "", None)],
)
async def test_the_main_memory_is_watched_where_it_is_all_that_models_can_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, index: str | None, *, gpuless: bool
) -> None:
    """A build could take the memory of a server without a GPU, and nothing would notice.

    An answer above the machine's memory means that there is a GPU that was not found.
    """
    monkeypatch.setattr(scan, "is_here", lambda host: host != "gpu-box")
    finding(monkeypatch, **OLLAMA)
    monkeypatch.setattr(gpu, "machine_mb", lambda: 16_000)
    monkeypatch.setattr(gpu, "gpuless", lambda: gpuless)
    question = "Memory for models on" if gpuless else "Memory of the GPU of this"
    answers = {**NO_ANSWERS, question: said, "Memory of the GPU of gpu-box": "8GB"}
    servers = ["http://127.0.0.1:1", "http://gpu-box:1"]
    await run_init(tmp_path / "config.yaml", ScriptedTerminal(answers), servers=servers)
    hosts = load(tmp_path / "config.yaml", {}).catalog().hosts
    assert {name: host.gpu for name, host in hosts.items()} == {"gpu-1": index, "gpu-2": None}
    # 16,000 MB are the machine's memory, and never that of a GPU that reports none.
    usual_mb = 16_000 if gpuless else gpu.GUESS_MB
    assert said or hosts["gpu-1"].vram_mb == pytest.approx(usual_mb, rel=0.01)


@pytest.mark.parametrize(
    ("vram_mb", "cuda", "unified", "index"),
    [
        (24_000, True, False, None),
        (24_000, False, False, SYSTEM),  # the graphics of a Mac, or a CPU
        (63_000, True, False, SYSTEM),  # a GPU that shares the memory and has no NVML
        (24_000, True, True, SYSTEM),
        (80_000, False, False, None),
    ],
)
async def test_a_gpu_behind_a_tunnel_is_not_this_machines_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    vram_mb: int,
    index: str | None,
    *,
    cuda: bool,
    unified: bool,
) -> None:
    """Free main memory would be mistaken for free memory of a GPU in another house."""

    async def why_silent() -> str:
        return UNIFIED if unified else ""

    monkeypatch.setattr(gpu, "why_silent", why_silent)
    monkeypatch.setattr(gpu, "machine_mb", lambda: 64_000)
    monkeypatch.setattr(gpu, "gpuless", lambda: True)
    async with FakeComfyUI() as server:
        server.stats = {"type": "cuda" if cuda else "cpu", "vram_total": vram_mb * 2**20}
        await run_init(tmp_path / "config.yaml", ScriptedTerminal(NO_ANSWERS), servers=[server.url])
    (host,) = load(tmp_path / "config.yaml", {}).catalog().hosts.values()
    assert host.gpu == index


@pytest.mark.parametrize(
    ("devices", "gpuless"),
    [
        ({}, True),
        ({"0000:00:02.0": ("0x030000", "0x8086")}, True),  # Intel's own, in the main memory
        ({"0000:00:01.0": ("0x030000", "0x1234")}, True),  # a virtual machine's screen
        ({"0000:03:00.0": ("0x020000", "0x8086")}, True),  # a network GPU
        ({"0000:03:00.0": ("0x030000", "0x8086")}, False),  # an Arc
        ({"0000:01:00.0": ("0x030200", "0x10de")}, False),  # NVIDIA's without its driver
        ({"0000:01:00.0": ("0x030000", "0x1002")}, False),
    ],
)
def test_a_gpu_that_nothing_measures_is_no_main_memory(
    tmp_path: Path, devices: Mapping[str, tuple[str, str]], *, gpuless: bool
) -> None:
    """Free main memory would be mistaken for free memory of a Radeon."""
    for name, (kind, vendor) in devices.items():
        device = tmp_path / "bus/pci/devices" / name
        device.mkdir(parents=True)
        (device / "class").write_text(f"{kind}\n")
        (device / "vendor").write_text(f"{vendor}\n")
    (tmp_path / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
    assert GPULESS("Linux", "x86_64", tmp_path) is gpuless
    assert GPULESS("Darwin", "arm64", tmp_path)
    assert not GPULESS("Darwin", "x86_64", tmp_path)
    assert not GPULESS("Windows", "AMD64", tmp_path)
    assert not GPULESS("Linux", "x86_64", tmp_path / "missing")


async def test_servers_on_several_gpus_are_written_with_those_they_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model on two GPUs would be planned on one, and an image server on both."""

    async def look(urls: Sequence[str], **_: object) -> tuple[scan.FoundServer, ...]:
        texts = {"kind": "openai", "flavour": "llamacpp", "description": "llama.cpp"}
        images = {"kind": "comfyui", "description": "ComfyUI"}
        return tuple(
            scan.FoundServer(url=url, **about)  # type: ignore[arg-type]
            for url, about in zip(urls, (texts, images), strict=True)
        )

    async def gpus() -> tuple[int, ...]:
        return 12_282, 24_564

    monkeypatch.setattr(scan, "look", look)
    monkeypatch.setattr(gpu, "gpus", gpus)
    servers = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    terminal = ScriptedTerminal({**NO_ANSWERS, "Which of them": ""})
    await run_init(tmp_path / "config.yaml", terminal, servers=servers)
    catalog = load(tmp_path / "config.yaml", {}).catalog()
    sizes = {host.name: (host.vram_mb, host.gpu) for host in catalog.hosts.values()}

    assert sizes == {"gpu-1/0": (12 * 1024, "0"), "gpu-1/1": (24 * 1024, "1")}
    assert catalog.hosts_of == {"llamacpp": ("gpu-1/0", "gpu-1/1"), "comfyui": ("gpu-1/1",)}


async def test_amds_gpus_are_found_and_written_as_amds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size would have to be typed, and a game on the GPU would not be noticed."""
    finding(monkeypatch, kind="comfyui", total_mb=24_240)
    cases: list[tuple[tuple[int, ...], str | None]] = [
        ((24_560,), "amd:0"),
        ((512, 24_560), "amd:1"),
    ]
    for number, (sizes, index) in enumerate(cases):
        monkeypatch.setattr(gpu, "amd_gpus", lambda sizes=sizes: sizes)
        file = tmp_path / str(number) / "config.yaml"
        file.parent.mkdir()
        terminal = ScriptedTerminal({**NO_ANSWERS, "Which of them": ""})
        await run_init(file, terminal, servers=["http://127.0.0.1:1"])
        (host,) = load(file, {}).catalog().hosts.values()
        assert (host.vram_mb, host.gpu) == (24 * 1024, index)
        assert "GPU memory: " in terminal.shown


async def test_a_server_that_wants_a_token_is_asked_again_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LM Studio with its token switched on would not be found at all."""
    async with serving("lmstudio", token="canary-1") as studio:
        usually(monkeypatch, studio.port)
        monkeypatch.setattr(scan, "likely_kind", lambda _: "lmstudio")
        terminal = ScriptedTerminal({**NO_ANSWERS, "needs a token": ["canary-wrong", "canary-1"]})
        assert await run_init(tmp_path / "config.yaml", terminal) == 0
    assert 'token: "${LMSTUDIO_TOKEN}"' in (tmp_path / "config.yaml").read_text()
    assert "LMSTUDIO_TOKEN=canary-1" in (tmp_path / "usher.env").read_text()
    assert "canary" not in terminal.shown + (tmp_path / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("https://usher.example", ("127.0.0.1", 8080, ("127.0.0.1",))),
        ("http://usher.example", ("127.0.0.1", 8080, ("127.0.0.1",))),
        ("http://192.168.1.5:8099", ("0.0.0.0", 8099, ())),  # compared
    ],
)
@pytest.mark.parametrize("asks", [True, False])
async def test_a_page_that_others_reach_gets_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, settings: object, *, asks: bool
) -> None:
    """Every stranger behind the proxy would be the page's admin."""
    monkeypatch.setattr(chats, "_free_port", lambda: 8080)
    config = tmp_path / "config.yaml"
    if asks:
        terminal: Terminal = ScriptedTerminal({**NO_ANSWERS, "reach the page": ["nothing", url]})
        await run_init(config, terminal)
    else:
        await run_init(config, NoQuestions(), url=chats.address(url))
    web = load(config, {}).chats.web
    assert web is not None
    assert web.token is not None
    assert (web.host, web.port, tuple(map(str, web.proxies))) == settings
    assert web.url == url
    assert f"WEB_TOKEN={web.token.get_secret_value()}" in (tmp_path / "usher.env").read_text()


async def test_a_proxy_that_cannot_be_used_is_named_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a desktop sends through a SOCKS proxy would leave this machine directly, unseen."""
    socks = {"ALL_PROXY": "socks5://ada:geheim@127.0.0.1:1080"}
    await run_init(tmp_path / "config.yaml", NoQuestions(), environ=socks)
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("ALL_PROXY is a SOCKS proxy")
    assert "geheim" not in first


async def test_a_page_of_this_machine_gets_none_and_a_weak_token_is_refused(
    tmp_path: Path,
) -> None:
    """Only after everything is written would `check` complain of a token that can be guessed."""
    config = tmp_path / "config.yaml"
    for url in ("http://localhost:8080", ""):
        assert chats.address(url) is None
    with pytest.raises(InitFailed, match="WEB_TOKEN must have"):
        await run_init(
            config, NoQuestions(), url="https://usher.example", environ={"WEB_TOKEN": "short"}
        )
    assert not config.exists()


@pytest.mark.parametrize("keep", ["yes", "no"])
async def test_a_server_that_does_not_answer_is_told_and_kept_knowingly(
    tmp_path: Path, keep: str
) -> None:
    """A mistyped address would only be noticed once nobody can draw.

    A server that is switched off today can be added nevertheless.
    """
    url = f"http://127.0.0.1:{port_of(checked)}"
    answers = {**NO_ANSWERS, "Address of another server": [url, ""], "Keep this address": keep}
    terminal = ScriptedTerminal(answers)
    await run_init(tmp_path / "config.yaml", terminal)
    (told,) = [line for line in terminal.told if "cannot be used now" in line]
    assert told.startswith(f"  {url}  cannot be used now: ")
    assert terminal.asked.count("Address of another server; Enter for none") == 2
    backends = load(tmp_path / "config.yaml", {}).catalog().backends.values()
    assert (url in {spec.url for spec in backends}) is (keep == "yes")


async def test_without_questions_an_address_that_does_not_answer_is_told_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that sets up a machine would stop, or not mention a server that is away."""
    config = tmp_path / "config.yaml"
    url = f"http://127.0.0.1:{port_of(checked)}"
    assert await run_init(config, NoQuestions(), servers=[url]) == 2
    (spec,) = load(config, {}).catalog().backends.values()
    assert spec.url == url
    assert f"{url}  cannot be used now: " in capsys.readouterr().out


async def test_a_machine_without_a_server_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person would believe that the servers of that machine are in the file."""

    async def look(urls: Sequence[str], **_: object) -> tuple[scan.FoundServer, ...]:
        up = "" if any("good" in url for url in urls) else "refused"
        return tuple(scan.FoundServer(url=url, kind="comfyui", trouble=up) for url in urls)

    monkeypatch.setattr(scan, "look", look)
    usually(monkeypatch, 1, 2)
    machines = ["http://bad-box", "http://good-box", ""]
    answers = {**NO_ANSWERS, "Address of another server": machines}
    terminal = ScriptedTerminal(answers)
    await run_init(tmp_path / "config.yaml", terminal)
    told = [line for line in terminal.told if "no server was found" in line]
    assert told == ["  http://bad-box  no server was found at the usual ports"]


async def test_an_address_given_that_is_a_usual_one_is_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would be asked twice, also for its token, and get a second name."""
    async with serving("lmstudio") as studio:
        usually(monkeypatch, studio.port)
        terminal = ScriptedTerminal(NO_ANSWERS)
        await run_init(tmp_path / "config.yaml", terminal, servers=[studio.url])
    assert list(load(tmp_path / "config.yaml", {}).catalog().backends) == ["lmstudio"]
    assert terminal.shown.count("2 models: alpha, beta") == 1


# ---------------------------------------------------------------- what is there already


async def test_a_folder_that_cannot_be_written_is_told_before_any_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person would type tokens and wait for a message, and lose all of it at the end."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InitFailed, match="You may not write into"):
        await run_init(tmp_path / "config.yaml", ScriptedTerminal({}))


async def test_an_environment_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """An existing token would be asked for, or the bot have no chat, without a reason."""
    (tmp_path / "usher.env").write_bytes(b"\xff")
    terminal = ScriptedTerminal(NO_ANSWERS)
    await run_init(tmp_path / "config.yaml", terminal)
    assert "warning: usher.env: is not UTF-8 text" in terminal.shown


async def test_a_configuration_that_is_there_stays_and_nothing_is_asked(tmp_path: Path) -> None:
    """A file of years of work would be lost to a command that was tried out of curiosity."""
    config = tmp_path / "config.yaml"
    for make in (lambda: config.write_text("mine"), lambda: config.symlink_to("nowhere")):
        make()
        with pytest.raises(InitFailed, match="was not changed"):
            await run_init(config, ScriptedTerminal({}))
        assert config.is_symlink() or config.read_text() == "mine"
        config.unlink()
    assert not os.listdir(tmp_path)  # noqa: PTH208  short


async def test_an_environment_file_that_is_there_is_used_and_stays(tmp_path: Path) -> None:
    """Its tokens would be asked for again, or another file replace it."""
    async with FakeTelegram() as fake:
        beside = tmp_path / "usher.env"
        text = f"# mine\nTELEGRAM_TOKEN={fake.token}\nTELEGRAM_API={fake.url}\n"
        beside.write_text(text)
        beside.chmod(0o600)
        answers = {key: "" for key in NO_ANSWERS if not key.startswith("Telegram")}
        terminal = ScriptedTerminal({**answers, "Make yourself": "no", "Your id": ""})
        await run_init(tmp_path / "config.yaml", terminal)
    assert beside.read_text() == text
    assert "was not changed" in terminal.shown
    assert load(tmp_path / "config.yaml", {}).chats.telegram is not None


@pytest.mark.parametrize("raised", [KeyboardInterrupt, EOFError])
async def test_ctrl_c_leaves_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: type[BaseException],
) -> None:
    """A second start would be refused because of what the first left behind."""

    def stop(*_: object) -> str:
        raise raised

    monkeypatch.setattr("builtins.input", stop)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    line = ["init", "-c", str(tmp_path / "config.yaml")]
    assert await asyncio.to_thread(cli.main, line) == 130
    assert "Stopped" in capsys.readouterr().err
    assert not os.listdir(tmp_path)  # noqa: PTH208  short


def test_without_a_terminal_it_refuses_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script would hang at a question, or end in a traceback."""
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert cli.main(["init", "-c", str(tmp_path / "config.yaml")]) == 1
    assert capsys.readouterr().err == "There is no terminal for questions: use --yes to ask none.\n"
    assert not os.listdir(tmp_path)  # noqa: PTH208  short


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["--server", "http://me:canary@box:1"], "must not contain a name or a password"),
        (["--server", "ftp://x"], "needs an address such as"),
        (["--admin", "an"], "must be an id such as"),
        (["-c", "none/such/config.yaml"], "There is no folder"),
    ],
)
def test_a_line_that_means_nothing_is_told_in_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: Sequence[str],
    told: str,
) -> None:
    """A mistyped line would end in a traceback, or in a file that is refused."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "--yes", *line]) == 1
    shown = capsys.readouterr().err
    assert told in shown
    assert "canary" not in shown
    assert not os.listdir(tmp_path)  # noqa: PTH208  short


# ---------------------------------------------------------------- systemd


@pytest.mark.parametrize("kind", ["user", "system"])
@pytest.mark.parametrize("name", ["usher", "a folder with 100% $HOME 'quotes'"])
async def test_a_unit_starts_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    """The service would not start, or start in another folder with other files."""
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    terminal = ScriptedTerminal(NO_ANSWERS)
    config = folder / "config.yaml"
    await run_init(config, terminal, unit_kind=kind)
    file = (folder if kind == "system" else tmp_path / "xdg/systemd/user") / systemd.NAME
    assert "systemctl" in terminal.shown
    text = file.read_text()
    assert "canary" not in text
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not here to read the unit")
    file.write_text(text.replace(str(tmp_path), "/srv"))  # systemd 258 refuses folders below /dev
    reading = await asyncio.create_subprocess_exec(
        *(verifier, "verify", str(file)), stderr=asyncio.subprocess.PIPE
    )
    _, told = await reading.communicate()
    assert [line for line in told.decode().splitlines() if "usher.service" in line] == []


async def test_a_unit_that_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service of another installation would start this one."""
    file = tmp_path / systemd.NAME
    file.write_text("theirs")
    terminal = ScriptedTerminal(NO_ANSWERS)
    await run_init(tmp_path / "config.yaml", terminal, unit_kind="system")
    assert file.read_text() == "theirs"
    assert "usher.service already exists" in terminal.shown


def run_from_a_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have Usher run as uvx starts it: from an environment in a folder that may be emptied."""
    cache = folder / "cache"
    (cache / "archive-v0" / "x").mkdir(parents=True)
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    monkeypatch.setattr(sys, "prefix", str(cache / "archive-v0" / "x"))


async def test_a_unit_does_not_name_a_program_of_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service would only start until uv's cache is cleaned."""
    run_from_a_cache(monkeypatch, tmp_path)
    folder = tmp_path / "usher"
    folder.mkdir()
    with pytest.raises(InitFailed, match="uv tool install usher-bot"):
        await run_init(folder / "config.yaml", ScriptedTerminal({}), unit_kind="user")
    assert not os.listdir(folder)  # noqa: PTH208  short
    monkeypatch.setattr(systemd, "is_possible", lambda: True)
    answers = {key: "" for key in NO_ANSWERS if key != "systemd unit"}
    terminal = ScriptedTerminal(answers)
    await run_init(folder / "config.yaml", terminal)
    assert "A systemd unit needs Usher installed" in terminal.shown


def test_an_environment_that_says_so_itself_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uv marks every environment it makes, also those of projects and installed tools."""
    (tmp_path / "CACHEDIR.TAG").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert systemd.passing() is None
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "archive-v0" / "x"))
    assert systemd.passing() == tmp_path
