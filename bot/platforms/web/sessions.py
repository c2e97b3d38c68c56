"""SignedIn: whose requests come to the page, by the token in their cookie."""

import time
from collections.abc import Callable

from aiohttp import web

from bot.http.clients import Clients, LoginThrottle
from bot.people.web_people import WebPeople, WebPerson

COOKIE = "usher"
COOKIE_S = 400 * 24 * 3600  # the longest a browser keeps one
TOO_MANY_TOKENS = "Too many wrong tokens came from your address. Please try again in a minute.\n"


class Sessions:
    """Knows people by their tokens, and slows down those who guess; `clients` identifies requests."""

    def __init__(
        self, people: WebPeople, clients: Clients, is_admin: Callable[[WebPerson], bool]
    ) -> None:
        self._people = people
        self._clients = clients
        self._is_admin = is_admin
        self._guesses = LoginThrottle(time.monotonic)

    @property
    def needed(self) -> bool:
        """Whether a page is opened by a token only."""
        return self._people.by_token("") is None

    def person(self, request: web.Request) -> WebPerson | None:
        """Return whose cookie a request carries."""
        return self.by_token(request, request.cookies.get(COOKIE, ""))

    def by_token(self, request: web.Request, token: str) -> WebPerson | None:
        """Return whose token it is; None, too, for an address that has guessed too often."""
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
        """Return whose request it is; refuse a stranger's."""
        person = self.person(request)
        if person is None:
            raise web.HTTPUnauthorized(text="Open the link you were given to sign in.")
        return person

    def admin(self, request: web.Request) -> WebPerson | None:
        """Return whose request it is if they are an admin."""
        person = self.person(request)
        return person if person is not None and self._is_admin(person) else None

    def operates(self, person: WebPerson) -> bool:
        """Return whether a person is an admin."""
        return self._is_admin(person)

    def known_as(self, request: web.Request) -> str | None:
        """Return the id of the person whose cookie a request carries."""
        person = self.person(request)
        return person.id if person is not None else None

    def address(self, request: web.Request) -> str:
        """Return the address a request came from, past the proxies that are trusted."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        return self._clients.of(request.remote or "", forwarded)


def set_cookie(
    request: web.Request, response: web.Response, token: str, age_s: int = COOKIE_S
) -> None:
    """Have the browser send a token with each request."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=age_s,
        httponly=True,
        samesite="Strict",
        secure=request.headers.get("X-Forwarded-Proto", request.scheme) == "https",
    )
