"""Every text exists in every language, with the same places for values."""

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backends.comfyui.workflow.graph.nodes import WORDS
from bot.commands.call.forms import FORMS
from bot.commands.me.settings import COMMAND as SETTINGS
from bot.commands.registry import COMMANDS
from bot.config.sections import MostConfig
from bot.core.attachments import AttachmentKind
from bot.core.command import Topic
from bot.core.content import Markdown, Moment, Period
from bot.texts.catalogue import (
    CATALOGUES,
    DEFAULT_LANGUAGE,
    dated,
    describe,
    language_of,
    plain,
    say,
)
from bot.texts.status import gigabytes, running, waiting
from queueing.core.errors import ProblemKind
from queueing.core.jobs import JobState, stand_in
from queueing.core.requests import Capability, Progress, TextToImage
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Estimate, Standing

REFERENCE = CATALOGUES[DEFAULT_LANGUAGE]
SLOT = re.compile(r"\{(\w+)(?::[^}]*)?\}")
BOT = Path(__file__).parents[3] / "bot"


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_language_has_every_text(language: str) -> None:
    """A person would get an internal error instead of a sentence."""
    assert set(CATALOGUES[language]) == set(REFERENCE)


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_translation_has_the_same_values(language: str) -> None:
    """A number or a name would be missing in one language."""
    for key, template in CATALOGUES[language].items():
        assert set(SLOT.findall(template)) == set(SLOT.findall(REFERENCE[key])), key


def test_a_number_that_may_be_one_has_a_word_for_one() -> None:
    """A person would read of "1 embeddings" or "(1 jobs)"."""
    names = {
        "model",
        "host",
        "other",
        "command",
        "job",
        "name",
        "number",
        "person",
    }  # "{model} was"
    always_more = {"all", "asked", "fps", "length"}
    sizes = {("limit", "megapixels")}
    for key, template in REFERENCE.items():
        behind = set(re.findall(r"\{(\w+)\} ([a-z]+s)\b", template)) - sizes
        assert {slot for slot, _ in behind} <= names | always_more, key


def test_a_translation_counts_what_the_reference_counts() -> None:
    """A person would read "1 Bilder" where the English text says "1 image"."""
    same_for_all = {("refused.too_many_keys", "limit"), ("failure.tried", "count")}
    for language, texts in CATALOGUES.items():
        for key, name in _counted(REFERENCE) - same_for_all:
            assert (key, name) in _counted(texts), (language, key)


def test_a_number_chooses_the_word_behind_it() -> None:
    """A person would read "1 embeddings for programs"."""
    cases: list[tuple[int, str, str]] = [
        (1, "1 embedding for", "1 Embedding für"),
        (3, "3 embeddings for", "3 Embeddings für"),
    ]
    for count, english, german in cases:
        assert english in plain(say("en", "queue.embeddings", count=count)), count
        assert german in plain(say("de", "queue.embeddings", count=count)), count


