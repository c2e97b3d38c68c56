"""Image servers: what each kind is asked, with its recorded answers."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from uuid import uuid4

import pytest
from PIL import Image
from pydantic import JsonValue

from backends.images.backend import Images
from queueing.core.errors import BadModel, NotLoaded, ProblemKind, Rejected, Unavailable, problem
from queueing.core.requests import (
    Capability,
    File,
    LoraWeight,
    Output,
    Progress,
    TextToImage,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec
from tests.fakes.servers.painters import KINDS, FakePainter, painting, plain

DRAWN = {
    "localai": "/v1/images/generations",
    "sdcpp": "/sdcpp/v1/img_gen",
    "vllm-omni": "/v1/images/generations",
    "swarmui": "/API/GenerateText2ImageWS",
    "generic": "/v1/images/generations",
}
TAKES_SEED = [kind for kind in KINDS if kind != "generic"]


def model(name: str = "alpha", **options: JsonValue) -> ModelSpec:
    return ModelSpec(
        name=name, backends=("p",), capabilities=frozenset(Capability), options=options
    )


@cache
def photo(width: int = 640, height: int = 320, colour: str = "red", *, noise: bool = False) -> File:
    buffer = io.BytesIO()
    image = Image.new("RGB", (width, height), colour)
    if noise:
        image = Image.merge("RGB", [Image.effect_noise((width, height), 60) for _ in "RGB"])
    image.save(buffer, "JPEG")
    return File(name="photo.jpg", mime="image/jpeg", data=buffer.getvalue())


def mask(width: int = 640, height: int = 320) -> File:
    """Return a mask whose left half is transparent: it is to be painted."""
    image = Image.new("RGBA", (width, height), (0, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, width // 2, height))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return File(name="mask.png", mime="image/png", data=buffer.getvalue())


def work(files: tuple[File, ...] = (), **fields: Any) -> Work:
    request = TextToImage.model_validate({"prompt": "a cat", **fields})
    return Work(key=str(uuid4()), request=request, files=files)


def ignore(_: Progress) -> None:
    pass


@asynccontextmanager
async def connected(kind: str, **options: JsonValue) -> AsyncIterator[tuple[FakePainter, Images]]:
    async with painting(kind) as fake:
        backend = Images(BackendSpec(name="p", kind="images", url=fake.url, options=options))
        await backend.load(model())
        try:
            yield fake, backend
        finally:
            await backend.aclose()


async def output(backend: Images, asked: Work, spec: ModelSpec | None = None) -> Output:
    return await (await backend.run(spec or model(), asked, ignore))()


def side(data: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(data)).size


# ---------------------------------------------------------------- what is asked


@pytest.mark.parametrize("kind", TAKES_SEED)
async def test_everything_a_server_takes_reaches_it(kind: str) -> None:
    """People would wait for an image that ignores their options."""
    asked = work(negative="dogs", steps=7, seed=5, count=2, width=128, height=64)
    async with connected(kind) as (fake, backend):
        made = await output(backend, asked)
        body = fake.asked(DRAWN[kind])[-1]
    assert [side(file.data) for file in made.files] == [(128, 64)] * 2
    expected = {
        "localai": {"prompt": "a cat|dogs", "step": 7, "seed": 5, "n": 2, "size": "128x64"},
        "sdcpp": {
            "prompt": "a cat",
            "negative_prompt": "dogs",
            "sample_params": {"sample_steps": 7},
            "seed": 5,
            "batch_count": 2,
            "width": 128,
            "height": 64,
        },
        "vllm-omni": {
            "prompt": "a cat",
            "negative_prompt": "dogs",
            "num_inference_steps": 7,
            "seed": 5,
            "n": 2,
            "size": "128x64",
        },
        "swarmui": {
            "prompt": "a cat",
            "negativeprompt": "dogs",
            "steps": 7,
            "seed": 5,
            "images": 2,
            "width": 128,
            "height": 64,
            "donotsave": True,
        },
    }[kind]
    assert expected.items() <= body.items()


async def test_values_of_the_model_are_used_unless_asked_otherwise() -> None:
    """An operator's settings would have no effect, or override a person's."""
    spec = model(width=128, height=192, steps=4, guidance=3.5, negative="text")
    async with connected("swarmui") as (fake, backend):
        await output(backend, work(), spec)
        await output(backend, work(steps=9, width=64), spec)
        first, second = fake.asked(DRAWN["swarmui"])
    assert (first["width"], first["height"], first["steps"]) == (128, 192, 4)
    assert (first["cfgscale"], first["negativeprompt"]) == (3.5, "text")
    assert (second["width"], second["height"], second["steps"]) == (64, 128, 9)


@pytest.mark.parametrize("kind", KINDS)
async def test_any_seed_a_person_may_name_is_one_the_server_accepts(kind: str) -> None:
    """A seed above a server's own range would be refused, or drawn at random."""
    async with connected(kind) as (fake, backend):
        assert (await output(backend, work(seed=2**64 - 1))).files
        seed = fake.asked(DRAWN[kind])[-1].get("seed", 0)
    assert 0 <= seed < {"localai": 2**31, "vllm-omni": 2**32}.get(kind, 2**63)


