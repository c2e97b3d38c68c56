"""What `GET /v1/models` says of each kind of model."""

from pathlib import Path

from queueing.core.requests import Capability
from tests.bot.api.whole_api import CONFIG, running

ALL = CONFIG.replace(
    "chats: {}",
    "\n".join(
        f"  {able}:\n    backends: [studio]\n    capabilities: [{able}]\n    vram: 1GB"
        for able in Capability
    )
    + "\nchats: {}",
)


async def test_every_kind_of_model_is_listed(tmp_path: Path) -> None:
    """One new kind of model would make the whole list fail."""
    async with running(tmp_path, ALL) as api:
        rows = {row["id"]: row for row in (await api.get("/models"))["data"]}
    for able in Capability:
        assert rows[able]["usher"]["capabilities"] == [able]


async def test_a_program_sees_which_models_are_ready(tmp_path: Path) -> None:
    """A program could not choose a model that answers at once."""
    async with running(tmp_path, CONFIG) as api:
        await api.post("/images/generations", {"model": "flux", "prompt": "a cat"})
        rows = {row["id"]: row["usher"] for row in (await api.get("/models"))["data"]}
        lines = {line["model"]: line for line in (await api.get("/queue"))["queues"]}
    assert rows["flux"]["state"] == lines["flux"]["state"] == "ready"
    assert rows["llama"]["state"] == lines["llama"]["state"] == "absent"


async def test_a_client_can_tell_what_goes_in_and_comes_out(tmp_path: Path) -> None:
    """A program would offer a speech model for conversations."""
    async with running(tmp_path, ALL) as api:
        for able, takes, makes in (
            (Capability.IMAGE_EDIT, ["text", "image"], ["image"]),
            (Capability.IMAGE_TO_VIDEO, ["text", "image"], ["video"]),
            (Capability.TEXT_TO_SPEECH, ["text"], ["audio"]),
            (Capability.SPEECH_TO_TEXT, ["audio"], ["text"]),
        ):
            told = (await api.get(f"/models/{able}"))["architecture"]
            assert told == {"input_modalities": takes, "output_modalities": makes}, able


async def test_a_watcher_sees_that_the_api_answers(tmp_path: Path) -> None:
    """A proxy without a key would regard the API as broken."""
    async with running(tmp_path, CONFIG.replace("open: true", "open: false")) as api:
        for url in (f"{api.url}/health", f"{api.url.removesuffix('/v1')}/health"):
            async with api.session.get(url) as answer:
                assert (answer.status, await answer.json()) == (200, {"status": "ok"})
