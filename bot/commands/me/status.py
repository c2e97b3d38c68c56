"""`/status`: every host and backend, since when it has been up or down, its memory and its jobs.

If there are several processes, admins also see the role of each.
"""

from collections import Counter
from collections.abc import Sequence

from bot.commands.call.context import Call, Context, is_admin, reply
from bot.commands.jobs.history import prompt_of
from bot.core.answers import Answer
from bot.core.command import Command
from bot.core.content import Body, Content, Moment, Strong
from bot.core.panels import CopyRow, GpuRow, OpenJobRow, StatusPanel
from bot.texts import status as texts
from bot.texts.catalogue import join
from bot.texts.reasons import because
from queueing.core.errors import StoreError
from queueing.core.jobs import JobState
from queueing.core.leases import LeaseReader
from queueing.core.requests import Embed
from queueing.core.snapshot import Residency, WaitCause
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    HostStatus,
    ModelStatus,
    Readiness,
    Standing,
    StatusReport,
)

_SIGNS = {WaitCause.YIELDING: "🎮", WaitCause.WAKING: "⏰", WaitCause.ASLEEP: "💤"}

COMMAND = Command(name="status", help="command.status")


async def handle(context: Context, call: Call) -> Answer:
    now = context.admission.shown.report(call.invocation.asker)
    body: Body = ()
    for host in now.hosts:
        body += ("\n", *_host(call, host))
        for backend in now.backends:
            if backend.is_on(host.name):
                body += ("\n", *_backend(context, call, backend, host.name, now.models))
    body += ("\n", *_models(call, now.models))
    if context.roles is not None and is_admin(context, call):
        body += await _roles(context.roles, call)
    return reply(join(body[1:]))


async def _roles(roles: LeaseReader, call: Call) -> Body:
    """Return which process holds which role. Addresses are not for a chat."""
    try:
        known = await roles.roles()
    except StoreError:
        return ("\n", *call.say("status.roles_unknown"))
    body: Body = ("\n", *call.say("status.roles"))
    for role in known:
        key = "status.role" if role.holder else "status.role_free"
        body += ("\n", *call.say(key, role=Strong(role.name), process=role.holder))
    return body


def _models(call: Call, models: Sequence[ModelStatus]) -> Body:
    """Return how many models can start a job at once, and how many wait to be loaded."""
    counts = Counter(model.readiness for model in models)
    ready, needed = counts[Readiness.READY], counts[Readiness.NEEDS_LOADING]
    return call.say("status.models", ready=ready, needed=needed)


def _host(call: Call, host: HostStatus) -> Body:
    key = "status.host_paused" if host.paused else "status.host"
    sizes_mb = {"used": host.used_mb, "usable": host.usable_mb, "vram": host.vram_mb}
    gb = {name: f"{mb / 1024:.0f}" for name, mb in sizes_mb.items()}
    body = call.say(key, host=Strong(host.name), **gb)
    if host.unmeasured_since is not None:
        body += call.say("status.host_unmeasured", moment=Moment(host.unmeasured_since))
    if host.awake_until is not None:
        return body + call.say("status.host_awake", moment=Moment(host.awake_until, clock=True))
    if host.rest is None or host.paused:
        return body
    sign = _SIGNS.get(host.rest.why, "🌙")
    return (*body, f" · {sign} ", *because(host.rest, call.language))


def _backend(
    context: Context, call: Call, backend: BackendStatus, host: str, models: Sequence[ModelStatus]
) -> Body:
    admin = is_admin(context, call)
    key = "status.up" if backend.up else "status.down" if backend.is_known else "status.unasked"
    name = backend.description or backend.kind
    body = call.say(key, backend=Strong(backend.name), server=name, moment=Moment(backend.since))
    if not backend.up and backend.error and admin:
        url = f"{backend.url} " if backend.url else ""
        body += (f"\n    {url}", *call.say("status.logged", cause=backend.error))
    for model in models:
        for copy in model.copies:
            if copy.backend == backend.name and host in copy.hosts:
                body += ("\n    ", *_copy(call, model.name, copy))
        for trouble in model.troubles:
            if trouble.backend == backend.name:
                moment = Moment(trouble.again_at)
                body += ("\n    ", *call.say("status.trouble", model=model.name, moment=moment))
                body += ("; ", *call.say("status.logged", cause=trouble.cause)) if admin else ()
    return body


def _copy(call: Call, model: str, copy: CopyStatus) -> Body:
    match copy.residency:
        case Residency.READY:
            return call.say("status.runs", model=Strong(model), running=copy.running)
        case Residency.LOADING:
            key = "status.loaded_ahead" if copy.ahead else "status.being_loaded"
            return call.say(key, model=Strong(model))
        case Residency.UNLOADING:
            return call.say("status.being_unloaded", model=Strong(model))


_JOBS_SHOWN = 50


async def panel(context: Context, call: Call) -> StatusPanel:
    """Return the caller's open jobs, and the hosts as `/status` shows them."""
    report = context.admission.shown.report(call.invocation.asker)
    mine = await context.queue.jobs.open_jobs(call.invocation.user)
    jobs = [job for job in mine if not isinstance(job.request, Embed)]
    standings = await context.admission.shown.standings(jobs[:_JOBS_SHOWN])
    fractions = {each.job_id: each.fraction for each in report.running}
    return StatusPanel(
        jobs=tuple(
            _job(call, standings[job.id], fractions.get(job.id)) for job in jobs[:_JOBS_SHOWN]
        ),
        more=max(0, len(jobs) - _JOBS_SHOWN),
        hosts=tuple(_gpu(context, call, host, report) for host in report.hosts),
    )


def _job(call: Call, standing: Standing, fraction: float | None) -> OpenJobRow:
    job = standing.job
    told = texts.open_message(standing, None, call.language, previews=False)
    return OpenJobRow(
        job=job.id,
        model=job.model,
        words=prompt_of(job, call.language),
        running=job.state is JobState.PROCESSING,
        fraction=fraction,
        told=told,
    )


def _gpu(context: Context, call: Call, host: HostStatus, report: StatusReport) -> GpuRow:
    copies = [
        CopyRow(
            model=model.name,
            backend=copy.backend,
            state=copy.residency,
            ahead=copy.ahead,
            running=copy.running,
            pinned=copy.pinned,
        )
        for model in report.models
        for copy in model.copies
        if host.name in copy.hosts
    ]
    return GpuRow(
        name=host.name,
        total_mb=host.vram_mb,
        usable_mb=host.usable_mb,
        used_mb=host.used_mb,
        told=Content(body=_host(call, host)),
        copies=tuple(copies),
        servers=tuple(
            Content(body=_backend(context, call, backend, host.name, ()))
            for backend in report.backends
            if backend.is_on(host.name)
        ),
    )
