"""Identifies the people behind requests by the token in their cookie."""

import time
from collections.abc import Callable

from aiohttp import web

from bot.http.clients import Clients, LoginThrottle
from bot.people.web_people import WebPeople, WebPerson

COOKIE = "usher"
COOKIE_S = 400 * 24 * 3600  # browsers keep no cookie for longer
TOO_MANY_TOKENS = "Too many wrong tokens came from your address. Please try again in a minute.\n"


class Sessions:
    """Identifies people by their tokens and throttles guessing, per address as seen by `clients`."""

    def __init__(
        self, people: WebPeople, clients: Clients, is_admin: Callable[[WebPerson], bool]
    ) -> None:
        self._people = people
        self._clients = clients
        self._is_admin = is_admin
        self._guesses = LoginThrottle(time.monotonic)

    @property
    def needed(self) -> bool:
        """Whether pages require a token."""
        return self._people.by_token("") is None

    def person(self, request: web.Request) -> WebPerson | None:
        """Return the person whose cookie a request has, or None."""
        return self.by_token(request, request.cookies.get(COOKIE, ""))

    def by_token(self, request: web.Request, token: str) -> WebPerson | None:
        """Return the person with that token. None if there is none or the address is throttled."""
        address = self.address(request)
        if not self._guesses.may_try(address, token):
            return None
        person = self._people.by_token(token)
        if person is not None:
            self._guesses.right(token)
        elif token:
            self._guesses.wrong(address, token)
        return person

    def require_patience(self, request: web.Request, token: str) -> None:
        """Refuse an address that has guessed too often."""
        if not self._guesses.may_try(self.address(request), token):
            raise web.HTTPTooManyRequests(text=TOO_MANY_TOKENS)

    def require(self, request: web.Request) -> WebPerson:
        """Return the person who sent a request. Raises `HTTPUnauthorized` if unknown."""
        person = self.person(request)
        if person is None:
            raise web.HTTPUnauthorized(text="Open the link you were given to sign in.")
        return person

    def admin(self, request: web.Request) -> WebPerson | None:
        """Return the person who sent a request if they are an admin, otherwise None."""
        person = self.person(request)
        return person if person is not None and self._is_admin(person) else None

    def operates(self, person: WebPerson) -> bool:
        """Return whether a person is an admin."""
        return self._is_admin(person)

    def known_as(self, request: web.Request) -> str | None:
        """Return the id of the person whose cookie a request has, or None."""
        person = self.person(request)
        return person.id if person is not None else None

    def address(self, request: web.Request) -> str:
        """Return the address a request came from, looking past trusted proxies."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        return self._clients.of(request.remote or "", forwarded)


def set_cookie(
    request: web.Request, response: web.Response, token: str, age_s: int = COOKIE_S
) -> None:
    """Set the cookie with a person's token."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=age_s,
        httponly=True,
        samesite="Strict",
        secure=request.headers.get("X-Forwarded-Proto", request.scheme) == "https",
    )
