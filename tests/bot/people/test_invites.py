"""Invited people of the web chat: a link each, stored as a digest, revocable at once."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from bot.app.setup import MIGRATIONS
from bot.config.loader import parse
from bot.people.invites import Invites
from bot.people.web_people import LOCAL, CombinedPeople, FixedPeople, WebPerson
from queueing.store.engines import open_database
from queueing.store.sql.database import Database
from tests.bot.cli.test_cli import CONFIG

PAGE = "https://usher.example/"


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    database = await open_database(url, migrations=(MIGRATIONS,))
    yield database
    await database.aclose()


def token_of(link: str) -> str:
    assert link.startswith(f"{PAGE}?token=")
    return link.partition("=")[2]


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_link_lets_one_person_in_also_after_a_restart(database: Database) -> None:
    """An invited person would be a stranger after a restart, or another person."""
    invites = await Invites.read(database, PAGE)
    ada = await invites.invite("Ada Lovelace", 1.0)
    ben = await invites.invite("Ben", 1.0)
    assert ada.person == WebPerson(id="ada-lovelace", name="Ada Lovelace")
    for known in (invites, await Invites.read(database, PAGE)):
        assert known.by_token(token_of(ada.link)) == ada.person
        assert known.by_token(token_of(ben.link)) == ben.person
        assert known.by_id("ada-lovelace") == ada.person
        assert known.by_token("") is None
        assert known.by_token(token_of(ada.link)[:-1]) is None
        assert await known.everybody() == [ada.person, ben.person]


async def test_the_token_is_stored_nowhere(database: Database, tmp_path: Path) -> None:
    """Anyone who reads the database, or a backup of it, could sign in as anyone."""
    token = token_of((await (await Invites.read(database, PAGE)).invite("Ada", 1.0)).link)
    assert len(token) >= 32
    assert token.encode() not in everything_in(tmp_path)


async def test_a_new_link_ends_the_earlier_one(database: Database) -> None:
    """A link that was lost or passed on could only be withdrawn by deleting the chat."""
    invites = await Invites.read(database, PAGE)
    first = await invites.invite("Ada", 1.0)
    second = await invites.invite("ada", 2.0)
    assert (first.renewed, second.renewed) == (False, True)
    assert second.person == first.person
    for known in (invites, await Invites.read(database, PAGE)):
        assert known.by_token(token_of(first.link)) is None
        assert known.by_token(token_of(second.link)) == first.person


async def test_nobody_gets_the_chat_of_somebody_who_left(database: Database) -> None:
    """A second Ada would read the first one's chat and own her jobs."""
    invites = await Invites.read(database, PAGE)
    first = await invites.invite("Ada", 1.0)
    await invites.uninvite(first.person)
    assert invites.by_token(token_of(first.link)) is None
    assert invites.by_id("ada") is None
    second = await invites.invite("Ada", 2.0)
    assert second.person == WebPerson(id="ada-2", name="Ada")
    again = await Invites.read(database, PAGE)
    assert await again.everybody() == [second.person]
    assert again.by_token(token_of(first.link)) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Zoë", "zoe"),
        ("local", "local-2"),
        ("LOCAL ", "local-2"),
        ("李雷", "guest"),
        ("../../etc", "etc"),
        ("a" * 40, "a" * 24),
        ("x'); DROP TABLE jobs; --", "x-drop-table-jobs"),
    ],
)
async def test_an_id_is_plain_and_never_the_owners(
    name: str, expected: str, database: Database
) -> None:
    """A name could make its bearer the owner of the page, or break where its id is used."""
    invites = await Invites.read(database, PAGE)
    assert (await invites.invite(name, 1.0)).person.id == expected


async def test_two_of_one_spelling_are_two_people(database: Database) -> None:
    """Two people whose names differ only in case or accents would share a chat."""
    invites = await Invites.read(database, PAGE)
    ids = [(await invites.invite(name, 1.0)).person.id for name in ("Zoë", "Zoe", "李雷", "韩梅")]
    assert len(set(ids)) == 4


async def test_the_owner_and_the_invited_are_known_together(database: Database) -> None:
    """Inviting a person would lock the owner out, or make everyone the owner."""
    invites = await Invites.read(database, PAGE)
    link = (await invites.invite("Ada", 1.0)).link
    people = CombinedPeople(FixedPeople({"o" * 20: LOCAL}), invites)
    assert people.by_token("o" * 20) == LOCAL
    assert people.by_token(token_of(link)) == WebPerson(id="ada", name="Ada")
    assert people.by_token("x" * 20) is None
    assert (people.by_id("local"), people.by_id("nobody")) == (LOCAL, None)


async def test_only_the_digest_has_a_column(tmp_path: Path) -> None:
    """A column for the token itself would sooner or later be filled."""
    file = tmp_path / "usher.sqlite"
    await (await open_database(f"sqlite:///{file}", migrations=(MIGRATIONS,))).aclose()
    with closing(sqlite3.connect(file)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(web_people)")]
    assert columns == ["id", "name", "digest", "invited_at"]


def test_links_lead_to_the_page() -> None:
    """An invited person would be sent to an address that is not the page's, or refused there."""
    cases: list[tuple[str, str, tuple[str, ...]]] = [
        ("", "http://127.0.0.1:8080/", ()),
        ("names: [usher.example]", "http://usher.example:8080/", ("usher.example",)),
        ("url: 'https://u.example/'", "https://u.example/", ("u.example",)),
        ("url: 'https://u.example', names: [v]", "https://u.example/", ("v", "u.example")),
        ("host: '::1', port: 9", "http://[::1]:9/", ()),
    ]
    for settings, page, names in cases:
        given = f"{{{settings}{', ' if settings else ''}token: 3f1c9ab27de04b85}}"
        web = parse(CONFIG.replace("{port: 0}", given), {}).chats.web
        assert web is not None, settings
        assert web.page() == page, settings
        assert web.all_names() == names, settings
