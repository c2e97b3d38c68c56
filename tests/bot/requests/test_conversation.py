"""What a model is sent of a conversation: bounded, whole turns, images in their places."""

from hypothesis import given
from hypothesis import strategies as st

from bot.core.live_settings import ChatSettings, ChatSettingsTable, places_of
from bot.requests.conversation import IMAGES, USUAL_CHARS, Conversation, continued, room_chars
from bot.requests.options import Style
from bot.requests.word_filter import unwanted_word
from queueing.core.requests import ChatMessage, File
from queueing.core.specs import ModelSpec


def user(text: str, *images: int) -> ChatMessage:
    return ChatMessage(role="user", text=text, images=images)


def answer(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", text=text)


def file(name: str) -> File:
    return File(name=name, mime="image/png", data=b"")


def talks(*lengths: int, images: tuple[int, ...] = ()) -> Conversation:
    """Return alternating questions and answers of this length; some questions with an image."""
    turns = [
        answer("a" * length) if place % 2 else user("q" * length)
        for place, length in enumerate(lengths)
    ]
    for index, place in enumerate(images):
        turns[place] = turns[place].model_copy(update={"images": (index,)})
    files = tuple(file(f"{index}.png") for index in range(len(images)))
    return Conversation(turns=tuple(turns), files=files)


ASKED = Conversation(turns=(user("why?"),))


def test_the_oldest_pairs_go_first_and_system_and_question_stay() -> None:
    """A server would refuse a long conversation, or the model forget its instructions."""
    talk = continued(talks(50, 50, 10, 10), ASKED, system="Rhyme.", room=40, sees=False)
    assert [turn.role for turn in talk.turns] == ["system", "user", "assistant", "user"]
    assert [len(turn.text) for turn in talk.turns] == [6, 10, 10, 4]
    nothing = continued(talks(50, 50), ASKED, system="Rhyme." * 99, room=40, sees=False)
    assert [turn.role for turn in nothing.turns] == ["system", "user"]


def test_the_end_of_an_answer_that_is_too_long_stays() -> None:
    """The question "and then?" would be asked without the answer it refers to, and unnoticed."""
    earlier = Conversation(turns=(user("q" * 900), answer("a" * 3000 + "the end")))
    talk = continued(earlier, ASKED, system="", room=1000, sees=False)
    assert talk.shortened
    assert [turn.role for turn in talk.turns] == ["user", "assistant", "user"]
    question, said, _ = (turn.text for turn in talk.turns)
    assert (len(question), question[-2:]) == (249, "q…")
    assert said.startswith("[the beginning is left out] … aaa")
    assert said.endswith("aaathe end")
    assert sum(len(turn.text) for turn in talk.turns) == 1000
    unanswered = Conversation(turns=(user("q" * 3000),))
    assert len(continued(unanswered, ASKED, system="", room=1000, sees=False).turns) == 1


def test_a_system_prompt_of_before_is_replaced_by_the_one_of_now() -> None:
    """A changed system prompt of a chat would not apply in running conversations."""
    earlier = Conversation(turns=(ChatMessage(role="system", text="old"), user("a"), answer("b")))
    talk = continued(earlier, ASKED, system="new", room=99, sees=False)
    assert [turn.text for turn in talk.turns] == ["new", "a", "b", "why?"]


def test_images_come_along_for_a_model_that_sees_the_newest_ones() -> None:
    """A question would refer to another image, or a model get images that it cannot see."""
    earlier = talks(1, 1, 1, 1, 1, 1, images=(0, 2, 4))
    asked = Conversation(turns=(user("these?", 0, 1),), files=(file("x.png"), file("y.png")))
    talk = continued(earlier, asked, system="", room=999, sees=True)
    assert [each.name for each in talk.files] == ["1.png", "2.png", "x.png", "y.png"]
    assert [turn.images for turn in talk.turns if turn.role == "user"] == [(), (0,), (1,), (2, 3)]
    blind = continued(earlier, ASKED, system="", room=999, sees=False)
    assert blind.files == ()
    assert not any(turn.images for turn in blind.turns)


@given(
    st.lists(st.integers(0, 40) | st.just(900), max_size=12),
    st.integers(0, 200) | st.integers(390, 500),
    st.booleans(),
    st.sets(st.integers(0, 5).map(lambda place: place * 2), max_size=6),
)
def test_what_is_sent_always_fits_and_makes_sense(
    lengths: list[int], room: int, sees: bool, images: set[int]
) -> None:
    """Some conversations could not be continued at all."""
    shown = tuple(sorted(place for place in images if place < len(lengths)))
    talk = continued(talks(*lengths, images=shown), ASKED, system="S", room=room, sees=sees)
    front, *turns = talk.turns
    assert front.role == "system"
    assert turns[-1] == ASKED.turns[0]
    assert turns[0].role == "user"
    assert len(talk.files) <= IMAGES
    named = [index for turn in turns for index in turn.images]
    assert named == list(range(len(talk.files)))
    if len(turns) > 1:
        assert sum(len(turn.text) for turn in talk.turns) <= room


def test_the_room_follows_the_models_context() -> None:
    """A model with a large context would be treated like one with a small context."""

    def spec(**options: int) -> ModelSpec:
        return ModelSpec(name="m", backends=("b",), capabilities=frozenset(), options=dict(options))

    assert room_chars(None) == room_chars(spec()) == USUAL_CHARS
    assert room_chars(spec(context_length=4096)) == int(4096 * 3.5 * 0.75)


def test_a_chat_has_its_own_rules_or_its_platforms_or_everybodys() -> None:
    """The rules of one chat would apply in another, or a thread escape its group's rules."""
    own, platform, usual = (
        ChatSettings(system="own"),
        ChatSettings(system="platform"),
        ChatSettings(system="usual"),
    )
    rooms = ChatSettingsTable(by_key={"telegram:-5": own, "discord": platform, "*": usual})
    assert rooms.of("telegram", ["-5"]) == rooms.of("telegram", places_of("-5/12", ())) == own
    assert rooms.of("discord", ["77"]) == platform
    assert rooms.of("telegram", ["-51"]) == usual
    assert ChatSettingsTable().of("web", ["local"]) == ChatSettings()


_LEVELS = ("thread", "channel", "category", "server")
_KEYS = (*(f"discord:{place}" for place in _LEVELS), "discord", "*")
_ELSEWHERE = ("telegram", "telegram:thread", "discord:another", "discord:cat", "channel")


@given(st.sets(st.sampled_from((*_KEYS, *_ELSEWHERE))))
def test_the_nearest_place_with_rules_decides(named: set[str]) -> None:
    """A wide rule would override a near one, or a thread escape all of them."""
    rooms = ChatSettingsTable(by_key={key: ChatSettings(system=key) for key in named})
    places = places_of("thread", ("server", "category", "channel"))
    nearest = next((key for key in _KEYS if key in named), "")
    assert rooms.of("discord", places).system == nearest


def test_unwanted_words_are_whole_words_in_any_case() -> None:
    """A list of words would refuse harmless words, or be evaded with a capital letter."""
    room = ChatSettings(words=("ass", "Straße", "snow crash"))
    assert unwanted_word(room.words, ["a class of grass"]) is None
    assert unwanted_word(room.words, [None, "ASS!"]) == "ass"
    assert unwanted_word(room.words, ["auf der STRASSE"]) == "Straße"
    assert unwanted_word(room.words, ["snow\n crash"]) == "snow crash"
    assert unwanted_word(room.words, ["a\u00ads\u200bs\u2060 \uff21\uff33\uff33"]) == "ass"
    assert unwanted_word((), ["anything"]) is None


def test_a_style_keeps_the_persons_words_as_they_are() -> None:
    """A prompt with braces would change the style, or be changed by it."""
    assert Style(prompt="{prompt}, noir").apply("a {prompt}") == "a {prompt}, noir"
    assert Style(prompt="noir").apply("a cat") == "a cat, noir"
    assert Style().apply("a cat") == "a cat"
    assert Style(negative="colour").without(None) == "colour"
    assert Style().without(None) is None
