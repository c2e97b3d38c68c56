"""The log is readable and never shows a secret, whoever writes it."""

import asyncio
import io
import json
import logging
import re
import sys
import threading
import warnings
from pathlib import Path
from typing import Literal
from urllib.parse import quote, quote_plus

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.app import logs

CANARY = "canary/0123+456"
TOKENS = [
    "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "sk-lm-abcd1234:XYZ789secretpart",
    "sk-0123456789abcdef",
]


@pytest.fixture
def log() -> io.StringIO:
    """Return what the log writes."""
    stream = io.StringIO()
    logs.set_up(secrets=[CANARY], stream=stream)
    return stream


def fail_and_log(message: str, *values: str) -> None:
    try:
        int(CANARY)
    except ValueError:
        logging.getLogger("bot").exception(message, *values)


def test_the_newest_lines_are_kept_without_secrets(log: io.StringIO) -> None:
    """An operator's page would show the token of the bot."""
    before = max((line.number for line in logs.TAIL.after(0)), default=0)
    logging.getLogger("bot.x").info("token %s \x1b[31m", CANARY)
    fail_and_log("%s", TOKENS[0])
    lines = logs.TAIL.after(before)
    assert [line.level for line in lines] == ["info", "error"]
    assert "INFO    bot.x: token [hidden] \\u001b[31m" in lines[0].text
    told = "".join(line.text for line in lines)
    assert not any(secret in told for secret in (CANARY, *TOKENS))
    assert logs.TAIL.after(10**9) == logs.TAIL.after(0)  # the number is of an earlier run


def test_a_record_is_one_line_for_people(log: io.StringIO) -> None:
    """Lines could not be searched, or a line break in a prompt could forge a record."""
    logging.getLogger("bot.x").info("job %d: %s", 7, "a\n2026-01-01 ERROR forged")
    lines = log.getvalue().splitlines()
    assert lines[0].endswith("INFO    bot.x: job 7: a")
    assert lines[1] == "    2026-01-01 ERROR forged"


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_steers_the_terminal_of_who_reads(form: Literal["text", "json"]) -> None:
    """A server's or a person's words could clear the operator's screen, or overwrite a line."""
    stream = io.StringIO()
    logs.set_up(form=form, stream=stream)
    words = "\x1b[2J\x1b]0;title\x07 \r2026 INFO forged \x9b31m \u202egnp.exe \x85 \u2028 \x08\x7f"
    try:
        bytes.fromhex("x" if words else "")
    except ValueError as error:
        error.add_note(words)  # appears unchanged in the traceback
        logging.getLogger("bot").exception("a server said %s", words)
    told = stream.getvalue()
    if form == "json":
        told = "".join(str(value) for value in json.loads(told).values())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", told)
    assert "\\u001b[2J" in told


@pytest.mark.parametrize("token", TOKENS)
def test_what_looks_like_a_token_is_hidden_even_when_unknown(log: io.StringIO, token: str) -> None:
    """A token of another bot, in an answer or an address, would be written to the log."""
    logging.getLogger("third.party").warning("got %s, '%s'", token, token)
    if token[0].isdigit():
        logging.getLogger("third.party").warning("GET https://api/bot%s/getMe", token)
    assert token not in log.getvalue()
    assert token[-12:] not in log.getvalue()
    assert logs.HIDDEN in log.getvalue()


def test_headers_and_addresses_lose_their_secret_only(log: io.StringIO) -> None:
    """A header in a third party's error would show the token, or lose the text around it."""
    cases: list[str] = [
        "Authorization: Bearer abc.def-1",
        "'Bearer abc.def-1'",
        "/?token=abc.def-1&x=1",
    ]
    for text in cases:
        log.truncate(0)
        logging.getLogger("third.party").error("before %s after", text)
        assert "abc.def" not in log.getvalue(), text
        assert "before" in log.getvalue(), text
        assert "after" in log.getvalue(), text


