"""Rules in the configuration: what they mean, and mistakes in them."""

from bot.app.reloader import LiveConfig
from bot.config.differences import changed, differences, marks
from bot.config.loader import parse
from bot.core.asker import Asker
from bot.core.live_settings import Defaults
from bot.people.people import Person
from bot.requests.rules import Rule
from tests.bot.config.configs import problems, with_lines

ROLES = ("roles:", "  patrons: {members: [telegram:7], discord_roles: ['5'], lane: vip}")
RULES = (
    *ROLES,
    "rules:",
    "  - who: [patrons, 'discord-role:6', 'api:my laptop@telegram:42']",
    "    where: [telegram, 'api:my laptop@telegram:42']",
    "    defaults: {image: flux}",
    "    limits: {per_hour: none, open_per_person: 99}",
    "  - where: [api]",
    "    kinds: [image]",
    "    loras: []",
    "    most: {steps: 9}",
    "  - private: true",
)


def asker(user: str, *rooms: str, rights: tuple[str, ...] = ()) -> Asker:
    return Asker(user=user, rooms=rooms, rights=frozenset(rights))


def test_rules_reach_the_bot_and_a_reload_replaces_them() -> None:
    """A rule would be read and have no effect, or still apply after it is removed."""
    live = LiveConfig(parse(with_lines(*RULES), {}))
    of = live.rules.of
    mine = of(asker("telegram:7", "telegram:1", "telegram"))
    assert mine.defaults == Defaults(image="flux")
    for right in ("discord-role:5", "discord-member:5", "discord-member:6", "discord-role:6"):
        assert of(asker("discord:1", "telegram", rights=(right,))) is mine, right
        assert live.access.counting({right, "discord-role:77"}) == {right}
    key = "api:my laptop@telegram:42"
    assert of(asker("telegram:42", key, "api", rights=(key,))) is mine
    limits = live.access.limits_of(Person(user="telegram:7"), (), mine.limits)
    assert (limits.lane, limits.open_per_person, limits.per_hour) == ("vip", 99, None)
    called = of(asker("web:ada", "api"))
    assert called == Rule(
        where=frozenset({"api"}), kinds=frozenset({"image"}), loras=frozenset(), most={"steps": 9}
    )
    assert of(asker("web:ada", "web:ada", "web")).private
    live.take(parse(with_lines(), {}))
    assert not of(asker("web:ada", "web:ada", "web")).private


def test_processes_tell_each_other_that_their_rules_differ() -> None:
    """One process of a cluster would allow what another refuses."""
    here, there = parse(with_lines(*RULES), {}), parse(with_lines(*RULES[:-1], "  - {}"), {})
    assert changed(here, there) == ("rules",)
    assert differences(marks(here, b"k"), marks(there, b"k")) == ("rules differs",)
    assert not differences(marks(here, b"k"), marks(parse(with_lines(*RULES), {}), b"k"))


def test_each_name_that_does_not_exist_is_told_with_its_line() -> None:
    """With a misspelt role or room, people would get the rule for everyone else."""
    found = problems(
        with_lines(
            *ROLES,
            "rules:",
            "  - who: [patron, 'matrix:5', 'discord-role:gold', 'api:laptop', 'service:N8N']",
            "    where: ['matrix:5', 'discord:#pictures', 'api:laptop', api]",
            "    models: [flx]",
            "    kinds: [pictures]",
            "    modles: [flux]",
            "  - {}",
        )
    )
    told = {line.split(": ")[1]: line.split(": ", 2)[2] for line in found}
    assert set(told) >= {"rules[0].kinds[0]", "rules[0].modles"}
    assert "did you mean models" in told["rules[0].modles"]
    found = problems(
        with_lines(
            *ROLES,
            "rules:",
            "  - who: [patron, 'matrix:5', 'discord-role:gold', 'api:laptop', 'service:N8N']",
            "    where: ['matrix:5', 'discord:#pictures', 'api:laptop', api]",
            "    models: [flx]",
            "  - kinds: [image]",
            "    defaults: {ask: flux, image: fluxx}",
            "  - where: [web]",
        )
    )
    told = {line.split(": ")[1]: line.split(": ", 2)[2] for line in found}
    assert told.keys() == {
        *(f"rules[0].who[{at}]" for at in range(5)),
        *(f"rules[0].where[{at}]" for at in range(3)),
        "rules[0].models[0]",
        "rules[1]",
        "rules[1].defaults.ask",
        "rules[1].defaults.image",
        "rules[2]",
    }
    assert "did you mean patrons?" in told["rules[0].who[0]"]
    assert "did you mean flux?" in told["rules[0].models[0]"]
    assert told["rules[2]"].startswith("the last rule is for everyone else")
