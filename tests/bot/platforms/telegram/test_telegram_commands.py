"""What people type becomes a command with its text, however they type it."""

from hypothesis import example, given
from hypothesis import strategies as st
from telegram import MessageEntity

from bot.commands.registry import COMMANDS
from bot.platforms.telegram.commands import TypedCommand, menu, typed
from bot.texts.catalogue import describe
from tests.fakes.telegram.telegram_state import command_entities


def entities(text: str) -> list[MessageEntity]:
    return [MessageEntity(**each) for each in command_entities(text)]


def read(text: str) -> TypedCommand | None:
    return typed(text, entities(text))


def test_a_command_and_its_text_are_told_apart() -> None:
    """A way of typing that people use would lose its model or its prompt."""
    cases: list[tuple[str, str, str]] = [
        ("/image flux cat", "image", "flux cat"),
        ("/image=flux=cat on mat", "image", "flux cat on mat"),
        ("/image=cat on mat", "image", "cat on mat"),
        ("/image=flux cat", "image", "flux cat"),
        ("/image=flux-dev/v1.0:fp8=cat", "image", "flux-dev/v1.0:fp8 cat"),
        ("/image=flux=1+1=2", "image", "flux 1+1=2"),
        ("/image=--size=3:2 cat", "image", "--size=3:2 cat"),
        ("/image=", "image", ""),
        ("/image", "image", ""),
        ("/IMAGE cat", "image", "cat"),
        ("/image\nflux\na cat\non a mat", "image", "flux\na cat\non a mat"),
        ("/image =) a smile", "image", "=) a smile"),
        ("/image 🐈 /ask nothing", "image", "🐈 /ask nothing"),
        ("/image=flüx=Katze 🐈\u200d⬛", "image", "flüx Katze 🐈\u200d⬛"),
    ]
    for text, command, rest in cases:
        assert read(text) == TypedCommand(command=command, addressee=None, text=rest), text


def test_the_addressed_bot_is_named() -> None:
    """A command for another bot would be regarded as this bot's."""
    assert read("/image@Usher_Bot=flux=cat") == TypedCommand(
        command="image", addressee="usher_bot", text="flux cat"
    )


def test_a_command_later_in_a_text_is_none() -> None:
    """People who talk about a command would call it."""
    for text in ("a cat", "see /image cat", "https://a.org/image", "", "/"):
        assert read(text) is None, text


@given(model=st.from_regex(r"[a-z][\w.:/-]{0,20}", fullmatch=True), prompt=st.text(max_size=80))
@example(model="flux", prompt="🐈=🐕")
def test_both_forms_mean_the_same(model: str, prompt: str) -> None:
    """The form with equals signs would arrive differently from the one with spaces."""
    words = prompt.strip()
    with_signs, with_spaces = read(f"/image={model}={words}"), read(f"/image {model} {words}")
    assert with_signs is not None
    assert with_spaces is not None
    assert with_signs.text.split() == with_spaces.text.split()


@given(st.text())
def test_any_text_after_a_command_is_kept_whole(text: str) -> None:
    """Characters outside the basic plane would shift what is read, or a strange text would fail."""
    found = read(f"/ask {text}")
    assert found is not None
    assert found.text == text.strip()


def test_the_menu_is_one_that_telegram_takes() -> None:
    """One command with a wrong name or help would make Telegram refuse the whole menu."""
    everybodys = menu(COMMANDS, describe, "en", admin=False)
    admins = menu(COMMANDS, describe, "de", admin=True)
    assert {each.command for each in admins} == {each.name for each in COMMANDS if not each.hidden}
    hidden = {each.name for each in COMMANDS if each.admin or each.hidden}
    assert hidden.isdisjoint(each.command for each in everybodys)
    assert all(1 <= len(each.description) <= 256 for each in (*everybodys, *admins))
