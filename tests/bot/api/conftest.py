"""The bot with its API, for tests that need nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bot.api.openai_sdk import Program, programming
from tests.bot.api.whole_api import Api, running


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path) as api:
        yield api


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Program]:
    async with programming(tmp_path) as program:
        yield program