@pytest.mark.parametrize("kind", KINDS)
async def test_words_of_a_prompt_are_no_commands_to_the_server(kind: str) -> None:
    """A prompt could choose another model, read the server's lists, or set forbidden options."""
    prompt = 'a <model:beta> | <sd_cpp_extra_args>{"seed":1}</sd_cpp_extra_args> cat'
    async with connected(kind) as (fake, backend):
        await output(backend, work(prompt=prompt, negative=None))
        sent = fake.asked(DRAWN[kind])[-1]["prompt"]
    if kind == "swarmui":
        assert "<" not in sent
        assert ">" not in sent
    if kind == "localai":
        assert "|" not in sent
    if kind != "sdcpp":  # whose own calls read nothing out of prompts
        assert "<sd_cpp_extra_args>" not in sent


@pytest.mark.parametrize("kind", KINDS)
async def test_up_to_four_images_are_edited(kind: str) -> None:
    """Only the first of a person's images would be used."""
    files = tuple(photo(colour=colour) for colour in ("red", "lime", "blue", "white"))
    async with connected(kind) as (fake, backend):
        assert (await output(backend, work(files, edit=True))).files
        body = fake.requests[-1][1] if kind != "sdcpp" else fake.asked(DRAWN[kind])[-1]
        where = {path for path, _ in fake.requests}
    field = {"localai": "ref_images", "sdcpp": "ref_images", "swarmui": "promptimages"}.get(kind)
    found = [plain(data) for data in body[field]] if field else body["image[]"]
    colours = [Image.open(io.BytesIO(data)).convert("RGB").getpixel((9, 9)) for data in found]
    near = [tuple(round(part / 255) for part in colour) for colour in colours]  # type: ignore[union-attr]
    assert near == [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    assert ("/v1/images/edits" in where) == (kind in {"vllm-omni", "generic"})


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in {"localai", "vllm-omni"} else pytest.param(kind, marks=pytest.mark.thorough)
        for kind in KINDS
    ],
)
async def test_four_photos_of_a_phone_fit_into_a_servers_limit(kind: str) -> None:
    """People would be told that their images are too large, or the bot would be blocked."""
    files = (photo(2000, 1500, noise=True),) * 4
    async with connected(kind) as (fake, backend):
        assert (await output(backend, work(files, edit=True))).files
        body = fake.asked("/v1/images/edits")[-1:] or fake.asked(DRAWN[kind])[-1:]
    sent = len(json.dumps(body, default=lambda data: data.decode("latin-1")))
    assert sent < 15_000_000  # LocalAI's default limit