def test_known_secrets_are_hidden_in_every_way_to_the_log(log: io.StringIO) -> None:
    """A traceback, a warning or a library would print the configured secret."""
    logging.getLogger("third.party").error("it is %s", CANARY)
    logging.getLogger("third.party").error("quoted: %s", "canary%2F0123%2B456")
    fail_and_log("failed")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"beware of {CANARY}", stacklevel=1)
    text = log.getvalue()
    assert "canary" not in text
    assert text.count(logs.HIDDEN) == 4
    assert "ValueError" in text


def test_what_nobody_caught_is_logged_without_secrets(log: io.StringIO) -> None:
    """The interpreter would print a crash with its secrets, without using the log."""
    error = RuntimeError(CANARY)
    sys.excepthook(RuntimeError, error, None)
    thread = threading.Thread(target=lambda: (_ for _ in ()).throw(error))
    thread.start()
    thread.join()
    assert log.getvalue().count("RuntimeError") == 2
    assert "canary" not in log.getvalue()


async def test_errors_of_the_event_loop_are_logged_without_secrets(log: io.StringIO) -> None:
    """A task no one awaits would print its exception without using the log."""
    loop = asyncio.get_running_loop()
    logs.watch_loop(loop)
    loop.call_exception_handler({"message": CANARY, "exception": RuntimeError(CANARY)})
    assert "RuntimeError" in log.getvalue()
    assert "canary" not in log.getvalue()


async def test_httpx_does_not_log_addresses(log: io.StringIO) -> None:
    """Telegram's address contains the token, and httpx logs every address it calls."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("https://api.telegram.org/bot1:x/getMe")
    assert log.getvalue() == ""


def test_json_lines_hold_the_same_without_secrets(log: io.StringIO) -> None:
    """A log collector would get broken lines, or the secrets that are hidden from people."""
    logs.set_up(form="json", secrets=[CANARY], stream=log)
    fail_and_log("it was\n%s", CANARY)
    (line,) = log.getvalue().splitlines()
    record = json.loads(line)
    assert record["message"] == f"it was\n{logs.HIDDEN}"
    assert record["level"] == "error"
    assert record["traceback"].endswith(f"with base 10: '{logs.HIDDEN}'")


def test_a_record_with_wrong_values_is_told_without_them(
    log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logging library prints what it cannot format to the console, secrets included."""
    logs.set_up(secrets=[], stream=log)  # alone: pytest's own handler would raise
    logging.getLogger("third.party").warning("%d", CANARY)
    assert "third.party: a record that cannot be shown" in log.getvalue()
    assert "canary" not in log.getvalue() + capsys.readouterr().err


def test_the_level_is_obeyed(log: io.StringIO) -> None:
    """`logging.level` would do nothing."""
    logs.set_up(level="error", stream=log)
    logging.getLogger("bot").warning("no")
    logging.getLogger("bot").error("yes")
    assert log.getvalue().splitlines()[0].endswith("yes")


def test_ordinary_lines_stay_as_they_are() -> None:
    """The log would hide so much that it says nothing."""
    cases: list[str] = [
        "job 12: loading flux on gpu-1, about 40 s",
        "http://127.0.0.1:8188/prompt answered 500",
        "2026-11-20 12:30:45 task-force risk-averse",
        str(Path("some") / "sub.folder.name" / "file.safetensors"),
        "b5a2c9d0-3f1e-5c7a-9b1d-2e4f6a8c0d1f",
    ]
    for text in cases:
        assert logs.Redactor([CANARY])(text) == text, text


@given(st.text(max_size=40), st.text(min_size=4, max_size=30), st.text(max_size=40))
def test_a_known_secret_never_survives(before: str, secret: str, after: str) -> None:
    """A secret with unusual characters would be printed."""
    spellings = {secret, quote(secret), quote_plus(secret), repr(secret)[1:-1]}
    for spelled in spellings:
        if spelled not in logs.HIDDEN:
            shown = logs.Redactor([secret])(before + spelled + after)
            assert spelled not in shown.replace(logs.HIDDEN, "\0")
