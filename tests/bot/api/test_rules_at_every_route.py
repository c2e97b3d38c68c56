"""Two people with two roles, each with three keys of different rules, and every route with each."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.api.operations import OPERATIONS
from bot.people.api_keys import ApiKeys
from bot.people.people import LASTS_S, CarriedRights
from tests.bot.api.routes.test_image_edits import png
from tests.bot.api.whole_api import Api, running
from tests.fakes.servers.speech_script import wav

CONFIG = """
hosts: {box: {vram: 64GB, backends: {studio: {kind: demo}}}}
models:
  all: {backends: [studio], capabilities: [ABLE], load_s: 0.01, service_s: 0.02, vram: 1GB}
  other: {backends: [studio], capabilities: [ABLE], load_s: 0.01, service_s: 0.02, vram: 1GB}
  vectors: {backends: [studio], capabilities: [embedding], service_s: 0.02, vram: 1GB}
api: {port: 0}
admins: [discord:9]
rules:
  - who: [discord-role:1]
    where: [api:gallery@discord:7]
  - where: [api:gallery@discord:7, api:gallery@discord:8]
    kinds: [image, edit]
  - where: [api:circle@discord:7, api:circle@discord:8]
    models: [other, vectors]
  - who: [discord-role:1]
    kinds: [ask, speak]
  - models: [other]
    kinds: [ask]
""".replace(
    "ABLE",
    "text-to-text, text-to-image, image-to-image, image-edit, text-to-video, text-to-audio,"
    " text-to-speech, speech-to-text",
)
PATRON, OTHER, ADMIN = "discord:7", "discord:8", "discord:9"
EVERY = frozenset({"image", "edit", "video", "music", "speak", "transcribe", "ask", "embed"})
MAY: Mapping[tuple[str, str], frozenset[str]] = {
    (PATRON, "gallery"): EVERY,
    (OTHER, "gallery"): frozenset({"image", "edit"}),
    (PATRON, "circle"): frozenset({"embed"}),
    (OTHER, "circle"): frozenset({"embed"}),
    (PATRON, "hall"): frozenset({"ask", "speak"}),
    (OTHER, "hall"): frozenset(),
}
"""The kinds for which each key may use the model "all", or "vectors"."""
LISTED: Mapping[tuple[str, str], set[str]] = {
    (PATRON, "gallery"): {"all", "other", "vectors"},
    (OTHER, "gallery"): {"all", "other"},
    (PATRON, "circle"): {"other", "vectors"},
    (OTHER, "circle"): {"other", "vectors"},
    (PATRON, "hall"): {"all", "other"},
    (OTHER, "hall"): {"other"},
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that makes a job of a kind: JSON, or a form if it sends a file."""

    kind: str
    body: Mapping[str, str | list[Any]]
    file: tuple[str, bytes] | None = None

    def sent(self) -> dict[str, Any]:
        if self.file is None:
            return {"json": dict(self.body)}
        form = aiohttp.FormData(dict(self.body))
        form.add_field(*self.file, filename=f"a.{'wav' if self.file[0] == 'file' else 'png'}")
        return {"data": form}


ALL, SAID = {"model": "all"}, [{"role": "user", "content": "why?"}]
CALLS: Mapping[str, tuple[Call, ...]] = {
    "POST /v1/chat/completions": (Call(kind="ask", body={**ALL, "messages": SAID}),),
    "POST /v1/responses": (Call(kind="ask", body={**ALL, "input": "why?"}),),
    "POST /v1/completions": (Call(kind="ask", body={**ALL, "prompt": "why"}),),
    "POST /v1/fim/completions": (Call(kind="ask", body={**ALL, "prompt": "a", "suffix": "b"}),),
    "POST /v1/embeddings": (Call(kind="embed", body={"model": "vectors", "input": "a"}),),
    "POST /v1/images/generations": (Call(kind="image", body={**ALL, "prompt": "a cat"}),),
    "POST /v1/images/edits": (
        Call(kind="edit", body={**ALL, "prompt": "red"}, file=("image", png())),
    ),
    "POST /v1/audio/speech": (Call(kind="speak", body={**ALL, "input": "Hi.", "voice": "a"}),),
    "POST /v1/audio/transcriptions": (Call(kind="transcribe", body=ALL, file=("file", wav())),),
    "POST /v1/audio/translations": (Call(kind="transcribe", body=ALL, file=("file", wav())),),
    "POST /v1/jobs": (
        Call(kind="ask", body={**ALL, "kind": "chat", "messages": SAID}),
        Call(kind="image", body={**ALL, "kind": "image", "prompt": "a cat"}),
        Call(kind="video", body={**ALL, "kind": "video", "prompt": "a cat"}),
        Call(kind="music", body={**ALL, "kind": "music", "prompt": "a waltz"}),
        Call(kind="speak", body={**ALL, "kind": "speech", "text": "Hi."}),
        Call(kind="transcribe", body={**ALL, "kind": "transcription"}, file=("file", wav())),
    ),
}
NO_JOBS = frozenset({"POST /v1/files"})
"""The other routes that change something: they store a file for later calls."""


