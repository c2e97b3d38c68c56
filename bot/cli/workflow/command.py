"""`usher workflow add`: reads an exported workflow, asks what is unsure, tries and writes it."""

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from backends.comfyui.model_templates import remarks_on
from backends.comfyui.workflow.drafting import Chosen, Draft, drafted, shown_candidates
from backends.comfyui.workflow.exported.links import InputPlace, value_at
from backends.comfyui.workflow.graph.nodes import Graph
from backends.comfyui.workflow.reading import as_export, read_export
from backends.comfyui.workflow.template import Template, prepare, saved_part
from bot.app import logs, process
from bot.cli.init.files import NewFile, is_there, write_all
from bot.cli.init.terminal import InitFailed, Keyboard, NoQuestions, Terminal, ask_for
from bot.cli.workflow import trial
from bot.cli.workflow.entries import entry, with_model
from bot.cli.workflow.exports import export_in
from bot.config.config import Config
from bot.config.loader import ConfigError, load, loaded, text_of
from bot.config.reading.values import Name

FOLDER = "workflows"
BROKEN = 2
STOPPED = 130  # the shells' status for a program ended by Ctrl-C
USUAL_NAME = "comfyui"  # of a server, as `usher init` names it
_NAME = TypeAdapter(Name)
_HALF = re.compile("[\ud800-\udfff]")  # of a character: no file can contain it unescaped
_ODD = re.compile(r"[^a-z0-9._]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class AddOptions:
    """The command-line options."""

    file: Path
    config: Path
    name: str
    chosen: Chosen
    write: bool = False
    dry_run: bool = False


def main(arguments: argparse.Namespace) -> int:
    """Run the command. Prints a failure in one or two sentences."""
    logs.set_up(level="error")
    terminal = Keyboard() if sys.stdin.isatty() else NoQuestions()
    try:
        return add(options(arguments), terminal)
    except InitFailed as error:
        raise ConfigError((str(error),)) from None
    except (KeyboardInterrupt, EOFError):
        print("\nStopped. Nothing was written.", file=sys.stderr)
        return STOPPED


def options(arguments: argparse.Namespace) -> AddOptions:
    """Return the options of a command line. Raises `ConfigError` for invalid ones."""
    file: Path = arguments.file
    name = arguments.name or _name_of(file)
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise ConfigError((f"{name}: a model's name has no spaces, / or =",)) from None
    if "/" in name or "\\" in name:
        raise ConfigError((f"{name}: a model's name is also the name of its file here",))
    chosen = Chosen(
        prompt=_place(arguments.prompt),
        negative=_place(arguments.negative),
        fixed=frozenset(filter(None, map(_place, arguments.fixed))),
    )
    return AddOptions(
        file=file,
        config=arguments.config,
        name=name,
        chosen=chosen,
        write=arguments.write,
        dry_run=arguments.dry_run,
    )


def _name_of(file: Path) -> str:
    stem = re.sub(r"[._-]api$", "", file.stem.casefold())
    return _ODD.sub("-", stem).strip("-.") or "workflow"


def _place(text: str | None) -> InputPlace | None:
    """Read an input such as 6.text."""
    if text is None:
        return None
    node, dot, name = text.partition(".")
    if not node or not dot or not name:
        raise ConfigError((f"{text}: write the number of a node and its input, as in 6.text",))
    return InputPlace(node=node, name=name)


def add(options: AddOptions, terminal: Terminal, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command and return the exit status. Raises `ConfigError` or `BadModel`."""
    config = _config(options, environ)
    _require_free_name(options, config)
    before = read_export(export_in(options.file), name=options.file.name)
    servers = trial.servers_of(config)
    offered = process.run(trial.described_by(servers, before))
    draft = _decided(before, offered, options.chosen, terminal)
    template = prepare(saved_part(draft.nodes), {}, name=options.file.name)
    _show(draft, template, terminal)
    outcomes = process.run(trial.tried(servers, template))
    for line in trial.lines(outcomes):
        terminal.tell(logs.harmless(line))
    if options.dry_run:
        _show_difference(before, draft.nodes, options, terminal)
    else:
        _write_template(options, _as_text(draft.nodes), terminal)
    _add_entry(options, outcomes, terminal, environ)
    return BROKEN if outcomes and not trial.usable(outcomes) else 0


def _config(options: AddOptions, environ: Mapping[str, str]) -> Config | None:
    if not options.config.exists() and not options.write:
        return None
    return load(options.config, environ)


def _require_free_name(options: AddOptions, config: Config | None) -> None:
    if config is not None and options.name in config.models:
        raise ConfigError(
            (f"{options.config}: already has a model {options.name}: choose another --name",)
        )


def _write_template(options: AddOptions, text: str, terminal: Terminal) -> None:
    """Write the template, unless the file already has this text."""
    target = options.config.absolute().parent / FOLDER / f"{options.name}.json"
    if is_there(target):
        if target.is_file() and export_in(target) == text:
            terminal.tell(f"{target} already holds this template")
            return
        raise ConfigError((f"{target} already exists and was not changed: choose another --name",))
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError((f"{target.parent} cannot be created: {error.strerror}",)) from None
    write_all([NewFile(path=target, text=text)])
    terminal.tell(f"Wrote {target}")


# ---------------------------------------------------------------- the decision


def _decided(before: Graph, offered: JsonValue, chosen: Chosen, terminal: Terminal) -> Draft:
    """Return the template. Asks which text is the prompt if that is unsure."""
    draft = drafted(before, offered, chosen)
    if not draft.candidates:
        return draft
    lines = shown_candidates(before, draft.candidates)
    if not terminal.asks:
        told = "\n".join(f"  --prompt {line}" for line in lines)
        raise ConfigError((f"Which of these is the prompt? Choose with --prompt:\n{told}",))
    terminal.tell("Which of these is the prompt?")
    for number, line in enumerate(lines, start=1):
        terminal.tell(f"  {number}  {line}")

    def read(answer: str) -> InputPlace:
        if answer.isascii() and answer.isdigit() and 0 < int(answer) <= len(lines):
            return draft.candidates[int(answer) - 1]
        raise ValueError(f"It must be a number from 1 to {len(lines)}.")

    longest = max(draft.candidates, key=lambda place: len(str(value_at(before, place))))
    usual = str(draft.candidates.index(longest) + 1)
    prompt = ask_for(terminal, "Its number", usual, read)
    return drafted(before, offered, replace(chosen, prompt=prompt))


def _show(draft: Draft, template: Template, terminal: Terminal) -> None:
    for change in draft.changes:
        title = draft.nodes[change.node].title or draft.nodes[change.node].class_type
        terminal.tell(logs.harmless(f"node {change.node} ({title}): {change.text}"))
    able = ", ".join(sorted(template.abilities))
    options = ", ".join(sorted(template.options)) or "nothing else"
    terminal.tell(f"It can do {able}; people may also choose {options}.")
    for note in remarks_on(template):
        terminal.tell(note)


def _show_difference(before: Graph, after: Graph, options: AddOptions, terminal: Terminal) -> None:
    lines = difflib.unified_diff(
        _as_text(before).splitlines(),
        _as_text(after).splitlines(),
        options.file.name,
        f"{FOLDER}/{options.name}.json",
        lineterm="",
    )
    for line in lines:
        terminal.tell(logs.harmless(line))


def _as_text(graph: Graph) -> str:
    text = json.dumps(as_export(graph), indent=2, ensure_ascii=False) + "\n"
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


# ---------------------------------------------------------------- the configuration


def _add_entry(
    options: AddOptions,
    outcomes: Sequence[trial.Outcome],
    terminal: Terminal,
    environ: Mapping[str, str],
) -> None:
    """Add the model to the configuration, or show what to add."""
    usable = trial.usable(outcomes)
    backends = usable or tuple(each.backend for each in outcomes) or (USUAL_NAME,)
    workflow = f"{FOLDER}/{options.name}.json"
    lines = f"\nmodels:\n{entry(options.name, backends, workflow)}"
    if options.write and not options.dry_run and usable:
        try:
            _write_entry(options, backends, workflow, environ)
        except ConfigError:
            terminal.tell(f"Add this to {options.config}:\n{lines}")
            raise
        terminal.tell(f"Added to {options.config}:")
    elif options.write and not usable:
        terminal.tell("Not added to the configuration, because no server accepts it:")
    else:
        terminal.tell(f"Add this to {options.config}, or use --write:")
    terminal.tell(lines)


def _write_entry(
    options: AddOptions, backends: tuple[str, ...], workflow: str, environ: Mapping[str, str]
) -> None:
    """Add the model to the configuration, which must be valid with it."""
    path = options.config.resolve()
    text = with_model(text_of(path), options.name, backends, workflow)
    loaded(text, path, environ)
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except OSError as error:
        raise ConfigError((f"{path} cannot be written: {error.strerror}",)) from None
    finally:
        beside.unlink(missing_ok=True)
