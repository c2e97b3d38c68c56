"""No test depends on how fast the machine is: rules about waiting, for every file of tests."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from bot.config.sections import ClusterConfig

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
GENEROUS_S = 60.0
TEST_S = 300.0  # as pyproject.toml has it
VIRTUAL = {
    "tests.simulation.loop",
    "tests.simulation.installation",
    "tests.simulation.bot_installation",
}
RUNNERS = {"in_virtual_time", "Inside", "in_bot", "in_house"}
"""What runs a test in virtual time; the last two are an `Inside` of their files."""

# Waits in real time that have a reason; `tests.simulation` as a whole runs in virtual time.
SLEEPS = {
    "processes/cluster/cluster.py": "other processes, which cannot signal",
    "backends/comfyui/test_comfyui_real.py": "a real server",
    "backends/media/test_sandbox.py": "another process cannot signal",
    "backends/common/test_http.py": "what drips forever, until the client gives up",
    "backends/images/test_images_real.py": "a real server",
    "backends/openai/test_openai_real.py": "a real server",
    "bot/api/openai/test_sdk_retries.py": "a client that does not tell that it has read the status",
    "bot/http/test_unread.py": "a visitor who reads slowly, or nothing",
    "bot/api/calls/test_fetcher.py": "a server that drips forever, until it is given up",
    "bot/cli/test_cli.py": "another process shows nothing but its file",
    "chaos": "the trial's people live in real time, beside processes that are killed",
    "contracts/backend/backend_harness.py": "a server in another process cannot signal",
    "fakes": "the pace of servers",
    "processes/installation.py": "a server in another process cannot signal",
    "processes/test_killed.py": "another process cannot signal",
    "security/test_forgetting.py": "another process cannot signal",
    "security/test_hostile_requests.py": "a client that sends slowly, beside one that measures",
    "security/hostile_requests.py": "a client that leaves in the middle of what it does",
    "security/test_hang_ups.py": "a server that tells nobody that a client has left",
    "security/hostile_server.py": "a server that drips forever",
    "security/test_stopping.py": "another process shows nothing but its file",
}
PATIENCES = {
    "security/hostile_requests.py": "a client that hardly reads, which is what is tested",
    "bot/api/openai/test_sdk_retries.py": "a client that gives up early, which is what is tested",
    "security/test_hostile_servers.py": "servers that never answer, which is what is tested",
    "backends/conftest.py": "given up for servers that have gone, and nothing else waits for them",
    "contracts/backend/harness_comfyui.py": "given up for servers that have gone",
    "contracts/backend/harness_speech.py": "a real server that is busy answers nothing",
    "backends/comfyui/test_comfyui_attempts.py": "a stop of a server that hangs, and sockets that are deaf",
    "backends/media/test_media_helper.py": "a process that never answers",
    "backends/common/test_http.py": "answers that never come whole",
    "backends/openai/test_openai_faults.py": "answers that never come",
    "chaos": "the trial's own rules, stretched on slow machines",
}
# Of a wait whose end by itself is a failure; pauses between tries may be as short as one likes.
NAMES = ("TIMEOUT_S", "ANSWER_S", "GRACE_S", "STOP_S", "SILENCE_S", "CONNECT_S", "WITHIN_S")
FIELDS = {"load_s", "first_s", "idle_s", "total_s"}  # of `Timeouts`
GIVEN = {"piece_s", "silent_s", "try_s", "wall_s"}  # to whatever takes them
LEAST_S = 3.0
# A busy machine would lose its roles with a shorter one; tests end it explicitly.
SHIPPED_LEASE_S = ClusterConfig().lease_s
LEASES = {
    "bot/config": "texts that are compared, and run by no one",
    "chaos": "the trial's processes may lose their roles at any time",
    "test_patience.py": "the examples of the rule",
}
_COUNT = re.compile(r"^(\w+) = (?:int|float)\(os\.environ", re.MULTILINE)
_TEST_LIMIT = re.compile(r"pytest\.mark\.timeout\((.*)\)")
_LEASE = re.compile(r"lease_s\b(?:: float)?[^=:\n]*[=:]\s*([0-9.]+)", re.IGNORECASE)


def excused(file: Path, reasons: dict[str, str]) -> bool:
    place = file.relative_to(TESTS)
    return any(each.as_posix() in reasons for each in (place, *place.parents))


def is_virtual(tree: ast.Module) -> bool:
    """Whether a file uses virtual time; its `async def test_…` still run in real time."""
    imported = (node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(module in VIRTUAL for module in imported)


@cache
def calls_in(file: Path) -> tuple[ast.Call, ...]:
    return tuple(in_real_time(ast.parse(file.read_text(encoding="utf-8"))))


def in_real_time(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield every call that may run in real time."""
    if not is_virtual(tree):
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        return
    for outer in tree.body:
        if isinstance(outer, ast.AsyncFunctionDef) and runs_in_real_time(outer):
            yield from (node for node in ast.walk(outer) if isinstance(node, ast.Call))