def _counted(texts: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the slots that choose a word by their number, each with its text's key."""
    return {
        (key, name)
        for key, template in texts.items()
        for name in re.findall(r"\{(\w+):[^}]*\|[^}]*\}", template)
    }


def test_every_ability_and_command_has_its_text() -> None:
    """A new capability or command would have no text."""
    needed = {f"{said}.{able}" for able in Capability for said in ("ability", "unable")}
    needed |= {command.help for command in COMMANDS}
    needed |= {f"called.{each.name}" for each in COMMANDS if not (each.admin or each.hidden)}
    needed |= {command.example for command in COMMANDS if command.example}
    needed |= {param.help for command in COMMANDS for param in command.params}
    assert needed <= set(REFERENCE)


ENDS = Estimate(at=1e9, earliest=1e9 - 60, latest=1e9 + 60)


def test_a_moment_is_shown_only_where_one_can_be_known() -> None:
    """A person would be promised a time while an admin holds the model back."""
    cases: list[WaitCause] = [
        WaitCause.PAUSED,
        WaitCause.OFFLINE,
        WaitCause.KEY,
        WaitCause.KEPT,
        WaitCause.ROOM_BUSY,
    ]
    for why in cases:
        reason = Reason(why=why, model="flux", host="gpu-1", other="sdxl")
        waits = stand_in(1, "flux", 0.0)
        standing = Standing(job=waits, shown="ready", position=2, reason=reason, ends=ENDS)
        shown = waiting(standing, "en")
        assert any(isinstance(part, Period) for part in shown) == (why is WaitCause.ROOM_BUSY), why


def test_every_text_is_used_and_every_key_used_exists() -> None:
    """The catalogue would collect unused texts, or code would name a missing one."""
    literals = {
        node.value
        for path in BOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    made = {f"ability.{able}" for able in Capability}
    made |= {f"unable.{able}" for able in Capability}
    made |= {f"help.{topic}" for topic in Topic}
    made |= {f"attached.{kind}" for kind in AttachmentKind}
    made |= {f"failure.{what}" for what in ProblemKind} | {f"field.{field}" for field in WORDS}
    elsewhere = ("reason.", "page.", "dashboard.")  # in test_reasons and test_page_texts
    made |= {key for key in REFERENCE if key.startswith(elsewhere)}
    made |= {f"called.{each.name}" for each in COMMANDS if not each.admin}
    made |= {f"state.{state}" for state in JobState}
    made |= {f"settings.{param.name}" for param in SETTINGS.params}
    made |= {param.help for command in COMMANDS for param in command.params}
    made |= {f"form.{name}" for form in FORMS.values() for name in form.options}
    made |= {f"rule.{bound}" for bound in MostConfig.model_fields}
    made |= {"field.lora_weight", "field.speed", "field.instructions"}  # no placeholders
    assert set(REFERENCE) - literals - made == set()
    groups = {key.split(".")[0] for key in REFERENCE}
    named = {
        word
        for word in literals
        if re.fullmatch(r"[a-z]+\.[a-z_-]*[a-z]", word) and word.split(".")[0] in groups
    }
    assert {word for word in named if word.split(".")[0] not in {"web", "queue"}} <= set(REFERENCE)


def test_values_are_never_read_as_templates() -> None:
    """A prompt with braces could insert other values or crash the message."""
    assert say("en", "refused.unknown_model", name="{hint}", hint="x") == (
        "There's no model called “{hint}”. x",
    )


def test_moments_and_answers_stay_whole() -> None:
    """A platform could not show a time in the reader's own format."""
    body = say("en", "status.ends_soon", moment=Moment(3600.0))
    assert body == (
        " · ready any moment, ",
        Moment(3600.0, before="by "),
        " at the latest",
    )
    assert plain((*body, Markdown("*x*"))).endswith("by 01:00 UTC at the latest*x*")


def test_a_time_of_day_that_is_far_off_comes_with_its_day() -> None:
    """In a terminal, "until 14:00" would be read as today's although it is the day after."""
    cases: list[tuple[int, str]] = [(1, ""), (11, ""), (20, "2027-01-16 "), (72, "2027-01-18 ")]
    for hours, day in cases:
        now = 1_800_000_000.0
        body = dated(say("en", "status.trouble", model="x", moment=Moment(now + hours * 3600)), now)
        assert f"next try at {day}" in plain(body), hours
        assert plain(body).endswith(":00 UTC"), hours
        at = now + hours * 3600
        ((period),) = dated((Period.around(at, at + 60),), now)
        assert plain((period,)).startswith(day), hours


def test_memory_is_written_as_people_write_it() -> None:
    """One list would say 17 GB and the next 17.0 GB."""
    cases: list[tuple[str, int, str]] = [
        ("en", 17 * 1024, "17"),
        ("en", 8704, "8.5"),
        ("de", 8704, "8,5"),
        ("en", 100, "0.1"),
    ]
    for language, megabytes, shown in cases:
        assert gigabytes(language, megabytes) == shown, language


def test_a_locale_finds_its_language() -> None:
    """A German would be answered in English, or an unknown locale not at all."""
    assert [language_of(each) for each in ("de-AT", "de", "en_US", "xx", None, "")] == [
        "de", "de", "en", "en", "en", "en",
    ]  # fmt: skip
    assert describe("command.queue", "de-DE").startswith("Deine")


def test_the_bar_of_several_passes_never_goes_back() -> None:
    """People would see their image seem to start again."""
    job = replace(stand_in(1, "flux", 0.0), request=TextToImage(prompt="cat"))
    standing = Standing(job=job, shown="processing", position=None, reason=None)
    again = Progress(fraction=0.8, step=(2, 10))  # the second pass of two
    assert "step 2/10 ▰▰▰▰▱" in plain(running(standing, again, "en", previews=False).body)
