"""Pages of other origins, the methods of every path, and base addresses as people enter them."""

import asyncio
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from queueing.core.jobs import JobState
from tests.bot.api.whole_api import CONFIG, Api, running

PAGE = "https://chat.example.net"
OPEN = CONFIG.replace("open: true", f"open: true\n  cors: [{PAGE}, app://obsidian.md]")
CLOSED = OPEN.replace("open: true", "open: false")
CAT = {"model": "llama", "messages": [{"role": "user", "content": "What is a cat?"}]}
ASKED = "authorization, content-type, idempotency-key, last-event-id, x-stainless-lang"
SENT_BY_SDKS = {
    *ASKED.split(", "),
    *("x-stainless-retry-count", "x-stainless-timeout", "x-stainless-package-version"),
    *("x-stainless-os", "x-stainless-arch", "x-stainless-runtime", "x-stainless-runtime-version"),
    *("x-stainless-read-timeout", "x-stainless-helper-method"),
    *("openai-organization", "openai-project", "openai-beta", "http-referer", "x-title"),
}


async def call(
    api: Api, method: str, path: str, headers: Mapping[str, str], body: Any = None
) -> tuple[int, Mapping[str, str], str]:
    """Return status, headers and text of an answer; the path is used exactly as written."""
    url = URL(api.url.removesuffix("/v1") + path, encoded=True)
    data = None if body is None else json.dumps(body)
    sent = {"Content-Type": "application/json", **headers}
    async with api.session.request(method, url, data=data, headers=sent) as answer:
        return answer.status, answer.headers, await answer.text()


def names(text: str) -> set[str]:
    return {name.strip().casefold() for name in text.split(",")}


@pytest.mark.parametrize("config", [OPEN, CLOSED])
async def test_a_preflight_of_a_listed_page_is_answered(config: str, tmp_path: Path) -> None:
    """A browser would keep the page from calling; a preflight never carries a key."""
    asking = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ASKED + ", x-of-its-own",
    }
    paths = ("/v1/chat/completions", "/v1/models", "/v1/jobs/1/events", "/v1/nothing")
    async with running(tmp_path, config) as api:
        for path, origin in product(paths, (PAGE, "app://obsidian.md")):
            headers = {"Origin": origin, **asking}
            status, answer, text = await call(api, "OPTIONS", path, headers)
            assert (status, text) == (204, "")
            assert answer["Access-Control-Allow-Origin"] == origin
            assert names(answer["Access-Control-Allow-Methods"]) >= {"get", "post", "delete"}
            allowed = names(answer["Access-Control-Allow-Headers"])
            assert allowed >= SENT_BY_SDKS | {"x-of-its-own"}
            assert "Access-Control-Allow-Credentials" not in answer


async def test_a_listed_page_can_read_every_answer(tmp_path: Path) -> None:
    """A page would see "Failed to fetch" instead of an error, a stream or the time of a retry."""
    page = {"Origin": PAGE}
    async with running(tmp_path, OPEN) as api:
        answers = [
            await call(api, "GET", "/v1/models", page),
            await call(api, "POST", "/v1/chat/completions", page, CAT),
            await call(api, "POST", "/v1/chat/completions", page, {**CAT, "stream": True}),
            await call(api, "POST", "/v1/chat/completions", page, {}),
            await call(api, "GET", "/v1/nothing", page),
            await call(api, "PUT", "/v1/models", page),
        ]
    async with running(tmp_path, CLOSED) as api:
        answers.append(await call(api, "GET", "/v1/models", page))
    assert [status for status, _, _ in answers] == [200, 200, 200, 400, 404, 405, 401]
    for _, headers, _ in answers:
        assert headers["Access-Control-Allow-Origin"] == PAGE
        exposed = names(headers["Access-Control-Expose-Headers"])
        assert exposed >= {"retry-after", "x-request-id", "x-should-retry", "x-usher-job"}
        assert exposed >= {name.casefold() for name in headers if name.startswith("x-usher-")}
        assert headers["Vary"] == "Origin"


@pytest.mark.parametrize("config", [OPEN, CLOSED, CONFIG])
async def test_other_pages_get_nothing(config: str, tmp_path: Path) -> None:
    """Any web page a person opens could read what their GPUs make."""
    origins = ("https://evil.example", "null", PAGE + ".evil.example", PAGE + ":8443")
    calls = (("OPTIONS", "/v1/models"), ("GET", "/v1/models"), ("GET", "/x"))
    async with running(tmp_path, config) as api:
        for origin, (method, path) in product(origins, calls):
            headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            status, answer, _ = await call(api, method, path, headers)
            assert status == 403, origin
            assert not [name for name in answer if name.startswith("Access-Control")], origin


async def test_any_host_name_will_do_where_a_key_is_needed(tmp_path: Path) -> None:
    """A program in a container would be refused because of the name it uses for this machine."""
    async with running(tmp_path, CLOSED) as api:
        host = {"Host": "host.docker.internal:8081"}
        assert (await call(api, "GET", "/v1/models", host))[0] == 401


