"""Reads the command-line options of a single process: its roles, and where it serves the API.

Everything else is in the configuration, which is the same for all processes.
"""

import argparse
from collections.abc import Sequence

from pydantic import ValidationError

from bot.app.cluster.leases import roles_of
from bot.app.runner import ProcessOptions
from bot.config.loader import Config, ConfigError
from bot.config.sections import ApiConfig
from queueing.store.engines import is_postgres

NONE = "none"
OFF = "off"


def options(arguments: argparse.Namespace, config: Config) -> tuple[Config, ProcessOptions]:
    """Return the configuration as this process uses it, and the process's options.

    Raises `ConfigError` for unknown names, and for a process that would have nothing to do.
    """
    alone = not is_postgres(config.database_url)
    if alone and (arguments.roles is not None or arguments.api == OFF):
        raise _refusal("one process does everything, unless the database is on a PostgreSQL server")
    chosen = None
    if arguments.roles is not None:
        chosen = _chosen(arguments.roles, roles_of(config))
    config, serves_api = _with_api_at(arguments.api, config)
    if chosen == frozenset() and not serves_api:
        raise _refusal("without a role and without the API, this process would do nothing")
    return config, ProcessOptions(roles=chosen, serves_api=serves_api)


def _chosen(text: str, known: Sequence[str]) -> frozenset[str]:
    names = [name for each in text.split(",") if (name := each.strip())]
    if names == [NONE]:
        return frozenset()
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        what = f"there is no role {wrong[0]}" if wrong else "names no role"
        raise _refusal(f"--roles: {what}: this configuration has {', '.join(known)}, or {NONE}")
    return frozenset(names)


def _with_api_at(place: tuple[str, int] | str | None, config: Config) -> tuple[Config, bool]:
    """Return the configuration with the API's address replaced, and whether the API is served."""
    api = config.api
    if place is None or isinstance(place, str):
        return config, api is not None and place is None
    if api is None:
        raise _refusal("--api: the configuration has no `api`, so there is none to serve")
    host, port = place
    try:
        there = ApiConfig(**{**dict(api), "host": host, "port": port})
    except ValidationError as error:
        problems = "; ".join(
            str(each.get("ctx", {}).get("error", each["msg"])) for each in error.errors()
        )
        raise _refusal(f"--api: {problems}") from None
    return config.model_copy(update={"api": there}), True


def _refusal(text: str) -> ConfigError:
    return ConfigError((text,))
