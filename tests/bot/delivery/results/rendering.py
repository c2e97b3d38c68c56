"""What a renderer of results needs: a request for an image, its job, and the job's result."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from bot.core.live_settings import ChatSettingsTable
from bot.core.origin import Origin
from bot.core.platform import Invocation
from bot.delivery.result_renderer import ResultRenderer
from queueing.core.catalog import Offer
from queueing.core.jobs import Job, JobState, stand_in
from queueing.core.requests import Output, TextToImage
from tests.fakes.chat import FakeChat
from tests.simulation.installation import host, image_model

if TYPE_CHECKING:
    from bot.core.queue import JobReader, ModelReader


@dataclass
class Outputs:
    """Every job produced the same result."""

    kept: Output | None = None

    async def output(self, job: Job) -> Output | None:
        return self.kept


class Models:
    """There is one model, and it draws."""

    offer = Offer(
        models=(image_model("flux"),), hosts=(host("gpu-1", "comfy"),), options={"flux": None}
    )


def renderer(
    kept: Output | None = None, settings: ChatSettingsTable | None = None
) -> ResultRenderer:
    """Return a renderer for jobs that produced `kept`."""
    return ResultRenderer(
        cast("JobReader", Outputs(kept)),
        cast("ModelReader", Models()),
        settings or ChatSettingsTable(),
    )


def origin() -> Origin:
    """Return where the request came from."""
    call = FakeChat().call("/image flux a cat")
    assert isinstance(call, Invocation)
    return Origin.of(call, "en")


def completed() -> Job:
    """Return the job of the request, done."""
    return replace(
        stand_in(1, "flux", 0.0),
        request=TextToImage(prompt="a cat"),
        owner="fake:1",
        reply_to=origin().model_dump_json(),
        state=JobState.COMPLETED,
        finished_at=9.0,
    )
