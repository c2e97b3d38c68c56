"""The native API: submit and await."""

import asyncio
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.bot.api.calls.test_keys import CLOSED, bearer, new_key, page_of
from tests.bot.api.routes.test_image_edits import data_url, png
from tests.bot.api.whole_api import CONFIG, Api, running

DRAW = {"model": "flux", "prompt": "a red cat", "seed": 7}
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60")


async def done(api: Api, job: Any) -> Any:
    return await api.get(f"/jobs/{job['id']}?wait=60")


async def test_an_image_is_drawn_and_fetched(api: Api) -> None:
    """A program could not get an image."""
    job = await api.post("/jobs", DRAW, status=202)
    assert job["state"] in {"pending", "processing"}
    assert job["model"] == "flux"
    ended = await done(api, job)
    assert ended["state"] == "completed"
    (file,) = ended["files"]
    assert file["mime"] == "image/png"
    url = api.url.removesuffix("/v1") + file["url"]
    async with api.session.get(url) as answer:
        data = await answer.read()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert len(data) == file["size"]
    assert Image.open(io.BytesIO(data)).format == "PNG"
    await api.get(f"/jobs/{job['id']}/files/2", status=404)
    await api.get(f"/jobs/{job['id']}/files/x", status=404)


async def test_a_text_is_written(api: Api) -> None:
    """A program that polls would get no answers."""
    ended = await done(api, await api.post("/jobs", CHAT, status=202))
    assert ended["state"] == "completed"
    assert "What is a cat?" in ended["text"]
    assert ended["finished_at"].endswith("Z")


async def test_an_image_starts_from_another(tmp_path: Path) -> None:
    """Editing images would need a chat."""
    able = CONFIG.replace("[text-to-image]", "[text-to-image, image-to-image]")
    body = {**DRAW, "images": [data_url(png())], "strength": 0.5}
    async with running(tmp_path, able) as api:
        ended = await done(api, await api.post("/jobs", body, status=202))
    assert ended["state"] == "completed"


async def test_a_waiting_job_says_where_it_stands(tmp_path: Path) -> None:
    """A program could not see how far its job is."""
    async with running(tmp_path, SLOW) as api:
        first = await api.post("/jobs", DRAW, status=202)
        await api.until(lambda jobs: any(job.started_at for job in jobs))
        second = await api.post("/jobs", DRAW, status=202)
        third = await api.post("/jobs", DRAW, status=202)
        waiting = [await api.get(f"/jobs/{job['id']}") for job in (second, third)]
        assert [job["position"] for job in waiting] == [1, 2]
        assert all(job["reason"] and job["ends_at"]["latest"].endswith("Z") for job in waiting)
        listed = (await api.get("/jobs?state=open"))["data"]
        assert [job["id"] for job in listed] == [third["id"], second["id"], first["id"]]
        lines = {line["model"]: line for line in (await api.get("/queue"))["queues"]}
        assert (lines["flux"]["waiting"], lines["flux"]["running"]) == (2, 1)
        (host,) = (await api.get("/hosts"))["data"]
        assert host["servers"][0]["up"]


async def test_a_job_is_cancelled_waiting_or_running(tmp_path: Path) -> None:
    """A program could not withdraw a request."""
    async with running(tmp_path, SLOW) as api:
        running_job = await api.post("/jobs", DRAW, status=202)
        await api.until(lambda jobs: any(job.started_at for job in jobs))
        waiting = await api.post("/jobs", DRAW, status=202)
        for job in (waiting, running_job):
            for _ in range(2):
                url = f"{api.url}/jobs/{job['id']}"
                async with api.session.delete(url) as answer:
                    assert (await answer.json())["state"] == "cancelled"
        assert not await api.open_jobs()


async def test_a_long_poll_ends_with_its_time(tmp_path: Path) -> None:
    """A client would consider the connection lost."""
    async with running(tmp_path, SLOW) as api:
        job = await api.post("/jobs", DRAW, status=202)
        began = time.monotonic()
        assert (await api.get(f"/jobs/{job['id']}?wait=0.2"))["state"] != "completed"
        assert time.monotonic() - began >= 0.2


