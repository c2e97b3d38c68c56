"""Which queues are updated after a look at the world."""

from dataclasses import replace

from queueing.core.snapshot import BackendView, Copy, Residency, Snapshot
from queueing.engine.change_tracker import news
from tests.queueing.planning.worlds import copy, host, jobs, model, queue, world


def shared(*copies: Copy, up: bool = True) -> Snapshot:
    """Return a world in which flux and sdxl wait for one GPU, and llm for another."""
    seen = world(
        model("flux", queue(jobs("flux", 1, 2)), on=("b1",)),
        model("sdxl", queue(jobs("sdxl", 5, 2)), on=("b1",)),
        model("llm", queue(jobs("llm", 9, 2)), on=("b2",)),
        copies=copies,
        hosts=(host("h1"), host("h2")),
        backends=(BackendView(name="b1", host="h1"), BackendView(name="b2", host="h2")),
    )
    gpus = {name: replace(view, up=up or name != "b1") for name, view in seen.backends.items()}
    return replace(seen, backends=gpus)


def test_a_line_that_did_not_move_is_named_when_one_on_its_hosts_did() -> None:
    """A promise would remain unchanged while the model that holds the GPU gets more work."""
    told = news(shared(), shared(), {"flux"}, ())
    assert told is not None
    assert told.models == {"flux"}
    assert told.outlooks == {"sdxl"}
    assert told.turned == frozenset()


def test_the_end_of_a_load_turns_every_line_on_that_host() -> None:
    """The words "is being loaded first" would remain after the load has ended or failed."""
    coming = copy("flux", residency=Residency.LOADING)
    for after in (shared(copy("flux")), shared()):
        told = news(shared(coming), after, (), ())
        assert told is not None
        assert told.turned == told.models == {"flux", "sdxl"}


def test_a_server_that_goes_or_returns_turns_the_lines_it_serves() -> None:
    """A time would still be shown although the server that was to keep it is away."""
    for before, after in ((shared(), shared(up=False)), (shared(up=False), shared())):
        told = news(before, after, (), ())
        assert told is not None
        assert told.turned == {"flux", "sdxl"}


def test_nothing_is_told_where_nothing_happened() -> None:
    """Every tick of the router would cost an edit of every message."""
    assert news(shared(copy("flux")), shared(copy("flux")), (), ()) is None
