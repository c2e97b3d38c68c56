"""Rights by role, permission and group apply where the operator named them, and nowhere else."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bot.config.chats import ChatsConfig
from bot.config.loader import ConfigError, parse
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_people import Person
from tests.fakes.discord.discord_state import APPLICATION_ID, GUILD_ID, Channel
from tests.fakes.telegram.telegram import FakeTelegram
from tests.security.bots import on_discord, on_telegram, written

if TYPE_CHECKING:
    from tests.fakes.telegram.telegram_state import FakeChat

MODERATORS, MANAGERS, CROWD = 501, 502, 503
MANAGE_GUILD, MANAGE_CHANNELS = 1 << 5, 1 << 4
REFUSED = "for admins"
FOR_A_CHANNEL = {
    "sender_chat": {"id": -1009, "type": "channel", "title": "Theirs"},
    "text": "/queue all",
    "entities": [{"type": "bot_command", "offset": 0, "length": 6}],
}


def members(fake: FakeDiscord) -> dict[str, Person]:
    """Return people of a server: by a role, by a permission, by neither."""
    fake.permissions = {MANAGERS: MANAGE_GUILD, CROWD: MANAGE_CHANNELS}
    roles = {"moderator": [MODERATORS], "manager": [MANAGERS], "anybody": [CROWD]}
    people = {name: fake.person(number) for number, name in enumerate(roles, 7)}
    for name, person in people.items():
        person.roles = roles[name]
    return people


async def is_admin(fake: FakeDiscord, person: Person, channel: Channel) -> tuple[bool, bool]:
    """Return whether an admin's command is carried out there, both typed and by a mention."""
    call = await person.slash("queue", in_channel=channel, whose="all")
    answer = await fake.wait_for(lambda: call.answer)
    assert answer is not None
    before = len(channel.messages)
    await person.says(f"<@{APPLICATION_ID}> /queue all", in_channel=channel)
    await fake.wait_for(lambda: len(channel.messages) >= before + 2)
    return REFUSED not in answer.shown, REFUSED not in channel.messages[before + 1].shown


@pytest.mark.parametrize(
    ("admins", "expected"),
    [
        (
            [f"discord-role:{MODERATORS}", f"discord:manage-guild@{GUILD_ID}"],
            {"moderator", "manager"},
        ),
        (
            [
                f"discord:administrator@{GUILD_ID}",
                "discord:manage-guild@999",  # a server of theirs, where everyone is its admin
                f"discord-role:{GUILD_ID}",  # the role of everyone
            ],
            set(),
        ),
    ],
    ids=["some", "none"],
)
async def test_discord_admins_are_so_on_the_named_server_alone(
    admins: list[str], expected: set[str], tmp_path: Path
) -> None:
    """Anyone can make a server, add the bot and be its admin there."""
    async with FakeDiscord() as fake:
        people = members(fake)
        async with on_discord(fake, tmp_path, admins=admins):
            here = {
                name: await is_admin(fake, each, fake.channel()) for name, each in people.items()
            }
            direct = [await is_admin(fake, each, each.direct) for each in people.values()]
    assert here == {name: (name in expected,) * 2 for name in people}
    assert direct == [(False, False)] * 3


async def test_a_button_obeys_a_role_and_the_log_says_which(tmp_path: Path) -> None:
    """A moderator could not stop a job by its button, or no one could tell by what right."""
    async with FakeDiscord() as fake:
        people, right = members(fake), f"discord-role:{MODERATORS}"
        async with on_discord(fake, tmp_path, admins=[right]) as parts:
            await people["moderator"].slash("pause", model="flux")
            call = await people["anybody"].slash("image", model="flux", prompt="cat")
            status = await fake.wait_for(lambda: call.answer)
            assert status is not None
            await people["manager"].click(status, status.buttons[0].label)
            await people["moderator"].click(status, status.buttons[0].label)
            await fake.wait_for(lambda: "ancelled" in status.shown)
            [job] = await parts.queue.jobs.history("discord:9", limit=9)
            told = await people["moderator"].slash("audit")
            shown = await fake.wait_for(lambda: told.answer)
    assert job.state.final
    assert shown is not None
    assert f"discord:7 · pause flux (as {right})" in shown.shown


