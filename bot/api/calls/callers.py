"""Identifies callers by their API keys. If keys are not required, the caller may be `api:local`.

Also reads the headers in which clients announce their timeouts and retries.
"""

import re
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote

from aiohttp import web

from bot.api.calls.errors import ApiError
from bot.core.asker import Asker
from bot.http.addresses import why_not_local
from bot.http.clients import Clients, LoginThrottle
from bot.http.signed_links import is_signed_link
from bot.people.api_keys import LOCAL, PLATFORM, ApiKey, ApiKeys, looks_like_key
from bot.people.people import CarriedRights, People, Person
from queueing.core.ports import Clock

_PERSON = re.compile(r"[A-Za-z0-9@._-]{1,64}", re.ASCII)
_NAME_MOST = 40
_OWN = frozenset({"none", "same-origin"})
"""Values of `Sec-Fetch-Site` for requests that no other site has caused."""
NO_KEY = "This request needs an API key. Send it as “Authorization: Bearer ush_…”. To create a key, send /key new to the bot in a private chat."
WRONG_KEY = "This API key is unknown or has been revoked."
EXPIRED = "This API key has expired. To create another, send /key new to the bot in a private chat."
TOO_MANY = "Too many invalid keys were sent from your address. Try again in a minute."
OTHER_PAGE = "Pages of this origin may not use the API; the operator can list it under api.cors."
THIS_MACHINE_ONLY = (
    "Without a key the API serves this machine only. Send one as “Authorization: Bearer ush_…”."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """A person who calls the API, and their key (None if the call has none).

    `rights` are those that chats reported about the person.
    """

    person: Person
    name: str
    key: ApiKey | None = None
    rights: frozenset[str] = frozenset()

    @property
    def asker(self) -> Asker:
        """Who asks. The room is the key, and the key is also one of the rights."""
        if self.key is None:
            return Asker(user=self.user, rooms=(PLATFORM,), rights=self.rights)
        room = self.key.room
        return Asker(user=self.user, rooms=(room, PLATFORM), rights=self.rights | {room})

    @property
    def user(self) -> str:
        """The person's id, as used for jobs and limits."""
        return self.person.user

    @property
    def key_number(self) -> int:
        """The key's number, or 0 without a key."""
        return 0 if self.key is None else self.key.id


class Authentication:
    """Identifies the caller of a request. With `open_`, a call without a key is from `api:local`.

    Calls without a key are only accepted from this machine, which may have additional host `names`.
    Pages of `origins` may call the API.
    """

    def __init__(
        self,
        keys: ApiKeys,
        people: People,
        carried: CarriedRights,
        clock: Clock,
        *,
        open_: bool = False,
        names: Collection[str] = (),
        origins: Collection[str] = (),
        clients: Clients | None = None,
    ) -> None:
        self._keys = keys
        self._people = people
        self._carried = carried
        self._clock = clock
        self._open = open_
        self._names = frozenset(names)
        self._origins = frozenset(origins)
        self._clients = clients or Clients()
        self._guesses = LoginThrottle(time.monotonic)

    def require_place(self, request: web.Request) -> None:
        """Check whether a request may call the API, before its body is read.

        Raises `ApiError` (403). Rejects pages of other origins. Without a key, also rejects
        requests from other machines and those that another page embeds. Signed links may be used by
        any page.
        """
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site", "none")
        embeds = self._open and origin is None and site not in _OWN and not is_signed_link(request)
        if embeds or (origin is not None and origin not in self._origins):
            raise ApiError(status=HTTPStatus.FORBIDDEN, message=OTHER_PAGE, code="origin")
        keyless = self._open and not looks_like_key(_secret(request))
        if keyless and (why := why_not_local(request.headers, self._names)):
            message = f"{why} {THIS_MACHINE_ONLY}"
            raise ApiError(status=HTTPStatus.FORBIDDEN, message=message, code="not_local")

    async def caller(self, request: web.Request) -> Caller:
        """Identify the caller. Raises `ApiError` (401, 429) and `StoreError`."""
        secret = _secret(request)
        if not secret or not looks_like_key(secret):
            if self._open:
                return Caller(person=await self._people.get(LOCAL), name="local")
            raise self._wrong(request, secret) if secret else _unauthorized(NO_KEY)
        key = await self._keys.by_secret(secret)
        if key is None:
            if not self._guesses.may_try(self._address(request), secret):
                raise ApiError(
                    status=HTTPStatus.TOO_MANY_REQUESTS, message=TOO_MANY, retry_after_s=60.0
                )
            raise self._wrong(request, secret)
        if key.is_expired(self._clock.now()):
            raise _unauthorized(EXPIRED)
        await self._keys.used(key, self._clock.now())
        user, name = _person_of(request, key)
        rights = await self._carried.of(user, self._clock.now())
        return Caller(person=await self._people.get(user), name=name, key=key, rights=rights)

    def _wrong(self, request: web.Request, secret: str) -> ApiError:
        self._guesses.wrong(self._address(request), secret)
        return _unauthorized(WRONG_KEY)

    def _address(self, request: web.Request) -> str:
        return self._clients.of(request.remote or "", request.headers.getall("X-Forwarded-For", []))


def _person_of(request: web.Request, key: ApiKey) -> tuple[str, str]:
    """Return the user and name for a key.

    For keys with `people`, that is the person for whom the service calls. Open WebUI names this
    person in headers. They are ignored for other keys, because anybody can send them.
    """
    person = request.headers.get("X-OpenWebUI-User-Id", "")
    if not key.people or not _PERSON.fullmatch(person):
        return key.user, key.user_name
    name = unquote(request.headers.get("X-OpenWebUI-User-Name", ""))
    shown = "".join(sign for sign in name if sign.isprintable())[:_NAME_MOST]
    return f"{key.user}/{person}", shown or key.user_name


def _secret(request: web.Request) -> str:
    """Return the request's key. Continue also sends its key as `x-api-key`."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.casefold() == "bearer":
        return value.strip()
    return request.headers.get("x-api-key", "").strip()


def _unauthorized(message: str) -> ApiError:
    return ApiError(
        status=HTTPStatus.UNAUTHORIZED, message=message, code="invalid_api_key", repeat=False
    )


Route = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]


AGAIN_S = 10.0
"""How long a job waits for its caller after the connection broke. SDKs retry within 8 s."""
PATIENCE_MARGIN_S = 5.0
"""How long before the client's timeout the headers are sent."""
LEAST_PATIENCE_S = 1.0
_PATIENCES = ("x-stainless-read-timeout", "x-stainless-timeout")


def clients_patience_s(request: web.Request) -> float:
    """Return the client's announced timeout for the next byte (in Node, for the headers)."""
    announced = [request.headers.get(name, "") for name in _PATIENCES]
    return min(map(_positive, announced))


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return float("inf")
    return max(LEAST_PATIENCE_S, number) if number > 0 else float("inf")


def headers_within_s(request: web.Request) -> float:
    """Return how soon the headers must be sent so that the client does not time out."""
    patience_s = clients_patience_s(request)
    return max(patience_s / 2, patience_s - PATIENCE_MARGIN_S)


def leaves(request: web.Request) -> bool:
    """Return whether the caller will fetch the result later (`Prefer: respond-async`)."""
    given = ",".join(request.headers.getall("Prefer", []))
    return any(wish.strip().casefold() == "respond-async" for wish in re.split("[,;]", given))


def comes_again_s(request: web.Request) -> float:
    """Return how long a client may take to retry a broken call; 0 unless it is an SDK."""
    return AGAIN_S if "x-stainless-retry-count" in request.headers else 0.0
