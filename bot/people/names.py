"""Forms of names for people and rights, as written in the configuration and in admin commands.

Each platform defines its forms in its settings (`bot.config.chats.ChatConfig`).
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IdForm:
    """The form of a name: a pattern for the whole name, and an example."""

    pattern: str
    example: str

    def fits(self, name: str) -> bool:
        """Return whether a name has this form."""
        return re.fullmatch(self.pattern, name, re.ASCII) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class NameForms:
    """The names of one platform: of people ("telegram:42") and of rights.

    A right always includes the place where it applies, because anyone is an admin of a server or
    group that they created. `members` is the form of a right that everybody in a place has, which
    counts only in rules. `shared` are names under which several people appear. They can be
    banned, but can never be admins. `place` is the form of its chats, if they have ids of one form.
    """

    person: IdForm
    rights: tuple[IdForm, ...] = ()
    members: IdForm | None = None
    shared: IdForm | None = None
    place: IdForm | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the prefixes (before the colon) of this platform's names."""
        forms = (self.person, *self.rights)
        return frozenset(form.example.partition(":")[0] for form in forms)

    def is_user(self, name: str) -> bool:
        """Return whether calls can come from this name."""
        return self.person.fits(name) or (self.shared is not None and self.shared.fits(name))

    def is_right(self, name: str) -> bool:
        """Return whether a name is a right."""
        return any(form.fits(name) for form in self.rights)

    def is_ruled(self, name: str) -> bool:
        """Return whether a rule can be about this name."""
        member = self.members is not None and self.members.fits(name)
        return member or self.is_user(name) or self.is_right(name)

    def examples(self, *, people: bool) -> str:
        """Return examples of valid names, to show when a name is invalid."""
        forms = (*((self.person,) if people else ()), *self.rights)
        return " or ".join(form.example for form in forms)
