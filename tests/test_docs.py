"""The documents are true: what they name exists, and what exists is named."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import tasks
from backends.registry import FLAVOURS_OF, KINDS, connect
from bot.app.cluster import protocol
from bot.cli import arguments
from bot.commands.registry import COMMANDS
from bot.config.loader import Config, parse, settings_at
from bot.core.command import Command
from queueing.core.errors import BadModel
from queueing.core.requests import Capability
from queueing.core.specs import BackendSpec, ModelSpec

ROOT = Path(__file__).parents[1]
EXAMPLE = (ROOT / "config.example.yaml").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECRETS = {name: f"canary-{name}-Zk4pX91mQv7s" for name in re.findall(r"\$\{(\w+)\}", EXAMPLE)}
SECRETS["DISCORD_TOKEN"] = "canary.of.Zk4pX91mQv7s"
SECRETS["TELEGRAM_TOKEN"] = "1234567:canary-of-Telegram-with-Zk4pX91mQv7s"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMED = {
    ("hosts",),
    ("models",),
    ("hosts", "*", "backends"),
    ("hosts", "*", "gpus"),
}  # their keys are names of people's own


# ---------------------------------------------------------------- config.example.yaml


def test_the_example_configuration_loads() -> None:
    """The first thing an operator copies would be refused."""
    config = parse(EXAMPLE, SECRETS, folder=ROOT)
    assert config.warnings == ()
    assert config.catalog().require("f", Capability.TEXT_TO_IMAGE).name == "flux"


def test_the_seven_lines_that_lead_the_docs_are_enough() -> None:
    """A newcomer would copy the shortest configuration, and it would offer nothing or be refused."""
    text = README.split("```yaml\n")[1].split("```")[0]
    assert len(text.splitlines()) == 7
    config = parse(text, SECRETS)
    assert config.warnings == ()
    assert config.is_reached
    catalog = config.catalog()
    assert {spec.kind for spec in catalog.backends.values()} == {"comfyui", "lmstudio"}
    assert all(spec.discover for spec in catalog.backends.values())


def test_the_example_configuration_names_every_setting() -> None:
    """A setting would exist that no one can find."""
    shown = set(_paths(yaml.safe_load(EXAMPLE), ()))
    missing = {path for path in _settings((), 0) if path not in shown}
    assert not missing


def test_the_example_configuration_names_every_setting_of_a_kind() -> None:
    """A setting of one kind of server would exist that no one can find."""
    example = yaml.safe_load(EXAMPLE)
    servers = [b for h in example["hosts"].values() for b in h["backends"].values()]
    of_models = {name for model in example["models"].values() for name in model}
    model = ModelSpec(name="x", backends=("b",), capabilities=frozenset(), options={"nonsense": 1})
    missing = {}
    for kind in KINDS:
        of_kind = {name for server in servers if server["kind"] == kind for name in server}
        wanted = _known(partial(connect, _spec(kind, nonsense=1))) - of_kind
        wanted |= _known(partial(connect(_spec(kind)).check, model)) - of_models
        missing[kind] = wanted - (of_kind if kind == "demo" else set())
    assert {kind: names for kind, names in missing.items() if names} == {}


def test_the_example_configuration_names_every_flavour() -> None:
    """A server that is not detected could not be named."""
    flavours = {each for of_kind in FLAVOURS_OF.values() for each in of_kind}
    assert {
        each for each in flavours if not re.search(rf"(?<![\w-]){each}(?![\w-])", EXAMPLE)
    } == set()


def test_the_values_called_defaults_are_the_defaults() -> None:
    """Deleting a line of the second half would change what it does."""
    example = parse(EXAMPLE, SECRETS, folder=ROOT)
    bare = parse("hosts: {h: {vram: 1GB, backends: {b: {kind: demo, discover: true}}}}", {})
    for name in ("limits", "scheduling", "retention", "logging"):
        assert getattr(example, name) == getattr(bare, name)
    assert example.database.name == bare.database.name
    assert example.models["flux"].timeouts == type(example.models["flux"].timeouts)()


def _settings(path: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield every setting of the schema; "*" stands for a name that the operator chooses."""
    assert depth < 8, "the schema goes round in circles"
    concrete = tuple("any" if part == "*" else part for part in path)
    for name in settings_at(concrete):
        yield (*path, name)
        inner = (*path, name, "*") if (*path, name) in NAMED else (*path, name)
        yield from _settings(inner, depth + 1)


