"""Long answers are divided where a reader would divide them, and continue in the same format."""

from bot.core.content import Content, Markdown, utf16_length
from bot.markdown.elements import Blocks
from bot.markdown.pages import pages
from bot.markdown.parser import parse
from bot.platforms.discord.renderer import measured, text_of


def divided(text: str, limit: int) -> list[str]:
    """Return the pages as they are sent to Discord."""
    made = pages(parse(text), limit, _measure)
    return [text_of(Content(body=(Markdown.of(page),))) for page in made]


def _measure(blocks: Blocks) -> int:
    return measured((Markdown.of(blocks),))


def test_a_short_answer_is_one_page() -> None:
    """Short answers would be changed without need."""
    assert divided("hello", 2000) == ["hello"]
    assert divided("", 2000) == [""]


def test_pages_end_with_paragraphs() -> None:
    """A sentence would be split although a paragraph ends nearby."""
    assert divided("a" * 70 + "\n\n" + "b" * 90, 130) == ["a" * 70, "b" * 90]


def test_a_long_paragraph_ends_with_a_sentence_or_a_word() -> None:
    """Words would be split."""
    first, second, *_ = divided("One sentence of words. " * 20, 130)
    assert first.endswith("words.")
    assert second.startswith("One")
    assert {len(page) % 5 for page in divided("word " * 60, 130)} == {4}


def test_code_goes_on_as_code_in_its_language() -> None:
    """Half an answer would be shown as code, or code as text."""
    text = "before\n\n1. Run:\n\n   ```python\n" + "   x = 1\n" * 60 + "   ```\n2. after"
    first, *others = divided(text, 150)
    assert first.startswith("before\n1. Run:\n```python\nx = 1\n")
    assert [page[:10] for page in others] == ["```python\n"] * len(others)
    assert others[-1].endswith("x = 1\n```\n\n2. after")


def test_a_list_goes_on_with_its_number() -> None:
    """A step would have another step's number, or two numbers."""
    text = "".join(f"{number}. {'words ' * 12}\n" for number in range(1, 5))
    assert [page[:8] for page in divided(text, 100)] == [f"{each}. words" for each in range(1, 5)]
    first, second = divided(f"1. {'words ' * 20}\n2. end", 100)
    assert (first[:8], second[:5], second[-6:]) == ("1. words", "words", "2. end")


def test_a_table_goes_on_with_its_header() -> None:
    """Figures on the second page would have no headings."""
    text = "|Number|Square|\n|-:|-:|\n" + "".join(f"|{each}|{each**2}|\n" for each in range(40))
    made = divided(text, 300)
    assert len(made) > 1
    assert {page.splitlines()[1] for page in made} == {"Number  Square"}


def test_words_stay_bold_over_a_page() -> None:
    """Stars would be shown, and the rest not be bold."""
    made = divided("**" + "bold " * 60 + "end**", 100)
    assert all(page.startswith("**") and page.endswith("**") for page in made)


def test_no_sign_is_torn() -> None:
    """An emoji of a family would become its members, or a flag two letters."""
    family = "👩‍👩‍👧‍👦"
    made = divided(family * 40 + "🇩🇪" * 40, 100)
    assert all(utf16_length(page) <= 100 for page in made)
    assert all(page.count("👩") == 2 * page.count("👧") for page in made)
    assert all(page.count("🇩") == page.count("🇪") for page in made)
