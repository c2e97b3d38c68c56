"""Checks of the people and rights that a configuration names; see `bot.people.names`."""

from collections.abc import Iterator

from bot.config.config import Config
from bot.config.reading.yaml_reader import ConfigProblem, Path
from bot.people import api_keys
from queueing.core.catalog import near


def people_problems(config: Config) -> Iterator[ConfigProblem]:
    """Return the names of people and rights that cannot exist; see `bot.people.names`."""
    known = {**config.chats.naming(), **api_keys.NAMING}
    named = list(_people(config))
    kinds = {kind for names in known.values() for kind in names.kinds}
    for path, name in named:
        kind = name.partition(":")[0]
        if kind not in kinds and (meant := near(kind, sorted(kinds), most=1)):
            text = f"there is no platform {kind!r}; did you mean {meant[0]}?"
            yield ConfigProblem(path=path, text=text)
        for names in known.values():
            right = names.person.fits(name) or names.is_right(name)
            if kind in names.kinds and not right:
                yield ConfigProblem(path=path, text=f"must look like {names.examples(people=True)}")
    for platform, rights in config.chats.given("allow_roles").items():
        for index, name in enumerate(rights):
            if not known[platform].is_right(name):
                text = f"must look like {known[platform].examples(people=False)}"
                yield ConfigProblem(path=("chats", platform, "allow_roles", index), text=text)


def _people(config: Config) -> Iterator[tuple[Path, str]]:
    """Yield everybody who is named, and where."""
    for index, admin in enumerate(config.admins):
        yield ("admins", index), admin
    for role, settings in config.roles.items():
        for index, member in enumerate(settings.members):
            yield ("roles", role, "members", index), member


def people_warnings(config: Config) -> Iterator[ConfigProblem]:
    """Return the people of platforms that are unknown, and the admins of those that are off."""
    known = config.chats.naming()
    for path, name in _people(config):
        platform = _platform_of(config, name)
        if platform not in {*known, *api_keys.NAMING}:
            text = f"there is no platform {platform!r}; known are {', '.join(known)}"
            yield ConfigProblem(path=path, text=text)
        elif path[0] == "admins" and getattr(config.chats, platform, None) is None:
            yield ConfigProblem(path=path, text=f"chats.{platform} is not configured")


def _platform_of(config: Config, name: str) -> str:
    kind = name.partition(":")[0]
    found = (platform for platform, names in config.chats.naming().items() if kind in names.kinds)
    return next(found, kind)
