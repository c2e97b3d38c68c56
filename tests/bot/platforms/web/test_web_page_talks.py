"""The side bar's conversations in a real Chromium: begun, found, named, deleted, and left."""

import json

import pytest

from bot.core.content import Button, Content
from tests.bot.platforms.web.test_web_page import LAST, Stage, chromium, stage
from tests.bot.platforms.web.web_client import image

__all__ = ["chromium", "stage"]

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

ROWS = "[...document.querySelectorAll('#talks .talk')]"
TITLES = f"{ROWS}.map((row) => row.querySelector('.talk-title').textContent).join()"
DOTS = f"{ROWS}.map((row) => Number(!row.querySelector('.talk-new').hidden)).join()"
SHOWN = "[...document.querySelectorAll('.message .body')].map((node) => node.textContent).join()"


async def test_conversations_from_the_first_line_to_the_last(stage: Stage) -> None:
    """A person could not begin, find again, name or leave a conversation."""
    page = stage.page
    first = await stage.say("all about cats")
    await page.wait(f"{TITLES} === 'all about cats'")
    await page.click("#talk-new")
    await page.wait(f"{SHOWN} === '' && document.activeElement.id === 'text'")
    await stage.say("/image flux dogs")
    await page.wait(f"{TITLES} === 'dogs,all about cats'")
    # A draft belongs to its conversation, and what arrives elsewhere is marked.
    await page.type("unsent")
    await page.evaluate("document.hasFocus = () => false")
    await first.respond(Content(body=("cats are soft",)), False)
    await page.wait(f"{TITLES} === 'all about cats,dogs' && {DOTS} === '1,0'")
    await page.wait("document.title === '(1) Usher'")
    await page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
    assert "cats are soft" not in await page.evaluate(SHOWN)
    await page.click("#talks .side-link")
    await page.wait(f"{SHOWN} === 'all about cats,cats are soft' && {DOTS} === '0,0'")
    assert await page.evaluate("document.getElementById('text').value") == ""
    await page.evaluate("history.back()")
    await page.wait(f"{SHOWN} === '/image flux dogs'")
    assert await page.evaluate("document.getElementById('text').value") == "unsent"
    await page.reload()
    await page.wait(f"{SHOWN} === '/image flux dogs' && {TITLES} !== ''")


async def test_a_conversation_is_found_named_and_deleted(stage: Stage) -> None:
    """A person could not clean up, or would delete with one careless press."""
    page = stage.page
    await stage.show(Content(body=("all about cats",)))
    await page.click("#talk-new")
    await stage.say("/image flux dogs")
    await page.wait(f"{TITLES} === 'dogs,all about cats'")
    # By keyboard.
    await page.click("#talk-find")
    await page.type("ABOUT CATS")
    await page.wait(f"{TITLES} === 'all about cats'")
    await page.press("Tab")
    await page.press("Tab")
    await page.press("Enter")
    await page.wait("document.activeElement.role === 'menuitem'")
    await page.press("Enter")
    await page.wait("document.activeElement.value === 'all about cats'")
    await page.evaluate("document.activeElement.select()")
    await page.type("Pets & more")
    await page.press("Enter")
    await page.wait(f"{TITLES} === 'Pets & more'")
    await page.evaluate("document.getElementById('talk-find').select()")
    await page.type("nowhere")
    await page.wait("document.getElementById('talks-none').textContent !== ''")
    await page.evaluate("document.getElementById('talk-find').value = ''")
    await page.click("#talk-find")
    await page.type(" ")
    await page.wait(f"{TITLES} === 'dogs,Pets & more'")
    # Deleting is asked first.
    await page.click("#talks .talk:first-child .icon")
    await page.click(".menu .danger")
    await page.wait("document.querySelector('.ask')?.open")
    await page.press("Escape")
    await page.wait(f"!document.querySelector('.ask') && {TITLES} === 'dogs,Pets & more'")
    await page.click("#talks .talk:first-child .icon")
    await page.click(".menu .danger")
    await page.click(".ask .danger")
    await page.wait(f"{TITLES} === 'Pets & more' && {SHOWN} === ''")
    assert await page.evaluate("document.activeElement.innerText") == "Pets & more"


async def test_new_typed_begins_a_conversation_and_a_phone_closes_the_drawer(stage: Stage) -> None:
    """`/new` would only reach the bot, and the drawer hide the conversation it opened."""
    page = stage.page
    await page.look(width=390, height=320, phone=True)
    await page.wait("document.getElementById('scroll').clientHeight < 250")
    await page.reload()
    await page.wait_text("Connected")
    top = "document.querySelector('#empty h2').getBoundingClientRect().top"
    edge = "document.getElementById('scroll').getBoundingClientRect().top"
    await page.wait(f"{top} > {edge}")  # the first words are not scrolled away
    await page.look(width=390, phone=True)
    await stage.say("one")
    await page.click("#text")
    await page.type("/new")
    await page.press("Enter")
    await page.wait(f"{SHOWN} === ''")
    call = await stage.say("two")
    assert call.chat.startswith("local/")
    await page.wait(f"{TITLES} === 'two,one'")
    await page.click("#side-open")
    # The keyboard goes into the drawer, stays there, and Escape closes what lies on top.
    opened = "document.getElementById('side').classList.contains('opened')"
    assert await page.evaluate("document.activeElement.id") == "side-close"
    assert await page.evaluate("document.getElementById('stage').inert")
    await page.click("#talks .talk:nth-child(2) .icon")
    await page.press("Escape")
    await page.wait("!document.querySelector('.menu')")
    assert await page.evaluate(opened)
    await page.click("#talks .talk:nth-child(2) .side-link")
    await page.wait(f"{SHOWN} === 'one' && document.getElementById('side').inert")
    assert await page.evaluate("document.getElementById('text').value") == ""
    small = (  # whole pixels: the drawer may still be moving
        "[...document.querySelectorAll('#side a, #side button, #side input')]"
        ".filter((node) => node.offsetWidth && Math.min(node.offsetWidth, node.offsetHeight) < 44)"
        ".map((node) => node.outerHTML).join()"
    )
    assert await page.evaluate(small) == ""


