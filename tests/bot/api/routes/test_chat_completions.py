"""Chat completions over HTTP, with the whole bot behind them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from bot.api.runs import answers
from tests.bot.api.runs.test_repeats import until_running
from tests.bot.api.whole_api import CONFIG, WAIT_S, Api, running

CAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60")


def with_parts(*parts: Any) -> dict[str, Any]:
    return {"model": "llama", "messages": [{"role": "user", "content": list(parts)}]}


async def until_none_open(api: Api) -> None:
    await api.until(lambda jobs: not jobs)


async def test_an_answer_comes_as_it_is_written(api: Api) -> None:
    """A program could not show the first word before the last has come."""
    whole = await api.post("/chat/completions", CAT)
    events, comments = await api.stream("/chat/completions", CAT)
    assert events[-1] == "[DONE]"
    chunks = events[:-1]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert len(chunks) > 10
    assert json.loads(comments[0].removeprefix(": usher "))["state"] == "pending"


async def test_an_alias_is_answered_under_its_own_name(api: Api) -> None:
    """A client compares the answer's model with the name it asked for."""
    answer = await api.post("/chat/completions", {**CAT, "model": "gpt-4o"})
    listed = await api.get("/models")
    one = await api.get("/models/gpt-4o")
    assert answer["model"] == "gpt-4o"
    assert {"llama", "gpt-4o", "flux"} == {row["id"] for row in listed["data"]}
    assert one["usher"]["model"] == "llama"
    assert {"id", "object", "created", "owned_by"} <= one.keys()


