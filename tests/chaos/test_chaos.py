"""What people were promised holds when the program is killed at any moment."""

import os
import random
from pathlib import Path

import pytest

from tests.chaos.crash_points import POINTS
from tests.chaos.runs import fates
from tests.chaos.trial import Trial

KILLS = int(os.environ.get("USHER_KILLS", "25"))  # 500 in a nightly run
STOPS = KILLS // 3


@pytest.mark.timeout(600 + 10 * (KILLS + STOPS))
async def test_nothing_is_lost_or_done_twice_when_the_program_ends(tmp_path: Path) -> None:
    """A person's request would be lost, stuck, shown twice or drawn again after a crash or stop."""
    seed = int(os.environ.get("USHER_SEED", "1"))
    print(f"seed {seed}")
    verdict = await Trial(tmp_path, kills=KILLS, stops=STOPS, seed=seed).run()
    print(verdict.as_json())
    assert verdict.breaches == []
    assert verdict.accepted > 0


def test_every_commit_point_is_there_and_has_its_turn() -> None:
    """A renamed method would silently remove its commit point from the trial."""
    for label, point in POINTS.items():
        assert callable(getattr(point.owner, point.name, None)), label
    mixed = fates(random.Random(1), 4 * len(POINTS), stops=3)
    drawn = {fate.point.rpartition(" ")[0] for fate in mixed}
    assert sum(fate.in_order for fate in mixed) == 3
    assert drawn >= {f"{when} {label}" for label in POINTS for when in ("before", "after")}
