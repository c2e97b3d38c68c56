"""Loads the configuration and reports all of its problems at once, each with its line.

Opens no connection: `bot.cli.check` checks whether the servers answer.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from backends.common.options import in_words
from bot.config import checks as config_checks
from bot.config import proxies
from bot.config.config import Config
from bot.config.reading import environment
from bot.config.reading import yaml_reader as config_yaml
from bot.config.reading.values import DatabasePlace
from bot.config.reading.yaml_reader import ConfigProblem, Document, no_setting, sentences

__all__ = [
    "Config",
    "ConfigError",
    "load",
    "loaded",
    "parse",
    "settings_at",
    "sign_at",
    "text_of",
]

_GROUP_WANTED = {"dict_type", "model_type", "model_attributes_type"}
_NOT_NEEDED: Mapping[config_yaml.Path, str] = {
    ("chats", "discord", "shards"): "one process opens all connections of a bot: remove this line",
}
"""Lines that are refused even without a value, and why."""


class _Place(BaseModel):
    """The one setting that says where a bot's files are."""

    database: DatabasePlace = Field(default="usher.sqlite", validate_default=True)


class ConfigError(Exception):
    """The configuration cannot be used. `problems` lists every problem, one sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Load the configuration from a file. Raises `ConfigError` with all problems at once.

    Variables missing from the environment are read from `usher.env` next to the file, then from
    secret files.
    """
    return loaded(text_of(path), path, environ)


def loaded(text: str, path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """Return the configuration for the text of a file; see `load`."""
    folder = path.parent.resolve()
    beside, mounted = environment.read_beside(folder), environment.read(environ)
    known = mounted.beneath(beside.beneath(environ))
    try:
        config = parse(text, known, file=path.name, folder=folder)
    except ConfigError as error:
        unread = [each.unread for each in (beside, mounted) if each.unread]
        raise ConfigError((*error.problems, *unread, *beside.warnings)) from None
    return config.with_warnings((*config.warnings, *beside.warnings))


def sign_at(path: Path) -> Path:
    """Return `Config.sign_of_life` of a configuration that may be invalid otherwise.

    Only the `database` setting must be valid, and no other variable need be set. Raises
    `ConfigError`.
    """
    folder = path.parent.resolve()
    beside, mounted = environment.read_beside(folder), environment.read(os.environ)
    document = config_yaml.read(text_of(path), mounted.beneath(beside.beneath(os.environ)))
    if not isinstance(document.value, dict):
        raise ConfigError(sentences(document, path.name, document.problems))
    place = {name: value for name, value in document.value.items() if name == "database"}
    try:
        found = _Place.model_validate(place, context={"folder": folder}).database
    except ValidationError as error:
        problems = [_problem(each) for each in error.errors(include_url=False)]
        raise ConfigError(sentences(document, path.name, problems)) from None
    return found if isinstance(found, Path) else found.sign


def text_of(path: Path) -> str:
    """Return the text of a configuration, with its line ends. Raises `ConfigError`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # editors on Windows write a mark
            return file.read()
    except UnicodeDecodeError:
        raise ConfigError((f"{path.name}: is not UTF-8 text",)) from None
    except FileNotFoundError:
        text = "no such file: `usher init` writes one; -c names another"
        raise ConfigError((f"{path}: {text}",)) from None
    except OSError as error:
        raise ConfigError((f"{path}: cannot be read: {error.strerror}",)) from None


def parse(
    text: str, environ: Mapping[str, str], *, file: str = "config.yaml", folder: Path | None = None
) -> Config:
    """Parse a configuration, like `load`. Relative paths are relative to `folder`."""
    document = config_yaml.read(text, environ)
    config, problems = _validated(document, folder or Path())
    if config is not None:
        problems += _news(config_checks.problems(config), problems)
    if config is None or problems:
        raise ConfigError(sentences(document, file, problems))
    config = config.with_proxies(proxies.chosen(config.proxy, environ))
    warnings = [*config_checks.warnings(config), *_written_out(document)]
    unusable = proxies.unusable(config.proxy, environ) if proxies.outside(config) else ()
    return config.with_warnings((*sentences(document, file, warnings), *unusable))


def _validated(document: Document, folder: Path) -> tuple[Config | None, list[ConfigProblem]]:
    """Return the configuration without its invalid settings, and the problems of those.

    The configuration is None if it makes no sense without them.
    """
    problems, value = [*document.problems, *_not_needed(document)], document.value
    if value is None:
        return None, problems
    for last in (False, True):
        try:
            return Config.model_validate(value, context={"folder": folder}), problems
        except ValidationError as error:
            if last:  # what is missing now was left out above
                break
            details = error.errors(include_url=False)
            problems += _news([_problem(each) for each in details], problems, same=True)
            value = deepcopy(value)
            for each in details:
                _leave_out(value, each)
    return None, problems


def _not_needed(document: Document) -> Iterator[ConfigProblem]:
    for path, text in _NOT_NEEDED.items():
        if path in document.lines:
            yield ConfigProblem(path=path, text=text)


def _leave_out(value: JsonValue, details: ErrorDetails) -> None:
    """Remove a single invalid setting. Whole groups stay, because names may refer to them."""
    *groups, key = details["loc"] or ("",)
    for part in groups:
        if not isinstance(value, dict):
            return
        value = value.get(str(part))
    if not isinstance(value, dict):
        return
    single = not isinstance(value.get(str(key)), dict) and details["type"] not in _GROUP_WANTED
    if single or details["type"] == "extra_forbidden":
        value.pop(str(key), None)


def _news(
    found: Iterable[ConfigProblem], known: Sequence[ConfigProblem], *, same: bool = False
) -> list[ConfigProblem]:
    """Return the problems that do not merely follow from known ones: those at other places.

    With `same`, only those at exactly the same places as known ones are left out.
    """
    places = {each.path for each in known}
    return [
        each
        for each in found
        if each.path not in places
        and (same or not any(_meet(place, each.path) for place in places))
    ]


def _meet(one: config_yaml.Path, other: config_yaml.Path) -> bool:
    """Return whether one of two paths contains the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _written_out(document: Document) -> list[ConfigProblem]:
    text = "is written in this file; use ${NAME} to keep it in the environment, out of copies of the file"
    return [ConfigProblem(path=path, text=text) for path in document.literal_secrets]


def _problem(details: ErrorDetails) -> ConfigProblem:
    """Return pydantic's error as a problem of the file."""
    path = tuple(part for part in details["loc"] if part != "[key]")
    if details["type"] == "extra_forbidden":
        return ConfigProblem(path=path, text=no_setting(str(path[-1]), settings_at(path[:-1])))
    return ConfigProblem(path=path, text=in_words(details))


def settings_at(path: config_yaml.Path) -> frozenset[str]:
    """Return the names of the settings in the group at a path; () is the top level."""
    schema = _schema()
    group: Mapping[str, Any] = schema
    for part in path:
        if isinstance(part, int):
            group = _resolved(group.get("items", {}), schema)
            continue
        named: Mapping[str, Any] = next(iter(group.get("patternProperties", {}).values()), {})
        group = _resolved(group.get("properties", {}).get(part, named), schema)
    return frozenset(group.get("properties", {}))


@cache
def _schema() -> Mapping[str, Any]:
    return Config.model_json_schema()


def _resolved(group: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references. Among alternatives, choose the one that is a group."""
    for choice in (group, *group.get("anyOf", ())):
        if "$ref" in choice:
            found: Mapping[str, Any] = schema["$defs"][choice["$ref"].rpartition("/")[2]]
            return found
    return group