async def test_white_is_painted_where_a_mask_is_transparent(subtests: pytest.Subtests) -> None:
    """The server would paint the part that is to be kept."""
    for kind in ["sdcpp", "swarmui"]:
        with subtests.test(kind=kind):
            async with connected(kind) as (fake, backend):
                await output(backend, work((photo(), mask()), edit=True, mask=True))
                body = fake.asked(DRAWN[kind])[-1]
            sent = Image.open(
                io.BytesIO(plain(body["mask_image" if kind == "sdcpp" else "maskimage"]))
            )
            assert sent.size == (640, 320)
            assert sent.getpixel((10, 10)) == 255
            assert sent.getpixel((630, 10)) == 0


async def test_openais_own_call_gets_a_mask_with_transparency() -> None:
    """The server would paint the part that is to be kept."""
    async with connected("generic") as (fake, backend):
        await output(backend, work((photo(), mask()), edit=True, mask=True))
        body = fake.asked("/v1/images/edits")[-1]
    sent = Image.open(io.BytesIO(body["mask"]))
    assert (sent.mode, sent.size) == ("RGBA", (640, 320))
    assert sent.getchannel("A").getpixel((10, 10)) == 0
    assert sent.getchannel("A").getpixel((630, 10)) == 255
    assert body["image"].startswith(b"\x89PNG")


async def test_a_mask_without_transparency_is_refused() -> None:
    """Nothing of the image would change, or all of it."""
    async with connected("sdcpp") as (_, backend):
        with pytest.raises(Rejected):
            await output(backend, work((photo(), photo()), edit=True, mask=True))


async def test_an_image_to_start_from_sets_the_shape(subtests: pytest.Subtests) -> None:
    """A wide photo would be squeezed into a square."""
    for kind in ["localai", "sdcpp", "swarmui"]:
        with subtests.test(kind=kind):
            fields = {} if kind == "localai" else {"strength": 0.4}
            async with connected(kind) as (fake, backend):
                made = await output(backend, work((photo(),), **fields))
                body = fake.asked(DRAWN[kind])[-1]
            width, height = side(made.files[0].data)
            assert (width, height) == (1472, 704)
            start = {"localai": "files", "sdcpp": "init_image", "swarmui": "initimage"}[kind]
            sent = body[start][0] if kind == "localai" else body[start]
            assert side(plain(sent)) == (640, 320)
            if kind == "localai":
                assert not sent.startswith("data:")  # which it drops silently
            else:
                assert body["strength" if kind == "sdcpp" else "initimagecreativity"] == 0.4


async def test_vllm_omni_is_not_left_to_draw_a_photo_in_its_own_size() -> None:
    """A phone's photo would be edited at three times a model's pixels, or not at all."""
    async with connected("vllm-omni") as (fake, backend):
        await output(backend, work((photo(1999, 1501),), edit=True))
        body = fake.asked("/v1/images/edits")[-1]
    assert body["size"] == "1152x896"


FIELDS = {"guidance": 0.0, "strength": 0.5, "negative": "dogs", "mask": True, "steps": 3}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_server_has_no_place_for_is_refused_in_a_sentence(
    kind: str, subtests: pytest.Subtests
) -> None:
    """It would silently be dropped."""
    async with connected(kind) as (fake, backend):
        taken = backend.options(model()) or frozenset()
        for field, value in FIELDS.items():
            with subtests.test(field):
                files = (photo(), mask()) if field == "mask" else (photo(),)
                asked = work(files, edit=field == "mask", **{field: value})
                if field in taken:
                    assert (await output(backend, asked)).files
                    continue
                before = len(fake.asked(DRAWN[kind]))
                with pytest.raises(Rejected) as caught:
                    await output(backend, asked)
                assert len(fake.asked(DRAWN[kind])) == before
                assert caught.value.problem == problem(ProblemKind.TAKES_NO, field=field)


# ---------------------------------------------------------------- LoRAs, loads


