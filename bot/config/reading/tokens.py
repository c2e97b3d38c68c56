"""Types of secret settings: tokens, trimmed, and in the form in which they are accepted.

A token with a comment, a quote or a word too many is refused here. Its platform would only report
an unknown token, and people would replace a valid one.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr

from bot.people.web_people import LEAST_TOKEN, is_weak

_AROUND = "\ufeff\u200b\u200e\u2060"  # zero-width characters, which copying can add
_QUOTED = re.compile(r"([\"'`]).*\1", re.DOTALL)


def long_enough(token: SecretStr | None) -> SecretStr | None:
    """Refuse a token chosen by the operator that could be guessed."""
    if token is not None and len(token.get_secret_value()) < LEAST_TOKEN:
        raise ValueError(f"must have at least {LEAST_TOKEN} characters")
    if token is not None and is_weak(token.get_secret_value()):
        raise ValueError("could be guessed: make one with `openssl rand -hex 16`")
    return token


def _trimmed(text: str) -> str:
    return text.strip().strip(_AROUND).strip()


def _sendable(token: SecretStr) -> SecretStr:
    """Refuse a token that a header cannot carry: pasting can add quotes and line ends."""
    text = _trimmed(token.get_secret_value())
    if not re.fullmatch(r"[ -~]*", text):
        raise ValueError("must be ASCII letters, digits and punctuation on one line")
    if _QUOTED.fullmatch(text):
        raise ValueError("has quotes that became part of it: write it without them")
    if re.match(r"(Bearer|Basic) ", text, re.IGNORECASE):
        raise ValueError("must be the token alone, without Bearer before it")
    return SecretStr(text)


def _or_none(value: object) -> object:
    return (_trimmed(value) if isinstance(value, str) else value) or None


Token = Annotated[SecretStr, AfterValidator(_sendable)]

Secret = Annotated[Token | None, BeforeValidator(_or_none)]
"""An optional token; `${NAME:-}` leaves it out."""

_SIGNS = r"[A-Za-z0-9_-]"
_TELEGRAM = re.compile(rf"[0-9]+:({_SIGNS}+)(/test)?")
_TELEGRAM_SIGNS = range(30, 65)  # it has 35, which Telegram does not promise
_DISCORD = re.compile(rf"{_SIGNS}+\.{_SIGNS}+\.{_SIGNS}+")
_FOREIGN = "has a space, a comment or a character that no token contains"


def _of_telegram(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if _TELEGRAM.fullmatch(text):
        return token
    if re.match(r"(https?://.*/)?bot[0-9]+:", text):
        raise ValueError('must begin with its digits, without "bot" before them')
    if re.match(r"[0-9]+:.*[^A-Za-z0-9_-]", text):
        raise ValueError(_FOREIGN)
    raise ValueError("must be a token as @BotFather sends it: digits, a colon, and 35 characters")


def whole(token: SecretStr) -> SecretStr:
    """Refuse a token of Telegram's own servers that was not copied as a whole."""
    found = _TELEGRAM.fullmatch(token.get_secret_value())
    if found is None or len(found[1]) not in _TELEGRAM_SIGNS:
        raise ValueError(
            "must have 35 characters after the colon: copy the whole token from @BotFather"
        )
    return token


def _of_discord(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if re.match(r"mfa\.", text):
        raise ValueError("is a person's token: Discord forbids bots to use one")
    if _DISCORD.fullmatch(text):
        return token
    if re.match(r"bot\s", text, re.IGNORECASE):
        raise ValueError('must be the token alone, without "Bot" before it')
    if re.match(rf"{_SIGNS}+\.{_SIGNS}+\.{_SIGNS}", text):
        raise ValueError(_FOREIGN)
    raise ValueError(f"must be the bot's token, which has three parts with dots{_mistaken(text)}")


def _mistaken(text: str) -> str:
    """Return what was probably copied from the developer portal instead of the token."""
    if text.isdecimal():
        return "; this looks like an id"
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return "; this looks like the public key"
    return "; this looks like the client secret" if re.fullmatch(rf"{_SIGNS}{{32}}", text) else ""


TelegramToken = Annotated[Token, AfterValidator(_of_telegram)]
"""A bot's token. A Bot API server of one's own may have shorter ones than Telegram."""
DiscordToken = Annotated[Token, AfterValidator(_of_discord)]
