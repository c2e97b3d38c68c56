"""Schemathesis calls a running API with what its document allows, and with what it forbids."""

import asyncio
import os
import secrets
import sys
from pathlib import Path

import pytest

from tests.bot.api.calls.test_keys import CLOSED, bearer, new_key, page_of
from tests.bot.api.whole_api import running

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "3")  # for each route
RANDOM = "USHER_RANDOM" in os.environ
SEED = os.environ.get("SCHEMATHESIS_SEED") or str(secrets.randbelow(2**32) if RANDOM else 1)
SETTINGS = """
[checks]
# A well-formed request may ask for a style or an adapter that does not exist, which is a 400.
positive_data_acceptance.enabled = false

[[operations]]
# Clients of OpenAI's paths send numbers as texts, and more that is understood all the same.
include-tag = "OpenAI"
checks.negative_data_rejection.enabled = false
"""
LARGE = ["POST /v1/jobs", "POST /v1/responses", "POST /v1/completions"]
"""Hundreds of limits each: a run tries those of one, by its seed; `SCHEMATHESIS_ALL=1` all."""
ALIKE = ["POST /v1/chat/completions", "POST /v1/fim/completions"]
"""They read the fields of a job and of a completion."""
LEFT_OUT = """
[[operations]]
include-name = "{name}"
checks.negative_data_rejection.enabled = {rejects}
phases.coverage.enabled = false
"""
QUICK = CLOSED.replace("service_s: 0.1", "service_s: 0.01")


def settings() -> str:
    tried = LARGE if os.environ.get("SCHEMATHESIS_ALL") else [LARGE[int(SEED) % len(LARGE)]]
    left_out = [name for name in (*LARGE, *ALIKE) if name not in tried]
    return SETTINGS + "".join(
        LEFT_OUT.format(name=name, rejects=str(name == "POST /v1/jobs").lower())
        for name in left_out
    )


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # some thousand requests
async def test_the_api_keeps_what_its_document_promises(tmp_path: Path) -> None:
    """Some request would be answered with a bug, or with something that no program expects."""
    (tmp_path / "schemathesis.toml").write_text(settings())
    async with running(tmp_path, QUICK) as api:
        key = bearer(await new_key(await page_of(api)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{api.url}/openapi.json"),
            *("--header", f"Authorization: {key['Authorization']}"),
            *(
                "--max-examples",
                EXAMPLES,
                "--seed",
                SEED,
                "--workers",
                "1",  # with two, what a seed draws depends on which is faster
                "--phases",
                "coverage,fuzzing",
            ),
            *("--suppress-health-check", "all"),
            *("--request-timeout", "60", "--no-shrink", "--warnings", "off"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()
    print(told.decode())  # shows the seed, and how to repeat a failing call
    assert process.returncode == 0, f"seed {SEED}"