async def test_back_closes_what_lies_over_the_page_and_then_leaves_the_view(stage: Stage) -> None:
    """Back on a phone would leave the conversation, with the drawer still open over the next one."""
    page = stage.page
    await page.look(width=390, phone=True)
    await stage.show(Content(body=("one",), files=(image(),)))
    other = f"#chat/{'a' * 16}"
    await stage.web.send(f"local/{'a' * 16}", Content(body=("dogs",)))
    for address in (other, "#chat/first"):
        await page.evaluate(f"location.hash = '{address}'")
    delete = Button(command="delete", job_id=7, label="Delete")
    await stage.show(Content(body=("a cat",), buttons=((delete,),)))
    drawer, menu = "#side.opened", ".menu"
    row = "#talks .talk .icon"
    layers = [
        (["#side-open"], [drawer]),
        (["#side-open", row], [drawer, menu]),
        (["#side-open", row, ".menu-item.danger"], [drawer, "dialog.ask"]),
        (["#side-open", row, ".menu-item"], [drawer, "#form[open]"]),
        ([f"{LAST} [aria-haspopup]"], [menu]),
        ([".message .image"], ["#large[open]"]),
    ]
    for presses, over in layers:
        for press in presses:
            await page.click(press)
        while over:
            await page.wait(f"[...document.querySelectorAll('{over[-1]}')].length === 1")
            await page.evaluate("history.back()")
            await page.wait(f"document.querySelector('{over.pop()}') === null")
        assert await page.evaluate("location.hash") == "#chat/first"
    # Closed in another way, it leaves nothing for Back to close.
    await page.click(".message .image")
    await page.wait("document.querySelector('#large[open]') !== null")
    await page.click("#large-close")
    await page.wait("history.state === null")
    # A view opened from the drawer is left to the one behind it.
    await page.click("#side-open")
    await page.click(f"#talks [href='{other}']")
    await page.wait(f"location.hash === '{other}' && !document.querySelector('#side.opened')")
    await page.evaluate("history.back()")
    await page.wait("location.hash === '#chat/first' && history.state === null")
    await page.evaluate("history.back()")
    await page.wait(f"location.hash === '{other}'")


async def test_what_waits_to_be_sent_stays_in_its_conversation(stage: Stage) -> None:
    """A message typed without a connection would go to whichever conversation is open later."""
    page, key = stage.page, "a" * 16
    line = {"type": "say", "conversation": key, "text": "later"}
    outbox = [
        {**line, "key": "0" * 32, "uploads": ["gone"], "text": "with a file"},
        {**line, "key": "1" * 32, "uploads": []},
    ]
    await page.evaluate(f"sessionStorage.setItem('usher-outbox', {json.dumps(json.dumps(outbox))})")
    await page.reload()
    assert (await stage.handler.taken()).chat == f"local/{key}"
    await page.wait(f"{TITLES} === 'later' && {SHOWN} === ''")
    await page.click("#talks .side-link")
    await page.wait(f"{SHOWN} === 'later'")
    assert await page.evaluate("document.getElementById('text').value") == "with a file"


async def test_a_new_conversation_is_there_before_the_server_answers(stage: Stage) -> None:
    """On a slow connection the page would be empty, as if the press had broken it."""
    page = stage.page
    await stage.show(Content(body=("one",)))
    await page.evaluate("WebSocket.prototype.send = () => {}; undefined")
    await page.click("#talk-new")
    await page.wait(f"{SHOWN} === '' && !document.getElementById('empty').hidden")
    await page.click("#talks .side-link")  # one with messages is not said to be new
    await page.wait("document.getElementById('empty').hidden")


@pytest.mark.parametrize("damaged", ["#%", "#chat/%E0", "#chat/local/x"])
async def test_a_damaged_address_opens_the_chat(stage: Stage, damaged: str) -> None:
    """A link cut off by a mail program would leave an empty page."""
    page = stage.page
    await page.evaluate(f"history.replaceState(null, '', '{damaged}')")
    await page.reload()
    await page.wait_text("Connected")
    assert (await stage.say("hello")).chat == "local"


async def test_the_way_to_more_conversations_is_there_after_a_search(stage: Stage) -> None:
    """The older ones could not be reached before the list changed, nor with the keyboard."""
    page = stage.page
    for number in range(43):
        await stage.web.send(f"local/{number:016x}", Content(body=(f"talk {number}",)))
    await page.wait(f"{ROWS}.length === 40")
    await page.click("#talk-find")
    await page.type("talk 2")
    await page.wait(f"{ROWS}.length === 11")
    await page.evaluate("document.getElementById('talk-find').select()")
    await page.press("Backspace")
    await page.wait(f"{ROWS}.length === 40")
    await page.evaluate("document.getElementById('talks-more').focus()")
    await page.press("Enter")
    await page.wait(f"{ROWS}.length === 43")
    assert (
        await page.evaluate(f"{ROWS}.findIndex((row) => row.contains(document.activeElement))")
        == 40
    )
