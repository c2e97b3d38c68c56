"""What follows on a server when it has ended what it runs."""

from dataclasses import replace

from queueing.core.world import BackendView, World
from queueing.planning.following import following
from tests.queueing.worlds import copy, host, jobs, line, model, world


def served(*names: str) -> tuple[BackendView, ...]:
    return tuple(
        BackendView(name=name, host=f"h{number}", serial=True, busy=1, max_models=1)
        for number, name in enumerate(names, 1)
    )


def followers(asked: World, *backends: str) -> list[tuple[str, int]]:
    return [(start.backend, start.job.id) for start in following(asked, backends)]


def test_the_head_of_the_line_follows_and_not_before_its_time() -> None:
    """The wrong job would be announced, or one for a server that has another model to load."""
    first, second = jobs("flux", 20.0, 10.0)
    asked = world(
        model("flux", line((first, second))),
        copies=(copy("flux", running=1, ends_at=(1005.0,)),),
        backends=served("b1"),
    )
    assert followers(asked, "b1") == [("b1", first.id)]
    nothing = replace(asked, models={"flux": replace(asked.models["flux"], waiting=())})
    assert followers(nothing, "b1") == []


def test_servers_that_end_one_after_the_other_get_one_job_each() -> None:
    """One job would be announced for two servers, and the second head for none."""
    first, second = jobs("flux", 20.0, 10.0)
    asked = world(
        model("flux", line((first, second)), on=("b1", "b2")),
        copies=(copy("flux", "b1", running=1), copy("flux", "b2", running=1)),
        hosts=(host("h1"), host("h2")),
        backends=served("b1", "b2"),
    )
    assert followers(asked, "b2", "b1") == [("b2", first.id), ("b1", second.id)]
    (later,) = following(asked, ["b1"], taken={first.id})
    assert later.job is second


def test_what_may_not_start_is_not_announced() -> None:
    """A start that no decision will make would be asked for after a crash."""
    (job,) = jobs("flux", 20.0)
    asked = world(
        model("flux", line((job,)), paused=True),
        copies=(copy("flux", running=1),),
        backends=served("b1"),
    )
    assert followers(asked, "b1") == []
