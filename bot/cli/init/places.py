"""Where servers usually are, and how an address given is read. Pure, but for the look at names."""

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit, urlunsplit

from bot.http.addresses import is_loopback, joined

USUAL: Mapping[int, str] = {
    8188: "comfyui",  # ComfyUI
    8000: "openai",  # ComfyUI Desktop; vLLM, speaches, llama-cpp-python
    1234: "lmstudio",  # LM Studio; stable-diffusion.cpp
    11434: "openai",  # Ollama
    8080: "openai",  # llama.cpp, llama-swap, LocalAI, whisper.cpp
    9931: "openai",  # llama.cpp from a coming version on, as it announces
    9292: "openai",  # llama-swap in its container
    8880: "openai",  # Kokoro-FastAPI
    7801: "images",  # SwarmUI
    8091: "images",  # vLLM-Omni
}
"""The usual ports, each with the kind that is likeliest to be there."""
PORTS = tuple(USUAL)  # those that are looked at

HERE = "127.0.0.1"


def address(text: str) -> str:
    """Read a server's address; the scheme may be left out. Raises `ValueError` with a sentence."""
    url = text.strip()
    url = url if "://" in url else f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(map(str.isspace, url)):
        raise ValueError("A server needs an address such as http://192.168.1.20:8188.")
    if parts.username is not None:
        raise ValueError("An address must not hold a name or a password: a token is asked for.")
    parts.port  # noqa: B018  raises ValueError for a port out of range
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def places(given: str) -> Iterator[str]:
    """Yield the addresses an address means: one without a port means the usual ports."""
    parts = urlsplit(given)
    if parts.port is not None or parts.scheme == "https" or parts.path:
        yield given
    else:
        yield from usual(parts.hostname or "")


def usual(host: str) -> Iterator[str]:
    """Yield the usual addresses on a machine."""
    for port in PORTS:
        yield f"http://{joined(host, port)}"


def likely_kind(url: str) -> str:
    """Return the kind of server to expect at an address that does not answer."""
    return USUAL.get(urlsplit(url).port or 0, "openai")


def is_here(host: str) -> bool:
    """Return whether a name or an address is this machine's: then it can be listened on."""
    if is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_can_listen(family, place) for family, _, _, _, place in found)


def _can_listen(family: int, place: object) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind(place)  # type: ignore[arg-type]  # as getaddrinfo returned it
    except OSError:
        return False
    return True