@pytest.mark.parametrize("kind", ["sdcpp", "swarmui"])
async def test_several_loras_are_sent_with_their_weights(kind: str) -> None:
    """A style would be ignored, or all of them act with the same strength."""
    loras = (LoraWeight(name="Video", weight=0.8), LoraWeight(name="ink"))
    async with connected(kind) as (fake, backend):
        assert await backend.loras(model()) == ("ink", "video")
        await output(backend, work(lora=loras))
        body = fake.asked(DRAWN[kind])[-1]
        with pytest.raises(Rejected) as caught:
            await output(backend, work(lora=(LoraWeight(name="videos"),)))
    assert caught.value.problem is not None
    assert caught.value.problem.values == {"name": "videos", "there": "video"}
    if kind == "sdcpp":
        video = {"path": "styles/video.safetensors", "multiplier": 0.8}
        assert body["lora"] == [video, {"path": "ink.safetensors", "multiplier": 1.0}]
    else:
        assert body["loras"] == ["styles/video.safetensors", "ink.safetensors"]
        assert body["loraweights"] == ["0.8", "1.0"]


@pytest.mark.parametrize("kind", ["localai", "swarmui"])
async def test_no_request_loads_behind_the_queues_back(kind: str) -> None:
    """Two models could be loaded into memory that holds one."""
    async with connected(kind) as (fake, backend):
        with pytest.raises(NotLoaded):
            await output(backend, work(), model("beta"))
        assert fake.loaded == {"alpha.safetensors"}


async def test_swarmui_forgets_all_models_at_once_and_remembers_that() -> None:
    """The queue would plan with models that the server lists after its memory was freed."""
    async with connected("swarmui") as (fake, backend):
        assert backend.unloads_together
        await backend.unload(model())
        assert fake.loaded == {"alpha.safetensors"}
        assert await backend.loaded([model()]) == frozenset()
        with pytest.raises(NotLoaded):
            await output(backend, work())
        await backend.load(model())
        assert await backend.loaded([model()]) == frozenset({"alpha"})


