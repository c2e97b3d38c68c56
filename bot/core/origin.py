"""Where a job came from, and everything its messages need about the caller. Stored with the job."""

from collections.abc import Iterable
from functools import lru_cache

from pydantic import ValidationError

from bot.core.asker import Asker, rooms_of
from bot.core.live_settings import places_of
from bot.core.platform import Invocation, MessageRef
from queueing.core.requests import Record

THE_BOT = "usher:"  # begins the owners of jobs that the bot itself asks for


class ModelHint(Record):
    """The first word of a prompt, and the model whose name it resembles."""

    word: str
    meant: str


class Webhook(Record):
    """The address to call when a program's job ends, and the API key whose secret signs the call.

    The key is 0 if the API needs no key.
    """

    url: str
    key: int


class Origin(Record):
    """Where a job came from; stored with it as its `reply_to`."""

    platform: str
    chat: str
    within: tuple[str, ...] = ()  # ids of what the chat is part of, the widest first
    group: bool
    user: str
    user_name: str
    language: str
    key: str
    token: str = ""  # by which the platform finds its answer to the call after a restart
    request: str | None = None  # the caller's own message, to reply to
    near: ModelHint | None = None
    parts: tuple[str, ...] = ()  # the parts of its album that belong to the request
    digest: str = ""  # digest of a program's request, to recognise a repeated call
    accepted_by: str = ""  # the process that accepted a program's request
    hook: Webhook | None = None
    aloud: bool = False  # also read the answer aloud
    cut: tuple[str, ...] = ()  # the documents of which only the beginning was used
    cut_answer: bool = False  # whether only the end of the answer that it continues was used
    cut_recording: bool = False  # whether only the beginning of its recordings' transcript was used
    may_be_cut: bool = False  # the person's app may have cut the text, and the rest is withheld
    same_again: bool = False  # repeats a request, and the model takes no seed to vary it by
    unused: tuple[str, ...] = ()  # the parameters in its prompt that have no effect
    rights: tuple[
        str, ...
    ] = ()  # of the person in that call, as far as the configuration names them

    @classmethod
    def of(
        cls,
        call: Invocation,
        language: str,
        near: ModelHint | None = None,
        *,
        aloud: bool = False,
        cut: tuple[str, ...] = (),
        same_again: bool = False,
        unused: tuple[str, ...] = (),
        rights: Iterable[str] = (),
    ) -> "Origin":
        """Return the origin of a job requested by this call."""
        return cls(
            platform=call.platform,
            chat=call.chat,
            within=call.within,
            group=call.group,
            user=call.user,
            user_name=call.user_name,
            language=language,
            key=call.key,
            token=call.token,
            request=call.request.message if call.request else None,
            near=near,
            parts=tuple(file.part for file in call.files if file.part),
            aloud=aloud,
            cut=cut,
            may_be_cut=call.may_be_cut,
            same_again=same_again,
            unused=unused,
            rights=tuple(sorted(rights)),
        )

    @property
    def places(self) -> tuple[str, ...]:
        """Return the ids by which a configuration may name the chat, the nearest first."""
        return places_of(self.chat, self.within)

    @property
    def asker(self) -> Asker:
        """Return who asked, and where."""
        rooms = rooms_of(self.platform, self.places)
        return Asker(user=self.user, rooms=rooms, rights=frozenset(self.rights), group=self.group)

    @property
    def nonce(self) -> str:
        """The nonce by which a repeated send of the job's first message finds the earlier one."""
        return f"{self.key} token={self.token}" if self.token else self.key

    def request_ref(self) -> MessageRef | None:
        """Return the caller's own message, if there is one."""
        if self.request is None:
            return None
        return MessageRef(platform=self.platform, chat=self.chat, message=self.request)


@lru_cache(maxsize=256)
def origin_in(reply_to: str) -> Origin | None:
    """Return where a job came from; None for a job without a chat, such as an enhancement.

    Cached, because several listeners read every change of a job.
    """
    try:
        return Origin.model_validate_json(reply_to)
    except ValidationError:
        return None


def name_in(reply_to: str) -> str:
    """Return the display name of a job's person at its origin; "" for a job without a chat."""
    origin = origin_in(reply_to)
    return origin.user_name if origin is not None else ""