async def test_every_path_has_head_and_options(tmp_path: Path) -> None:
    """Uptime checks and proxies ask with HEAD, and libraries with OPTIONS."""
    slow = CONFIG.replace("service_s: 0.1", "service_s: 60")
    async with running(tmp_path, slow) as api:
        status, headers, text = await call(api, "HEAD", "/v1/models", {})
        assert (status, text) == (200, "")
        assert headers["Content-Type"].startswith("application/json")
        status, headers, _ = await call(api, "OPTIONS", "/v1/chat/completions", {})
        assert status == 204
        assert headers["Allow"] == "OPTIONS, POST"
        status, headers, text = await call(api, "GET", "/v1/chat/completions", {})
        assert status == 405
        assert headers["Allow"] == "OPTIONS, POST"
        assert "POST" in json.loads(text)["error"]["message"]
        status, headers, _ = await call(api, "PUT", "/v1/jobs", {})
        assert status == 405
        assert headers["Allow"] == "GET, HEAD, OPTIONS, POST"
        assert (await call(api, "HEAD", "/v1/jobs/7/events", {}))[0] == 404
        job = await api.post("/jobs", {"model": "flux", "prompt": "a fox"}, status=202)
        status, headers, text = await call(api, "HEAD", f"/v1/jobs/{job['id']}/events", {})
        assert (status, text) == (200, "")
        assert headers["Content-Type"].startswith("text/event-stream")


async def test_a_base_address_may_be_entered_in_any_way(api: Api) -> None:
    """Half of all people leave "/v1" out, and programs append theirs with an extra slash."""
    for base in ("", "/", "//v1", "/v1/", "/v1/v1", "//v1//"):
        status, _, text = await call(api, "GET", f"{base}/models", {})
        assert (status, len(json.loads(text)["data"])) == (200, 3), base
        status, _, text = await call(api, "GET", f"{base}/models/", {})
        assert status == 200, base
        status, _, text = await call(api, "GET", f"{base}/models/gpt-4o", {})
        assert json.loads(text)["id"] == "gpt-4o", base
        status, _, text = await call(api, "POST", f"{base}/chat/completions", {}, CAT)
        assert json.loads(text)["choices"], base
        status, _, text = await call(api, "GET", f"{base}/nothing", {})
        assert status == 404, base
        assert json.loads(text)["error"]["message"].startswith("Unknown path: GET "), base


async def test_slashes_without_end_take_no_time(tmp_path: Path) -> None:
    """A pattern that tries all ways to divide them would block the process."""
    async with running(tmp_path) as api, asyncio.timeout(60):
        for path in ("/" * 7000, "/v1" * 2000, "/v1/" * 1500, "/v1//" * 1000 + "x"):
            assert (await call(api, "GET", path, {}))[0] == 404


async def test_a_model_with_a_slash_in_its_name_is_found(tmp_path: Path) -> None:
    """Models from a hub have a slash in their names."""
    named = CONFIG.replace("[gpt-4o]", "[google/gemma-3]")
    async with running(tmp_path, named) as api:
        for path in ("google/gemma-3", "google%2Fgemma-3"):
            status, _, text = await call(api, "GET", f"/v1/models/{path}", {})
            assert (status, json.loads(text)["id"]) == (200, "google/gemma-3")


async def test_each_answer_names_its_call(tmp_path: Path) -> None:
    """A person who reports an error could not say which call it was."""
    impatient = CONFIG.replace("open: true", "open: true\n  wait_s: 0.1").replace(
        "service_s: 0.1", "service_s: 60"
    )
    async with running(tmp_path) as api:
        _, answer, _ = await call(api, "POST", "/v1/chat/completions", {}, CAT)
        assert float(answer["x-usher-waited-s"]) >= 0
        _, refused, _ = await call(api, "GET", "/v1/nothing", {})
        _, again, _ = await call(api, "GET", "/v1/nothing", {})
        assert refused["x-request-id"] != again["x-request-id"]
    async with running(tmp_path, impatient) as api:
        status, late, _ = await call(api, "POST", "/v1/chat/completions", {}, CAT)
        (job,) = await api.open_jobs()
        assert (status, late["x-usher-job"]) == (504, str(job.id))
        assert late["x-request-id"] == f"job-{job.id}"
        assert job.state in {JobState.PENDING, JobState.PROCESSING}


async def test_no_page_embeds_what_needs_no_key(api: Api) -> None:
    """An image in another page has no origin, and would reveal whether a job or file exists."""
    paths = (
        "/v1/models",
        "/v1/queue",
        "//v1//jobs",
        "/v1/files/originals/",
        "/v1/openapi.json",
    )
    for path, site in product(paths, ("cross-site", "same-site")):
        status, answer, text = await call(api, "GET", path, {"Sec-Fetch-Site": site})
        assert (status, json.loads(text)["error"]["code"]) == (403, "origin"), (path, site)
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    for site in ("none", "same-origin"):
        assert (await call(api, "GET", "/v1/models", {"Sec-Fetch-Site": site}))[0] == 200
    link = "/v1/originals/1/1/1/seal"
    status, answer, _ = await call(api, "GET", link, {"Sec-Fetch-Site": "cross-site"})
    assert (status, answer["Cross-Origin-Resource-Policy"]) == (404, "cross-origin")
