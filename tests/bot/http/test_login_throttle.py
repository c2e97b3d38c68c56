"""Tokens: how many may be tried, which are too easy, and how a browser removes one."""

import secrets

import aiohttp
from hypothesis import given
from hypothesis import strategies as st

from bot.http.clients import WRONG_AT_ONCE, LoginThrottle
from bot.people.web_people import is_weak
from bot.platforms.web.routes.sessions import COOKIE
from tests.bot.platforms.web.web_client import running, tab
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat

TOKEN = "9f86d081884c7d659a2feaa0c55ad015"


def test_a_token_that_is_easy_to_guess_is_weak() -> None:
    """A long token of one repeated letter would be accepted."""
    tokens = (
        "aaaaaaaaaaaaaaaa",
        "abababababababab",
        "0123456789abcdef",
        "abcdefghijklmnop",
        "passwordpassword1",
        "usher-secret-token",
        "changemechangeme",
        "Password12345678",
        "qwertzqwertz1234",
        "1111222233334444",
        "my-secret-password-2026",
    )
    assert [token for token in tokens if not is_weak(token)] == []


@given(st.sampled_from([16, 24, 32]))
def test_a_random_token_is_not_weak(size: int) -> None:
    """A token made as the documentation says would be refused."""
    assert not is_weak(secrets.token_hex(size))
    assert not is_weak(secrets.token_urlsafe(size))


def test_many_wrong_tokens_shut_an_address_for_a_while() -> None:
    """Two thousand tokens a second could be tried."""
    now = [0.0]
    guesses = LoginThrottle(lambda: now[0])
    guesses.right("known before")
    for number in range(WRONG_AT_ONCE):
        assert guesses.may_try("here", str(number))
        guesses.wrong("here", str(number))
        guesses.wrong("here", str(number))  # the same again is no further guess
    guesses.wrong("here", "one more")
    assert not guesses.may_try("here", "another")
    assert guesses.may_try("here", "known before")  # no one is kept out by who guesses beside them
    assert guesses.may_try("there", "another")
    now[0] += 61
    assert guesses.may_try("here", "another")


async def test_guesses_are_refused_by_link_and_by_cookie() -> None:
    """One of the ways in would stay open to guessing."""
    async with (
        running(web_chat(port=0, token=TOKEN), ScriptedHandler()) as web,
        aiohttp.ClientSession() as session,
    ):

        async def asked(path: str, cookie: str = "") -> int:
            headers = {"Cookie": f"{COOKIE}={cookie}"} if cookie else {}
            url = f"{web.url}{path}"
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                return answer.status

        assert await asked("files/x", TOKEN) == 404  # the owner is there
        for number in range(WRONG_AT_ONCE):
            assert await asked("files/x", f"wrong-{number}") == 401
        assert await asked("?token=one-more") == 303
        assert await asked("?token=another") == 429
        assert await asked("files/x", TOKEN) == 404
        async with tab(web, cookie=TOKEN) as page:
            await page.say("still there")
            await page.next("taken")


async def test_signing_out_takes_the_token_and_the_images_from_the_browser() -> None:
    """The next person at a shared machine could act as the previous one."""
    async with (
        running(web_chat(port=0, token=TOKEN), ScriptedHandler()) as web,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"{web.url}signout") as elsewhere:
            assert elsewhere.status == 403
        headers = {"Origin": web.url.rstrip("/"), "Cookie": f"{COOKIE}={TOKEN}"}
        async with session.post(f"{web.url}signout", headers=headers) as answer:
            assert answer.status == 204
            assert answer.headers["Clear-Site-Data"] == '"cache"'
            forgotten = answer.cookies[COOKIE]
        assert (forgotten.value, forgotten["max-age"], forgotten["httponly"]) == ("", "0", True)
        async with tab(web, cookie=TOKEN, greet=False) as page:
            assert (await page.hello())["signed_in"]
    async with running(web_chat(port=0), ScriptedHandler()) as web, tab(web, greet=False) as page:
        assert not (await page.hello())["signed_in"]
