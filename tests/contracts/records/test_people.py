"""What every store of people, the audit log and invitations promises."""

from collections.abc import Awaitable, Callable

import pytest

from bot.people.audit_log import Act, AuditLog
from bot.people.invites import Invites
from bot.people.people import People, Person
from queueing.store.sql.database import Database

PAGE = "http://page/"
Read = Callable[[], Awaitable[Invites]]


@pytest.fixture
def people(database: Database) -> People:
    return People(database)


@pytest.fixture
def audit(database: Database) -> AuditLog:
    return AuditLog(database)


@pytest.fixture
def read(database: Database) -> Read:
    """Return how a starting bot learns who is invited."""
    return lambda: Invites.read(database, PAGE)


# ---------------------------------------------------------------- people


async def test_a_person_without_settings_is_one_without_settings(people: People) -> None:
    """A new person would be answered with an error."""
    assert await people.get("telegram:42") == Person(user="telegram:42")


async def test_a_change_alters_what_it_names_and_nothing_else(people: People) -> None:
    """A new language would remove a person's favourite model."""
    await people.change("ada", image_model="flux", max_open=3, banned_at=5.0)
    changed = await people.change("ada", language="de", max_open=None)
    assert changed == Person(user="ada", image_model="flux", language="de", banned_at=5.0)
    assert await people.get("ada") == changed
    assert await people.get("bob") == Person(user="bob")


async def test_a_forgotten_person_stays_within_what_admins_set(people: People) -> None:
    """`/forget me` would end a ban, or leave what a person chose."""
    await people.change("ada", language="de", style="noir", lane="vip", per_hour=2)
    await people.change("ada", banned_at=5.0, banned_until=9.0, ban_reason="spam")
    await people.forget("ada")
    assert await people.get("ada") == Person(
        user="ada", lane="vip", per_hour=2, banned_at=5.0, banned_until=9.0, ban_reason="spam"
    )


async def test_who_listens_hears_of_languages_once_they_are_chosen(people: People) -> None:
    """An open page would stay in the old language, or forget the new one after `/forget me`."""
    heard: list[tuple[str, str | None]] = []
    with people.telling(lambda user, language: heard.append((user, language))):
        await people.change("ada", language="de")
        await people.change("ada", size="512x512")
        await people.forget("ada")
    await people.change("ada", language="en")
    assert heard == [("ada", "de"), ("ada", None)]


# ---------------------------------------------------------------- the audit log


async def test_the_newest_acts_come_first(audit: AuditLog) -> None:
    """An admin would look for the latest act behind those of last year."""
    acts = [Act(at=1.0, actor="ada", action="ban", subject=f"bob {n}") for n in range(5)]
    for act in acts:
        await audit.write(act)
    assert list(await audit.newest(3)) == acts[:1:-1]


async def test_an_act_is_kept_whole(audit: AuditLog) -> None:
    """No one could tell afterwards why something was done."""
    act = Act(at=1.5, actor="ada", action="limit", subject="bob", detail="open 3 · “spam”")
    await audit.write(act)
    assert list(await audit.newest(9)) == [act]


# ---------------------------------------------------------------- invitations


async def test_an_invitation_holds_after_a_restart(read: Read) -> None:
    """Every restart would shut invited people out."""
    invitation = await (await read()).invite("Ada", 1.0)
    token = invitation.link.removeprefix(f"{PAGE}?token=")
    assert not invitation.renewed
    again = await read()
    assert again.by_token(token) == invitation.person
    assert again.by_id(invitation.person.id) == invitation.person
    assert again.by_token(token + "x") is None
    assert await again.everybody() == [invitation.person]


async def test_a_new_link_ends_the_old_one(read: Read) -> None:
    """A link that was passed on would open the page forever."""
    invites = await read()
    first = await invites.invite("Ada", 1.0)
    second = await invites.invite("ada", 2.0)
    assert second.renewed
    assert second.person == first.person
    for known in (invites, await read()):
        assert known.by_token(first.link.removeprefix(f"{PAGE}?token=")) is None
        assert known.by_token(second.link.removeprefix(f"{PAGE}?token=")) == first.person


async def test_an_id_is_never_given_twice(read: Read) -> None:
    """A person of the same name would get the chat of the person before."""
    invites = await read()
    first = (await invites.invite("Ada", 1.0)).person
    for _ in range(2):
        await invites.uninvite(first)
    for known in (invites, await read()):
        assert known.by_id(first.id) is None
        assert await known.named("Ada") is None
    second = (await invites.invite("Ada", 2.0)).person
    assert second.id != first.id


async def test_people_are_found_by_name_or_by_id(read: Read) -> None:
    """An admin would have to know how the bot writes a person."""
    invites = await read()
    ada = (await invites.invite("Ada", 1.0)).person
    assert await invites.named("ADA") == ada
    assert await invites.named(f"web:{ada.id}") == ada
    assert await invites.named("bob") is None


async def test_of_a_services_ban_and_a_persons_the_longer_holds(people: People) -> None:
    """A short ban of a service would let those back in who were banned for good."""
    service, ada, bob = "service:webui", "service:webui/ada", "service:webui/bob"
    await people.change(ada, banned_at=1.0, ban_reason="rude")
    await people.change(service, banned_at=2.0, banned_until=9.0)
    assert [(await people.get(each)).is_banned(8.0) for each in (service, ada, bob)] == [True] * 3
    banned = [(await people.get(each)).is_banned(10.0) for each in (service, ada, bob, "web:x")]
    assert banned == [False, True, False, False]
    assert (await people.get(ada)).ban_reason == "rude"
    await people.change(bob, language="de")
    await people.change(service, banned_at=None, banned_until=None)
    assert not (await people.get(bob)).is_banned(8.0)