def runs_in_real_time(function: ast.AsyncFunctionDef) -> bool:
    """Return whether pytest runs a function, and not a loop in virtual time."""
    decorators = {
        ast.unparse(each.func if isinstance(each, ast.Call) else each)
        for each in function.decorator_list
    }
    return function.name.startswith("test_") and not decorators & RUNNERS


def seconds(node: ast.expr) -> float | None:
    return float(node.value) if _is_number(node) else None  # type: ignore[attr-defined]


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def named(call: ast.Call) -> str:
    """Return the name by which something is called, from the last call or index in it on."""
    parts, node = [], call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def short(call: ast.Call) -> str | None:
    """Return what a call waits too briefly for, or None."""
    name = named(call)
    if name == "pytest.mark.timeout" and (seconds(call.args[0]) or TEST_S) < TEST_S:
        return f"{ast.unparse(call)}: a test may take {TEST_S:g} s"
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if name == "asyncio.timeout" and call.args:
        given["timeout_s"] = call.args[0]
    if name == "asyncio.wait_for" and len(call.args) > 1:
        given["timeout_s"] = call.args[1]
    for word in ("timeout", "timeout_s", "within_s"):
        limit = seconds(given[word]) if word in given else None
        if limit is not None and limit < GENEROUS_S:
            return f"{name} waits {limit:g} s"
    return None


def patched(call: ast.Call) -> str | None:
    """Return the timeout that a call shortens, or None."""
    words = [ast.unparse(each).strip("\"'") for each in call.args]
    if named(call).endswith(("setattr", "patch")) and len(words) > 1:
        value = seconds(call.args[-1])
        name = words[-2]
        if name.endswith(NAMES) and value is not None and 0 <= value < LEAST_S:
            return f"{name} = {value:g}"
    names = GIVEN | FIELDS if named(call) == "Timeouts" else GIVEN
    for field in call.keywords:
        value = seconds(field.value)
        if field.arg in names and value is not None and value < LEAST_S:
            return f"{field.arg} = {value:g}"
    return None


def short_leases(file: Path) -> list[float]:
    """Return every lease that is too short: an argument, a constant, a configuration."""
    given = map(float, _LEASE.findall(file.read_text(encoding="utf-8")))
    return [lease_s for lease_s in given if lease_s < SHIPPED_LEASE_S]


def unlimited(file: Path) -> list[str]:
    """Return every adjustable number of examples that does not extend the test's time limit."""
    text = file.read_text(encoding="utf-8")
    beside = [each.read_text(encoding="utf-8") for each in file.parent.glob("*.py")]
    limits = " ".join(limit for each in beside for limit in _TEST_LIMIT.findall(each))
    return [count for count in _COUNT.findall(text) if not re.search(rf"\b{count}\b", limits)]


def sleeps(call: ast.Call) -> str | None:
    """Return how a call sleeps, or None if it does not."""
    if named(call) in {"asyncio.sleep", "time.sleep"} and seconds(call.args[0]) != 0:
        return f"{ast.unparse(call)} in real time: wait for a signal"
    return None


def counts(call: ast.Call) -> str | None:
    """Return how a call waits until there is so much more than before, or None.

    What was already on its way is counted as well: then there is more at once, or too early.
    """
    if not named(call).rpartition(".")[2].startswith(("wait", "until")):
        return None
    for node in ast.walk(call):
        asked = [node.value] if isinstance(node, ast.FormattedValue) else []  # of a page
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            asked = node.comparators
        if any(_adds(each) for each in asked):
            return f"{ast.unparse(call)}: wait for the message itself"
    return None


