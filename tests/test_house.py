"""The pages that describe the code name what is there: folders, classes, one word for one thing."""

import ast
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("bot", "backends", "queueing")
LOOSE = 5
MODULES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| [^|]+ \| `([\w.]+)` \|", GLOSSARY, re.MULTILINE)


def folders() -> list[str]:
    """Return every folder with modules, with a "/" at its end."""
    found = {str(file.parent.relative_to(ROOT)) + "/" for file in MODULES}
    return sorted(found)


def drawn() -> list[str]:
    """Return the folders that the page of the house names, each with all that it lies in."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    plan = page.split("```")[1]
    paths: list[str] = []
    above: list[tuple[int, str]] = []
    for line in plan.splitlines():
        for at, name in enumerate(re.findall(r"(?<![\w/])\w+/", line)):
            depth = len(line) - len(line.lstrip())
            if at == 0:
                above = [each for each in above if each[0] < depth]
                above.append((depth, name))
            prefix = "".join(each[1] for each in above)
            paths.append(prefix if at == 0 else prefix + name)
    return paths


def test_every_folder_of_the_page_exists() -> None:
    """A newcomer would look for a room that is not there."""
    assert [path for path in drawn() if not (ROOT / path).is_dir()] == []


@pytest.mark.parametrize("folder", folders())
def test_every_folder_is_on_the_page(folder: str) -> None:
    """A room no one drew has no reason anyone could read."""
    page = drawn()
    assert folder in page or any(folder.startswith(each) and each.count("/") > 2 for each in page)


@pytest.mark.parametrize("folder", folders())
def test_every_folder_says_its_one_reason(folder: str) -> None:
    """A folder without a reason becomes a drawer."""
    module = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_few_files_lie_loose(package: str) -> None:
    """Forty-nine did once."""
    loose = [file for file in (ROOT / package).glob("*.py") if not file.name.startswith("__")]
    assert len(loose) <= LOOSE


@pytest.mark.parametrize("path", TERMS)
def test_every_term_is_carried_by_a_class_that_exists(path: str) -> None:
    """A word no one can search for explains nothing."""
    module, name = path.rsplit(".", 1)
    assert hasattr(import_module(module), name)


def test_only_those_who_hand_on_its_parts_take_the_whole_queue() -> None:
    """What a class asks of the queue could not be read from it, nor be tested without a bot."""
    taking = {
        str(file.relative_to(ROOT))
        for file in MODULES
        if "bot.queue.service import" in file.read_text(encoding="utf-8")
        and file.parent.name != "runtime"  # the composition, which hands it on whole
    }
    assert taking == {
        "bot/chat/commands/context.py",
        "bot/cluster/queue_server.py",
        "bot/chat/delivery/presenter.py",
        "bot/gateway/gateway.py",
    }


def test_no_two_classes_share_a_name() -> None:
    """The same word would mean two things."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for file in MODULES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                by_name[node.name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in by_name.items() if len(files) > 1} == {}


def test_the_glossary_is_read() -> None:
    """Without a term found, nothing above could fail."""
    assert len(TERMS) > 40
    assert len(drawn()) > 20
