"""Answers on the page in a real Chromium: formulas, coloured code, and what only looks so."""

import asyncio
from pathlib import Path

import pytest

from bot.core.content import Content, Markdown
from tests.bot.platforms.web.test_web_page import Stage, chromium, stage
from tests.bot.platforms.web.web_client import image

__all__ = ["chromium", "stage"]  # fixtures of the page's own tests
pytestmark = pytest.mark.browser

MATHS = r"""
It costs $5 and $6, and \$7 with `$x$`. The root is $\sqrt{x^2}$, and \(e^{i\pi}\) is -1.

$$
\int_0^1 x\,dx = \boxed{\frac{1}{2}}
$$

No formula: $\frac{a}{$, and $\href{javascript:window.hacked=1}{x}$.
"""
CODE = """\
```python
def meow(times: int) -> str:
    return "<b>meow</b>" * times  # loud
```

```nonsense
def plain
```
"""
LIBRARIES = """performance.getEntriesByType("resource").map(({ name }) => name)
  .filter((name) => /katex|highlight/.test(name)).length"""


async def test_formulas_are_typeset_and_prices_stay_prices(stage: Stage) -> None:
    """A reader would see TeX, or a shop's prices as a formula."""
    page = stage.page
    await stage.show(Content(body=(Markdown("It costs $5 and $6."),)))
    assert await page.evaluate(LIBRARIES) == 0
    await stage.show(Content(body=(Markdown(MATHS),)))
    await page.wait("document.querySelectorAll('.typeset .katex').length === 4")
    formulas = "[...document.querySelectorAll('.typeset annotation')].map((it) => it.textContent)"
    assert (await page.evaluate(formulas))[:2] == [r"\sqrt{x^2}", r"e^{i\pi}"]
    paragraph = await page.text(".message:last-child p")
    assert "$5 and $6, and $7 with $x$." in paragraph
    assert r"\frac{a}{" in await page.text(".message:last-child")
    assert await page.evaluate("document.querySelectorAll('.katex a').length") == 0
    font = "document.fonts.check('16px KaTeX_Main')"
    await page.wait(font)


async def test_code_is_coloured_as_it_grows_and_stays_the_same_text(stage: Stage) -> None:
    """Code would be hard to read, lose a character, or become elements of the page."""
    page = stage.page
    ref = await stage.show(Content(body=(Markdown(CODE[:40]),)))
    await page.wait("document.querySelector('.token-keyword')?.textContent === 'def'")
    await page.evaluate("window.first = document.querySelector('.code pre')")
    await stage.web.edit(ref, Content(body=(Markdown(CODE[:60]), "▌")))
    await page.wait("document.querySelector('.code code').textContent.endsWith('▌')")
    await stage.web.edit(ref, Content(body=(Markdown(CODE),)))
    await page.wait("document.querySelector('.token-comment')?.textContent === '# loud'")
    assert await page.evaluate("document.querySelectorAll('.code b').length") == 0
    blocks = "[...document.querySelectorAll('.code code')].map((it) => it.textContent)"
    python, plain = await page.evaluate(blocks)
    assert await page.evaluate("window.first.isConnected")
    assert (python, plain) == (CODE.split("```")[1].removeprefix("python\n").strip(), "def plain")


async def test_code_is_copied_where_the_browser_has_no_clipboard(stage: Stage) -> None:
    """On a page without TLS, the button would do nothing."""
    page = stage.page
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await page.evaluate("addEventListener('copy', () => (window.taken = String(getSelection())))")
    await stage.show(Content(body=(Markdown(CODE),)))
    await page.click(".code .copy")
    await page.wait("document.querySelector('.code .copy').textContent === 'Copied'")
    assert '"<b>meow</b>" * times' in await page.evaluate("window.taken")


async def test_an_answer_names_the_files_it_is_about_and_opens_them(
    stage: Stage, tmp_path: Path
) -> None:
    """After some messages or a restart, nobody would know which of ten reports was summarised."""
    page, cat, report = stage.page, tmp_path / "cat.png", tmp_path / "report.txt"
    await asyncio.to_thread(cat.write_bytes, image().data)
    await asyncio.to_thread(report.write_text, "Sales went up.")
    await page.set_files("#file", cat, report)
    await page.wait("document.querySelectorAll('#attached .done').length === 2")
    call = await stage.say("what is new?")
    ref = await call.respond(Content(body=("#2 in line",)), False)
    assert ref is not None
    await page.wait_text("#2 in line")
    await stage.web.edit(ref, Content(body=(Markdown("Sales went **up**."),)))
    await page.wait_text("report.txt", ".message:last-child .about")
    link = "document.querySelector('.about a').href"
    assert await page.evaluate(f"fetch({link}).then((it) => it.text())") == "Sales went up."
    await page.click(".about button")
    await page.wait_text("cat.png", "#large-name")
    await page.press("Escape")
    other = await stage.say("and without files?")
    await other.respond(Content(body=(Markdown("Nothing."),)), False)
    await page.wait_text("Nothing.")
    assert await page.evaluate("document.querySelectorAll('.about:not([hidden])').length") == 1
