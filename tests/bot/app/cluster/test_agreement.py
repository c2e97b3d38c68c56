"""Agreement: a process whose configuration differs from the leader's is told which settings."""

import asyncio

import pytest

from bot.app.cluster.agreement import Agreement, version_of
from bot.app.cluster.leases import QUEUE
from bot.app.runner import require_models
from bot.config.config import Config
from bot.config.loader import ConfigError, parse
from queueing.core.leases import LeaderInfo, ServerLook
from tests.fakes.roles import FakeRoles, RoleTable
from tests.simulation.loop import in_virtual_time

CONFIG = """\
database: postgresql://127.0.0.1/usher
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in], vram: 12GB}, sdxl: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""
EVERY_S = 5.0


def read(old: str = "", new: str = "") -> Config:
    assert old in CONFIG
    return parse(CONFIG.replace(old, new) if old else CONFIG, {})


def agreement(old: str = "", new: str = "", *, version: str = "1.0") -> Agreement:
    return Agreement(read(old, new), version)


async def told(roles: FakeRoles, by: Agreement, role: str = QUEUE) -> LeaderInfo:
    assert await roles.take(role, address="", about=by.about(role)) is not None
    (found,) = [each for each in await roles.introductions() if each.role.name == role]
    return found


@in_virtual_time
async def test_the_same_configuration_is_agreed_with_whatever_the_version() -> None:
    """No new version could replace another while the bot runs."""
    held = await told(FakeRoles(RoleTable(15), "one:1"), agreement(version="0.9"))
    agreement(version="1.0").require([held])
    assert version_of(held.about) == "0.9"


@in_virtual_time
async def test_another_configuration_is_refused_by_what_differs() -> None:
    """Successive leaders would plan with different GPUs and models, for no visible reason."""
    held = await told(FakeRoles(RoleTable(15), "one:1"), agreement(version="0.9"))
    other = agreement("vram: 12GB}, sdxl: {backends: [stand-in]}", "vram: 8GB}")
    with pytest.raises(ConfigError) as refused:
        other.require([held])
    assert str(refused.value) == (
        "another process of this cluster (one:1, usher 0.9) has another configuration:"
        " models.flux.vram differs and models.sdxl is only there; give all processes the same one, or"
        " stop the others first"
    )


@pytest.mark.parametrize("about", ["", "?", "[]", "7", '{"version": "2", "settings": 7}'])
@in_virtual_time
async def test_a_holder_that_tells_nothing_known_binds_no_one(about: str) -> None:
    """A version that reports its settings in another form would keep others from starting."""
    roles = FakeRoles(RoleTable(15), "one:1")
    assert await roles.take(QUEUE, address="", about=lambda _: about) is not None
    (held,) = await roles.introductions()
    agreement().require([held])


@in_virtual_time
async def test_only_the_holder_of_the_queue_decides() -> None:
    """A process that ends would be compared with, though another has long held the queue."""
    held = await told(FakeRoles(RoleTable(15), "one:1"), agreement("12GB", "8GB"), "telegram")
    agreement().require([held])
    assert "settings" not in held.about
    assert version_of(held.about) == "1.0"


@in_virtual_time
async def test_two_that_start_at_once_are_compared_as_well() -> None:
    """Neither saw the other before applying, and the later one would lead one day."""
    table = RoleTable(15)
    one, two = FakeRoles(table, "one:1"), FakeRoles(table, "two:2")
    mine, other = agreement(), agreement("12GB", "8GB")
    mine.require(await one.introductions())
    other.require(await two.introductions())
    lease = await one.take(QUEUE, address="", about=mine.about(QUEUE))
    assert lease is not None
    two.away = True  # a database that is away is no disagreement
    loop = asyncio.get_running_loop()
    seen_at = 0.0

    async def both() -> None:
        nonlocal seen_at
        async with mine.kept(one, every_s=EVERY_S), other.kept(two, every_s=EVERY_S):
            await asyncio.sleep(2 * EVERY_S)
            await one.renew(lease)
            two.away, seen_at = False, loop.time()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as refused:
        await both()
    assert refused.group_contains(ConfigError, match="models.flux.vram differs", depth=2)
    assert loop.time() - seen_at <= EVERY_S


@pytest.mark.parametrize(
    ("open_jobs", "sentence"),
    [
        ({}, None),
        ({"flux": 3, "sdxl": 1}, None),
        (
            {"flux": 3, "qwen": 2},
            "(2 for qwen); add the models again; to remove one, first cancel its jobs (/clear qwen)",
        ),
        (dict.fromkeys("abcde", 1), "(1 for a, 1 for b, 1 for c and 2 more models)"),
    ],
)
def test_jobs_of_a_model_that_is_missing_are_told(
    open_jobs: dict[str, int], sentence: str | None
) -> None:
    """They would wait without end in all processes, and no one would be told why."""
    look = ServerLook(open_jobs=open_jobs)
    if sentence is None:
        require_models(read(), look)
        return
    with pytest.raises(ConfigError) as refused:
        require_models(read(), look)
    assert sentence in str(refused.value)


def test_a_server_that_names_its_models_may_offer_them_later() -> None:
    """A process could not start while that server is still starting."""
    found = read("{kind: demo}", "{kind: demo, discover: true}")
    require_models(found, ServerLook(open_jobs={"qwen": 1}))


@in_virtual_time
async def test_a_reloaded_leader_tells_the_others_and_a_reloaded_follower_learns_who_lags() -> None:
    """Processes that start later would be refused for outdated settings."""
    table = RoleTable(15)
    one, two = FakeRoles(table, "one:1"), FakeRoles(table, "two:2")
    leader, follower = agreement(), agreement()
    await told(one, leader)
    (await follower.reloading(two, read("12GB", "8GB")))()
    (note,) = await follower.tell_again(two, "two:2")
    assert "(one:1) has another configuration: models.flux.vram differs; reload it" in note
    (await leader.reloading(one, read("12GB", "8GB")))()
    assert await leader.tell_again(one, "one:1") == ()
    assert await follower.tell_again(two, "two:2") == ()
    agreement("12GB", "8GB").require(await two.introductions())


@in_virtual_time
async def test_a_process_reloaded_right_after_a_takeover_goes_on() -> None:
    """It would end, with a message that its configuration should have been the same all along."""
    table = RoleTable(15)
    one, two = FakeRoles(table, "one:1"), FakeRoles(table, "two:2")
    follower = agreement()
    async with follower.kept(two, every_s=EVERY_S):
        await asyncio.sleep(1)  # no one leads yet
        lease = await one.take(QUEUE, address="", about=agreement().about(QUEUE))
        assert lease is not None
        (await follower.reloading(two, read("12GB", "8GB")))()
        assert len(await follower.tell_again(two, "two:2")) == 1
        for _ in range(3):
            await asyncio.sleep(EVERY_S)
            await one.renew(lease)
