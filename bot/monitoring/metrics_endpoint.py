"""The endpoint `GET /metrics` at its own address, in Prometheus's formats."""

import asyncio
import hmac
import logging
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from bot.http.addresses import why_not_local
from bot.http.connection_limits import ConnectionLimits
from bot.http.listener import Listener, open_at
from bot.monitoring.metrics import Metrics

log = logging.getLogger(__name__)

PATH = "/metrics"
UNKNOWN_READER = "The metrics need their token, as “Authorization: Bearer …”."
THIS_MACHINE_ONLY = "Without a token the metrics serve this machine only: set metrics.token."
_CONNECTIONS = ConnectionLimits(overall=32, strangers=32, person=32)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsPlace:
    """Where metrics are served. Without a token, only this machine may read them."""

    host: str = "127.0.0.1"
    port: int = 9464
    token: str | None = None


class MetricsEndpoint:
    """Serves the metrics. While it listens, `connected` is set and `port` is the actual port."""

    def __init__(self, place: MetricsPlace, instruments: Metrics) -> None:
        self.connected = asyncio.Event()
        self.port = place.port
        self._place = place
        self._instruments = instruments

    async def run(self) -> None:
        """Serve until cancelled. Raises `CannotListen`."""
        app = web.Application()
        app.router.add_get(PATH, self._get)  # also handles HEAD
        listener = Listener(app, limits=_CONNECTIONS)
        try:
            self.port = await open_at(listener, self._place.host, self._place.port)
            log.info("metrics are at http://%s:%d%s", self._place.host, self.port, PATH)
            self.connected.set()
            await asyncio.Event().wait()
        finally:
            self.connected.clear()
            await listener.close()

    async def _get(self, request: web.Request) -> web.Response:
        if why := self._why_not(request):
            named = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=HTTPStatus.UNAUTHORIZED, text=f"{why}\n", headers=named)
        shown = self._instruments.now()
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        # In a thread, because encoding many models takes tens of milliseconds.
        body = await asyncio.to_thread(encode, shown)
        return web.Response(body=body, headers={"Content-Type": kind})

    def _why_not(self, request: web.Request) -> str | None:
        """Return why a request is refused: no valid token, or without one, not from this machine."""
        token = self._place.token
        if token is None:
            why = why_not_local(request.headers)
            return why and f"{why} {THIS_MACHINE_ONLY}"
        given = request.headers.get("Authorization", "").encode()
        right = hmac.compare_digest(given, f"Bearer {token}".encode())
        return None if right else UNKNOWN_READER
