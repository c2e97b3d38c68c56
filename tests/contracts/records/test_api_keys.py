"""What every store of API keys promises."""

import pytest

from bot.people.api_keys import MOST_KEYS, ApiKeys, TooManyKeys
from queueing.store.sql.database import Database


@pytest.fixture
def keys(database: Database) -> ApiKeys:
    return ApiKeys(database)


async def test_a_new_key_is_known_by_its_secret_alone(keys: ApiKeys) -> None:
    """A caller would be no one, or anyone."""
    key, secret = await keys.new("web:ada", "Ada", name="laptop", now=5.0, style="openwebui")
    assert await keys.by_secret(secret) == key
    assert (key.user, key.user_name, key.name, key.created_at) == ("web:ada", "Ada", "laptop", 5.0)
    assert (key.used_at, key.people, key.style) == (None, False, "openwebui")
    for wrong in (secret[:-1], secret + "x", secret.swapcase(), ""):
        assert await keys.by_secret(wrong) is None


async def test_two_keys_are_never_alike(keys: ApiKeys) -> None:
    """The second key would end the first."""
    made = [await keys.new("web:ada", "Ada", name="", now=5.0) for _ in range(5)]
    assert len({secret for _, secret in made}) == len({key.id for key, _ in made}) == 5


async def test_people_see_and_end_their_own_keys_only(keys: ApiKeys) -> None:
    """A person could end another person's programs."""
    ada, secret = await keys.new("web:ada", "Ada", name="a", now=5.0)
    bob, _ = await keys.new("web:bob", "Bob", name="b", now=6.0)
    assert await keys.listed("web:ada") == [ada]
    assert not await keys.revoke("web:bob", ada.id)
    assert await keys.by_secret(secret) == ada
    assert await keys.revoke("web:ada", ada.id)
    assert not await keys.revoke("web:ada", ada.id)
    assert await keys.by_secret(secret) is None
    assert await keys.listed("web:bob") == [bob]


async def test_a_number_is_never_given_twice(keys: ApiKeys) -> None:
    """“/key revoke 1”, sent late, would end another key."""
    first, _ = await keys.new("web:ada", "Ada", name="", now=5.0)
    await keys.revoke("web:ada", first.id)
    second, _ = await keys.new("web:ada", "Ada", name="", now=6.0)
    assert second.id != first.id


async def test_services_are_listed_apart(keys: ApiKeys) -> None:
    """An admin could not find the key of a service that another admin made."""
    await keys.new("web:ada", "Ada", name="", now=5.0)
    service, _ = await keys.new("service:n8n", "n8n", name="n8n", now=6.0, people=True)
    assert await keys.services() == [service]
    assert service.is_service
    assert service.people


async def test_the_last_use_is_kept_to_the_minute(keys: ApiKeys) -> None:
    """Each call would write to the disk."""
    key, secret = await keys.new("web:ada", "Ada", name="", now=5.0)
    await keys.used(key, 100.0)
    used = await keys.by_secret(secret)
    assert used is not None
    assert used.used_at == 100.0
    await keys.used(used, 130.0)
    assert await keys.by_secret(secret) == used
    await keys.used(used, 161.0)
    again = await keys.by_secret(secret)
    assert again is not None
    assert again.used_at == 161.0


async def test_a_person_has_so_many_keys_at_most(keys: ApiKeys) -> None:
    """A script could fill the database."""
    for _ in range(MOST_KEYS):
        await keys.new("web:ada", "Ada", name="", now=5.0)
    with pytest.raises(TooManyKeys):
        await keys.new("web:ada", "Ada", name="", now=5.0)
    assert await keys.revoke_all("web:ada") == MOST_KEYS
    assert await keys.revoke_all("web:ada") == 0
    await keys.new("web:ada", "Ada", name="", now=5.0)
