"""Typed calls become checked values, whatever a person types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.commands.admin.preload import PRELOAD
from bot.commands.admin.queue import MOVE
from bot.commands.call.parser import Args, clean, filled, parse, usage
from bot.commands.jobs.cancel import CANCEL
from bot.commands.jobs.edit import EDIT
from bot.commands.make.ask import ASK
from bot.commands.make.image import COMMAND as IMAGE
from bot.commands.me.conversation import FORGET
from bot.commands.me.settings import COMMAND as SETTINGS
from bot.commands.registry import COMMANDS
from bot.core.refusals import Declined, RefusalKind
from bot.requests.options import size
from bot.texts.catalogue import plain
from bot.texts.refusals import sentence

MODELS = {"flux", "sd-xl.1:fast", "llama"}


def image(text: str) -> Args:
    return parse(IMAGE, text, lambda word: word.casefold() in MODELS)


def test_a_call_is_understood() -> None:
    """A prompt would lose words, or an option would end up in the image."""
    cases: list[tuple[str, Args]] = [
        ("flux cat", {"model": "flux", "prompt": "cat"}),
        ("cat on a mat", {"prompt": "cat on a mat"}),
        ("FLUX cat", {"model": "FLUX", "prompt": "cat"}),
        ("sd-xl.1:fast a cat", {"model": "sd-xl.1:fast", "prompt": "a cat"}),
        ("flux a\nb  c", {"model": "flux", "prompt": "a\nb c"}),
        (
            "flux cat --size 3:2 --seed 7",
            {"model": "flux", "prompt": "cat", "size": "3:2", "seed": 7},
        ),
        ("--steps=12 flux cat", {"model": "flux", "prompt": "cat", "steps": 12}),
        ("cat —seed 7", {"prompt": "cat", "seed": 7}),
        ("cat — in the rain — at night", {"prompt": "cat — in the rain — at night"}),
        (
            'cat --negative "blurry, ugly" --count 2',
            {"prompt": "cat", "negative": "blurry, ugly", "count": 2},
        ),
        (
            "cat --ar 16:9 --no red car, hands --cfg 3.5",
            {"prompt": "cat", "size": "16:9", "negative": "red car, hands", "guidance": 3.5},
        ),
        ('cat --no "blurry" at night', {"prompt": "cat at night", "negative": "blurry"}),
        ("cat --strength 0,5", {"prompt": "cat", "strength": 0.5}),
        ("a -- b", {"prompt": "a -- b"}),
        ("-- flux  --seed 7", {"prompt": "flux  --seed 7"}),
        ("--model flux --seed 7 -- -- a", {"model": "flux", "seed": 7, "prompt": "-- a"}),
        ('--negative "a -- b" cat', {"negative": "a -- b", "prompt": "cat"}),
        ("cat --seed 18446744073709551615", {"prompt": "cat", "seed": 2**64 - 1}),
    ]
    for text, expected in cases:
        assert image(text) == expected, text


def test_a_wrong_call_is_refused_with_its_reason() -> None:
    """The bot would guess at a mistake, or the job would fail minutes later."""
    cases: list[tuple[str, RefusalKind]] = [
        ("", RefusalKind.MISSING),
        ("flux", RefusalKind.MISSING),
        ("cat --sise 3:2", RefusalKind.NEAR_OPTION),
        ("cat --xyz 3:2", RefusalKind.UNKNOWN_OPTION),
        ("cat --seed", RefusalKind.NEEDS_VALUE),
        ("cat --no --seed 7", RefusalKind.NEEDS_VALUE),
        ("cat --seed -2", RefusalKind.OUT_OF_RANGE),
        ("cat --seed 18446744073709551616", RefusalKind.OUT_OF_RANGE),
        ("cat --seed 1_0", RefusalKind.NOT_WHOLE),
        (f"cat --seed {'9' * 5000}", RefusalKind.NOT_WHOLE),
        ("cat --steps many", RefusalKind.NOT_WHOLE),
        ("cat --strength nan", RefusalKind.OUT_OF_RANGE),
        ("cat --strength warm", RefusalKind.NOT_A_NUMBER),
        ("cat --count 5", RefusalKind.OUT_OF_RANGE),
        ("cat --size big", RefusalKind.NOT_A_SIZE),
        ("cat --size 0:0", RefusalKind.NOT_A_SIZE),
        ("cat --size 99999x99999", RefusalKind.NOT_A_SIZE),
    ]
    for text, kind in cases:
        with pytest.raises(Declined) as refused:
            image(text)
        assert refused.value.refusal.kind is kind, text


def test_a_command_that_needs_a_model_takes_the_word_as_one() -> None:
    """`/preload typo` would say that the model is missing instead of unknown."""
    assert parse(PRELOAD, "fluxx gpu-1", lambda _: False) == {"model": "fluxx", "host": "gpu-1"}


def test_controls_and_overrides_are_removed_and_languages_kept() -> None:
    """A prompt could reverse the bot's own text, or a person's script would be broken."""
    assert clean("a\x00b\u202ec\u2066d\r\ne\x1b[1m") == "abcd\ne[1m"
    assert clean("שלום\u200f 👩\u200d🚀 क्\u200dष") == "שלום\u200f 👩\u200d🚀 क्\u200dष"
    assert clean("half \ud800 a pair").encode() == b"half  a pair"
    assert clean("\u200b \u2060\ufeff") == ""


def test_sizes_and_shapes() -> None:
    """An image would come in another shape than asked for."""
    cases: list[tuple[str, tuple[int, int] | None]] = [
        ("768x1024", (768, 1024)),
        ("768×1024", (768, 1024)),
        ("1:1", (1024, 1024)),
        ("3:2", (1216, 832)),
        ("9:16", (768, 1344)),
        ("1:100", None),
        ("63x64", None),
    ]
    for text, sides in cases:
        assert size(text) == sides, text


def test_a_usual_size_can_be_taken_back() -> None:
    """A person who once set a size could never again get a model's own."""
    assert parse(SETTINGS, "--size reset", lambda _: False) == {"size": "reset"}
    with pytest.raises(Declined):
        image("cat --size reset")


