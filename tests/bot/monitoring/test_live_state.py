"""What an operator is shown of one moment agrees with the snapshot it is made from."""

import json
from dataclasses import replace

from bot.api.runs.views import host_list
from bot.monitoring.dashboard import to_json
from bot.monitoring.live_state import LiveState, now_of
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    Estimate,
    HostStatus,
    ModelStatus,
    Pauses,
    RunningStatus,
    StatusReport,
    Trouble,
)

NOW = 1_000_000.0


def copy(residency: Residency = Residency.READY, mb: int = 9000, running: int = 0) -> CopyStatus:
    return CopyStatus(
        backend="comfy",
        host="gpu-1",
        residency=residency,
        pinned=True,
        running=running,
        vram_mb=mb,
        ready_at=NOW,
    )


IDLE = ModelStatus(
    name="sdxl",
    waiting=0,
    running=0,
    copies=(),
    reason=None,
    service_s=5.0,
    next_ends=Estimate(at=NOW + 20, earliest=NOW + 15, latest=NOW + 30),
    vram_mb=None,
    paused=False,
    troubles=(),
)
BUSY = replace(
    IDLE,
    name="flux",
    waiting=2,
    running=1,
    copies=(copy(running=1),),
    reason=Reason(why=WaitCause.QUEUED, model="flux"),
    vram_mb=9000,
    oldest_at=NOW - 12.5,
)
HOST = HostStatus(
    name="gpu-1", vram_mb=24000, usable_mb=20000, used_mb=13000, paused=False, foreign_mb=1000
)
SERVER = BackendStatus(
    name="comfy",
    host="gpu-1",
    kind="comfyui",
    url="http://gpu-1:8188",
    up=True,
    since=NOW - 100,
    description="ComfyUI",
    error="an old one",
)
ENDS = Estimate(at=NOW + 4, earliest=NOW + 3, latest=NOW + 6)
RUNNING = RunningStatus(
    job_id=7,
    model="flux",
    backend="comfy",
    owner="web:1",
    began_at=NOW - 3,
    ends=ENDS,
    fraction=0.25,
)
SNAPSHOT = StatusReport(
    models=(BUSY, IDLE),
    backends=(SERVER,),
    hosts=(HOST, replace(HOST, name="gpu-2", foreign_mb=0)),
    paused=Pauses(),
    running=(RUNNING,),
)


def made(snapshot: StatusReport = SNAPSHOT) -> LiveState:
    return now_of(snapshot, NOW, {"web:1": "Ada"})


def test_everything_stands_on_its_host() -> None:
    """A GPU would be shown as idle while another one's job is drawn on it."""
    first, second = made().hosts
    assert [each.model for each in first.copies] == ["flux"]
    assert [each.name for each in first.servers] == ["comfy"]
    (job,) = first.running
    assert (job.job, job.name, job.fraction, job.ends) == (7, "Ada", 0.25, ENDS)
    assert (second.copies, second.servers, second.running) == ((), (), ())


def test_a_memory_bar_adds_up() -> None:
    """A model being loaded would be drawn as free memory, or twice."""
    loading = replace(IDLE, copies=(copy(Residency.LOADING, 4000),))
    memory = made(replace(SNAPSHOT, models=(BUSY, loading))).hosts[0].memory
    assert (memory.resident_mb, memory.loading_mb, memory.foreign_mb) == (9000, 4000, 1000)
    assert memory.free_mb == 24000 - 9000 - 4000 - 1000


def test_memory_taken_twice_leaves_nothing_free() -> None:
    """A bar would be drawn with a negative width."""
    full = replace(BUSY, copies=(copy(mb=30000),))
    assert made(replace(SNAPSHOT, models=(full,))).hosts[0].memory.free_mb == 0


def test_a_line_says_how_long_the_first_has_waited() -> None:
    """An operator could not see whether a long queue moves."""
    (queue,) = made().queues
    assert (queue.model, queue.waiting, queue.oldest_s) == ("flux", 2, 12.5)
    assert queue.next_ends == BUSY.next_ends
    assert queue.reason == BUSY.reason
    assert made().idle_models == ("sdxl",)


