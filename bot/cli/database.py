"""Database commands: back up, restore, check and copy; and how `usher check` examines a database."""

import argparse
import os
import sys
from pathlib import Path

from bot.app.setup import MIGRATIONS
from bot.config.loader import load
from bot.config.reading.values import DatabaseServer, is_address, shown
from queueing.core.errors import StoreError
from queueing.store import maintenance
from queueing.store.sqlite import backup

BROKEN = 2
"""The exit status if something does not work."""


def back_up(arguments: argparse.Namespace) -> int:
    """Copy the configuration's database into a file."""
    maintenance.back_up(load(arguments.config).database_url, arguments.file)
    print(f"{arguments.file}: {arguments.file.stat().st_size / 2**20:.1f} MB")
    return 0


def restore(arguments: argparse.Namespace) -> int:
    """Replace the configuration's database with a backup, and print where the old one is kept."""
    config = load(arguments.config)
    kept = maintenance.restore(config.database_url, arguments.file, (MIGRATIONS,))
    print(f"{config.database}: restored from {arguments.file}")
    if kept is not None:
        print(f"The old database is kept as {kept}: delete it once you no longer need it.")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Read a whole database and print its damage."""
    if arguments.file is not None:
        url = _address(arguments.file)
        name = shown(url) if is_address(arguments.file) else arguments.file
    else:
        config = load(arguments.config)
        place, url = config.database, config.database_url
        name = place.name if isinstance(place, DatabaseServer) else str(place)
    damaged = maintenance.damage_of(url)
    print("\n".join(damaged) or f"{name}: all is well")
    if damaged:
        print(
            "stop Usher and restore the newest backup that is intact: usher restore FILE",
            file=sys.stderr,
        )
    return BROKEN if damaged else 0


def copy(arguments: argparse.Namespace) -> int:
    """Copy one database into another, empty one, and print the number of rows."""
    target = _address(arguments.target) if arguments.target else load(arguments.config).database_url
    counts = maintenance.copy_database(_address(arguments.source), target, (MIGRATIONS,))
    others = sum(counts.values()) - counts["jobs"]
    print(f"jobs copied: {counts['jobs']}, further rows: {others}")
    return 0


def _address(given: str) -> str:
    return given if is_address(given) else f"sqlite:///{Path(given).as_posix()}"


# ---------------------------------------------------------------- what `check` tries


def examine(database: Path | DatabaseServer) -> str:
    """Rehearse what the bot does with a database at its start. Raises `StoreError`."""
    if isinstance(database, DatabaseServer):
        return maintenance.examine_server(database.url.get_secret_value(), (MIGRATIONS,))
    if not os.access(database.parent, os.W_OK):
        raise StoreError(f"the folder {database.parent} does not exist or cannot be written")
    if database.is_dir():
        raise StoreError("it is a folder: name a file in it")
    if not database.exists():
        return "is created at the first start"
    if not os.access(database, os.W_OK):
        raise StoreError("the file is read-only")
    backup.rehearse_migration(database, (MIGRATIONS,))
    return f"{database.stat().st_size / 2**20:.1f} MB, fits this version"