def test_every_route_that_takes_a_request_has_its_place_in_this_table() -> None:
    """A route that is added later could be an unnoticed way round the rules."""
    assert CALLS.keys() | NO_JOBS == {each for each in OPERATIONS if each.startswith("POST ")}
    assert {call.kind for calls in CALLS.values() for call in calls} == EVERY


@pytest.mark.thorough
async def test_each_route_makes_a_job_only_where_a_rule_allows_it(tmp_path: Path) -> None:
    """A program could use what its person, or this key, is not allowed to use."""
    wrong: list[str] = []
    async with running(tmp_path, CONFIG + "chats: {}\n") as api:
        for (user, label), secret in (await _keys(api)).items():
            headers = {"Authorization": f"Bearer {secret}"}
            for route, calls in CALLS.items():
                for call in calls:
                    path = route.removeprefix("POST /v1")
                    sent = api.session.post(f"{api.url}{path}", headers=headers, **call.sent())
                    async with sent as answer:
                        body = (await answer.read())[:300]
                    if (answer.status < 300) is not (call.kind in MAY[user, label]):
                        wrong.append(
                            f"{route} {call.kind} {user} {label}: {answer.status} {body!r}"
                        )
                    if answer.status >= 300 and answer.status != 403:
                        wrong.append(
                            f"{route} {call.kind} {user} {label}: {answer.status} {body!r}"
                        )
    assert not wrong, "\n".join(wrong)


@pytest.mark.thorough
async def test_models_are_listed_for_those_who_may_use_them(tmp_path: Path) -> None:
    """A program would offer its people models and be refused, or show what is not for them."""
    async with running(tmp_path, CONFIG + "chats: {}\n") as api:
        keys = await _keys(api)
        headers = {"Authorization": f"Bearer {keys[PATRON, 'gallery']}"}
        (call,) = CALLS["POST /v1/chat/completions"]
        sent = api.session.post(f"{api.url}/chat/completions", headers=headers, **call.sent())
        async with sent as answer:  # "all" stays in memory
            assert answer.status == 200
        _, secret = await ApiKeys(api.parts.database).new(ADMIN, "admin", name="", now=time.time())
        headers = {"Authorization": f"Bearer {secret}"}
        async with api.session.get(f"{api.url}/queue", headers=headers) as answer:
            seen = {row["model"] for row in (await answer.json())["queues"]}
        assert seen == {"all", "other", "vectors"}
        for of, secret in keys.items():
            headers = {"Authorization": f"Bearer {secret}"}
            async with api.session.get(f"{api.url}/models", headers=headers) as answer:
                listed = {row["id"] for row in (await answer.json())["data"]}
            assert listed == LISTED[of]
            async with api.session.get(f"{api.url}/queue", headers=headers) as answer:
                queues = {row["model"] for row in (await answer.json())["queues"]}
            assert queues == LISTED[of]
            async with api.session.get(f"{api.url}/hosts", headers=headers) as answer:
                told = await answer.text()
            assert not re.search("all|other|vectors", told)
            for name in ("all", "other", "vectors"):
                async with api.session.get(f"{api.url}/models/{name}", headers=headers) as one:
                    assert (one.status == 200) is (name in LISTED[of])


async def _keys(api: Api) -> dict[tuple[str, str], str]:
    """Return a key for each person and label. One person has a role, the other had it long ago."""
    keys, carried = ApiKeys(api.parts.database), CarriedRights(api.parts.database)
    now = time.time()
    role = frozenset({"discord-role:1"})
    await carried.note(OTHER, "discord:1", role, now - LASTS_S - 1)
    await carried.note(PATRON, "discord:1", role, now)
    made = {}
    for user, label in MAY:
        _, made[user, label] = await keys.new(user, "somebody", name=label, now=now)
    return made
