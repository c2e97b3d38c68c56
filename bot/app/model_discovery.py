"""Offers the models of servers that discover them, and those they gain later."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from queueing.core.concurrency import TaskGroup, timeout
from queueing.core.errors import BackendError
from queueing.core.ports import Backend
from queueing.core.specs import ModelSpec
from queueing.core.status import HostActivity
from queueing.service.model_reader import LocalModelReader

AGAIN_S = 60.0  # a list costs a server little, and its details a call for each model
EMPTY_AGAIN_S = 5.0  # a server without a model: its first one is waited for

log = logging.getLogger(__name__)


class ModelDiscovery:
    """Asks servers for their models: at the start, once a minute, and one that comes back at once.

    A server without a model is asked every few seconds: someone is setting it up. `looked` is set
    once each was asked for the first time.
    """

    def __init__(self, models: LocalModelReader, backends: Mapping[str, Backend]) -> None:
        self.looked = asyncio.Event()
        self._models = models
        self._backends = backends
        self._again = asyncio.Event()
        self._unheard: set[str] = set()  # servers that could not be asked
        self._empty: set[str] = set()  # servers that answered and have no model

    def ask_again(self) -> None:
        """Have all servers asked at once: others are configured."""
        self._again.set()

    def on_hosts(self, states: Mapping[str, HostActivity]) -> None:
        """Have a server asked as soon as it answers that did not when it was asked last."""
        if any(not self._unheard.isdisjoint(each.servers) for each in states.values()):
            self._again.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            self._again.clear()
            await self._ask(self._listed())
            self.looked.set()
            await self._until_next()

    def _listed(self) -> Sequence[str]:
        backends = self._models.offer.catalog.backends.values()
        return [spec.name for spec in backends if spec.discover]

    async def _until_next(self) -> None:
        """Return after a minute, or as soon as all are to be asked; until then ask empty servers."""
        for _ in range(round(AGAIN_S / EMPTY_AGAIN_S)):
            with suppress(TimeoutError):
                async with timeout(EMPTY_AGAIN_S):
                    await self._again.wait()
                    return
            if empty := [name for name in self._listed() if name in self._empty]:
                await self._ask(empty)

    async def _ask(self, names: Sequence[str]) -> None:
        catalog = self._models.offer.catalog
        for servers in (self._unheard, self._empty):
            servers.intersection_update(self._listed())
        async with TaskGroup() as group:
            found = {
                name: group.create_task(self._found(name, catalog.served_by(name)))
                for name in names
            }
            for name in names:  # in their order: of two models of one name the first keeps it
                if offered := await found[name]:
                    self._models.extend(offered)

    async def _found(self, name: str, known: Sequence[ModelSpec]) -> tuple[ModelSpec, ...]:
        self._empty.discard(name)
        try:
            offered = await self._backends[name].discover(known)
        except BackendError as error:
            log.info("%s: its models could not be listed: %s", name, error)
        except Exception:
            log.exception("%s: its list of models could not be read", name)
        else:
            self._unheard.discard(name)
            if not (offered or known):
                self._empty.add(name)
            return offered
        self._unheard.add(name)
        return ()
