"""The settings of rules: who may use what, and where."""

from collections.abc import Mapping

from bot.config.reading.values import Section
from bot.config.sections import DefaultsConfig, MostConfig, OwnLimitsConfig
from bot.core.live_settings import Defaults
from bot.requests.rules import Kind, Rule

_DISCORD_ROLE = "discord-role:"


class RuleConfig(Section):
    """What some people may use in some rooms. Settings left out allow everything.

    `who` are people, rights and names under `roles`; `where` are rooms. The first rule that fits
    decides. The last one has neither and is for everyone else.
    """

    who: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    models: tuple[str, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    loras: tuple[str, ...] | None = None
    defaults: DefaultsConfig = DefaultsConfig()
    most: MostConfig = MostConfig()
    limits: OwnLimitsConfig = OwnLimitsConfig()
    spoiler: bool = False
    private: bool = False

    def rule(self, roles: Mapping[str, frozenset[str]]) -> Rule:
        """Return the rule. `roles` are the members of each name under `roles`."""
        named = (roles.get(name) or _meant(name) for name in self.who)
        return Rule(
            who=frozenset[str]().union(*named),
            where=frozenset(self.where),
            models=None if self.models is None else frozenset(self.models),
            kinds=None if self.kinds is None else frozenset(self.kinds),
            loras=None if self.loras is None else frozenset(self.loras),
            defaults=Defaults(**self.defaults.model_dump()),
            most=self.most.model_dump(exclude_none=True),
            limits=self.limits.given(),
            spoiler=self.spoiler,
            private=self.private,
        )


def _meant(name: str) -> frozenset[str]:
    """Return what a name in `who` means. The role @everyone has its server's id."""
    role = name.removeprefix(_DISCORD_ROLE)
    return frozenset({name} if role == name else {name, f"discord-member:{role}"})