async def test_only_people_with_a_listed_role_may_use_the_bot(tmp_path: Path) -> None:
    """A whole server would use GPUs that are meant for its patrons."""
    async with FakeDiscord() as fake:
        people = members(fake)
        settings = f', allow: [{GUILD_ID}, 9], allow_roles: ["discord-role:{MODERATORS}"]'
        async with on_discord(fake, tmp_path, settings):
            told = {}
            for name, person in {**people, "admin": fake.person(1)}.items():
                for channel in (fake.channel(), person.direct):
                    call = await person.slash("models", in_channel=channel)
                    answer = await fake.wait_for(lambda call=call: call.answer)  # type: ignore[misc]
                    assert answer is not None
                    told[name, channel is person.direct] = answer.shown
    let_in = {place for place, text in told.items() if "flux" in text}
    assert let_in == {
        ("moderator", False),
        ("anybody", False),  # listed by the own id, 9
        ("anybody", True),
        ("admin", False),
    }
    assert "certain roles" in told["manager", False]


async def test_a_groups_admins_are_so_in_that_group_alone(tmp_path: Path) -> None:
    """Anyone can make a group, add the bot and be its admin there."""
    async with FakeTelegram() as fake:
        ours, theirs = fake.group(-1001), fake.group(-1002)
        ours.admins = theirs.admins = (7,)
        async with on_telegram(fake, tmp_path, admins=["telegram:group-admins@-1001"]):
            places: list[tuple[int, FakeChat, dict[str, Any]]] = [
                (7, ours, {}),
                (8, ours, {}),
                (8, ours, {"anonymous": True}),
                (7, theirs, {}),
                (7, theirs, {"anonymous": True}),
                (7, fake.person(7).chat, {}),
                (7, ours, {"carries": FOR_A_CHANNEL}),  # who may speak for a channel
            ]
            told = []
            for person, chat, how in places:
                before = len(chat.from_bot)
                text = "" if "carries" in how else "/queue all"
                fake.person(person).says(text, chat=chat, **how)
                await fake.wait_for(lambda c=chat, n=before: len(c.from_bot) > n)  # type: ignore[misc]
                told.append(REFUSED not in chat.from_bot[-1].shown)
        asked = [seen for seen in fake.api.requests if seen.method == "getChatAdministrators"]
    assert told == [True, False, True, False, False, False, False]
    assert [seen.values["chat_id"] for seen in asked] == [-1001]


def test_a_right_that_names_no_place_is_refused_at_the_start() -> None:
    """A permission of any server would make everyone who has a server an admin."""
    wrong = [
        "discord-role:",
        "discord-role:mods",
        "discord:manage-guild",
        "discord:manage-guild@",
        "discord:send-messages@5",  # everyone's
        "discord:manage-channels@5",  # a channel can give it
        "discord:ada",
        "telegram:group-admins",
        "telegram:group-admins@5",
        "telegram:abc",
        "telegram:anonymous-1001",  # anyone who speaks for a channel there comes under it
    ]
    admins = "must look like (discord|telegram):[0-9]+ or"
    for each in wrong:
        with pytest.raises(ConfigError, match=rf"admins\[0\]: {admins}"):
            parse(written("web: {}", [each]), {})
        with pytest.raises(ConfigError, match=r"allow_roles\[0\]: must look like discord-role:"):
            parse(written(f'discord: {{token: a.b.c, allow_roles: ["{each}"]}}'), {})


def test_every_example_of_a_name_is_one() -> None:
    """An operator would be told to write what is then refused."""
    for names in ChatsConfig.naming().values():
        assert all(form.fits(form.example) for form in (names.person, *names.rights))
