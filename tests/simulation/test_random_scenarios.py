"""The queue in random worlds: whatever fails and whenever it is killed, its promises hold."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.samples import seeds
from tests.simulation.chaos import Chaos
from tests.simulation.loop import run

# A killed process leaves tasks behind that never took their first step.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def folders(seeds: Sequence[int], within: Path) -> Iterator[tuple[int, Path]]:
    """Name each seed, which repeats a failure, and give it a new folder."""
    for seed in seeds:
        print(f"seed {seed}")
        folder = within / f"{seed}"
        folder.mkdir()
        yield seed, folder


@seeds(range(12), quick=2)
def test_every_job_ends_once_whatever_happens(seeds: range, tmp_path: Path) -> None:
    """A job would be lost, done twice, out of order or stuck."""
    for seed, folder in folders(seeds, tmp_path):
        run(Chaos(seed=seed, folder=folder).run())


# In the first two an orderly stop finds an admin's drain waiting for an image that is left to run.
@seeds([1003, 1058, *range(200, 208)])
def test_admins_may_stop_and_move_what_they_like(seeds: Sequence[int], tmp_path: Path) -> None:
    """A pause, a drain or a moved job would lose work or leave the queue stuck."""
    for seed, folder in folders(seeds, tmp_path):
        run(Chaos(seed=seed, folder=folder, acts=40).run())


@seeds(range(300, 312))
def test_gpus_are_given_back_whatever_happens(seeds: range, tmp_path: Path) -> None:
    """A job would begin in quiet hours or beside a game, or a queue wait forever after them."""
    for seed, folder in folders(seeds, tmp_path):
        run(Chaos(seed=seed, folder=folder, kept_free=True).run())


@seeds(range(100, 106))
def test_finished_work_is_not_done_again_after_a_kill(seeds: range, tmp_path: Path) -> None:
    """A restart would throw away images that servers have finished, or nearly finished."""
    for seed, folder in folders(seeds, tmp_path):
        chaos = Chaos(seed=seed, folder=folder, kills=6, how_often=0.0, disasters=0)
        run(chaos.run())
        for server in chaos.installation.servers.values():
            again = {prompt: times for prompt, times in server.finished.items() if times > 1}
            assert not again