async def test_another_persons_job_is_none(tmp_path: Path) -> None:
    """Anyone could read anyone's images, or watch their previews, by trying numbers."""
    async with running(tmp_path, CLOSED) as api:
        page = await page_of(api)
        mine, other = bearer(await new_key(page)), bearer(await new_key(page, "robot --service"))
        job = await api.post("/jobs", DRAW, status=202, headers=mine)
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/files/1"), ("GET", "/events")):
            url = f"{api.url}/jobs/{job['id']}{path}"
            async with api.session.request(method, url, headers=other) as answer:
                assert answer.status == 404, (method, path)
        async with api.session.get(f"{api.url}/jobs", headers=other) as answer:
            assert (await answer.json())["data"] == []


async def test_the_same_key_is_the_same_job(api: Api) -> None:
    """A repeated submission would be a second job."""
    headers = {"Idempotency-Key": "one"}
    jobs = [await api.post("/jobs", DRAW, status=202, headers=headers) for _ in range(3)]
    assert len({job["id"] for job in jobs}) == 1
    both = await asyncio.gather(
        *(api.post("/jobs", DRAW, status=202, headers={"Idempotency-Key": "two"}) for _ in "ab")
    )
    assert len({job["id"] for job in both}) == 1


BAD: tuple[Any, ...] = (
    {},
    {"model": "flux"},
    {**DRAW, "steps": 0},
    {**DRAW, "width": 512},
    {**DRAW, "surprise": 1},
    {**DRAW, "lora": "none-here"},
    {**DRAW, "style": "none-here"},
    {**DRAW, "images": ["http://10.0.0.1/x.png"]},
    {**DRAW, "images": ["AAAA"]},
    {**DRAW, "strength": 0.5},
    {"messages": CHAT["messages"]},
    {**CHAT, "model": "flux"},
    [],
)


async def test_a_bad_request_makes_no_job(api: Api, subtests: pytest.Subtests) -> None:
    """A mistake would wait in the queue only to fail."""
    for body in BAD:
        with subtests.test(str(body)):
            answer = await api.post("/jobs", body, status=400)
            assert answer["error"]["message"]
            assert not await api.open_jobs()


async def test_a_number_without_a_job_is_404(api: Api) -> None:
    """An invented number would be reported as an error of the server."""
    for path in ("/jobs/0", "/jobs/99", "/jobs/x", "/jobs/" + "9" * 40, "/jobs/-1"):
        await api.get(path, status=404)


BAD_QUERIES = (
    *("wait=x", "wait=-1", "wait=nan", "wait=1e9", "wait=301", "wait=1_0", "wait="),
    *("limit=1e9", "limit=0", "limit=1.5", "limit=201", "before=x", "before=0", "state=x"),
    *("state=", "before=" + "9" * 30),
)


async def test_numbers_of_a_query_are_checked(api: Api, subtests: pytest.Subtests) -> None:
    """A number out of range would hang the call or fail in the database."""
    job = await api.post("/jobs", DRAW, status=202)
    for query in BAD_QUERIES:
        with subtests.test(query):
            of = f"/{job['id']}" if query.startswith("wait") else ""
            await api.get(f"/jobs{of}?{query}", status=400)


async def test_events_tell_a_job_to_its_end(api: Api) -> None:
    """A program would have to ask repeatedly."""
    text = await api.post("/jobs", CHAT, status=202)
    told = await api.events(f"/jobs/{text['id']}/events")
    again = await api.events(f"/jobs/{text['id']}/events")
    drawn = await api.post("/jobs", DRAW, status=202)
    grown = await api.events(f"/jobs/{drawn['id']}/events")
    said = "".join(event["text"] for event in told if event["type"] == "text")
    assert said == told[-1]["job"]["text"]
    states = [event["state"] for event in told if event["type"] == "state"]
    assert states[-1] == "completed"
    assert again[-1] == told[-1]
    assert grown[-1]["type"] == "done"
    assert grown[-1]["job"]["files"]


