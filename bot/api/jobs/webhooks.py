"""Webhooks: which URLs are allowed, and the signed call when a job ends. Pure.

Calls follow the Standard Webhooks specification, for which most languages have libraries. Its
headers are `webhook-id`, `webhook-timestamp` and `webhook-signature`.
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
    """A job that has ended. Prompt and result are not included; fetch the result from `url`."""

    object: Literal["job"] = "job"
    id: int
    model: str
    state: JobState
    created_at: str
    started_at: str | None = None
    finished_at: str
    url: str


class HookEvent(View):
    """The body of a webhook call. `type` is `job.completed`, `job.failed` or `job.cancelled`.

    Retries have the same `id`.
    """

    object: Literal["event"] = "event"
    id: str
    type: str
    created_at: int
    data: HookJob


class HookSecret(View):
    """The allowed origins of webhooks, and the secret of the caller's key.

    Webhook calls for jobs of the key are signed with the secret, according to Standard Webhooks.
    """

    object: Literal["webhooks"] = "webhooks"
    origins: tuple[str, ...]
    secret: str


_VISIBLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+", re.ASCII)  # neither spaces nor backslashes
_PREFIX = "whsec_"  # prefix of secrets in Standard Webhooks
_SCHEMES = {"http", "https"}


@dataclass(frozen=True, slots=True)
class HookCall:
    """Headers and body of a webhook call."""

    headers: Mapping[str, str]
    body: bytes


def allowed(address: str, origins: Collection[str]) -> str:
    """Return the URL without its fragment if it is allowed. Raises `ApiError` otherwise."""
    try:
        url = URL(address) if _VISIBLE.fullmatch(address) else URL()
        if url.scheme in _SCHEMES and url.user is None and url.password is None:
            if _origin(url) in {_origin(URL(each)) for each in origins}:
                return str(url.with_fragment(None))
            raise _refused("must be at an origin that the operator lists in api.webhooks")
    except ValueError:
        pass
    raise _refused("must be an http or https URL without a user name")


def is_allowed(address: str, origins: Collection[str]) -> bool:
    """Return whether a URL is still allowed."""
    try:
        allowed(address, origins)
    except ApiError:
        return False
    return True


def origin_of(address: str) -> str:
    """Return the origin (scheme, host and port) of an allowed URL."""
    return str(URL(address).origin())


def derived_key(key: bytes) -> bytes:
    """Derive the signature key from a key that has other uses."""
    return hmac.digest(key, b"webhooks", hashlib.sha256)


def secret_of(key: bytes, owner: int) -> str:
    """Return the secret that signs the calls of an API key. `key` is Usher's own."""
    return _PREFIX + base64.b64encode(_secret(key, owner)).decode()


def hook_call(
    job: Job, hook: Webhook, *, key: bytes, now: float, url: str | None = None
) -> HookCall:
    """Build the signed call that reports the end of a job. `url` is the API's public URL."""
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
