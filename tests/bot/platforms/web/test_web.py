"""The web chat as a platform: messages arrive once, and what is sent reaches people's pages."""

import asyncio
from uuid import uuid4

import aiohttp
import pytest

from bot.core.content import Button, Content, Markdown, Moment
from bot.core.errors import ChatRefused, ChatUnavailable, TooLarge
from bot.core.platform import MessageRef
from bot.people.web_people import FixedPeople, WebPerson
from bot.platforms.web.chat.calls import CALLS_BURST
from bot.platforms.web.chat.chat_log import Entry, FileHead
from bot.platforms.web.chat.protocol import ModelQueue
from bot.platforms.web.chat.renderer import split_command
from bot.platforms.web.chat.tab import PAGE
from bot.platforms.web.platform import Web
from bot.platforms.web.routes.files import KEPT_S
from queueing.core.errors import Fenced, StoreError
from queueing.core.requests import File
from tests.backends.media.planted import PLANTED, SECRET, words_of
from tests.bot.platforms.web.web_client import image, running, tab, text_of, uploaded
from tests.fakes.command_handler import ScriptedHandler
from tests.fakes.memory_log import MemoryLog, web_chat
from tests.fakes.ports import port_of

CANCEL = Button(command="cancel", job_id=7, label="Cancel", danger=True)


class SetClock:
    """A clock that shows the time it is set to."""

    at = 1_000_000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def handler() -> ScriptedHandler:
    return ScriptedHandler()


# ---------------------------------------------------------------- coming in


def test_a_line_names_its_command() -> None:
    """A typed command would reach the wrong handler, or lose part of its prompt."""
    cases: list[tuple[str, str, str]] = [
        ("/image flux cat", "image", "flux cat"),
        ("/image=flux=cat", "image", "flux cat"),
        ("/image=flux=a=b", "image", "flux a=b"),
        ("/image=cat", "image", "cat"),
        ("/IMAGE cat", "image", "cat"),
        ("/image\ntwo\nlines", "image", "two\nlines"),
        ("  /queue  ", "queue", ""),
        ("what is a queue?", "ask", "what is a queue?"),
        ("a/b testing", "ask", "a/b testing"),
        ("/ spaced", "ask", "/ spaced"),
        ("/usr/bin is full", "ask", "/usr/bin is full"),
        ("", "ask", ""),
        ("/", "help", ""),
        (" // ", "help", ""),
    ]
    for line, command, rest in cases:
        assert split_command(line) == (command, rest), line


async def test_a_line_becomes_a_call_and_a_bubble(handler: ScriptedHandler) -> None:
    """What a person types would not reach the bot, or not be seen in their own chat."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        key = await page.say("/image flux a cat")
        call = await handler.taken()
        assert (call.command, call.text) == ("image", "flux a cat")
        assert (call.user, call.chat, call.group) == ("web:local", "local", False)
        assert key in call.key
        assert call.user in call.key
        entry = await page.entry("/image flux a cat")
        assert entry["shown"]["author"] == "person"
        assert entry["message"] == f"line-{key}"
        assert (await page.next("taken"))["key"] == key


async def test_a_chosen_language_reaches_all_pages_of_its_person_and_no_others(
    handler: ScriptedHandler,
) -> None:
    """The other open page would stay in the old language, or all be asked with each message."""
    ada, bob = WebPerson(id="ada", name="Ada"), WebPerson(id="bob", name="Bob")
    people = FixedPeople({"a" * 20: ada, "b" * 20: bob})
    async with (
        running(web_chat(port=0, people=people), handler) as web,
        tab(web, cookie="a" * 20) as first,
        tab(web, cookie="a" * 20) as second,
        tab(web, cookie="b" * 20) as other,
    ):
        for page in (first, second, other):
            assert (await page.next("language"))["language"] == "en"
        handler.choose("web:ada", "de")
        for page in (first, second):
            assert (await page.next("language"))["language"] == "de"
        handler.choose("web:ada", "de")  # once more: nothing to say
        handler.choose("web:ada", None)
        for page in (first, second):
            assert (await page.next("language"))["language"] == "en"
        handler.languages = Unread()
        for page in (first, other):
            await page.say("/queue")
            await page.next("taken")
        assert not [each for each in other.unread if each["type"] == "language"]


class Unread(dict[str, str]):
    """Languages that no one has a reason to read."""

    def get(self, *_: object) -> str | None:  # type: ignore[override]
        raise AssertionError("the language was asked for")


async def test_a_line_sent_again_is_one_call(handler: ScriptedHandler) -> None:
    """A page that reconnects before it got the answer would make every request twice."""
    async with running(web_chat(port=0), handler) as web:
        key = uuid4().hex
        for _ in range(3):
            async with tab(web) as page:
                await page.say("/image cat", key)
                assert (await page.next("taken"))["key"] == key
        assert len(handler.keys) == 1


async def test_a_line_sent_again_while_it_is_taken_waits_for_the_first(
    handler: ScriptedHandler,
) -> None:
    """A quick reconnect would make a second job of a request still being accepted."""
    handler.open.clear()
    async with running(web_chat(port=0), handler) as web, tab(web) as first, tab(web) as second:
        key = await first.say("/image cat")
        await handler.taken()
        await second.say("/image cat", key)
        handler.open.set()
        assert (await first.next("taken"))["key"] == key
        assert (await second.next("taken"))["key"] == key
    assert len(handler.keys) == 1


async def test_a_line_sent_again_after_a_restart_has_the_same_key(handler: ScriptedHandler) -> None:
    """The queue would not recognise that it already has the repeated request."""
    log, key = MemoryLog(), uuid4().hex
    for _ in range(2):
        async with running(Web(port=0, log=log), handler) as web, tab(web) as page:
            await page.say("/image cat", key)
            await page.next("taken")
    assert len(handler.keys) == 2
    assert len(set(handler.keys)) == 1
    assert len(await log.since("local", 0, 10)) == 1


async def test_a_line_answers_what_it_replies_to(handler: ScriptedHandler) -> None:
    """A reply to an answer could not continue its conversation."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ref = await web.send("local", Content(body=("an answer",)))
        await page.say("and then?", reply_to=ref.message)
        call = await handler.taken()
        assert call.replied_to == ref


