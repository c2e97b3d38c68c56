"""Checks that rules fit the rest of a configuration: people, rooms and models exist."""

from collections.abc import Iterator, Mapping

from bot.config.config import Config
from bot.config.reading.yaml_reader import ConfigProblem, Path
from bot.config.rules import RuleConfig
from bot.people import api_keys
from bot.people.names import NameForms
from bot.requests.rules import KIND_OF
from queueing.core.catalog import Catalog, meant_or_all


def rule_problems(config: Config, catalog: Catalog | None) -> Iterator[ConfigProblem]:
    """Return what is wrong with the rules; None for a catalog that has other problems."""
    known = {**config.chats.naming(), api_keys.PLATFORM: api_keys.NAMING[api_keys.PLATFORM]}
    for index, rule in enumerate(config.rules):
        path: Path = ("rules", index)
        last = index == len(config.rules) - 1
        if last and (rule.who or rule.where):
            text = "the last rule is for everyone else, so it must have neither who nor where"
            yield ConfigProblem(path=path, text=text)
        if not last and not (rule.who or rule.where):
            text = "fits everyone everywhere, so the rules after it would never apply: give it who or where"
            yield ConfigProblem(path=path, text=text)
        yield from _who_problems(config, rule, path)
        rooms: dict[Path, str] = {(*path, "where", at): room for at, room in enumerate(rule.where)}
        yield from room_problems(known, rooms, f"or a platform: {', '.join(known)}")
        if catalog is not None:
            yield from _model_problems(rule, catalog, path)


def _who_problems(config: Config, rule: RuleConfig, path: Path) -> Iterator[ConfigProblem]:
    known = {**config.chats.naming(), **api_keys.NAMING}
    kinds = {kind: names for names in known.values() for kind in names.kinds}
    for at, name in enumerate(rule.who):
        if name in config.roles:
            continue
        names, place = kinds.get(name.partition(":")[0]), (*path, "who", at)
        if names is None:
            others = meant_or_all(name.partition(":")[0], {*config.roles, *kinds})
            text = f"must be a role, a person or a right: there is no {name!r}; {others}"
            yield ConfigProblem(path=place, text=text)
        elif not names.is_ruled(name):
            yield ConfigProblem(path=place, text=f"must look like {names.examples(people=True)}")


def room_problems(
    known: Mapping[str, NameForms], rooms: Mapping[Path, str], hint: str
) -> Iterator[ConfigProblem]:
    """Return the names of rooms that cannot exist. `known` are the platforms; `hint` names others."""
    for path, room in rooms.items():
        platform, colon, chat = room.partition(":")
        if platform not in known or (colon and not chat):
            text = f'must be a chat such as "telegram:-100123", {hint}'
            yield ConfigProblem(path=path, text=text)
        elif colon and (form := known[platform].place) and not form.fits(room):
            text = f"must be a chat's id, such as {form.example}, and not its name"
            yield ConfigProblem(path=path, text=text)


def _model_problems(rule: RuleConfig, catalog: Catalog, path: Path) -> Iterator[ConfigProblem]:
    discovers = any(backend.discover for backend in catalog.backends.values())
    for at, name in enumerate(rule.models or ()):
        if catalog.find(name) is None and not discovers:
            text = f"there is no model {name!r}; {meant_or_all(name, catalog.models)}"
            yield ConfigProblem(path=(*path, "models", at), text=text)
    for command, named in rule.defaults.model_dump(exclude_none=True).items():
        spec, place = catalog.find(named), (*path, "defaults", command)
        if spec is None:
            if not discovers:
                text = f"there is no model {named!r}; {meant_or_all(named, catalog.models)}"
                yield ConfigProblem(path=place, text=text)
        elif command not in {KIND_OF[each] for each in spec.capabilities}:
            text = f"{named} cannot do this; its capabilities are {', '.join(sorted(spec.capabilities))}"
            yield ConfigProblem(path=place, text=text)
        elif rule.models is not None and spec not in map(catalog.find, rule.models):
            text = f"{named} is not among the models of this rule"
            yield ConfigProblem(path=place, text=text)
        elif rule.kinds is not None and command not in rule.kinds:
            yield ConfigProblem(path=place, text="this kind is not among the kinds of this rule")
