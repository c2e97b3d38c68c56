"""What people were promised holds when processes that share a database end, freeze or lose it."""

import os
from pathlib import Path

import pytest

from tests.fakes.programs.postgres_server import NOT_INSTALLED, binaries

pytest.importorskip("psycopg", reason="PostgreSQL needs usher-bot[postgres]")

from tests.chaos.cluster.trial import ClusterTrial

KILLS = int(os.environ.get("USHER_CLUSTER_KILLS", "5"))  # 300 in a nightly run


@pytest.mark.skipif(binaries() is None, reason=NOT_INSTALLED)
@pytest.mark.timeout(600 + 20 * KILLS)
async def test_one_process_writes_and_one_listens_whatever_befalls_them(tmp_path: Path) -> None:
    """Two processes would start the same jobs and answer the same people."""
    seed = int(os.environ.get("USHER_SEED", "1"))
    print(f"seed {seed}")
    verdict = await ClusterTrial(tmp_path, processes=3, kills=KILLS, seed=seed, waiting=50).run()
    print(verdict.as_json())
    assert verdict.breaches == []
    assert verdict.accepted > 0