async def test_a_button_calls_its_command_with_its_job(handler: ScriptedHandler) -> None:
    """Buttons under a message would do nothing, or act on another job."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ref = await web.send("local", Content(body=("waiting",), buttons=((CANCEL,),)))
        key = uuid4().hex
        press = {"type": "press", "message": ref.message, "command": "cancel", "job": 7}
        for _ in range(2):
            await page.send(**press, key=key)
            await page.next("taken")
        call = await handler.taken()
        assert (call.command, call.options, call.button) == ("cancel", {"id": 7}, True)
        assert call.replied_to == ref
        assert len(handler.keys) == 1


async def test_a_button_that_is_not_there_cannot_be_pressed(handler: ScriptedHandler) -> None:
    """A forged press could act with buttons no one was given."""
    cases: list[dict[str, object]] = [{"job": 8}, {"command": "clear"}, {"message": "msg-none"}]
    for forged in cases:
        async with running(web_chat(port=0), handler) as web, tab(web) as page:
            ref = await web.send("local", Content(buttons=((CANCEL,),)))
            press = {"type": "press", "message": ref.message, "command": "cancel", "job": 7}
            await page.send(**{**press, **forged}, key=uuid4().hex)
            assert (await page.next("refused"))["reason"] == "button-gone", forged
        assert handler.keys == [], forged


async def test_an_attached_image_reaches_the_call_and_the_bubble(
    handler: ScriptedHandler,
) -> None:
    """An image to start from would be lost, or not shown in the chat."""
    file = image("a cat.png")
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        upload = await _upload(web, file, "photos\\a%20cat.png")
        await page.say("/image flux", uploads=[upload])
        call = await handler.taken()
        assert [(f.name, f.mime, f.size) for f in call.files] == [
            ("a cat.png", "image/png", len(file.data))
        ]
        assert await call.files[0].read() == file.data
        shown = (await page.entry("/image flux"))["shown"]["files"][0]
        assert (shown["width"], shown["height"]) == (64, 48)


async def test_an_image_is_stored_without_what_a_camera_wrote(handler: ScriptedHandler) -> None:
    """The page would keep the location where a photo was taken, and reveal it."""
    for kind in list(PLANTED):
        file = File(name="a.bin", mime=f"image/{kind.lower()}", data=PLANTED[kind]())
        async with running(web_chat(port=0), handler) as web, tab(web) as page:
            upload = await _upload(web, file, "a.bin")
            await page.say("/image flux", uploads=[upload])
            (shown,) = (await page.entry("/image flux"))["shown"]["files"]
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{web.url}files/{shown['id']}") as answer,
            ):
                kept = await answer.read()
        assert SECRET in words_of(file.data), kind
        assert kept, kind
        assert SECRET not in words_of(kept), kind


async def test_a_line_whose_upload_is_gone_says_so(handler: ScriptedHandler) -> None:
    """A request would be carried out without the image it is about."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.say("/image flux", uploads=["none"])
        assert (await page.next("refused"))["reason"] == "upload-gone"
    assert handler.keys == []