BAD: tuple[tuple[Any, int, str | None], ...] = (
    ({}, 400, "model"),
    ({"model": "llama", "messages": []}, 400, "messages"),
    ({**CAT, "model": "lama"}, 404, "model"),
    ({**CAT, "model": "flux"}, 400, "model"),
    ({**CAT, "n": 2}, 400, None),
    ({**CAT, "temperature": 9}, 400, "temperature"),
    ({**CAT, "temperature": "hot"}, 400, "temperature"),
    ({**CAT, "tools": [{"type": 5}]}, 400, "tools.0.type"),
    ({**CAT, "messages": [{"role": "user"}]}, 400, "messages"),
    (
        with_parts({"type": "image_url", "image_url": {"url": "http://10.0.0.1/cat.png"}}),
        400,
        "messages.0.content.0.image_url",
    ),
    (
        with_parts({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        400,
        "messages.0.content.0.image_url",
    ),
    (with_parts({"type": "video_url", "video_url": {"url": "x"}}), 400, None),
    ([1, 2], 400, None),
    ("x", 400, None),
)


async def test_a_bad_request_is_refused_in_openais_shape(
    api: Api, subtests: pytest.Subtests
) -> None:
    """A program would repeat it, or mistake the error for an answer."""
    for body, status, param in BAD:
        with subtests.test(str(body)):
            answer = await api.post("/chat/completions", body, status=status)
            assert not await api.open_jobs()
            error = answer["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["message"][-1] in ".?"
            assert error["param"] == param or param is None


async def test_a_stream_tells_its_place_as_soon_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person in Open WebUI would read only "Waiting" for five seconds."""
    monkeypatch.setattr(answers, "COMMENT_EVERY_S", 3600.0)
    async with running(tmp_path, SLOW.replace("vision]", "vision]\n    parallel: 1")) as api:
        url = f"{api.url}/chat/completions"
        async with api.session.post(url, json={**CAT, "stream": True}):
            await until_running(api)
            async with api.session.post(url, json={**CAT, "stream": True}) as waiting:
                while b'"position":1' not in await waiting.content.readline():
                    assert not waiting.content.at_eof()


async def test_a_near_name_is_named(api: Api) -> None:
    """A person who mistypes a model would have to look it up."""
    answer = await api.post("/chat/completions", {**CAT, "model": "lama"}, status=404)
    listed = await api.get("/models/lama", status=404)
    one = await api.get("/models/LLAMA")
    for error in (answer["error"], listed["error"]):
        assert "Did you mean llama?" in error["message"]
        assert error["code"] == "model_not_found"
    assert one["usher"]["model"] == "llama"


async def test_the_limit_of_a_body_is_that_of_its_path(api: Api) -> None:
    """A program that shrinks its request to the wrong limit is refused again."""
    for path, most in (("/chat/completions", b"64 MB"), ("/embeddings", b"32 MB")):
        url = URL(f"{api.url}{path}")
        reader, writer = await asyncio.open_connection(url.host, url.port)
        about = f"Content-Type: application/json\r\nContent-Length: {2**30}\r\n\r\n"
        writer.write(f"POST {url.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{about}".encode())
        async with asyncio.timeout(WAIT_S):
            assert b" 413 " in await reader.readline()
            assert most in await reader.readuntil(b"MB")
        writer.close()


async def test_deep_nesting_and_garbage_are_refused(api: Api) -> None:
    """A JSON bomb would crash the process."""
    bombs = [b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b"", b'{"model": 1e999}']
    for bomb in bombs:
        headers = {"Content-Type": "application/json"}
        url = f"{api.url}/chat/completions"
        async with api.session.post(url, data=bomb, headers=headers) as answer:
            assert answer.status == 400, bomb[:10]
    assert (await api.post("/chat/completions", CAT))["choices"]


async def test_a_caller_who_does_not_wait_keeps_the_job(tmp_path: Path) -> None:
    """A fire-and-forget call would be cancelled."""
    async with running(tmp_path, SLOW) as api:
        url = f"{api.url}/chat/completions"
        for more in ({}, {"stream": True}):
            headers = {"Prefer": "wait=5, respond-async"}
            async with api.session.post(url, json={**CAT, **more}, headers=headers) as answer:
                assert answer.status == 202
                job = await answer.json()
                assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
        await until_running(api)
        async with api.session.post(url, json={**CAT, "stream": True}):
            pass
        await api.until(lambda jobs: [job.id for job in jobs] == [1, 2])


async def test_the_same_key_is_the_same_job(api: Api) -> None:
    """A repeated call would be a second job."""
    headers = {"Idempotency-Key": "one"}
    url = f"{api.url}/chat/completions"
    async with api.session.post(url, json=CAT, headers=headers) as first:
        job, said = first.headers["x-usher-job"], await first.json()
    async with api.session.post(url, json=CAT, headers=headers) as second:
        assert second.headers["x-usher-job"] == job
        assert (await second.json())["choices"] == said["choices"]
    streamed = {**CAT, "stream": True}
    async with api.session.post(url, json=streamed, headers=headers) as third:
        assert third.headers["x-usher-job"] == job
        text = await third.text()
    assert said["choices"][0]["message"]["content"].split()[0] in text


async def test_a_cancelled_job_ends_its_stream_with_an_error(tmp_path: Path) -> None:
    """A stream that just ends is regarded as a whole answer."""
    async with running(tmp_path, SLOW) as api:
        reading = asyncio.create_task(api.stream("/chat/completions", CAT))
        await until_running(api)
        (job,) = await api.open_jobs()
        await api.parts.queue.submitter.cancel(job.id)
        events, _ = await reading
    assert events[-1]["error"]["code"] == "cancelled"


async def test_a_page_in_a_browser_reaches_nothing(api: Api) -> None:
    """Any web page a person opens could use their GPUs."""
    url = f"{api.url}/chat/completions"
    for headers, status in (
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        sent = {"Content-Type": "application/json"} | headers
        async with api.session.post(url, data=json.dumps(CAT), headers=sent) as answer:
            assert answer.status == status, headers
        assert not await api.open_jobs(), headers


async def test_unknown_paths_are_told_in_the_same_shape(api: Api) -> None:
    """A client shows `error.message`; an HTML page tells no one anything."""
    async with api.session.get(f"{api.url}/nothing") as answer:
        assert answer.status == 404
        assert "error" in await answer.json()
    async with api.session.get(api.url.removesuffix("/v1") + "/nothing") as answer:
        assert "/v1" in (await answer.json())["error"]["message"]


async def test_twenty_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    """Concurrent callers would mix their answers."""
    many = CONFIG + "limits: {open_per_person: 50, queued_per_person: 50}\n"
    async with running(tmp_path, many) as api:

        async def ask(number: int) -> None:
            body = {"model": "llama", "messages": [{"role": "user", "content": f"number{number}"}]}
            answer = await api.post("/chat/completions", body)
            assert f"number{number}" in answer["choices"][0]["message"]["content"]

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(ask(number))


async def test_the_limits_of_a_person_hold(tmp_path: Path) -> None:
    """A program could fill a queue in which people wait."""
    few = SLOW + "limits: {open_per_person: 1, queued_per_person: 1}\n"
    async with running(tmp_path, few) as api:
        asking = asyncio.create_task(api.stream("/chat/completions", CAT))
        await until_running(api)
        async with api.session.post(f"{api.url}/chat/completions", json=CAT) as answer:
            assert answer.status == 429
            assert (await answer.json())["error"]["type"] == "rate_limit_error"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_words_that_are_unwanted_everywhere_are_so_here(tmp_path: Path) -> None:
    """A program could get round a list of words, for example by an earlier turn."""
    rules = CONFIG + 'rooms: {"*": {words: [snow crash]}}\n'
    turns = [{"role": "user", "content": "Snow Crash?"}, {"role": "user", "content": "Go on."}]
    async with running(tmp_path, rules) as api:
        read = await api.post(
            "/chat/completions", {"model": "llama", "messages": turns}, status=400
        )
        assert "snow crash" in read["error"]["message"]
        read = await api.post("/jobs", {"model": "flux", "prompt": "snow crash"}, status=400)
        assert "snow crash" in read["error"]["message"]
        assert await api.open_jobs() == []


async def test_an_api_that_failed_is_served_again(tmp_path: Path) -> None:
    """After a failure of the listener, the API would stay down until the bot is restarted."""
    async with running(tmp_path, SLOW) as api:
        gateway = api.parts.gateway
        assert gateway is not None
        serving = next(task for task in asyncio.all_tasks() if "keep_served" in repr(task))
        first = gateway.port
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        again = asyncio.create_task(gateway.run())
        async with asyncio.timeout(60):
            await gateway.connected.wait()
        assert gateway.port != 0
        assert first != 0
        async with api.session.post(f"{api.url}/chat/completions", json={**CAT, "stream": True}):
            await until_running(api)
        await until_none_open(api)
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)


async def test_the_place_comes_as_data_where_it_is_asked_for(api: Api) -> None:
    """A client that cannot read comments would not know how long it waits."""
    events, comments = await api.stream("/chat/completions", {**CAT, "usher_progress": True})
    assert comments == []
    assert events[0]["choices"] == []
    assert events[0]["usher"]["state"] == "pending"
