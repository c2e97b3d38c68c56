"""The routes of the page's panels: the data they show, and the commands behind their controls.

A control runs a command as a form does, with the same checks. Its answer returns to the panel.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from bot.core.content import Content
from bot.core.platform import Invocation, MessageRef
from bot.core.refusals import Declined
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.protocol import NotTaken, Submit
from bot.platforms.web.chat.renderer import shown_body
from bot.platforms.web.routes.assets import browsers_language, require_own_page
from bot.platforms.web.routes.sessions import Sessions
from bot.texts.catalogue import language_of
from bot.texts.refusals import sentence
from queueing.core.concurrency import timeout
from queueing.core.errors import QueueError

PANELS = frozenset({"models", "settings", "status", "history"})
ACTS: Mapping[str, bool] = {"settings": False, "cancel": False, "preload": True, "unload": True}
"""The commands of the panels' controls, and whether the answer also appears in the chat."""

ANSWER_S = 20.0  # an answer that takes longer appears in the chat only
MAX_BODY = 16 * 1024  # bytes; a command and a few values
MAX_SEARCH = 200  # characters
_NUMBER = re.compile(r"[0-9]{0,15}", re.ASCII)


class PanelRoutes:
    """The panels of one web chat."""

    def __init__(self, who: Sessions, calls: Calls) -> None:
        self._who = who
        self._calls = calls

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""
        router.add_get(f"{path}/panels/{{panel}}", self._panel)
        router.add_post(f"{path}/panels/act", self._act)

    async def _panel(self, request: web.Request) -> web.Response:
        person = self._who.require(request)
        panel = request.match_info["panel"]
        before = request.query.get("before", "")
        if panel not in PANELS or not _NUMBER.fullmatch(before):
            raise web.HTTPNotFound
        language = await self._language_of(person, request)
        call = self._calls.reading(person, panel, language)
        options = {"id": int(before)} if before and panel == "history" else {}
        search = request.query.get("search", "")[:MAX_SEARCH]
        try:
            shown = await self._calls.handler.panel(replace(call, options=options, text=search))
        except Declined as declined:
            body = sentence(declined.refusal, language_of(language), panel)
            return _answer({"refused": _drawn(Content(body=body))}, status=403)
        except QueueError:
            raise web.HTTPServiceUnavailable from None
        return _answer(_drawn(shown))

    async def _act(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._who.require(request)
        submit = await _submit(request)
        language = await self._language_of(person, request)
        heard: asyncio.Future[Content] = asyncio.get_running_loop().create_future()

        def hearing(call: Invocation) -> Invocation:
            async def respond(content: Content, private: bool) -> MessageRef | None:
                if not heard.done():
                    heard.set_result(content)
                return await call.respond(content, private) if ACTS[submit.command] else None

            return replace(call, respond=respond)

        try:
            async with timeout(ANSWER_S):
                taken = await self._calls.submit(person, submit, language, hearing)
                if isinstance(taken, NotTaken):
                    raise web.HTTPTooManyRequests
                answer = await heard
        except TimeoutError:
            raise web.HTTPGatewayTimeout from None
        return _answer({"body": _drawn(answer), "refused": answer.refused})

    async def _language_of(self, person: WebPerson, request: web.Request) -> str | None:
        return await self._calls.language_of(person) or browsers_language(request)


async def _submit(request: web.Request) -> Submit:
    """Return the act in a request. Raises `HTTPBadRequest` or `HTTPRequestEntityTooLarge`."""
    data = await request.content.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_BODY, actual_size=len(data))
    try:
        submit = Submit.model_validate_json(data)
    except ValidationError:
        raise web.HTTPBadRequest from None
    if submit.command not in ACTS:
        raise web.HTTPBadRequest
    return submit


def _drawn(shown: Any) -> Any:
    """Return a panel as JSON values, with its texts in the page's format."""
    if isinstance(shown, Content):
        return [part.model_dump() for part in shown_body(shown.body)]
    if is_dataclass(shown):
        return {field.name: _drawn(getattr(shown, field.name)) for field in fields(shown)}
    return [_drawn(each) for each in shown] if isinstance(shown, tuple) else shown


def _answer(drawn: Any, *, status: int = 200) -> web.Response:
    text = json.dumps(drawn, ensure_ascii=False, allow_nan=False)
    return web.json_response(text=text, status=status)