async def test_an_empty_line_is_no_call(handler: ScriptedHandler) -> None:
    """Empty messages would disturb the bot and fill the chat."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.say("  \n ")
        assert (await page.next("refused"))["reason"] == "empty"
    assert handler.keys == []


async def test_a_very_long_line_is_left_to_the_bot_to_refuse(handler: ScriptedHandler) -> None:
    """A 100,000-character prompt would break the connection instead of getting an answer."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.say("/image " + "\u0001" * 100_000)
        call = await handler.taken()
        assert len(call.text) == 100_000


async def test_too_many_lines_are_refused_and_the_rest_works_on(handler: ScriptedHandler) -> None:
    """One person's flood would reach the queue unchecked, or break their page."""
    web = web_chat(port=0, clock=SetClock())  # on a busy machine messages would come slowly enough
    async with running(web, handler), tab(web) as page:
        for at in range(CALLS_BURST + 5):
            await page.say(f"line {at}")
        assert (await page.next("refused"))["reason"] == "too-fast"
        assert len(handler.keys) >= CALLS_BURST
        await page.send(type="suggest", id=1, command="image", param="model", typed="s")
        assert (await page.next("values"))["values"] == ["sdxl"]


async def test_what_no_page_sends_is_refused_and_nothing_breaks(handler: ScriptedHandler) -> None:
    """Garbage from one client would break its connection or crash the bot."""
    cases: list[str] = [
        "",
        "{",
        "[]",
        '{"type":"nothing"}',
        '{"type":"say","key":"short","text":"x"}',
        '{"a":"\\ud800"}',
    ]
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        for frame in cases:
            await page.socket.send_str(frame)
            assert (await page.next("refused"))["reason"] == "invalid", frame
            await page.say("still here")
            assert (await handler.taken()).text == "still here", frame


# ---------------------------------------------------------------- going out


async def test_a_message_reaches_every_page_and_changes_in_place(handler: ScriptedHandler) -> None:
    """A status message would be missing on the phone, or appear again with every edit."""
    async with running(web_chat(port=0), handler) as web, tab(web) as desk, tab(web) as phone:
        ref = await web.send(
            "local", Content(body=("#3 · ready ", Moment(5e9, before="at ")), buttons=((CANCEL,),))
        )
        places = []
        for page in (desk, phone):
            entry = await page.entry("#3")
            places.append(entry["place"])
            assert entry["message"] == ref.message
            assert entry["shown"]["body"][1] == {
                "kind": "moment",
                "at": 5e9,
                "clock": False,
                "before": "at ",
            }
            assert entry["shown"]["buttons"][0][0]["label"] == "Cancel"
        await web.edit(ref, Content(body=(Markdown("**done**"),), files=(image(),)))
        for page in (desk, phone):
            later = await page.entry("done")
            assert (later["message"], later["place"]) == (ref.message, places.pop(0))
            assert later["shown"]["buttons"] == []
        await web.delete(ref)
        assert (await desk.next("messages"))["entries"][0]["shown"] is None


