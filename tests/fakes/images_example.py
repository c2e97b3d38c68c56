"""The server of pictures.example: https on a loopback port, with a certificate of its own."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

HOST = "pictures.example"
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBqjCCAVCgAwIBAgIUfCIm3pgtqYoYa8RinSRFturKeJ4wCgYIKoZIzj0EAwIw
GzEZMBcGA1UEAwwQcGljdHVyZXMuZXhhbXBsZTAgFw0yNjExMjIxNzI4NTlaGA8y
MTI2MTAyOTE3Mjg1OVowGzEZMBcGA1UEAwwQcGljdHVyZXMuZXhhbXBsZTBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABP7eiDC2743O4iBTAuBO19atUKRNHbAqwz0Q
QnlzK2mrgv8mvRDIQffzh/oB+0x9bPe+bbtViOKVcpjz4JeWOnejcDBuMB0GA1Ud
DgQWBBSzL7Xmt/qgYg1hFDqDulv5DhfEPzAfBgNVHSMEGDAWgBSzL7Xmt/qgYg1h
FDqDulv5DhfEPzAPBgNVHRMBAf8EBTADAQH/MBsGA1UdEQQUMBKCEHBpY3R1cmVz
LmV4YW1wbGUwCgYIKoZIzj0EAwIDSAAwRQIhAPBsMSgKJEMOuqxWxDjps8Dr3Olb
07xoqahSitZKj6GhAiAvWrahHLKVL+ZtM9xNgPn9MDuaWjI+7Q9A/5HumlA9lA==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8f93ooK72uIRdcvn
py+GLAVayDr86fdB9PBZAGz/PmShRANCAAT+3ogwtu+NzuIgUwLgTtfWrVCkTR2w
KsM9EEJ5cytpq4L/Jr0QyEH384f6AftMfWz3vm27VYjilXKY8+CXljp3
-----END PRIVATE KEY-----
"""  # known to everyone, and trusted by these tests only

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def trusting() -> ssl.SSLContext:
    """Return the settings of a client that trusts only this server."""
    return ssl.create_default_context(cadata=CERTIFICATE)


class ImagesExample:
    """A server that answers every request with the bytes it was given; records the requests."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[str] = []
        self.names: list[str | None] = []
        self.port = 0
        self._answer = answer

    @asynccontextmanager
    async def serving(self, folder: Path, address: str = "127.0.0.1") -> AsyncIterator[None]:
        """Serve until the block ends."""
        (folder / "images.pem").write_text(KEY + CERTIFICATE, encoding="ascii")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "images.pem")
        tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        server = await asyncio.start_server(self._serve, address, 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self._answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()


class FakeNames:
    """Resolves names as told, one answer after another; the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def __call__(self, name: str) -> Sequence[str]:
        """Return the next answer."""
        self.asked.append(name)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
