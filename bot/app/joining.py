"""Joining: before a process does anything on a shared database, it makes sure that it belongs there."""

import asyncio

from bot.app.cluster.agreement import DECISIVE, Agreement
from bot.config.config import Config
from bot.config.loader import ConfigError
from queueing.core.leases import ServerLook
from queueing.store.tools import look_at_server

_NAMED = 3


async def join(config: Config, agreement: Agreement) -> None:
    """Look at the database and change nothing.

    Raises `ConfigError` where the process that leads has another configuration, or where none does
    and jobs need a model that this one lacks; `StoreError` when the database cannot be used.
    """
    require_place(config, agreement, await asyncio.to_thread(look_at_server, config.database_url))


def require_place(config: Config, agreement: Agreement, look: ServerLook) -> None:
    """Raise `ConfigError` if there is no place for this configuration on the database."""
    agreement.require(look.held)
    if not any(each.post.name == DECISIVE for each in look.held):
        require_models(config, look)


def require_models(config: Config, look: ServerLook) -> None:
    """Raise `ConfigError` for open jobs of models that the configuration lacks.

    A server that names its models itself may offer them later.
    """
    if config.discovering():
        return
    missing = [model for model in look.open_jobs if model not in config.models]
    if not missing:
        return
    first = [f"{look.open_jobs[model]} for {model}" for model in missing[:_NAMED]]
    more = len(missing) - _NAMED
    others = f" and {more} further models" if more > 0 else ""
    sentence = (
        f"jobs are open of models that the configuration lacks ({', '.join(first)}{others}):"
        f" put them back; /clear {missing[0]} then cancels what waits, if the model is to go"
    )
    raise ConfigError((sentence,))