def _adds(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def hurries(call: ast.Call) -> str | None:
    """Return which timeout is too short, or None."""
    return patched(call) or short(call)


def found(file: Path, look: Callable[[ast.Call], str | None]) -> list[str]:
    """Return what a check finds in a file, with the lines."""
    if file.parent.name == "simulation":
        return []
    return [f"line {call.lineno}: {what}" for call in calls_in(file) if (what := look(call))]


def against(
    reasons: dict[str, str], look: Callable[[Path], Sequence[object]]
) -> dict[str, Sequence[object]]:
    """Return what a check finds in files that have no reason for it."""
    looked = {file: look(file) for file in FILES if not excused(file, reasons)}
    return {str(file.relative_to(TESTS)): told for file, told in looked.items() if told}


def test_no_test_depends_on_how_fast_the_machine_is() -> None:
    """A new user with a busy machine would see "failed"."""
    assert against(SLEEPS, partial(found, look=sleeps)) == {}
    assert against(PATIENCES, partial(found, look=hurries)) == {}, "see tests/patience.py"
    assert against({}, partial(found, look=counts)) == {}


def test_a_test_that_can_be_asked_for_more_is_given_the_time_for_it() -> None:
    """Ten thousand examples would be cut off, and look like a fault that cannot be reproduced."""
    assert against({}, unlimited) == {}


def test_a_count_without_time_is_seen(tmp_path: Path) -> None:
    """The rule above would check nothing."""
    file = tmp_path / "test_kills.py"
    file.write_text('KILLS = int(os.environ.get("USHER_KILLS", "6"))', encoding="utf-8")
    assert unlimited(file) == ["KILLS"]


def test_no_lease_ends_before_a_busy_machine_can_renew_it() -> None:
    """A role would change hands where no test means it to; see `end_leases`."""
    assert against(LEASES, short_leases) == {}


def test_a_file_without_a_reason_is_told() -> None:
    """The rules above would check nothing."""
    place = next(iter(PATIENCES))
    others = {name: why for name, why in PATIENCES.items() if name != place}
    assert set(against(others, partial(found, look=hurries))) == {place}


def test_a_short_lease_is_seen(tmp_path: Path) -> None:
    """The rule above would check nothing."""
    file = tmp_path / "test_posts.py"
    for line in (
        "PostgresPosts(url, process='ada', lease_s=2.0)",
        "LEASE_S, SECONDS = 2.0, 1.0",
        "def posts(lease_s: float = 2.0) -> None:",
        "cluster: {{lease_s: 2.0}}",
    ):
        file.write_text(line, encoding="utf-8")
        assert short_leases(file) == [2.0], line


def test_what_depends_on_the_machine_is_seen() -> None:
    """The rule above would check nothing."""
    examples: dict[str, Callable[[ast.Call], str | None]] = {
        "asyncio.timeout(10)": short,
        "asyncio.wait_for(call, 10)": short,
        "fake.wait_for(done, timeout_s=3)": short,
        'monkeypatch.setattr(discord, "REQUEST_TIMEOUT_S", 0.05)': patched,
        'patch("backends.comfyui.attempts.GRACE_S", 0.2)': patched,
        "pytest.mark.timeout(120)": short,
        "Timeouts(first_s=0.05)": patched,
        "FileSender(piece_s=0.5)": patched,
        "asyncio.sleep(0.2)": sleeps,
        "time.sleep(pause_s)": sleeps,
        "page.wait(f\"document.querySelectorAll('p').length === {count + 1}\")": counts,
        "fake.wait_for(lambda: len(channel.messages) == before + 2)": counts,
    }
    for line, what in examples.items():
        call = ast.parse(line, mode="eval").body
        assert isinstance(call, ast.Call)
        assert what(call), line


def test_every_excuse_is_needed() -> None:
    """A file that no longer waits for anything would keep its permission to."""
    looks: list[tuple[dict[str, str], Callable[[Path], object]]] = [
        (SLEEPS, partial(found, look=sleeps)),
        (PATIENCES, partial(found, look=hurries)),
        (LEASES, short_leases),
    ]
    idle = [
        place for reasons, look in looks for place in reasons if not any(map(look, below(place)))
    ]
    assert idle == []


def below(place: str) -> list[Path]:
    """Return the files of an excused place: itself, or all in the folder."""
    path = TESTS / place
    return [path] if path.suffix else sorted(path.rglob("*.py"))