def test_a_model_that_can_be_acted_on_has_a_line() -> None:
    """A paused model, or one that fails to load, would be hidden among the idle ones."""
    cases: list[dict[str, object]] = [
        {"paused": True},
        {"copies": (copy(),)},
        {"troubles": (Trouble(backend="comfy", cause="no file", again_at=NOW + 60),)},
    ]
    for shown in cases:
        model = replace(IDLE, **shown)  # type: ignore[arg-type]
        now = made(replace(SNAPSHOT, models=(model,), running=()))
        assert [queue.model for queue in now.queues] == ["sdxl"], shown
        assert now.queues[0].oldest_s is None, shown


def test_a_paused_host_drains_until_it_is_still() -> None:
    """A GPU would be called free while a job still runs on it."""
    cases: list[tuple[Residency, tuple[RunningStatus, ...], str]] = [
        (Residency.READY, (RUNNING,), "draining"),
        (Residency.UNLOADING, (), "draining"),
        (Residency.READY, (), "paused"),
    ]
    for residency, running, mode in cases:
        model = replace(BUSY, copies=(copy(residency),))
        hosts = (replace(HOST, paused=True),)
        now = made(replace(SNAPSHOT, models=(model,), hosts=hosts, running=running))
        assert now.hosts[0].mode == mode, residency


def test_a_server_that_is_up_has_no_error() -> None:
    """An old failure would be shown as a current one."""
    assert made().hosts[0].servers[0].error is None
    down = replace(SERVER, up=False)
    assert made(replace(SNAPSHOT, backends=(down,))).hosts[0].servers[0].error == "an old one"


def test_it_is_written_as_plain_json() -> None:
    """The page would have to know Python's names."""
    written = json.loads(to_json(made()))
    assert written["hosts"][0]["copies"][0]["state"] == "ready"
    assert written["queues"][0]["reason"]["why"] == "queued"
    assert written["hosts"][0]["running"][0]["ends"]["latest"] == NOW + 6


def test_a_host_at_rest_is_told_from_one_that_an_admin_paused() -> None:
    """An operator would look for the admin who paused it, or see nothing at all."""
    quiet = Reason(why=WaitCause.QUIET, model="", host="gpu-1", until=NOW + 60)
    hosts = (
        replace(HOST, rest=quiet),
        replace(HOST, name="gpu-2", rest=quiet, paused=True),
        replace(HOST, name="gpu-3", awake_until=NOW + 60, unmeasured_since=NOW - 60),
    )
    now = now_of(replace(SNAPSHOT, hosts=hosts), NOW, {})
    assert [host.rest for host in now.hosts] == [quiet, None, None]
    assert [host.awake_until for host in now.hosts] == [None, None, NOW + 60]
    assert [host.unmeasured_since for host in now.hosts] == [None, None, NOW - 60]
    shown = host_list(replace(SNAPSHOT, hosts=hosts)).data
    assert [bool(host.unmeasured_since) for host in shown] == [False, False, True]


def test_a_host_whose_owner_wants_it_says_so() -> None:
    """An operator would see an open host on which nothing starts."""
    cases: list[tuple[WaitCause, str]] = [
        (WaitCause.QUIET, "quiet"),
        (WaitCause.YIELDING, "yielding"),
        (WaitCause.ASLEEP, "asleep"),
        (WaitCause.WAKING, "waking"),
    ]
    for why, mode in cases:
        rest = Reason(why=why, model="", host=HOST.name, until=5.0)
        resting = replace(SNAPSHOT, hosts=(replace(HOST, rest=rest),))
        paused = replace(SNAPSHOT, hosts=(replace(HOST, rest=rest, paused=True),))
        assert now_of(resting, 0.0, {}).hosts[0].mode == mode, why
        assert now_of(paused, 0.0, {}).hosts[0].mode in {"paused", "draining"}, why


def test_a_model_over_two_gpus_is_drawn_on_each_with_its_share() -> None:
    """One bar would overflow, and the other seem empty."""
    spanning = replace(copy(mb=9000), shares=(("gpu-1", 6000), ("gpu-2", 3000)))
    model = replace(SNAPSHOT.models[0], copies=(spanning,))
    server = replace(SERVER, hosts=("gpu-1", "gpu-2"))
    left, right = made(replace(SNAPSHOT, models=(model,), backends=(server,))).hosts

    assert (left.memory.resident_mb, right.memory.resident_mb) == (6000, 3000)
    assert [each.copies[0].mb for each in (left, right)] == [6000, 3000]
    assert [[each.name for each in here.servers] for here in (left, right)] == [[SERVER.name]] * 2