async def test_an_answer_is_a_bubble_and_a_private_one_is_quiet(handler: ScriptedHandler) -> None:
    """The bot's first answer would not appear, or could not be edited into the result."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await page.say("/image cat")
        call = await handler.taken()
        ref = await call.respond(Content(body=("accepted",)), False)
        await call.respond(Content(body=("just for you",)), True)
        assert ref is not None
        await web.edit(ref, Content(body=("running",)))
        assert not (await page.entry("running"))["shown"]["quiet"]
        async with tab(web, greet=False) as fresh:
            await fresh.hello()
            quiet = [entry["shown"]["quiet"] for entry in (await fresh.next("messages"))["entries"]]
            assert sorted(quiet) == [False, False, True]


async def test_a_reconnect_brings_only_what_was_missed(handler: ScriptedHandler) -> None:
    """Every lost connection would send the whole conversation again, or lose part of it."""
    async with running(web_chat(port=0), handler) as web:
        kept = await web.send("local", Content(body=("seen",)))
        changed = await web.send("local", Content(body=("old",)))
        async with tab(web, greet=False) as page:
            await page.hello()
            await page.next("messages")
            number, log = page.number, page.log
        await web.edit(changed, Content(body=("new",)))
        await web.send("local", Content(body=("missed",)))
        await web.edit(kept, Content(body=("seen",)))  # the same again is no change
        async with tab(web, greet=False) as again:
            welcome = await again.hello(log, number)
            assert not welcome["fresh"]
            entries = (await again.next("messages"))["entries"]
            assert [text_of(entry) for entry in entries] == ["new", "missed"]


async def test_a_page_that_knows_another_log_starts_over(handler: ScriptedHandler) -> None:
    """After a restart with a new log the page would wait for numbers that never come."""
    async with running(web_chat(port=0), handler) as web:
        await web.send("local", Content(body=("here",)))
        async with tab(web, greet=False) as page:
            assert (await page.hello("another", 500))["fresh"]
            message = await page.next("messages")
            assert message["fresh"]
            assert [text_of(entry) for entry in message["entries"]] == ["here"]


async def test_earlier_messages_come_when_asked_for(handler: ScriptedHandler) -> None:
    """A long conversation could not be read back, or would be sent in full to every page."""
    async with running(web_chat(port=0), handler) as web:
        for at in range(PAGE + 10):
            await web.send("local", Content(body=(f"message {at}",)))
        async with tab(web, greet=False) as page:
            await page.hello()
            message = await page.next("messages")
            assert message["more"]
            assert len(message["entries"]) == PAGE
            await page.send(type="earlier", before=message["entries"][0]["place"])
            earlier = await page.next("earlier")
            assert not earlier["more"]
            assert [text_of(entry) for entry in earlier["entries"]] == [
                f"message {at}" for at in range(10)
            ]


async def test_a_page_that_saw_nothing_learns_of_all_that_came(handler: ScriptedHandler) -> None:
    """Messages that came in a burst to an empty chat could not be scrolled back to."""
    async with running(Web(port=0, log=MemoryLog()), handler) as web, tab(web) as page:
        await asyncio.gather(
            *(web.send("local", Content(body=(str(at),))) for at in range(PAGE + 5))
        )
        seen = 0
        while seen < PAGE + 5:
            message = await page.next("messages")
            seen += len(message["entries"])
            if message["fresh"] and message["more"]:
                await page.send(type="earlier", before=message["entries"][0]["place"])
                seen += len((await page.next("earlier"))["entries"])
        assert seen == PAGE + 5


async def test_a_burst_of_edits_ends_with_the_newest(handler: ScriptedHandler) -> None:
    """A streamed answer could stop short on the page, or pile up for a slow page."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ref = await web.send("local", Content(body=("0",)))
        for at in range(500):
            await web.edit(ref, Content(body=(Markdown(f"word {at}"),)))
        assert (await page.entry("word 499"))["message"] == ref.message


async def test_a_call_repeated_after_a_crash_finds_the_answer_it_had(
    handler: ScriptedHandler,
) -> None:
    """A kill between an answer and its note would leave a second status message in the chat."""
    log = MemoryLog()
    async with running(Web(port=0, log=log), handler) as web, tab(web) as page:
        key = await page.say("/image cat")
        first = await (await handler.taken()).respond(Content(body=("#2 in line",)), False)
    async with running(Web(port=0, log=log), handler) as web, tab(web) as page:
        await page.say("/image cat", key)
        call = await handler.taken()
        assert await call.respond(Content(body=("#1 in line",)), False) == first
        assert await web.send("local", Content(body=("drawing",)), nonce=call.key) == first
        assert await page.entry("drawing")
    shown = [entry.shown for entry in await log.since("local", 0, 10)]
    assert [each and each.author for each in shown] == ["person", "usher"]


async def test_a_file_keeps_its_address_across_edits(handler: ScriptedHandler) -> None:
    """Pages would fetch an unchanged image again with every edit of its text."""
    log = MemoryLog()
    async with running(Web(port=0, log=log), handler) as web:
        ref = await web.send("local", Content(body=("a",), files=(image(),)))
        before = await _file_ids(log, ref)
        await web.edit(ref, Content(body=("b",), files=(image(),)))
        assert await _file_ids(log, ref) == before
        await web.edit(ref, Content(body=("b",), files=(image(shade=20),)))
        assert await _file_ids(log, ref) != before
        assert await log.file("local", before[0]) is None


