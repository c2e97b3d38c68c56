"""A process whose machine loses the network is followed, with a real cable that is cut."""

from pathlib import Path

import pytest

from tests.chaos.cluster.partition import NotAllowedHere, pull

pytest.importorskip("psycopg")

LEASE_S = 15.0  # as it ships: a busy machine loses its roles by a short one, without any cut
SLOW_MACHINE_S = 60.0


def test_a_process_behind_a_pulled_cable_is_followed(tmp_path: Path) -> None:
    """A machine that lost the network would keep the queue until it came back."""
    try:
        (took_s,) = pull(tmp_path, 1, lease_s=LEASE_S)
    except NotAllowedHere as reason:
        pytest.skip(str(reason))
    assert took_s < LEASE_S + SLOW_MACHINE_S
