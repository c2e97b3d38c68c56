"""The page about the life of a job says what the code does."""

import re
from pathlib import Path

from bot.api.operations import OPERATIONS
from queueing.core.jobs import FINAL, TRANSITIONS, JobEvent, JobState

PAGE = Path(__file__).parents[3] / "docs" / "job-lifecycle.md"
ROW = re.compile(r"^\| `(\w+)` \| ([\w, ]+) \| (\w+) \|", re.MULTILINE)
DRAWN = re.compile(r"─> (\w+)$", re.MULTILINE)  # states at the right edge of the diagram


def test_the_table_shows_every_change_of_state_and_no_other() -> None:
    """The page would show changes that do not exist, or hide some."""
    drawn = {
        (JobState(source), JobEvent(event.lower()), JobState(target))
        for event, sources, target in ROW.findall(PAGE.read_text(encoding="utf-8"))
        for source in sources.split(", ")
    }
    table = {
        (source, event, target)
        for event, (sources, target) in TRANSITIONS.items()
        for source in sources
    }
    assert drawn == table


def test_the_diagram_ends_in_the_final_states() -> None:
    """The diagram would call a state final that is not, or the reverse."""
    assert {JobState(name) for name in DRAWN.findall(PAGE.read_text(encoding="utf-8"))} == FINAL


def test_the_states_of_the_api_are_those_of_jobs() -> None:
    """A program would ask for jobs in a state that no job is ever in."""
    named = {state.value for state in JobState}
    (listed,) = (
        parameter["schema"]["enum"]
        for parameter in OPERATIONS["GET /v1/jobs"].parameters
        if parameter["name"] == "state"
    )
    assert {*listed} == named | {"open"}
    text = (PAGE.parent / "api.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "/v1/jobs?state=open" in line)
    assert {*re.findall(r"`([a-z]+)`", row.partition("may be")[2])} == {*listed}
