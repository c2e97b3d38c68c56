"""The operator's page in a real Chromium: a crowd of thirty; mouse, keyboard, and a phone."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio

from bot.app.logs import LINES, LogTail
from bot.core.content import Content
from bot.monitoring.records import HourSpan, Segment
from bot.people.audit_log import Act
from bot.platforms.web.operator.dashboard import DashboardData
from queueing.core.snapshot import Reason, WaitCause
from tests.bot.platforms.web.dashboard.examples import ExampleJobs, ExampleRecords
from tests.bot.platforms.web.dashboard.operator_client import ADAS, TOKEN, Example
from tests.bot.platforms.web.test_web_page import ATTACKS, chromium
from tests.bot.platforms.web.web_client import running
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import web_chat
from tests.fakes.programs.chromium import Chromium, Page

__all__ = ["chromium"]  # a fixture of the chat page's tests
pytestmark = pytest.mark.browser

FOCUSED = "document.activeElement"
DRAWN = "document.querySelectorAll('.model-times > li').length === 4"
SMALL = """((least) => [...document.querySelectorAll("button, input, select, summary, a")]
  .filter((node) => node.checkVisibility({ opacityProperty: true }) && !node.closest(".skip"))
  .filter((node) => { const box = (node.closest(".log-only") ?? node).getBoundingClientRect(); return box.width < 24 || box.height < least; })
  .map((node) => node.outerHTML))"""
WIDE = """[...document.querySelectorAll("body *")].filter((node) => node.checkVisibility())
  .filter((node) => !node.closest(".table-room, .unseen"))
  .filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map((node) => node.outerHTML)"""
NAMELESS = """[...document.querySelectorAll("button, [role=slider], [role=img], select, [role=region]")]
  .filter((node) => node.checkVisibility() && !(node.ariaLabel || node.labels?.length || node.innerText.trim()))
  .map((node) => node.outerHTML)"""

MISNAMED = """[...document.querySelectorAll("button[aria-label], summary[aria-label], a[aria-label]")]
  .filter((node) => /\\p{L}/u.test(node.textContent) &&
    !node.ariaLabel.toLowerCase().includes(node.textContent.trim().toLowerCase()))
  .map((node) => `${node.ariaLabel} / ${node.textContent}`)"""


class Room:
    """The operator's page of an admin, and the bot behind it, played by the test."""

    def __init__(self, example: Example, handler: ScriptedHandler, page: Page) -> None:
        self.example = example
        self.records = example.records
        self.handler = handler
        self.page = page

    async def tab_to(self, label: str) -> None:
        """Press Tab until an element of that name has the focus."""
        for _ in range(80):
            name = await self.page.evaluate(f"{FOCUSED}.ariaLabel || {FOCUSED}.innerText")
            if name == label:
                return
            await self.page.press("Tab")
        raise AssertionError(f"Tab never reaches {label!r}")


@asynccontextmanager
async def opened(chromium: Chromium, example: Example) -> AsyncIterator[Room]:
    handler = ScriptedHandler()
    async with running(example.web, handler), chromium.page() as page:
        await page.goto(f"{example.web.url}?token={TOKEN}")
        await page.goto(f"{example.web.url}operator")
        await page.wait(DRAWN)
        yield Room(example, handler, page)
        assert page.errors == []


@pytest_asyncio.fixture
async def room(chromium: Chromium) -> AsyncIterator[Room]:
    async with opened(chromium, Example()) as room:
        yield room


async def test_an_image_of_now_follows_what_happens(room: Room) -> None:
    """An operator would see an old state, or have to reload."""
    page, records = room.page, room.records
    await page.wait_text("24 waiting", "#queues")
    assert (
        await page.evaluate("document.querySelectorAll('.bar-of-memory')[0].children.length") == 4
    )
    assert "flux 17\u00a0GB, loaded, kept in memory" in await page.evaluate(
        "document.querySelector('.bar-of-memory').ariaLabel"
    )
    first = records.now.hosts[0]
    job = replace(first.running[0], fraction=0.73)
    records.now = replace(
        records.now, hosts=(replace(first, mode="paused", running=(job,)), *records.now.hosts[1:])
    )
    await page.wait_text("73", ".job .share")
    await page.wait_text("paused", ".host .chip")
    records.now = replace(records.now, hosts=(), queues=(), mode="paused")
    await page.wait_text("Everything is paused")
    await page.wait("document.querySelector('#hosts').children.length === 0")