def test_usage_shows_what_can_be_typed() -> None:
    """The hint in a refusal would not help."""
    assert usage(IMAGE) == "/image [model] <prompt>"
    assert usage(FORGET) == "/forget <conversation|me>"
    assert usage(MOVE) == "/move <id> first"
    assert usage(CANCEL) == "/cancel [id|all]"


def test_a_missing_choice_is_answered_with_the_calls_to_choose_from() -> None:
    """`/forget` would report a missing “what”, which is not a word to type."""
    with pytest.raises(Declined) as refused:
        parse(FORGET, "", lambda _: False)
    told = plain(sentence(refused.value.refusal, "en"))
    assert told == "Choose one: /forget conversation, /forget me"


def test_words_that_look_like_options_stay_in_a_question() -> None:
    """A question about a command line would be refused for its options."""
    asked = parse(ASK, "what does git --amend do? --about fixes", lambda _: False)
    assert asked == {"prompt": "what does git --amend do?", "about": "fixes"}


def test_a_job_may_be_left_out_before_a_text() -> None:
    """In a reply to a result, the job's number would still have to be typed."""
    assert parse(EDIT, "a dog", lambda _: False) == {"prompt": "a dog"}
    assert parse(EDIT, "#12 a dog", lambda _: False) == {"id": 12, "prompt": "a dog"}
    with pytest.raises(Declined):
        parse(CANCEL, "flux", lambda _: False)


@given(st.text(), st.sampled_from(COMMANDS))
def test_nothing_a_person_types_breaks_the_parser(text: str, command: object) -> None:
    """A strange message would end in an internal error instead of a sentence."""
    for known in COMMANDS:
        if known is command:
            try:
                values = parse(known, text, lambda word: word in MODELS)
            except Declined:
                continue
            assert all(name in {param.name for param in known.params} for name in values)


@given(
    st.text(
        alphabet=st.characters(exclude_categories=("C", "Z"), exclude_characters="-—–"), min_size=1
    )
)
def test_a_prompt_without_options_arrives_whole(word: str) -> None:
    """Part of a plain prompt would be lost."""
    assert image(f"flux {word} {word}")["prompt"] == clean(f"{word} {word}")


def test_options_are_typed_into_the_prompt_of_a_form_too() -> None:
    """On Discord "--ar 3:2" would be drawn as words, although it works everywhere else."""
    prompt = "a cat --ar 3:2 --no dogs, rain --seed 7"
    asked = {"prompt": "a cat", "size": "3:2", "negative": "dogs, rain", "seed": "7"}
    cases: list[tuple[Args, str, Args]] = [
        ({"prompt": prompt}, "", asked),
        ({"prompt": prompt, "seed": 8}, "", asked | {"seed": 8}),
        ({"prompt": prompt}, "--seed 9", asked | {"seed": "9"}),
        ({"prompt": "-- a --cat"}, "", {"prompt": "a --cat"}),
        ({"prompt": "--seed 7"}, "", {"seed": "7"}),
        ({"seed": 8}, "--ar 3:2", {"seed": 8, "size": "3:2"}),
    ]
    for fields, more, expected in cases:
        assert filled(IMAGE, fields, more) == expected, fields
    question = {"prompt": "what does --amend do?"}
    assert filled(ASK, question, "") == question
    old = {"prompt": "a cat --steps 8", "steps": "20"}
    assert filled(EDIT, old, "") == {"prompt": "a cat", "steps": "20"}
    assert filled(EDIT, old, "", held=True) == {"prompt": "a cat", "steps": "8"}
    for fields, more in (({"prompt": "a cat --v 6"}, ""), ({"prompt": "a cat"}, "--v 6")):
        with pytest.raises(Declined) as declined:
            filled(IMAGE, fields, more)
        assert declined.value.refusal.kind is RefusalKind.UNKNOWN_OPTION
