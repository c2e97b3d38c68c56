"""Configurations to try, and their faults."""

import textwrap

import pytest

from bot.config.loader import ConfigError, parse

SMALL = """\
hosts:
  home:
    vram: 24GB
    backends:
      stand-in: {kind: demo}
models:
  flux: {backends: [stand-in]}
chats:
  web:
"""


def problems(text: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(textwrap.dedent(text), environ)
    return caught.value.problems


def with_lines(*lines: str) -> str:
    """Return the small configuration with more lines; they begin at line 10."""
    return SMALL + "".join(f"{line}\n" for line in lines)