async def test_a_host_at_rest_says_why_and_can_be_put_to_work(room: Room) -> None:
    """An operator would see an open host that does nothing."""
    page, records = room.page, room.records
    first, *others = records.now.hosts
    quiet = Reason(why=WaitCause.QUIET, model="", host="gpu-1", until=records.now.at + 3600)
    resting = replace(first, mode="quiet", rest=quiet)
    records.now = replace(records.now, hosts=(resting, *others))
    await page.wait_text("quiet hours", ".host .chip")
    await page.wait_text("gpu-1", ".host .reason")
    await page.click("[aria-label='Resume: gpu-1']")
    call = await room.handler.taken()
    assert (call.command, call.options) == ("resume", {"host": "gpu-1"})
    awake = replace(first, awake_until=records.now.at + 3600, unmeasured_since=records.now.at)
    records.now = replace(records.now, hosts=(awake, *others))
    await page.wait_text("resumed by an admin until", ".host")
    await page.wait_text("not measured since", ".host")


async def test_a_machine_that_sleeps_is_no_fault(room: Room) -> None:
    """An operator would look for a fault, and be offered to resume what is not paused."""
    page, records = room.page, room.records
    first, *others = records.now.hosts
    down = tuple(replace(each, up=False, error="No route to host") for each in first.servers)
    why = Reason(why=WaitCause.ASLEEP, model="", host="gpu-1")
    asleep = replace(first, mode="asleep", rest=why, servers=down, running=(), copies=())
    records.now = replace(records.now, hosts=(asleep, *others))
    await page.wait_text("asleep", ".host .chip")
    await page.wait_text("asleep", ".host .servers")
    assert "No route to host" not in await page.text(".host")
    await page.wait("document.querySelector(`[aria-label='Pause: gpu-1']`) !== null")
    records.now = replace(records.now, hosts=(replace(asleep, mode="open", rest=None), *others))
    await page.wait_text("No route to host", ".host .servers")
    unasked = tuple(replace(each, error=None) for each in down)
    records.now = replace(records.now, hosts=(replace(first, servers=unasked), *others))
    await page.wait_text("not checked yet", ".host .servers")
    assert "down since" not in await page.text(".host .servers")


async def test_what_is_gone_from_the_bot_is_said_where_it_was(room: Room) -> None:
    """An old display would be taken for the present state."""
    room.records.away = True
    await room.page.wait("!document.querySelector('#unreadable').hidden")
    assert "24 waiting" in await room.page.text("#queues")
    room.records.away = False
    await room.page.wait("document.querySelector('#unreadable').hidden")


async def test_a_press_is_a_command_and_its_answers_are_shown(room: Room) -> None:
    """A button would seem to have worked whatever its result."""
    page = room.page
    await page.click("[aria-label='Unload flux from gpu-1']")
    call = await room.handler.taken()
    assert (call.command, call.options) == ("unload", {"model": "flux", "host": "gpu-1"})
    await page.wait_text("Unload flux from gpu-1", "#outcomes")
    ref = await call.respond(Content(body=("flux is being unloaded …",)), False)
    await page.wait_text("flux is being unloaded …", "#outcomes")
    assert ref is not None
    await room.example.web.edit(ref, Content(body=("flux could not be unloaded: it is busy",)))
    await page.wait_text("flux could not be unloaded: it is busy", "#outcomes")
    await page.click("#outcomes .icon")
    await page.wait("document.querySelector('#outcomes').children.length === 0")


