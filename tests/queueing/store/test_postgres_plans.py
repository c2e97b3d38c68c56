"""How the server finds rows: by their keys, even if it does not know how many there are."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from queueing.core.jobs import JobEvent
from queueing.store.engines import open_database
from queueing.store.jobs import queries
from queueing.store.postgres.connection import numbered, together
from queueing.store.sql.database import Connection
from tests.fakes.programs.postgres_server import PostgresServer
from tests.test_sql import STATEMENTS

_BY_NUMBER = re.compile(r"\b(FROM|UPDATE) jobs\b.* WHERE id (= \?|IN \(\?)")
ONE_JOB = {name: text for name, text in STATEMENTS.items() if _BY_NUMBER.search(text)}
MANY_JOBS = {
    event: together(queries.CHANGE[event], queries.CHANGE_KINDS[event]) for event in JobEvent
}


def scans(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield how each table of a plan is read."""
    if "Relation Name" in plan and plan["Node Type"] != "ModifyTable":
        yield f"{plan['Relation Name']} by {plan.get('Index Name', plan['Node Type'])}"
    for part in plan.get("Plans", ()):
        yield from scans(part)


def ways(connection: Connection, texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return how each statement would read its tables, once it is planned for any values."""
    connection.execute("SET plan_cache_mode = force_generic_plan")
    found = {}
    for number, (name, text) in enumerate(texts.items()):
        plain = numbered(text)
        values = max(map(int, re.findall(r"\$(\d+)", plain)))
        connection.execute(f"PREPARE tried{number} AS {plain}")
        some = ", ".join(["NULL"] * values)
        row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE tried{number} ({some})").fetchone()
        plan = json.loads(row[0]) if isinstance(row[0], str) else row[0]
        found[name] = list(scans(plan[0]["Plan"]))
        connection.execute(f"DEALLOCATE tried{number}")
    return found


@pytest.mark.parametrize("texts", [ONE_JOB, MANY_JOBS], ids=["one", "many"])
async def test_a_job_is_found_by_its_number(postgres_url: str, texts: Mapping[str, str]) -> None:
    """With the index of a state, each change would read all jobs in that state."""
    database = await open_database(postgres_url)
    try:
        found = await database.write(partial(ways, texts=texts))
    finally:
        await database.aclose()
    assert len(found) > 5
    assert {name: by for name, by in found.items() if by != ["jobs by jobs_pkey"]} == {}


def test_a_detour_is_seen(postgres: PostgresServer, postgres_template: str) -> None:
    """A plan that does not use the number would count as one that does."""
    with closing(postgres.connect(postgres_template)) as connection:
        text = "SELECT 1 FROM jobs WHERE model = ? AND state = 'pending'"
        assert ways(connection, {"tried": text})["tried"] != ["jobs by jobs_pkey"]  # type: ignore[arg-type]  # what a test asks of it is alike
