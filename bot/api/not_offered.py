"""What OpenAI's API and others have and this one does not, with what to use instead. Pure."""

import re

_BELOW = "compact|input_tokens"
_OPENAI = (
    "Usher speaks OpenAI's API: choose “OpenAI-compatible” in the program, with the base URL …/v1"
)
_PATH = re.compile(rf"/*(?:v1/+)*(?P<kind>[a-z_]+(?:/(?:{_BELOW}))?)")
_NOTHING_KEPT = "nothing is stored here; send the whole conversation with each call"
_NO_TRAINING = "Usher runs models, and does not train or grade them"
_FILES = "send files in the request, as data URLs, or ahead of it to /v1/files"
_SENTENCES = {
    "uploads": f"There are no uploads here: {_FILES}.",
    "containers": f"There are no containers here: {_FILES}.",
    "vector_stores": "There are no vector stores here: /v1/embeddings makes the vectors for one.",
    "assistants": f"There are no assistants here: {_NOTHING_KEPT}, to /v1/responses.",
    "threads": f"There are no threads here: {_NOTHING_KEPT}, to /v1/responses.",
    "conversations": f"There are no conversations here: {_NOTHING_KEPT}, to /v1/responses.",
    "batches": "There are no batches here: submit each job to /v1/jobs; all of them wait in line.",
    "moderations": "There are no moderations here: ask a model of your choice.",
    "fine_tuning": f"There is no fine-tuning here: {_NO_TRAINING}.",
    "evals": f"There are no evaluations here: {_NO_TRAINING}.",
    "realtime": "There are no realtime sessions here: use /v1/responses with stream.",
    "rerank": "There is no reranking here: compare the vectors of /v1/embeddings.",
    "videos": "There are no videos at this path: submit a film to /v1/jobs, with `kind` film.",
    "messages": f"This is Anthropic's API. {_OPENAI}.",
    "api": f"This is Ollama's API or another server's own. {_OPENAI}.",
    "sdapi": f"This is Automatic1111's API. {_OPENAI}, and pictures at /v1/images/generations.",
    "responses/compact": "Conversations are not compacted here: ask a model for a summary of yours.",
    "responses/input_tokens": "Tokens are not counted in advance here: `usage` of an answer has them.",
}


def not_offered(path: str) -> str | None:
    """Return the sentence about a known path that does not exist here; None for others."""
    match = _PATH.match(path)
    return None if match is None else _SENTENCES.get(match["kind"])