async def test_the_keyboard_reaches_everything_and_asks_before_the_end(room: Room) -> None:
    """A job would be lost by one key too many, or could only be ended with the mouse."""
    page = room.page
    await page.press("Tab")
    assert await page.evaluate(f"{FOCUSED}.id") == "skip"
    await room.tab_to("Cancel job 797")
    shown = f"getComputedStyle({FOCUSED}).outlineStyle"
    assert await page.evaluate(shown) == "solid"
    await page.press("Enter")
    await page.wait("document.querySelector('#confirm').open")
    assert await page.evaluate(f"{FOCUSED}.id") == "confirm-no"
    for leave in (page.press("Escape"), page.evaluate("history.back()")):
        await leave
        await page.wait("!document.querySelector('#confirm').open && history.state === null")
        assert await page.evaluate(f"{FOCUSED}.ariaLabel") == "Cancel job 797"
        await page.press("Enter")
        await page.wait("document.querySelector('#confirm').open")
    await room.tab_to("Cancel the job")
    await page.press("Enter")
    call = await room.handler.taken()
    assert (call.command, call.options) == ("cancel", {"id": 797})
    assert len(room.handler.keys) == 1


async def test_a_ban_takes_its_reason_and_hours_with_it(room: Room) -> None:
    """People would be banned for good, and never read why."""
    page = room.page
    await page.evaluate("document.querySelector('[aria-label=\"Ban: telegram:4200\"]').focus()")
    await page.press("Enter")
    await page.wait("document.querySelector('#confirm').open")
    await page.type("floods")
    await page.press("Tab")
    await page.type("2")
    await page.press("Enter")
    call = await room.handler.taken()
    assert call.command == "ban"
    assert call.options == {"person": "telegram:4200", "reason": "floods", "hours": "2"}
    admins = "document.querySelector('[aria-label=\"Ban: web:local\"]').hidden"
    assert await page.evaluate(admins)


async def test_waiting_jobs_are_moved_and_models_loaded_by_keyboard(room: Room) -> None:
    """Half of what an operator does would need a mouse."""
    page = room.page
    await page.evaluate("document.querySelector('.waiting summary').focus()")
    await page.press("Enter")
    await page.press("Tab")
    await page.press("Tab")
    assert await page.evaluate(f"{FOCUSED}.innerText") == "Move to front"
    await page.press("Enter")
    call = await room.handler.taken()
    assert (call.command, call.options["to"]) == ("move", "first")
    await page.evaluate("document.querySelector('#preload-model').value = 'lens'")
    await page.evaluate("document.querySelector('#preload-go').focus()")
    await page.press("Enter")
    call = await room.handler.taken()
    assert (call.command, call.options) == ("preload", {"model": "lens"})


async def test_the_focus_stays_where_it_is_while_the_bot_goes_on(room: Room) -> None:
    """A redraw twice a second would send the keyboard's focus back to the beginning."""
    page, records = room.page, room.records
    await room.tab_to("Pause: flux")
    lines = records.now.queues
    records.now = replace(records.now, queues=(*lines[1:], replace(lines[0], waiting=99)))
    await page.wait_text("99 waiting")
    assert await page.evaluate(f"{FOCUSED}.ariaLabel") == "Pause: flux"
    records.now = replace(records.now, queues=lines[1:])
    await page.wait("!document.querySelector('#queues').innerText.includes('99')")
    assert await page.evaluate(f"{FOCUSED}.closest('#now') !== null")


async def test_a_chart_is_walked_through_by_keys_and_read_as_a_table(room: Room) -> None:
    """People who use a screen reader would only be told that there is an image."""
    page = room.page
    stage = "document.querySelector('.host-time .stage')"
    await page.evaluate(f"{stage}.focus()")
    last = await page.evaluate(f"{stage}.ariaValueText")
    await page.press("ArrowDown")
    assert await page.evaluate(f"{stage}.ariaValueText") != last
    assert await page.evaluate(f"{stage}.role") == "slider"
    await page.click(".model-times .as-table summary")
    rows = "document.querySelectorAll('.model-times .as-table tbody tr').length"
    await page.wait(f"{rows} > 20")


