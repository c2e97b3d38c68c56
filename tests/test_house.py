"""The pages that describe the code name what exists: folders, classes, one word for one thing."""

import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("bot", "backends", "queueing")
LOOSE = 5
MODULES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
IMPORTS = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
TERMS = re.findall(r"^\| [^|]+ \| `([\w.]+)` \|", GLOSSARY, re.MULTILINE)


def folders() -> list[str]:
    """Return every folder with modules, with a "/" at its end."""
    found = {str(file.parent.relative_to(ROOT)) + "/" for file in MODULES}
    return sorted(found)


def drawn() -> list[str]:
    """Return the folders that the page of the house names, each with its path."""
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
    """A newcomer would look for a folder that does not exist."""
    assert len(drawn()) > 20
    assert [path for path in drawn() if not (ROOT / path).is_dir()] == []


def test_every_folder_is_on_the_page() -> None:
    """There would be no reason on record for a folder that the page leaves out."""
    page = drawn()
    deep = tuple(each for each in page if each.count("/") > 2)
    assert [each for each in folders() if each not in page and not each.startswith(deep)] == []


def test_few_files_lie_loose() -> None:
    """A package of loose files has no visible order."""
    loose = {
        package: [file.name for file in (ROOT / package).glob("*.py") if file.name[:2] != "__"]
        for package in PACKAGES
    }
    assert {name: files for name, files in loose.items() if len(files) > LOOSE} == {}


def test_no_folder_imports_a_file_beside_it() -> None:
    """The files of a folder use its subfolders; a subfolder that used them could not be read alone."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in MODULES:
        package = ".".join(file.relative_to(ROOT).parent.parts)
        for module, names in IMPORTS.findall(file.read_text(encoding="utf-8")):
            named = {module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))}
            found[str(file.relative_to(ROOT))] |= {
                name for name in named if lies_beside(name, package)
            }
    assert {file: names for file, names in found.items() if names} == {}


def lies_beside(module: str, package: str) -> bool:
    """Return whether a file is in a folder around the package, below the three at the top."""
    around = module.rpartition(".")[0]
    file = (ROOT / module.replace(".", "/")).with_suffix(".py")
    return "." in around and package.startswith(f"{around}.") and file.is_file()


def test_every_term_is_carried_by_a_class_that_exists() -> None:
    """A word that no one can search for explains nothing."""
    assert len(TERMS) > 40
    parted = [term.rsplit(".", 1) for term in TERMS]
    assert [each for each in parted if not hasattr(import_module(each[0]), each[1])] == []


def test_no_two_classes_share_a_name() -> None:
    """The same word would mean two things."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for file in MODULES:
        for name in re.findall(
            r"^class ([^_\W]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            by_name[name].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in by_name.items() if len(files) > 1} == {}


def lines_with(pattern: str, *folders: str) -> list[str]:
    """Return where a line matches: file and number."""
    found, wanted = [], re.compile(pattern)
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if wanted.search(line):
                    found.append(f"{file.relative_to(ROOT)}:{number}")
    return found


def test_no_clause_takes_errors_out_of_groups() -> None:
    """Before Python 3.11.4, an error raised in such a clause is wrapped in a group.

    `queueing.core.concurrency.together` raises the one error that ends a group, without the group.
    """
    everywhere = (*PACKAGES, "usher_bot", "tests", "benchmarks", "docs")
    assert lines_with(r"^\s*except\s*\*", *everywhere) == []


def test_groups_and_timeouts_are_those_that_are_alike_on_every_python() -> None:
    """A stop would be missed, or taken for a timeout, on Pythons that a developer rarely has.

    `queueing.core.concurrency` has both. `asyncio.wait_for` may forget a cancellation before 3.12.
    """
    differing = r"\basyncio\.(TaskGroup|timeout|timeout_at|wait_for)\b|^from asyncio import"
    used = lines_with(differing, *PACKAGES)
    assert {place.partition(":")[0] for place in used} == {"queueing/core/concurrency.py"}


def test_no_text_is_looked_up_in_an_enumeration() -> None:
    """Before Python 3.12, `"ready" in Readiness` raises `TypeError`."""
    source = "".join(file.read_text(encoding="utf-8") for file in MODULES)
    enums = re.findall(r"^ *class (\w+)\(.*Enum\)", source, re.MULTILINE)
    assert "Readiness" in enums
    # Such a test, and no loop: `for each in Readiness`.
    looked_up = rf"(?<!\bfor )\b[\w.()'\"\[\]]+ (not )?in (\w+\.)?({'|'.join(enums)})\b(?![(.])"
    assert lines_with(looked_up, *PACKAGES) == []


def test_no_error_is_made_once_and_raised_again() -> None:
    """Python would keep in it the frames of every time, with the requests in them."""
    kept = []
    for file in MODULES:
        if file.name != "__main__.py":
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            values = vars(import_module(name.removesuffix(".__init__")))
            kept += [
                f"{name}.{key}" for key, value in values.items() if isinstance(value, BaseException)
            ]
    assert kept == []
