"""Turns a program's request into a job: idempotency, limits, and refusals as errors."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from aiohttp import web

from bot.chat.api.origin import Origin
from bot.gateway.callers import Caller
from bot.gateway.outcomes import refused
from bot.gateway.runs import PLATFORM
from bot.requests.admission import AdmissionService
from bot.requests.drawing import Drawing
from bot.requests.limits import Asking
from bot.requests.refusals import Refusal
from queueing.core.jobs import Job
from queueing.core.ports import Clock
from queueing.core.requests import Chat, File, TextToImage

RECENT_S = 300.0
"""How long after a call its repeat by an SDK is recognised."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitting:
    """Submits requests for callers, except those with one of the `unwanted` words."""

    admission: AdmissionService
    clock: Clock
    models: Callable[[], Sequence[str]]
    unwanted: tuple[str, ...] = ()

    async def submit(
        self,
        request: web.Request,
        caller: Caller,
        model: str,
        wanted: TextToImage | Chat,
        files: tuple[File, ...] = (),
    ) -> Job:
        """Accept a request and return its job. Raises `ApiError`, and `StoreError`.

        With an `Idempotency-Key`, returns the job of the first call that had that key.
        """
        made = await self.admission.submit(self._asking(request, caller), model, wanted, files)
        return self._accepted(made)

    async def draw(self, request: web.Request, caller: Caller, drawing: Drawing) -> Job:
        """Accept a request for a picture. Raises the same errors as `submit`."""
        return self._accepted(await self.admission.draw(self._asking(request, caller), drawing))

    def style(self, named: str | None) -> str | None:
        """Return the requested style; OpenAI's clients also send their own, such as "vivid"."""
        styles = {name.casefold() for name in self.admission.styles}
        return named if named is not None and named.casefold() in styles else None

    def _accepted(self, made: Job | Refusal) -> Job:
        if not isinstance(made, Job):
            raise refused(made, self.models(), self.clock.now())
        return made

    def _asking(self, request: web.Request, caller: Caller) -> Asking:
        key = _key(request.headers, caller)
        origin = _origin(caller, key)
        return Asking(person=caller.person, key=key, unwanted=self.unwanted, reply_to=origin)


def _key(headers: Mapping[str, str], caller: Caller) -> str:
    given = headers.get("Idempotency-Key", "").strip()
    if not given:
        return f"{PLATFORM}:{uuid4().hex}"
    return f"{PLATFORM}:{hashlib.sha256(f'{caller.user} {given}'.encode()).hexdigest()}"


def _origin(caller: Caller, key: str) -> str:
    return Origin(
        platform=PLATFORM,
        chat=PLATFORM,
        group=False,
        user=caller.user,
        user_name=caller.name,
        language="en",
        key=key,
    ).model_dump_json()