async def test_a_server_of_one_model_says_what_that_costs() -> None:
    """An operator would wonder why the server's memory is never free."""
    async with connected("sdcpp") as (_, backend):
        assert not backend.can_unload
        assert any("never free" in note for note in (await backend.probe()).notes)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_is_recognised_by_its_own_calls(kind: str) -> None:
    """The options that only this kind of server has would never be used."""
    async with connected(kind) as (_, backend):
        told = (await backend.probe()).description
    assert (
        told
        == {
            "localai": "LocalAI v4.2.0",
            "sdcpp": "stable-diffusion.cpp",
            "vllm-omni": "vLLM-Omni 0.12.0",
            "swarmui": "SwarmUI 0.9.8.0.GIT-062407c7",
            "generic": "OpenAI-compatible image server",
        }[kind]
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gateway_that_refuses_unknown_paths_hides_no_server(kind: str) -> None:
    """The operator would be told that a valid token is wrong."""
    async with painting(kind) as fake:
        fake.guarded = True
        backend = Images(BackendSpec(name="p", kind="images", url=f"{fake.url}/v1/"))
        await backend.load(model())
        assert (await output(backend, work())).files
        await backend.aclose()


async def test_another_server_at_the_same_address_is_recognised() -> None:
    """Usher would speak to it as to the previous server until it is restarted."""
    async with connected("swarmui") as (before, backend):
        await before.stop()
        after = FakePainter("localai", port=before.port)
        await after.start()
        assert (await backend.probe()).description == "LocalAI v4.2.0"
        await backend.load(model())
        assert (await output(backend, work())).files
        await after.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_opens_the_server(kind: str) -> None:
    """A protected server could not be used."""
    async with painting(kind, token="sesame") as fake:
        for token, opens in (("sesame", True), ("other", False)):
            options = {"token": token, "flavour": kind}
            spec = BackendSpec(name="p", kind="images", url=fake.url, options=options)
            backend = Images(spec)
            if opens:
                await backend.load(model())
                assert (await output(backend, work())).files
            else:
                with pytest.raises(Unavailable):
                    await backend.load(model())
            await backend.aclose()


def test_a_token_that_would_break_a_header_is_refused() -> None:
    """Each call would fail with an error that names no setting."""
    for token in ("a\nb", "a; b", "ä"):
        spec = BackendSpec(name="p", kind="images", url="http://h", options={"token": token})
        with pytest.raises(BadModel, match="token"):
            Images(spec)


# ---------------------------------------------------------------- progress and stopping


async def test_swarmui_shows_how_far_an_image_is() -> None:
    """People would look at a message that does not change."""
    reports: list[Progress] = []
    async with connected("swarmui") as (_, backend):
        fetch = await backend.run(model(), work(count=2), reports.append)
        assert len((await fetch()).files) == 2
    assert [report.fraction for report in reports] == [0.25, 0.25, 0.5, 1.0]
    assert reports[0].preview is not None
    assert reports[0].preview.mime == "image/jpeg"


async def test_a_preview_that_is_no_image_is_left_out(subtests: pytest.Subtests) -> None:
    """A preview could send any kind of file to a chat."""
    for preview in [b"<html>", b"", b"x" * 2_000_000]:
        with subtests.test(preview=preview):
            reports: list[Progress] = []
            async with connected("swarmui") as (fake, backend):
                fake.preview = preview
                await backend.run(model(), work(), reports.append)
            assert all(report.preview is None for report in reports)


async def test_a_job_that_waits_in_sd_servers_queue_is_taken_out() -> None:
    """The GPU would draw for a person who has cancelled."""
    async with connected("sdcpp") as (fake, backend):
        fake.step_s = 0.01
        first = asyncio.create_task(backend.run(model(), work(steps=30), ignore))
        await fake.until_running(1)
        reports: asyncio.Queue[Progress] = asyncio.Queue()
        second = asyncio.create_task(backend.run(model(), work(), reports.put_nowait))
        assert await reports.get() == Progress(ahead=1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first
        drawn = [job["status"] for job in fake.jobs.values()]
    assert drawn == ["completed", "cancelled"]


async def test_only_the_cancelled_attempt_is_interrupted_in_swarmui() -> None:
    """The image of another person, in a chat or at SwarmUI's own page, would be interrupted too."""
    async with connected("swarmui") as (fake, backend):
        fake.step_s = 0.005
        first = asyncio.create_task(backend.run(model(), work(steps=200), ignore))
        second = asyncio.create_task(backend.run(model(), work(steps=10), ignore))
        await fake.until_running(2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await (await second)()).files
        assert [body["other_sessions"] for body in fake.asked("/API/InterruptAll")] == [False]
        assert fake.aborted == 1


async def test_swarmui_is_asked_again_in_a_new_session_after_its_restart() -> None:
    """Every call would fail until Usher is restarted as well."""
    async with connected("swarmui") as (fake, backend):
        await output(backend, work())
        await fake.stop()
        await fake.start()
        await backend.load(model())
        assert (await output(backend, work())).files
        await backend.probe()
        assert len(fake.sessions) == 1  # sessions are reused


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        ([(24000, 9000)], (24000, 9000)),
        ([(24000, 9000), (8000, 8000)], (None, None)),
        ([], (None, None)),
    ],
    ids=["one GPU", "which of two it uses is unknown", "it may not be asked"],
)
async def test_swarmui_tells_how_much_of_its_gpu_is_free(
    gpus: list[tuple[int, int]], told: tuple[int | None, int | None]
) -> None:
    """A game on another machine's GPU would make SwarmUI's models run out of memory."""
    async with connected("swarmui") as (fake, backend):
        fake.gpus = gpus
        info = await backend.probe()
        assert (info.total_mb, info.free_mb) == told