async def test_an_hour_a_day_and_a_week_are_each_drawn(room: Room) -> None:
    """A week would be drawn from segments that do not exist."""
    page = room.page
    for span in (HourSpan.DAY, HourSpan.WEEK, HourSpan.HOUR):
        await page.click(f"#spans input[value={span}] + span")
        begins = f"{room.records.spans[span].begins:.0f}"
        await page.wait(f"document.querySelector('#charts').dataset.begins === '{begins}'")
        assert await page.evaluate("document.querySelectorAll('.host-time rect').length") > 40


async def test_a_day_says_which_of_its_times_were_yesterday(room: Room) -> None:
    """A day begins and ends at the same time of day: "09:30" would appear at both ends."""
    page = room.page
    await page.click("#spans input[value=day] + span")
    labels = (
        "[...document.querySelector('.host-time .axis').children].map((node) => node.innerText)"
    )
    begins = f"{room.records.spans[HourSpan.DAY].begins:.0f}"
    await page.wait(f"document.querySelector('#charts').dataset.begins === '{begins}'")
    first, *_, last = await page.evaluate(labels)
    assert first != last
    assert any(sign.isalpha() for sign in first + last)


async def test_ten_models_have_ten_colours(room: Room) -> None:
    """Two models of a host would look the same in its timeline."""
    page, records = room.page, room.records
    names = tuple(f"model-{number}" for number in range(10))
    hours = records.spans[HourSpan.DAY]
    ran = tuple(
        Segment(
            begins=hours.begins + 60 * at,
            ends=hours.begins + 60 * at + 60,
            kind="run",
            models=(name,),
        )
        for at, name in enumerate(names)
    )
    records.spans[HourSpan.DAY] = replace(hours, hosts=(replace(hours.hosts[0], segments=ran),))
    records.now = replace(records.now, queues=(), idle_models=names)
    await page.wait("document.querySelector('#preload-model').options.length > 9")
    await page.click("#spans input[value=day] + span")
    await page.wait_text("model-9", ".legend")
    colours = """new Set([...document.querySelectorAll(".legend [class*=hue-]")]
      .map((node) => getComputedStyle(node).backgroundColor)).size"""
    await page.wait(f"{colours} === 10")  # a busy browser paints later than it lays out


async def test_a_share_of_a_few_minutes_says_so(room: Room) -> None:
    """Two minutes of work after a start would be read as a busy day."""
    page, records = room.page, room.records
    hours = records.spans[HourSpan.DAY]
    first, second, *rest = hours.hosts
    short = replace(first, busy=0.86, recorded_s=120.0)
    whole = replace(second, recorded_s=23.9 * 3600.0)
    records.spans[HourSpan.DAY] = replace(hours, hosts=(short, whole, *rest))
    await page.click("#spans input[value=day] + span")
    await page.wait_text("86%", ".host-time")
    await page.wait_text("2\u00a0min recorded", ".host-time")
    assert "recorded" not in await page.text(".host-time:nth-child(2) .facts")


async def test_each_model_says_how_often_its_estimates_held(room: Room) -> None:
    """One model's bad guesses would be hidden among the others' good ones."""
    await room.page.wait_text("18 of 21 met", ".met-by-model")


async def test_a_failure_leads_to_its_last_job(room: Room) -> None:
    """An operator would know that memory is short, but not for which request."""
    page = room.page
    await page.wait_text("last: job #812", ".errors")
    sentence = "The GPU ran out of memory"
    await page.wait_text(sentence, ".errors")
    await page.evaluate("document.querySelector('.errors .job-link').click()")
    await page.wait("document.querySelector('#job').open")
    await page.wait_text("failed", "#job")
    await page.wait_text(sentence, "#job")
    await page.press("Escape")
    await page.wait("!document.querySelector('#job').open && location.hash === '#now'")
    await page.evaluate("location.hash = 'job/99999'")
    await page.wait_text("no longer stored", "#job")
    room.example.jobs.away = True
    await page.evaluate("location.hash = 'job/812'")
    await page.wait_text("can't be read right now", "#job")
    assert all("404" in each or "503" in each for each in page.errors)  # the browser's own words
    page.errors.clear()


