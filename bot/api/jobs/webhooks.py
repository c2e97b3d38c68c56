"""Webhooks: which addresses may be called, and the signed call at the end of a job. Pure.

Calls follow the Standard Webhooks specification, which libraries in most languages verify: the
headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from yarl import URL

from bot.api.calls.errors import ApiError, invalid
from bot.api.runs.views import View, moment
from bot.core.origin import Webhook
from queueing.core.jobs import Job, JobState


class HookJob(View):
    """A job that has ended, without its prompt or result, which are at its `url`."""

    object: Literal["job"] = "job"
    id: int
    model: str
    state: JobState
    created_at: str
    started_at: str | None = None
    finished_at: str
    url: str


class HookEvent(View):
    """What a webhook receives: `type` is `job.completed`, `job.failed` or `job.cancelled`.

    A repeated call has the same `id`.
    """

    object: Literal["event"] = "event"
    id: str
    type: str
    created_at: int
    data: HookJob


class HookSecret(View):
    """The origins of webhooks that may be called, and the secret of the caller's key.

    The calls for its jobs are signed with the secret, as Standard Webhooks describes.
    """

    object: Literal["webhooks"] = "webhooks"
    origins: tuple[str, ...]
    secret: str


_VISIBLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+", re.ASCII)  # no blanks, no backslash
_PREFIX = "whsec_"  # of secrets
_SCHEMES = {"http", "https"}


@dataclass(frozen=True, slots=True)
class HookCall:
    """The headers and the body of a call."""

    headers: Mapping[str, str]
    body: bytes


def allowed(address: str, origins: Collection[str]) -> str:
    """Return an address that may be called, without a fragment. Raises `ApiError`."""
    try:
        url = URL(address) if _VISIBLE.fullmatch(address) else URL()
        if url.scheme in _SCHEMES and url.user is None and url.password is None:
            if _origin(url) in {_origin(URL(each)) for each in origins}:
                return str(url.with_fragment(None))
            raise _refused("is called only at an origin that the operator lists in api.webhooks")
    except ValueError:
        pass
    raise _refused("must be an http or https address without a user")


def is_allowed(address: str, origins: Collection[str]) -> bool:
    """Return whether an address may still be called."""
    try:
        allowed(address, origins)
    except ApiError:
        return False
    return True


def origin_of(address: str) -> str:
    """Return the scheme, host and port of an address that is allowed."""
    return str(URL(address).origin())


def derived_key(key: bytes) -> bytes:
    """Return the key that signatures are made from, from one that serves other purposes."""
    return hmac.digest(key, b"webhooks", hashlib.sha256)


def secret_of(key: bytes, owner: int) -> str:
    """Return the secret that the calls of an API key are signed with, from the bot's own `key`."""
    return _PREFIX + base64.b64encode(_secret(key, owner)).decode()


def hook_call(
    job: Job, hook: Webhook, *, key: bytes, now: float, url: str | None = None
) -> HookCall:
    """Return the call that tells the end of a job; `url` is the API's public address."""
    name = f"job-{job.id}"
    body = _event(job, name, url).model_dump_json().encode()
    signed = f"{name}.{int(now)}.".encode() + body
    signature = hmac.digest(_secret(key, hook.key), signed, hashlib.sha256)
    return HookCall(
        headers={
            "Content-Type": "application/json",
            "User-Agent": "usher",
            "webhook-id": name,
            "webhook-timestamp": str(int(now)),
            "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        },
        body=body,
    )


def _event(job: Job, name: str, url: str | None) -> HookEvent:
    finished_at = job.finished_at or 0.0
    return HookEvent(
        id=name,
        type=f"job.{job.state}",
        created_at=int(finished_at),
        data=HookJob(
            id=job.id,
            model=job.model,
            state=job.state,
            created_at=moment(job.queued_at),
            started_at=None if job.started_at is None else moment(job.started_at),
            finished_at=moment(finished_at),
            url=f"{url or ''}/v1/jobs/{job.id}",
        ),
    )


def _secret(key: bytes, owner: int) -> bytes:
    return hmac.digest(key, f"webhooks of key {owner}".encode(), hashlib.sha256)


def _origin(url: URL) -> tuple[str, str, int | None]:
    return url.scheme, (url.raw_host or "").lower(), url.port


def _refused(why: str) -> ApiError:
    return invalid(f"webhook: {why}.", "webhook")
