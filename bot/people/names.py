"""How a configuration and an admin's command name people, and their rights in a server or group.

Each platform defines these names in its settings (`bot.config.chats.ChatConfig`).
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IdForm:
    """The form of a name: a pattern for all of it, and an example."""

    pattern: str
    example: str

    def fits(self, name: str) -> bool:
        """Return whether a name has this form."""
        return re.fullmatch(self.pattern, name, re.ASCII) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class NameForms:
    """The names of one platform: of its people ("telegram:42") and of rights there.

    A right always says where it counts: anyone is admin of a server or group they created. `shared`
    are names under which several people appear; they may be banned, but never be admins.
    """

    person: IdForm
    rights: tuple[IdForm, ...] = ()
    shared: IdForm | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the words before the colon in this platform's names."""
        forms = (self.person, *self.rights)
        return frozenset(form.example.partition(":")[0] for form in forms)

    def is_user(self, name: str) -> bool:
        """Return whether a call can arrive under that name."""
        return self.person.fits(name) or (self.shared is not None and self.shared.fits(name))

    def is_right(self, name: str) -> bool:
        """Return whether that names a right."""
        return any(form.fits(name) for form in self.rights)

    def examples(self, *, people: bool) -> str:
        """Return what can be written, as help for a wrong name."""
        forms = (*((self.person,) if people else ()), *self.rights)
        return " or ".join(form.example for form in forms)