async def test_the_newest_lines_of_the_log_are_shown(chromium: Chromium) -> None:
    """An operator without a shell would not know why a server is down."""
    tail = LogTail()
    log = logging.getLogger("tests.tail")
    log.setLevel(logging.INFO)
    log.addHandler(tail)
    log.warning("a card is <b>hot</b>")
    example = Example(log=tail.after)
    async with opened(chromium, example) as room:
        await room.page.wait_text("a card is <b>hot</b>", "#log")
        for number in range(LINES):
            log.info("line %d", number)
        await room.page.wait_text(f"line {LINES - 1}", "#log")
        lines = "document.querySelectorAll('#log-lines li').length"
        assert await room.page.evaluate(lines) == LINES
        await room.page.evaluate("document.getElementById('log-only').click()")
        assert "line" not in await room.page.text("#log-lines")


async def test_use_is_added_up_over_the_span_that_is_chosen(room: Room) -> None:
    """At one in the morning an operator would see nobody."""
    page = room.page
    await page.click("#people-spans input[value=two_days] + span")
    await page.wait("document.querySelectorAll('#people-list > li').length === 3")
    await page.click("#people-spans input[value=today] + span")
    await page.wait("document.querySelectorAll('#people-list > li').length === 10")


async def test_a_history_that_cannot_be_read_is_said(room: Room) -> None:
    """An empty or an old chart would look like a quiet bot."""
    page = room.page
    room.records.away = True
    await page.click("#spans input[value=day] + span")
    await page.wait_text("The history can't be read right now.", "#hours")
    room.records.away = False
    await page.click("#spans input[value=week] + span")
    await page.wait("document.querySelector('#hours-trouble').hidden")
    page.errors = [each for each in page.errors if "503" not in each]  # the browser's own words


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("language", ["en", "de"])
async def test_nothing_is_cut_off_too_small_or_nameless(
    room: Room, width: int, language: str
) -> None:
    """On a phone buttons would be off the screen, and screen readers would say "button, button"."""
    page = room.page
    await page.look(width=width, height=844, phone=width == 390)
    if language == "de":
        async with page.reloads():
            room.handler.choose("web:local", "de")
        await page.wait_text("in Arbeit")
        await page.wait(DRAWN)
    assert await page.evaluate(WIDE) == []
    assert await page.evaluate(f"{SMALL}({44 if width == 390 else 24})") == []
    assert await page.evaluate(NAMELESS) == []
    assert await page.evaluate(MISNAMED) == []  # voice control uses the visible words
    headings = "[...document.querySelectorAll('main h2')].map((node) => node.innerText).join()"
    told = {"en": "Now,History,People,Log", "de": "Jetzt,Verlauf,Personen,Log"}
    assert await page.evaluate(headings) == told[language]


@pytest.mark.parametrize("dark", [False, True])
async def test_every_word_stands_out_from_what_is_behind_it(room: Room, dark: bool) -> None:
    """Words with a contrast below 4.5 are hard to read for many people (WCAG 2.2)."""
    await room.page.look(width=1280, height=900, dark=dark)
    await room.page.reload()
    await room.page.wait(DRAWN)
    assert await room.page.evaluate(FAINT) == []


FAINT = """(() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const painted = (colors) => {
    pen.clearRect(0, 0, 1, 1);
    for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => (node ? [...behind(node.parentElement), getComputedStyle(node).backgroundColor] : []);
  const texts = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() &&
    !node.closest(":disabled, .skip, .unseen, noscript") &&
    [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()));
  return texts.flatMap((node) => {
    const ground = behind(node);
    const levels = [light(painted(ground)), light(painted([...ground, getComputedStyle(node).color]))].sort((a, b) => b - a);
    const contrast = (levels[0] + 0.05) / (levels[1] + 0.05);
    return contrast < 4.5 ? [`${contrast.toFixed(2)}: ${node.className} ${node.textContent.slice(0, 40)}`] : [];
  });
})()"""


async def test_only_answers_are_read_out_by_themselves(room: Room) -> None:
    """A screen reader would never stop talking."""
    live = """[...document.querySelectorAll("[aria-live], [role=log], [role=status], [role=alert], output")]
      .map((node) => node.id).sort().join()"""
    assert await room.page.evaluate(live) == "connection,hours-trouble,outcomes,unreadable"


