"""The queue in random worlds: whatever fails and whenever it is killed, its promises hold."""

from pathlib import Path

import pytest

from tests.simulation.chaos import Chaos
from tests.simulation.loop import run

# A killed process leaves tasks behind that never took their first step.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.mark.parametrize("seed", range(12))
def test_every_job_ends_once_whatever_happens(seed: int, tmp_path: Path) -> None:
    """A job would be lost, done twice, out of order or stuck; the seed repeats it."""
    print(f"seed {seed}")
    run(Chaos(seed=seed, folder=tmp_path).run())


# In the last two an orderly stop finds an admin's drain waiting for a picture that is left to run.
@pytest.mark.parametrize("seed", [*range(200, 208), 1003, 1058])
def test_admins_may_stop_and_move_what_they_like(seed: int, tmp_path: Path) -> None:
    """A pause, a drain or a moved job would lose work or leave the queue stuck."""
    print(f"seed {seed}")
    run(Chaos(seed=seed, folder=tmp_path, acts=40).run())


@pytest.mark.parametrize("seed", range(300, 312))
def test_cards_are_given_back_whatever_happens(seed: int, tmp_path: Path) -> None:
    """A job would begin in quiet hours or beside a game, or a line wait for ever after them."""
    print(f"seed {seed}")
    run(Chaos(seed=seed, folder=tmp_path, kept_free=True).run())


@pytest.mark.parametrize("seed", range(100, 106))
def test_finished_work_is_not_done_again_after_a_kill(seed: int, tmp_path: Path) -> None:
    """A restart would throw away pictures that servers have finished or nearly so."""
    print(f"seed {seed}")
    chaos = Chaos(seed=seed, folder=tmp_path, kills=6, how_often=0.0, disasters=0)
    run(chaos.run())
    for server in chaos.installation.servers.values():
        again = {prompt: times for prompt, times in server.finished.items() if times > 1}
        assert not again
