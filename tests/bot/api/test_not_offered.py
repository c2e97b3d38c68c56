"""Paths of OpenAI's API that are not offered."""

from bot.api.application import not_offered
from tests.bot.api.whole_api import Api

PATHS = (
    "/assistants", "/threads/thread_1/runs", "/batches",
    "/vector_stores", "/moderations", "/fine_tuning/jobs", "/uploads", "/conversations",
    "/responses/compact", "/responses/input_tokens", "/videos", "/realtime/sessions", "/rerank", "/evals",
    "/messages", "/api/chat", "/api/tags", "/sdapi/v1/txt2img",
)  # fmt: skip


async def test_what_is_not_offered_is_said(api: Api) -> None:
    """A person would look for a wrong address or a wrong key."""
    for path in PATHS:
        for url in (f"{api.url}{path}", api.url.removesuffix("/v1") + path):
            async with api.session.post(url, data=b"x") as answer:
                assert answer.status == 404
                error = (await answer.json())["error"]
            assert "Unknown path" not in error["message"]
            assert error["type"] == "not_found_error"


def test_other_paths_are_simply_unknown() -> None:
    """A message about files would mislead."""
    for path in ("/v1/", "/", "", "/v1/filesystem", "/v1/chat/files", "/audio"):
        assert not_offered(path) is None, path