async def test_markup_in_any_name_stays_text(chromium: Chromium) -> None:
    """A person whose name contains a script could act as the admin who looks."""
    example = Example()
    for at, attack in enumerate(ATTACKS):
        _poison(example, attack, at)
    async with opened(chromium, example) as room:
        await room.page.wait_text("<script>window.hacked = 1</script>", "#people")
        await room.page.wait_text("<img src=x onerror='window.hacked = 1'>", "#queues")
        await room.page.evaluate(
            "document.querySelectorAll('details').forEach((each) => each.open = true)"
        )
        await room.page.click(".host .act.danger")
        await room.page.wait("document.querySelector('#confirm').open")
        assert await room.page.evaluate("window.hacked ?? null") is None
        inside = "document.querySelectorAll('main script, main img, main a:not(.job-link), dialog img, dialog script').length"
        assert await room.page.evaluate(inside) == 0


def _poison(example: Example, attack: str, at: int) -> None:
    """Put one attack in place of each text that comes from outside."""
    records, jobs = example.records, example.jobs
    host, line = records.now.hosts[0], records.now.queues[0]
    server = replace(host.servers[0], name=f"{attack}s", description=attack, up=False, error=attack)
    job = replace(host.running[0], job=900 + at, model=attack, name=attack, user=attack)
    trouble = replace(records.now.queues[4].troubles[0], backend=attack, cause=attack)
    copy = replace(host.copies[0], model=attack)
    records.now = replace(
        records.now,
        hosts=(
            *records.now.hosts,
            replace(host, name=attack, servers=(server,), running=(job,), copies=(copy,)),
        ),
        queues=(*records.now.queues, replace(line, model=attack, troubles=(trouble,))),
        idle_models=(*records.now.idle_models, f"{attack} idle"),
    )
    jobs.jobs.append(replace(jobs.jobs[0], id=5000 + at, model=attack, owner=attack, lane=attack))
    person = replace(records.people.people[4], user=attack, name=attack, ban_reason=attack)
    act = Act(at=at, actor=attack, action=attack, subject=attack, detail=attack)
    people = (person, *records.people.people)
    records.people = replace(records.people, people=people, acts=(act, *records.people.acts))
    for span, hours in records.spans.items():
        hosts = (*hours.hosts, replace(hours.hosts[0], name=attack))
        error = replace(hours.errors[0], cause=attack, model=attack)
        records.spans[span] = replace(hours, hosts=hosts, errors=(*hours.errors, error))


async def test_the_way_here_is_on_an_admins_chat_page_only(chromium: Chromium) -> None:
    """Others would be shown a link that is closed to them."""
    example = Example()
    async with running(example.web, ScriptedHandler()):
        for token, hidden in ((TOKEN, False), (ADAS, True)):
            async with chromium.page() as page:
                await page.goto(f"{example.web.url}?token={token}")
                await page.wait_text("Connected")
                assert await page.evaluate("document.querySelector('#operate').hidden") is hidden


async def test_a_page_of_a_busy_bot_needs_no_motion_and_knows_the_dark(chromium: Chromium) -> None:
    """Stripes would move for people whom that makes ill."""
    records = ExampleRecords(at=1_795_400_000.0)
    image = DashboardData(records, ExampleJobs(at=1_795_400_000.0))
    web = web_chat(port=0, operator=image, is_admin=lambda _: True)
    async with running(web, ScriptedHandler()), chromium.page() as page:
        features = [
            {"name": "prefers-reduced-motion", "value": "reduce"},
            {"name": "prefers-color-scheme", "value": "dark"},
        ]
        await page.call("Emulation.setEmulatedMedia", features=features)
        await page.goto(f"{web.url}operator")
        await page.wait(DRAWN)
        assert await page.evaluate("document.getAnimations().length") == 0
        ground = "getComputedStyle(document.body).backgroundColor"
        assert await page.evaluate(ground) == "rgb(23, 24, 28)"
