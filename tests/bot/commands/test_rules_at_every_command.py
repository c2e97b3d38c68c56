"""Two roles, three rooms with different rules, and every command in each of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bot.commands.registry import COMMANDS, PANELS
from bot.core.asker import Asker
from bot.core.command import ParamKind
from bot.core.origin import Origin
from bot.core.platform import ForwardedText
from bot.requests.rules import KIND_OF, KINDS, Kind, Rule
from queueing.core.jobs import Job, NewJob, SubmitLimits
from queueing.core.requests import Capability, Chat, ChatMessage, Request, TextToImage
from tests.bot.requests.test_recordings import playable, voice
from tests.bot.results import DRAWS, ask, bot_with, done, image, of, play, press
from tests.simulation.bot_installation import ADMIN, Bot, played, settled
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import Inside, in_virtual_time

GALLERY, CIRCLE, HALL = "g5", "g6", "1"
PATRON = frozenset({"fake-role:1"})
NOBODY = frozenset[str]()
PICTURES: frozenset[Kind] = frozenset({"image", "edit", "upscale"})
RULES = (
    Rule(who=PATRON, where=frozenset({f"fake:{GALLERY}"})),
    Rule(where=frozenset({f"fake:{GALLERY}"}), kinds=PICTURES, models=frozenset({"all"})),
    Rule(where=frozenset({f"fake:{CIRCLE}"}), private=True),
    Rule(who=PATRON, kinds=frozenset({"ask", "speak"})),
    Rule(models=frozenset({"other"}), kinds=frozenset({"ask"})),
)
ALLOWED: Mapping[tuple[frozenset[str], str], frozenset[Kind]] = {
    (PATRON, GALLERY): frozenset(KINDS),
    (NOBODY, GALLERY): PICTURES,
    (PATRON, CIRCLE): frozenset(KINDS),
    (NOBODY, CIRCLE): frozenset(KINDS),
    (PATRON, HALL): frozenset({"ask", "speak"}),
    (NOBODY, HALL): frozenset({"ask"}),
}
"""The kinds that each role may ask the model "all" for in each room, except as `_may` says."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """A way to make a job of a kind: a message; the jobs `{image}` and `{chat}` are made before."""

    kind: str
    line: str
    fields: Mapping[str, Any]
    named: bool = False


def door(kind: str, line: str, *, named: bool = False, **fields: Any) -> Door:
    return Door(kind=kind, line=line, fields=fields, named=named)


SHOWN: Mapping[str, Any] = {"files": (image(),)}
HEARD: Mapping[str, Any] = {"files": (voice(),)}
DOORS: Mapping[str, tuple[Door, ...]] = {
    "image": (
        door("image", "/image a cat"),
        door("image", "/image all a cat", named=True),
        door("image", "/image a cat", **SHOWN),
    ),
    "ask": (
        door("ask", "/ask why?"),
        door("ask", "/ask all why?", named=True),
        door("ask", "/ask what is it?", **SHOWN),
        door("ask", "/ask and then?", replied="chat"),
    ),
    "describe": (door("ask", "/describe", **SHOWN),),
    "video": (door("video", "/video a cat"), door("video", "/video a cat", **SHOWN)),
    "music": (door("music", "/music a waltz"),),
    "speak": (door("speak", "/speak good evening"), door("speak", "/speak --id {chat}")),
    "transcribe": (door("transcribe", "/transcribe", **HEARD),),
    "again": (
        door("image", "/again {image}", named=True),
        door("ask", "/again {chat}", named=True),
    ),
    "edit": (
        door("image", "/edit {image} --steps 3", named=True),
        door("edit", "/edit make it red", **SHOWN),
        door("edit", "/edit make it red", replied="image"),
    ),
    "edit-image": (door("edit", "/edit-image {image} make it red"),),
    "vary": (door("image", "/vary --id {image}"), door("image", "/vary", **SHOWN)),
    "vary-subtle": (door("image", "/vary-subtle --id {image}"),),
    "upscale": (door("upscale", "/upscale --id {image}"), door("upscale", "/upscale", **SHOWN)),
    "ask-about": (door("ask", "/ask-about", **SHOWN),),
    "listen": (door("ask", "/listen", forwarded=True),),
}
NO_JOBS = frozenset(
    {
        *("new", "queue", "cancel", "history", "show", "copy", "delete", "styles", "loras"),
        *("new-topic", "models", "status", "settings", "key", "forget", "forget-me", "help"),
    }
)
"""The commands that make no job."""


def test_every_command_has_its_place_in_this_table() -> None:
    """A command that is added later could be an unnoticed way round the rules."""
    assert DOORS.keys() | NO_JOBS == {each.name for each in COMMANDS if not each.admin}
    assert DOORS.keys().isdisjoint(NO_JOBS)
    tried = {each.kind for doors in DOORS.values() for each in doors}
    assert tried == set(KINDS) - {"embed"}


def in_bot() -> Inside[Bot]:
    """Run a test in a bot with two models that can do everything."""
    able = frozenset(Capability) - {Capability.EMBEDDING, Capability.IMAGE_EMBEDDING}
    models = [replace(image_model(name), capabilities=able) for name in ("all", "other")]
    return Inside(lambda: played(Installation.of(models, [host("gpu-1", "comfy")]), rules=RULES))


@pytest.mark.usefixtures(playable.__name__)
@in_bot()
async def test_each_command_makes_a_job_only_where_a_rule_allows_it(running: Bot) -> None:
    """People could use a button, a reply or an old job where a command refuses them."""
    wrong: list[str] = []
    for at, ((rights, room), kinds) in enumerate(ALLOWED.items()):
        user = f"fake:{at + 1}"
        made = await _earlier(running, user)
        for name, doors in DOORS.items():
            for each in doors:
                job = await _tried(running, each, made, user=user, rights=rights, room=room)
                said = running.chat.private[-1][1] if running.chat.private else ""
                refused = " here" in said
                may = _may(each, rights, room, kinds)
                if (job is None) is may or not (may or refused):
                    wrong.append(f"{name} {each.line} {room} {set(rights)}: {said}")
    chat = await settled(running)
    assert not wrong, "\n".join(wrong)
    assert CIRCLE not in {each.chat for each in chat.messages.values()}
    assert CIRCLE not in {room for room, _ in chat.private}


@pytest.mark.parametrize(
    "rule", [Rule(kinds=frozenset({"edit"})), Rule(models=frozenset({"kontext"}))], ids=str
)
def test_what_a_rule_leaves_is_open_at_every_door(rule: Rule) -> None:
    """People would be refused what they may do, or told of a missing prompt instead of the rule."""

    async def scenario(running: Bot) -> None:
        job = await ask(running, "/image make it red", files=(image(),))
        assert job is not None
        assert job.model == "kontext"
        for line in ("/image", "/image a cat", "/image flux a cat"):
            assert await ask(running, line) is None
            await asyncio.sleep(1)
            assert " here" in running.chat.answers[-1], line

    kontext = replace(image_model("kontext"), capabilities=frozenset({Capability.IMAGE_EDIT}))
    play(scenario, image_model("flux"), kontext, rules=[rule])


@in_virtual_time
async def test_buttons_of_an_old_result_ask_for_nothing_in_vain() -> None:
    """People would fill in a form and then be refused, or be held to the steps of an old image."""
    flux = replace(image_model("flux"), capabilities=DRAWS | {Capability.IMAGE_EDIT})
    async with bot_with(flux, image_model("pen"), rules=[Rule()]) as running:
        job = await done(running, "/image flux a cat --steps 30 --size 1024x1024")
        table = running.rules
        table.take([Rule(most={"steps": 8, "pixels": 512 * 512})])
        varied = await press(running, job, "vary")
        assert varied.request.steps == 8
        for rule in (Rule(models=frozenset({"pen"})), Rule(kinds=frozenset({"ask"}))):
            table.take([rule])
            for button in ("edit", "edit-image"):
                before = len(running.chat.answers)
                assert await press(running, job, button) is None
                await asyncio.sleep(30)
                (said,) = running.chat.answers[before:]
                assert " here" in said


@in_virtual_time
async def test_no_answer_names_a_model_that_its_reader_may_not_use() -> None:
    """People would see models and queues that they may not use."""
    models = [image_model(name, vram_mb=16000, service_s=100.0) for name in ("flux", "pen")]
    rules = (Rule(who=frozenset({"fake:7"})), Rule(models=frozenset({"pen"})))
    async with bot_with(*models, rules=rules, service_s=100.0) as running:
        for _ in range(3):
            await ask(running, "/image flux a cat", "fake:7")
        await asyncio.sleep(30)
        job = await ask(running, "/image pen a cat")
        assert job is not None
        place = (await running.queue.status.standings([job]))[job.id]
        assert place.reason is not None
        assert place.reason.other == "flux"
        told, seen = await _told(running, "fake:1"), await _told(running, ADMIN)
        wrong = [name for name, text in told.items() if "flux" in text]
        assert not wrong, told
        assert "#1 in line" in told["queue"]
        assert "pen" in told["/status"]
        assert {"queue", "status", "/status"} <= {
            name for name, text in seen.items() if "flux" in text
        }
        (message,) = [each for each in running.chat.messages.values() if "pen" in each.text]
        assert "flux" not in "".join(message.texts)


async def _told(running: Bot, user: str) -> dict[str, str]:
    """Return what a person is told by each command that makes no job, and by each panel."""
    told: dict[str, str] = {}
    for name in sorted(NO_JOBS - {"cancel", "delete", "forget", "forget-me", "key"}):
        before = len(running.chat.private)
        await ask(running, f"/{name}", user)
        await asyncio.sleep(3)
        told[name] = "\n".join(text for _, text in running.chat.private[before:])
    for name in PANELS:
        call = running.chat.call(f"/{name}", user=user)
        told[f"/{name}"] = str(await running.dispatcher.panel(replace(call, text="")))
    return told


def _may(door: Door, rights: frozenset[str], room: str, kinds: frozenset[Kind]) -> bool:
    """Return whether a call is allowed: in the hall, others may use only another text model."""
    only_other = room == HALL and not rights
    return door.kind in kinds and not (only_other and door.named)


async def _earlier(running: Bot, user: str) -> dict[str, Job]:
    """Return jobs that were accepted under other rules, with their results."""
    requests: Mapping[str, Request] = {
        "image": TextToImage(prompt="a cat"),
        "chat": Chat(messages=(ChatMessage(role="user", text="why?"),)),
    }
    made = {}
    for name, request in requests.items():
        call = running.chat.call("/x", user=user)
        new = NewJob(
            model="all",
            request=request,
            owner=user,
            key=f"{user} {name}",
            reply_to=Origin.of(call, "en").model_dump_json(),
        )
        made[name] = await running.queue.submitter.submit(new, limits=SubmitLimits())
    await asyncio.sleep(60)
    return made


async def _tried(
    running: Bot,
    door: Door,
    made: Mapping[str, Job],
    *,
    user: str,
    rights: frozenset[str],
    room: str,
) -> Job | None:
    fields = dict(door.fields)
    if (replied := fields.pop("replied", None)) is not None:
        fields["replied_to"] = await of(running, made[replied])
    if fields.pop("forwarded", False):
        fields["forwarded"] = (ForwardedText(text="The cat sat.", by="Ada"),)
    line = door.line.format(**{name: job.id for name, job in made.items()})
    job = await ask(running, line, user, chat=room, rights=rights, **fields)
    await asyncio.sleep(30)
    return job


@in_bot()
async def test_an_admin_shows_nobody_what_a_rule_keeps_for_its_owner(running: Bot) -> None:
    """A group would see what only its owner may see, or something made from it."""
    job = await done(running, "/image a cat", chat=CIRCLE)
    for line in ("/show", "/again", "/edit", "/vary --id", "/upscale --id", "/edit-image"):
        text = f"{line} {job.id}{' red' if 'edit' in line else ''}"
        await ask(running, text, ADMIN, chat=GALLERY, rights=PATRON)
        assert "only for its owner" in running.chat.private[-1][1], line
    await ask(running, f"/show {job.id}", ADMIN, chat="99", rights=PATRON)
    await ask(running, f"/show {job.id}", chat=GALLERY, rights=PATRON)
    await asyncio.sleep(60)
    shown = [each.chat for each in (await settled(running)).messages.values()]
    assert shown == ["1", "99", GALLERY]


@in_bot()
async def test_nothing_is_offered_that_a_rule_does_not_allow(running: Bot) -> None:
    """People would choose from a list, and be refused."""
    for rights, room in ((NOBODY, HALL), (NOBODY, GALLERY), (PATRON, GALLERY)):
        for line in ("/models", "/help", "/settings"):
            await ask(running, line, chat=room, rights=rights)
    asker = Asker(user="fake:1", rooms=(f"fake:{HALL}", "fake"))
    for command in running.dispatcher.commands:
        for param in command.params:
            if param.kind is ParamKind.MODEL and param.able:
                found = list(running.dispatcher.suggest(param, "", asker))
                kinds = {KIND_OF[able] for able in param.able}
                assert found == (["other"] if "ask" in kinds else []), (
                    command.name,
                    param.name,
                )
    told = (await settled(running)).answers
    hall, gallery, whole = told[:3], told[3:6], told[6:9]
    assert "other" in hall[0]
    assert "all ·" not in hall[0]
    assert "other ·" not in gallery[0]
    assert {"all", "other"} <= {line.split(" ")[0] for line in whole[0].splitlines()}
    assert "/image" not in hall[1]
    assert "/ask" in hall[1]
    assert "/video" not in gallery[1]
    assert "/video" in whole[1]
