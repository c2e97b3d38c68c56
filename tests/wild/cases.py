"""Oddities seen elsewhere: a JSON file for each case, in a folder beside its test."""

import json
from pathlib import Path
from typing import Any


def cases(folder: str) -> list[Path]:
    return sorted(Path(__file__).with_name(folder).glob("*.json"))


def read_case(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.read_text(encoding="utf-8"))
    return found
