"""What is counted for a load or an unload before it is written."""

import pytest

from bot.monitoring.history import HistoryBatch
from queueing.core.events import CopyLeft, LoadCause, LoadEnded
from queueing.core.snapshot import EvictionCause

BOTH = ("box/0", "box/1")
LOADED = LoadEnded(model="qwen", backend="b", hosts=BOTH, cause=LoadCause.REQUEST, seconds=9.0)


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        (LOADED, "loads"),
        (CopyLeft(model="qwen", backend="b", hosts=BOTH, why=EvictionCause.ROOM), "evictions"),
    ],
)
def test_what_spans_gpus_counts_on_each_and_once_for_its_model(
    event: LoadEnded | CopyLeft, counted: str
) -> None:
    """One GPU would be busy without loads, or a model count as loaded twice."""
    batch = HistoryBatch()
    batch.turn(event, 60.0)

    of_hosts = {key.name: getattr(bucket, counted) for key, bucket in batch.hosts.items()}
    assert of_hosts == dict.fromkeys(BOTH, 1)
    assert [getattr(bucket, counted) for bucket in batch.models.values()] == [1]