async def test_a_replaced_preview_can_be_fetched_for_some_seconds(handler: ScriptedHandler) -> None:
    """On a slow connection no preview would ever be seen: each is replaced before it is fetched."""
    log, clock = MemoryLog(), SetClock()
    async with running(Web(port=0, log=log, clock=clock), handler) as web:
        ref = await web.send("local", Content(body=("step 1",)))
        await web.edit(ref, Content(files=(image(shade=1),)))
        (first,) = await _file_ids(log, ref)
        await web.edit(ref, Content(files=(image(shade=2),)))
        assert await _status(web, f"files/{first}") == 200
        clock.at += KEPT_S + 1
        assert await _status(web, f"files/{first}") == 404


async def test_a_preview_that_is_replaced_while_it_is_sent_arrives_whole(
    handler: ScriptedHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page would show a broken image in the middle of a job."""
    log = MemoryLog()
    async with (
        running(Web(port=0, log=log), handler) as web,
        aiohttp.ClientSession(web.url) as browser,
    ):
        ref = await web.send("local", Content(body=("step 1",)))
        await web.edit(ref, Content(files=(image(shade=1),)))
        (first,) = await _file_ids(log, ref)
        read = log.file_head

        async def overtaken(person: str, file: str) -> FileHead | None:
            head = await read(person, file)
            await web.edit(ref, Content(files=(image(shade=2),)))
            return head

        monkeypatch.setattr(log, "file_head", overtaken)
        async with browser.get(f"/files/{first}") as answer:
            assert await answer.read() == image(shade=1).data


async def test_nothing_is_served_of_a_message_that_was_deleted(handler: ScriptedHandler) -> None:
    """A deleted image, or its preview, could still be shown."""
    log = MemoryLog()
    async with running(Web(port=0, log=log), handler) as web:
        ref = await web.send("local", Content(body=("step 1",)))
        shown = []
        for shade in (1, 2):
            await web.edit(ref, Content(files=(image(shade=shade),)))
            shown += await _file_ids(log, ref)
        await web.delete(ref)
        assert [await _status(web, f"files/{file}") for file in shown] == [404, 404]


async def test_half_a_surrogate_pair_is_shown_as_a_replacement(handler: ScriptedHandler) -> None:
    """A stream cut inside an emoji would make the message impossible to send."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        await web.send("local", Content(body=(Markdown("cat \ud83d"),)))
        assert text_of(await page.entry("cat")) == "cat \ufffd"


async def test_files_beyond_the_limit_are_refused(
    handler: ScriptedHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bot could not fall back to a smaller file."""
    monkeypatch.setattr("bot.platforms.web.platform.MAX_SENT", 1000)
    big = File(name="x.bin", mime="application/zip", data=b"x" * 1001)
    async with running(web_chat(port=0), handler) as web:
        with pytest.raises(TooLarge):
            await web.send("local", Content(files=(big,)))


async def test_a_taken_port_stops_this_platform_with_its_reason(handler: ScriptedHandler) -> None:
    """The operator would not learn why there is no page."""
    port = port_of(handler)
    async with running(web_chat(port=port), handler):
        with pytest.raises(ChatRefused, match=rf"^cannot listen on 127.0.0.1:{port}: [^\[]+$"):
            await web_chat(port=port).run(handler)
        with pytest.raises(ChatRefused):
            await web_chat(port=port).check()
    assert str(port) in await web_chat(port=port).check()


async def test_stopping_closes_open_pages(handler: ScriptedHandler) -> None:
    """An orderly stop would hang as long as a person has the page open."""
    async with running(web_chat(port=0), handler) as web:
        stack = tab(web)
        page = await stack.__aenter__()
    async with asyncio.timeout(60):
        while (frame := await page.socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
    assert frame.type is aiohttp.WSMsgType.CLOSE
    await stack.__aexit__(None, None, None)


class FullLog(MemoryLog):
    """A log on a full disk."""

    async def put(self, *_: object) -> Entry:
        raise StoreError("the disk is full")

    async def get(self, *_: object) -> Entry | None:
        return None


async def test_a_log_that_cannot_be_written_refuses_lines_and_keeps_uploads(
    handler: ScriptedHandler,
) -> None:
    """On a full disk a message would silently be lost, or its image with it."""
    log = FullLog()
    async with running(Web(port=0, log=log), handler) as web, tab(web) as page:
        upload = await _upload(web, image(), "cat.png")
        for _ in range(2):
            await page.say("/image flux", uploads=[upload])
            assert (await page.next("refused"))["reason"] == "not-stored"
        with pytest.raises(ChatUnavailable):
            await web.send("local", Content(body=("x",)))
    assert handler.keys == []


class LostLog(MemoryLog):
    """A log that another process writes from now on."""

    async def put(self, *_: object) -> Entry:
        raise Fenced("another process has taken the role web")

    async def get(self, *_: object) -> Entry | None:
        return None


async def test_a_line_said_while_the_page_moves_is_left_for_the_page_to_repeat(
    handler: ScriptedHandler,
) -> None:
    """A person would have to type it again, although the next process would accept it."""
    async with running(Web(port=0, log=LostLog()), handler) as web, tab(web) as page:
        await page.say("/image flux")
        async with asyncio.timeout(60):
            while (frame := await page.socket.receive()).type is not aiohttp.WSMsgType.CLOSE:
                assert frame.json()["type"] not in {"refused", "taken"}
    assert handler.keys == []


# ---------------------------------------------------------------- what the page is offered


async def test_commands_are_offered_with_their_help(handler: ScriptedHandler) -> None:
    """Completion would miss commands, or offer admins' commands, or those of buttons."""
    web = web_chat(port=0, is_admin=lambda user: user == "web:boss")
    async with running(web, handler), tab(web, greet=False) as page:
        commands = {row["name"]: row for row in (await page.hello())["commands"]}
        assert list(commands) == ["image", "ask", "queue", "forget"]
        assert commands["image"]["help"]
        assert [param["name"] for param in commands["image"]["params"]][:2] == ["model", "prompt"]
    web = web_chat(port=0, is_admin=lambda user: user == "web:local")
    async with running(web, handler), tab(web, greet=False) as page:
        assert "preload" in {row["name"] for row in (await page.hello())["commands"]}


async def test_model_names_are_suggested(handler: ScriptedHandler) -> None:
    """People would have to memorise the models' names."""
    async with running(web_chat(port=0), handler) as web, tab(web) as page:
        ask = {"type": "suggest", "command": "image", "param": "model", "typed": "flux"}
        await page.send(**ask, id=3)
        assert await page.next("values") == {
            "type": "values",
            "id": 3,
            "values": ["flux", "flux-fast"],
        }
        await page.send(**{**ask, "param": "nothing"}, id=4)
        assert (await page.next("values"))["values"] == []


async def test_the_overview_is_pushed_when_it_changes(handler: ScriptedHandler) -> None:
    """The page's header would show outdated queues."""
    lines = [ModelQueue(model="flux", waiting=3, memory="loading")]
    web = web_chat(port=0, overview=lambda _: lines)
    async with running(web, handler), tab(web, greet=False) as page:
        await page.hello()
        assert (await page.next("overview"))["queues"][0]["waiting"] == 3
        lines[0] = ModelQueue(model="flux", waiting=2, running=1, memory="ready")
        assert (await page.next("overview"))["queues"][0]["memory"] == "ready"


async def test_each_person_has_a_chat_of_their_own(handler: ScriptedHandler) -> None:
    """One person would read another's requests and results."""
    people = FixedPeople(
        {"a" * 20: WebPerson(id="ada", name="Ada"), "b" * 20: WebPerson(id="ben", name="Ben")}
    )
    web = web_chat(port=0, people=people)
    async with (
        running(web, handler),
        tab(web, cookie="a" * 20) as ada,
        tab(web, cookie="b" * 20) as ben,
    ):
        await ada.say("secret plans")
        call = await handler.taken()
        assert (call.user, call.user_name, call.chat) == ("web:ada", "Ada", "ada")
        await ada.entry("secret plans")
        await web.send("ben", Content(body=("only for Ben",)))
        first = await ben.next("messages")
        assert [text_of(entry) for entry in first["entries"]] == ["only for Ben"]


# ---------------------------------------------------------------- helpers


async def _upload(web: Web, file: File, name: str) -> str:
    return await uploaded(web, file.data, name, file.mime)


async def _status(web: Web, path: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(web.url + path) as answer:
        return answer.status


async def _file_ids(log: MemoryLog, ref: MessageRef) -> list[str]:
    entry = await log.get(ref.chat, ref.message)
    assert entry is not None
    assert entry.shown is not None
    return [file.id for file in entry.shown.files]