def _paths(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            shown = "*" if path in NAMED else key
            yield (*path, shown)
            yield from _paths(inner, (*path, shown))


def _spec(kind: str, **options: Any) -> BackendSpec:
    return BackendSpec(name="b", kind=kind, url="http://127.0.0.1:1", options=options)


def _known(make: Callable[[], object]) -> set[str]:
    """Return the settings a kind knows, which it lists when it meets an unknown one."""
    with pytest.raises(BadModel) as refused:
        make()
    found = re.search(r"nonsense: .*?\(known: ([^)]*)\)", str(refused.value))
    assert found, str(refused.value)
    return set(found[1].split(", "))


# ---------------------------------------------------------------- commands


def test_every_command_and_option_is_documented() -> None:
    """A command would exist that people cannot read about."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    faults = {command.name: _undocumented(command, text) for command in COMMANDS}
    assert {name: found for name, found in faults.items() if found} == {}


def _undocumented(command: Command, text: str) -> list[str]:
    """Return the options that the page lacks, or what is wrong with the command's row."""
    if command.hidden:
        return []
    rows = re.findall(rf"^\| `/{command.name}\b[^|]*\|([^|]*)\|", text, flags=re.MULTILINE)
    if len(rows) != 1:
        return [f"{len(rows)} rows"]
    if command.admin and "all" in rows[0]:
        return ["said to be for all"]
    named = [each for each in command.params if each.kind not in {"image", "sound"}]
    options = [f"--{each.name}" for each in named if not each.positional]
    return [option for option in options if not re.search(rf"`{option}[` ]", text)]


def test_decisions_are_numbered_one_by_one() -> None:
    """Two notes would have the same number, or people look for a missing one."""
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for number, note in enumerate(notes, start=1):
        assert note.name.startswith(f"{number:04d}-")
        assert note.read_text(encoding="utf-8").startswith(f"# {number}. ")


def test_only_existing_commands_are_documented() -> None:
    """People would type what is refused."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `/(\w+)", text, flags=re.MULTILINE))
    assert documented == {command.name for command in COMMANDS if not command.hidden}


def test_every_command_line_in_the_documents_can_be_typed() -> None:
    """A newcomer's first command would be refused."""
    parser = arguments.parser()
    for document in DOCUMENTS:
        for line in _shell_lines(document.read_text(encoding="utf-8")):
            found = re.match(r"python3 tasks\.py (\w+)(.*)", line)
            if not found:
                continue
            task, rest = found[1], re.sub(r"\s+#.*", "", found[2])
            assert task in tasks.TASKS, line
            words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", rest)]
            if task in {"usher", "demo"}:
                parser.parse_args(words if task == "usher" else ["demo", *words])


def _shell_lines(text: str) -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL):
        yield from block.splitlines()


def test_the_checks_of_the_readme_are_those_of_the_project() -> None:
    """The project would be checked by something other than what a contributor runs."""
    assert "python3 tasks.py check" in list(_shell_lines(README))
    assert "tasks.py check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


# ---------------------------------------------------------------- links


def test_links_lead_somewhere() -> None:
    """A reader would follow a link that leads nowhere."""
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in DOCUMENTS
        for target in _targets(document)
        if not _leads_somewhere(document, target)
    ]
    assert broken == []


def _targets(document: Path) -> list[str]:
    """Return the targets of a document's links, except addresses of other sites."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets: list[str] = re.findall(r"\]\(([^)\s]+)\)", text)
    return [each for each in targets if not each.startswith(("http://", "https://", "mailto:"))]


def _leads_somewhere(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (document.parent / path).resolve() if path else document
    return file.exists() and (not anchor or anchor in _anchors(file))


def test_every_test_named_in_a_document_exists() -> None:
    """A promise would refer to a test that is gone or has another name."""
    made = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    named = {
        document.name: set(re.findall(r"`(test_\w+)`", document.read_text(encoding="utf-8")))
        for document in DOCUMENTS
    }
    assert {name: tests - made for name, tests in named.items() if tests - made} == {}


def test_the_version_of_the_protocol_between_processes_is_documented() -> None:
    """An operator could not tell which versions serve together during an upgrade."""
    said = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert f"the protocol between processes, which is {protocol.WIRE} here" in " ".join(
        said.split()
    )


def test_documents_named_in_the_example_exist() -> None:
    """A comment in the configuration would lead nowhere."""
    for name in re.findall(r"docs/[\w-]+\.md", EXAMPLE):
        assert (ROOT / name).exists(), name


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_schema_of_the_configuration_can_be_walked() -> None:
    """The tests above would compare nothing."""
    assert ("models", "*", "timeouts", "idle_s") in set(_settings((), 0))
    assert set(Config.model_fields) == settings_at(())


def test_every_page_is_in_the_menu_of_the_site() -> None:
    """The strict build of the site fails for a page that no one would find."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}
    listed = {each for each in pages if f": {each}\n" in menu}
    assert sorted(each for each in pages - listed if not each.startswith("decisions/")) == []
