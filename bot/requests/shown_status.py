"""The state of the queue as people may see it: without the models that they may not use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bot.core.asker import Asker
from bot.core.origin import origin_in
from bot.core.queue import ModelReader, QueueStatus
from bot.people.access import Access
from bot.requests.rules import RuleTable, offered
from queueing.core.catalog import Catalog
from queueing.core.jobs import Job
from queueing.core.snapshot import Reason
from queueing.core.status import ModelStatus, Standing, StatusReport


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownStatus:
    """Reports the state of jobs, models, servers and hosts. Implements `QueueStatus`.

    The whole `snapshot` is for operators and for decisions. Admins see everything.
    """

    status: QueueStatus
    models: ModelReader
    rules: RuleTable
    access: Access

    async def standings(self, jobs: Sequence[Job]) -> Mapping[int, Standing]:
        """Return each job's standing by job id, as its person may see it. Raises `StoreError`."""
        standings = await self.status.standings(jobs)
        return {number: self._shown(standing) for number, standing in standings.items()}

    async def decided(self, jobs: Sequence[Job]) -> None:
        """Wait briefly until each of these new jobs is running or has a reason to wait."""
        await self.status.decided(jobs)

    def snapshot(self) -> StatusReport:
        """Return the state of all models, servers and hosts."""
        return self.status.snapshot()

    def report(self, asker: Asker) -> StatusReport:
        """Return the state of the models that a person may use in a room, and of all hosts.

        It includes the person's own running jobs, whatever their models.
        """
        report = self.status.snapshot()
        if (catalog := self._seen_by(asker)) is None:
            return report
        models = (_model(each, catalog) for each in report.models if each.name in catalog.models)
        running = (each for each in report.running if each.owner == asker.user)
        return replace(report, models=tuple(models), running=tuple(running))

    def _shown(self, standing: Standing) -> Standing:
        origin = None
        if standing.reason is not None and standing.reason.other is not None:
            origin = origin_in(standing.job.reply_to)
        catalog = None if origin is None else self._seen_by(origin.asker)
        if catalog is None:
            return standing
        return replace(standing, reason=_reason(standing.reason, catalog))

    def _seen_by(self, asker: Asker) -> Catalog | None:
        """Return the models that a person may see; None for all."""
        everything = self.models.offer.catalog
        mine = offered(everything, self.rules.of(asker))
        admin = self.access.is_admin(asker.user, asker.rights)
        return None if admin or mine is everything else mine


def _model(model: ModelStatus, catalog: Catalog) -> ModelStatus:
    reason = _reason(model.reason, catalog)
    return model if reason is model.reason else replace(model, reason=reason)


def _reason(reason: Reason | None, catalog: Catalog) -> Reason | None:
    """Return a reason without the name of a model outside a catalog."""
    if reason is None or reason.other is None or reason.other in catalog.models:
        return reason
    return replace(reason, other=None)
