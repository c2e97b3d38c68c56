"""The files shipped for Prometheus and Grafana name metrics and labels that exist."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from bot.monitoring.metrics import ClusterState, Metrics, Shown
from bot.monitoring.queue_metrics import BusyHosts, QueueState
from queueing.core.snapshot import Reason, Residency, WaitCause
from queueing.core.status import (
    BackendStatus,
    CopyStatus,
    Estimate,
    HostStatus,
    LaneStatus,
    ModelStatus,
    Pauses,
    StatusReport,
)

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
PROMETHEUS_OWN = {"le", "instance", "job"}
SNAPSHOT = StatusReport(
    models=(
        ModelStatus(
            name="flux",
            waiting=1,
            running=1,
            copies=(
                CopyStatus(
                    backend="comfy",
                    host="gpu-1",
                    residency=Residency.READY,
                    pinned=False,
                    running=1,
                ),
            ),
            reason=Reason(why=WaitCause.QUEUED, model="flux"),
            service_s=1.0,
            next_ends=Estimate(at=2.0, earliest=1.0, latest=3.0),
            vram_mb=1,
            paused=False,
            troubles=(),
            lanes=(LaneStatus(lane="normal", waiting=1),),
        ),
    ),
    backends=(
        BackendStatus(
            name="comfy",
            host="gpu-1",
            kind="demo",
            url="",
            up=True,
            since=0.0,
            description="",
            error=None,
        ),
    ),
    hosts=(HostStatus(name="gpu-1", vram_mb=1, usable_mb=1, used_mb=1, paused=False),),
    paused=Pauses(),
)


def filled() -> Shown:
    """Return instruments that all have some value."""
    instruments = Metrics("1.2.3")
    for each in tuple(instruments.registry._collector_to_names):
        if isinstance(each, Counter | Histogram):
            child = each.labels(*("x" for _ in each._labelnames)) if each._labelnames else each
            child.inc() if isinstance(child, Counter) else child.observe(1)
    state = QueueState(lambda: SNAPSHOT, BusyHosts(lambda: 0.0))
    instruments.queue = state
    instruments.cluster = ClusterState({"queue": 1}, away_s=lambda: 0.0, off_s=lambda: 0.0)
    return instruments.now()


def shown() -> dict[str, set[str]]:
    """Return the labels of each metric by its name."""
    found: dict[str, set[str]] = {}
    for metric in filled().collect():
        for sample in metric.samples:
            name = re.sub(r"_(bucket|sum|count)$", "", sample.name)
            found.setdefault(name, set()).update(sample.labels.keys() - {"le"})
    return found


def drawn() -> Iterator[tuple[str, str]]:
    """Yield every expression of the panels, with its legend."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression of the dashboard and the rules, with its description."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    yield from drawn()
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], " ".join(rule["annotations"].values())


def names_in(expression: str) -> set[str]:
    return {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\busher_\w+", expression)
    }


def labels_in(expression: str, legend: str) -> set[str]:
    found = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression))
    for listed in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression):
        found |= {each.strip() for each in listed.split(",")}
    found |= set(re.findall(r"label_values\(\w+, (\w+)\)", expression))
    return found | set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", legend))


def test_the_page_lists_every_metric_with_its_labels() -> None:
    """An operator would look for a figure that does not exist, or never hear of one that does."""
    page = (MONITORING / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(usher_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == shown()


def test_panels_and_rules_name_what_exists() -> None:
    """A panel would always be empty, and a rule would never warn."""
    known = shown()
    for expression, legend in expressions():
        names = names_in(expression)
        assert names or expression.startswith("up{"), expression
        assert names <= known.keys(), expression
        labels = set[str]().union(*(known[name] for name in names))
        assert labels_in(expression, legend) <= labels | PROMETHEUS_OWN, expression


def test_every_metric_is_drawn() -> None:
    """After an alert, nobody could see how it came about."""
    used = set[str]().union(*(names_in(expression) for expression, _ in drawn()))
    assert shown().keys() == used


def test_panels_do_not_cover_each_other() -> None:
    """One of them could not be read."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & own, panel["title"]
        assert max(x for x, _ in own) < 24
        cells |= own
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def promtool(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here: it comes with Debian's package prometheus")
    return subprocess.run(
        [program, *arguments], input=given, capture_output=True, check=False, timeout=60
    )


def test_promtool_finds_nothing_in_the_metrics() -> None:
    """Names, units and types would break the conventions of Prometheus."""
    done = promtool("check", "metrics", given=generate_latest(cast("CollectorRegistry", filled())))
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_promtool_finds_nothing_in_the_rules() -> None:
    """Prometheus would not start with them."""
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stderr
    assert b"SUCCESS" in done.stdout