async def test_a_broken_connection_goes_on_where_it_was(tmp_path: Path) -> None:
    """A page would show the beginning of a text twice, or ask forever once it has all of it."""
    async with running(tmp_path, SLOW) as api:
        job = await api.post("/jobs", CHAT, status=202)
        url = f"{api.url}/jobs/{job['id']}/events"

        async def until_text(last_id: str) -> tuple[str, Any]:
            """Return the id and the event of the next text, then break the connection."""
            name = ""
            async with api.session.get(url, headers={"Last-Event-ID": last_id}) as answer:
                async for line in answer.content:
                    if line.startswith(b"id: "):
                        name = line[4:].decode().strip()
                    elif line.startswith(b'data: {"type":"text"'):
                        return name, json.loads(line[6:])
            raise AssertionError("no text")

        first_id, first = await until_text("")
        _, second = await until_text(first_id)
        again, _ = await until_text(first_id)
        assert "again" not in second
        assert not second["text"].startswith(first["text"])
        assert again != first_id
        _, other = await until_text("of-another-process")
        assert other["again"]
        await api.session.delete(f"{api.url}/jobs/{job['id']}")
        async with api.session.get(url) as answer:
            assert "id: end" in await answer.text()
        async with api.session.get(url, headers={"Last-Event-ID": "end"}) as answer:
            assert answer.status == 204


async def test_what_a_server_said_beside_the_text_is_shown(api: Api) -> None:
    """A program that polls could not see calls of tools, or whether an answer was cut."""
    ended = await done(api, await api.post("/jobs", CHAT, status=202))
    assert ended["answer"]["message"]["content"] == ended["text"]
    assert ended["answer"]["usage"]["total_tokens"] > 0
    drawn = await done(api, await api.post("/jobs", DRAW, status=202))
    assert drawn["answer"] is None


async def test_the_same_key_with_another_request_is_refused(tmp_path: Path) -> None:
    """A program would get the result of another request."""
    headers = {"Idempotency-Key": "one"}
    async with running(tmp_path) as api:
        job = await api.post("/jobs", CHAT, status=202, headers=headers)
        await api.post("/jobs", {**CHAT, "seed": 5}, status=422, headers=headers)
        await api.post("/jobs", DRAW, status=422, headers=headers)
    async with running(tmp_path) as api:
        again = await api.post("/jobs", CHAT, status=202, headers=headers)
        assert again["id"] == job["id"]
        bodies = await asyncio.gather(
            *(
                api.post("/jobs", DRAW, status=202, headers={"Idempotency-Key": "three"})
                for _ in range(10)
            )
        )
        assert len({body["id"] for body in bodies}) == 1


async def test_jobs_are_listed_in_pages_and_by_state(api: Api) -> None:
    """A program could not find a job among many, or would see some twice."""
    made = [await api.post("/jobs", CHAT, status=202) for _ in range(5)]
    for job in made:
        await done(api, job)
    await api.session.delete(f"{api.url}/jobs/{made[0]['id']}")  # it has ended
    newest = [job["id"] for job in reversed(made)]

    async def ids(query: str) -> list[int]:
        return [job["id"] for job in (await api.get(f"/jobs?{query}"))["data"]]

    assert await ids("limit=2") == newest[:2]
    assert await ids(f"limit=2&before={newest[1]}") == newest[2:4]
    assert await ids(f"limit=2&before={newest[3]}") == newest[4:]
    assert await ids("state=completed&limit=3") == newest[:3]
    assert await ids(f"state=completed&before={newest[2]}") == newest[3:]
    assert await ids("state=open") == await ids("state=failed") == []


async def test_open_jobs_are_listed_by_state(tmp_path: Path) -> None:
    """Waiting jobs could not be distinguished from running ones."""
    async with running(tmp_path, SLOW) as api:
        first = await api.post("/jobs", DRAW, status=202)
        await api.until(lambda jobs: any(job.started_at for job in jobs))
        second = await api.post("/jobs", DRAW, status=202)
        for state, expected in (
            ("processing", [first["id"]]),
            ("pending", [second["id"]]),
            ("open", [second["id"], first["id"]]),
            (f"open&before={second['id']}", [first["id"]]),
            ("cancelled", []),
        ):
            listed = (await api.get(f"/jobs?state={state}"))["data"]
            assert [job["id"] for job in listed] == expected, state
