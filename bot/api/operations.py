"""What each route takes and returns, for the OpenAPI document."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.api.jobs.events import JobEvent
from bot.api.jobs.records import DeletedUpload, JobRequest, UploadList, UploadView
from bot.api.jobs.webhooks import HookSecret
from bot.api.openai.answers import (
    ChatCompletion,
    ChatCompletionChunk,
    Embeddings,
    ImagesAnswer,
    ResponseAnswer,
    TextCompletion,
    TranscriptAnswer,
)
from bot.api.openai.audio import SpeechCall
from bot.api.openai.chat import ChatCompletions
from bot.api.openai.completions import Completions
from bot.api.openai.embeddings import EmbeddingCall
from bot.api.openai.images import ImageEditInJson, ImageGeneration
from bot.api.openai.models import ApiHealth, AudioModels, ModelRow, ModelRows, Voices
from bot.api.openai.response_request import Responses
from bot.api.routes.jobs import ID_MOST, LIST_MOST, WAIT_MOST_S
from bot.api.runs.repeats import KEY_MOST
from bot.api.runs.views import HostList, JobList, JobView, QueueView

Parameter = Mapping[str, Any]


def query(name: str, text: str, **schema: Any) -> Parameter:
    """Return a parameter of the query."""
    return {"name": name, "in": "query", "description": text, "schema": schema}


def path_text(name: str) -> Parameter:
    """Return a part of the path that may be any text."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


JOB: Parameter = {
    "name": "job",
    "in": "path",
    "required": True,
    "description": "The number of a job of the caller's.",
    "schema": {"type": "integer", "minimum": 1, "maximum": ID_MOST},
}
FILE: Parameter = {
    "name": "number",
    "in": "path",
    "required": True,
    "description": "The number of a file of the result, from 1.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 10_000},
}
LAST_EVENT: Parameter = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event received; text goes on after it.",
    "schema": {"type": "string"},
}
UPLOAD: Parameter = {
    "name": "file",
    "in": "path",
    "required": True,
    "description": "The id of a file of the caller's.",
    "schema": {"type": "string", "pattern": "^file-[0-9a-f]{24}$"},
}
BYTES: Mapping[str, Any] = {"type": "string", "contentMediaType": "application/octet-stream"}
MODEL: Parameter = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of a model, or an alias.",
    "schema": {"type": "string", "minLength": 1},
}
KEY: Parameter = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated call with the same key and body returns the same job.",
    "schema": {"type": "string", "maxLength": KEY_MOST},
}


JSON = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A route: its request and its answer as types, with the statuses it may have besides.

    `answers` holds the type of the answer for each content type, None if its form is OpenAI's or
    that of a file. `form` are the fields of a request in multipart form. `items` is the type of each event
    of a stream, and `empty` says when there is none, a 204. An `absent` route has errors only.
    """

    summary: str
    tag: str = "OpenAI"
    status: int = 200
    request: Any = None
    answers: Mapping[str, Any] = field(default_factory=lambda: {JSON: None})
    form: Mapping[str, Any] = field(default_factory=dict)
    items: Any = None
    empty: str = ""
    parameters: tuple[Parameter, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    public: bool = False
    absent: bool = False


ABSENT = ("/v1/responses/", "/v1/images/variations")
"""The beginnings of OpenAI's paths that only explain why they are not served."""
EVENTS = "text/event-stream"
ANY_FILE = "*/*"
TEXT = "text/plain"


_ACCEPTED = {"x-usher-job": "The number of the job.", "x-request-id": "The job, for error reports."}
_SUBMITTING = (400, 403, 404, 408, 409, 413, 415, 422, 429)
_WAITING = (*_SUBMITTING, 410, 502, 504)


def _waits_in_queue(answer: Any, **about: Any) -> Operation:
    """Return a path of OpenAI's whose answer is that of a job, whole or as a stream."""
    return Operation(
        answers={JSON: answer, EVENTS: None},
        parameters=(KEY,),
        headers=_ACCEPTED,
        refusals=_WAITING,
        **about,
    )


_RECORDING: Mapping[str, Mapping[str, Any]] = {
    "file": BYTES,
    "model": {"type": "string"},
    "prompt": {"type": "string"},
    "response_format": {"type": "string", "enum": ["json", "text", "srt", "verbose_json", "vtt"]},
    "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    "stream": {"type": "boolean"},
}


def _written_down(**about: Any) -> Operation:
    """Return a path that takes a recording and answers with what is said in it."""
    return Operation(
        answers={JSON: TranscriptAnswer, TEXT: None, EVENTS: None},
        parameters=(KEY,),
        headers=_ACCEPTED,
        refusals=_WAITING,
        **about,
    )


OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/openapi.json": Operation(
        summary="Describe this API", tag="Usher", answers={JSON: dict[str, Any]}, public=True
    ),
    "GET /v1/models": Operation(summary="List the models", answers={JSON: ModelRows}),
    "GET /v1/models/{name}": Operation(
        summary="Return a model", answers={JSON: ModelRow}, parameters=(MODEL,), refusals=(404,)
    ),
    "POST /v1/chat/completions": _waits_in_queue(
        ChatCompletion,
        items=ChatCompletionChunk,
        summary="Answer a conversation",
        request=ChatCompletions,
    ),
    "POST /v1/responses": _waits_in_queue(
        ResponseAnswer,
        summary="Answer a conversation, in OpenAI's newer form; nothing is stored",
        request=Responses,
    ),
    "POST /v1/completions": _waits_in_queue(
        TextCompletion,
        items=TextCompletion,
        summary="Continue a prompt, or fill a gap in it",
        request=Completions,
    ),
    "POST /v1/fim/completions": _waits_in_queue(
        ChatCompletion,
        items=ChatCompletionChunk,
        summary="Fill a gap in a prompt, answered like a chat completion",
        request=Completions,
    ),
    "POST /v1/embeddings": Operation(
        summary="Turn texts, tokens or images into vectors",
        request=EmbeddingCall,
        answers={JSON: Embeddings},
        parameters=(KEY,),
        headers=_ACCEPTED,
        refusals=_WAITING,
    ),
    "POST /v1/images/generations": _waits_in_queue(
        ImagesAnswer,
        summary="Draw images",
        request=ImageGeneration,
    ),
    "POST /v1/images/edits": _waits_in_queue(
        ImagesAnswer,
        summary="Change images or combine them; also as a form, as OpenAI's API has it",
        request=ImageEditInJson,
        form={
            "image": {"type": "array", "items": BYTES},
            "mask": BYTES,
            "prompt": {"type": "string"},
            "model": {"type": "string"},
            "size": {"type": "string"},
            "n": {"type": "integer"},
        },
    ),
    "POST /v1/audio/speech": Operation(
        summary="Read a text aloud; with `stream_format` sse, as a stream",
        request=SpeechCall,
        answers={ANY_FILE: None, EVENTS: None},
        parameters=(KEY,),
        headers=_ACCEPTED,
        refusals=_WAITING,
    ),
    "POST /v1/audio/transcriptions": _written_down(
        summary="Write down what is said in a recording",
        form={**_RECORDING, "language": {"type": "string"}},
    ),
    "POST /v1/audio/translations": _written_down(
        summary="Write down in English what is said in a recording", form=_RECORDING
    ),
    "GET /v1/audio/models": Operation(
        summary="List the models that speak or write down",
        answers={JSON: AudioModels},
        public=True,
    ),
    "GET /v1/audio/voices": Operation(
        summary="List the voices that are known by name", answers={JSON: Voices}, public=True
    ),
    "GET /v1/health": Operation(
        summary="Tell that the API answers; also at /health",
        tag="Usher",
        answers={JSON: ApiHealth},
        public=True,
    ),
    "POST /v1/jobs": Operation(
        summary="Submit a job",
        tag="Jobs",
        status=202,
        request=JobRequest,
        form={
            "request": {"type": "string"},
            "images": {"type": "array", "items": BYTES},
            "mask": BYTES,
            "recording": BYTES,
        },
        answers={JSON: JobView},
        parameters=(KEY,),
        headers={"Location": "The job's path."},
        refusals=_SUBMITTING,
    ),
    "GET /v1/jobs": Operation(
        summary="List the caller's jobs, newest first",
        tag="Jobs",
        answers={JSON: JobList},
        parameters=(
            query(
                "state",
                "Only jobs in this state; `open` is `pending` or `processing`.",
                enum=["open", "pending", "processing", "completed", "failed", "cancelled"],
            ),
            query("limit", "How many.", type="integer", minimum=1, maximum=LIST_MOST, default=20),
            query(
                "before",
                "Only jobs older than this one.",
                type="integer",
                minimum=1,
                maximum=ID_MOST,
            ),
        ),
        refusals=(400,),
    ),
    "GET /v1/jobs/{job}": Operation(
        summary="Return a job; with `wait`, once it has ended or after that many seconds",
        tag="Jobs",
        answers={JSON: JobView},
        parameters=(
            JOB,
            query("wait", "Seconds.", type="number", minimum=0, maximum=WAIT_MOST_S, default=0),
        ),
        refusals=(400, 404),
    ),
    "DELETE /v1/jobs/{job}": Operation(
        summary="Cancel a job, waiting or running; a job that has ended stays as it is",
        tag="Jobs",
        answers={JSON: JobView},
        parameters=(JOB,),
        refusals=(404,),
    ),
    "GET /v1/jobs/{job}/events": Operation(
        summary="Report a job's progress to its end",
        tag="Jobs",
        answers={EVENTS: None},
        items=JobEvent,
        empty="There is nothing after the event of `Last-Event-ID`.",
        parameters=(JOB, LAST_EVENT),
        refusals=(404,),
    ),
    "GET /v1/jobs/{job}/files/{number}": Operation(
        summary="Return a file of a result",
        tag="Jobs",
        answers={ANY_FILE: None},
        parameters=(JOB, FILE),
        refusals=(404, 416, 429),
    ),
    "POST /v1/files": Operation(
        summary="Send an image, a sound or a video ahead of the jobs that use it",
        tag="Files",
        form={"file": BYTES, "purpose": {"type": "string"}},
        answers={JSON: UploadView},
        refusals=(400, 403, 408, 413, 415),
    ),
    "GET /v1/files": Operation(
        summary="List the caller's files, newest first", tag="Files", answers={JSON: UploadList}
    ),
    "GET /v1/files/{file}": Operation(
        summary="Describe a file",
        tag="Files",
        answers={JSON: UploadView},
        parameters=(UPLOAD,),
        refusals=(404,),
    ),
    "GET /v1/files/{file}/content": Operation(
        summary="Return a file",
        tag="Files",
        answers={ANY_FILE: None},
        parameters=(UPLOAD,),
        refusals=(404, 416, 429),
    ),
    "DELETE /v1/files/{file}": Operation(
        summary="Delete a file",
        tag="Files",
        answers={JSON: DeletedUpload},
        parameters=(UPLOAD,),
        refusals=(404,),
    ),
    "GET /v1/webhooks": Operation(
        summary="Return which webhooks may be called, and the secret that signs them",
        tag="Jobs",
        answers={JSON: HookSecret},
    ),
    "GET /v1/originals/{job}/{number}/{until}/{seal}": Operation(
        summary="Return a file of a result by its signed link",
        tag="Jobs",
        answers={ANY_FILE: None},
        parameters=tuple(path_text(each) for each in ("job", "number", "until", "seal")),
        refusals=(404, 429),
        public=True,
    ),
    "GET /v1/queue": Operation(
        summary="List all queues, with why they wait and until when",
        tag="Queue",
        answers={JSON: QueueView},
    ),
    "GET /v1/hosts": Operation(
        summary="List all machines, with their memory and servers",
        tag="Queue",
        answers={JSON: HostList},
    ),
}


def operation_of(route: str) -> Operation:
    """Return what a route takes and returns. Raises `KeyError` if that is not described."""
    path = route.split(" ")[1]
    if not path.startswith(ABSENT):
        return OPERATIONS[route]
    return Operation(
        summary="Not available here; the error names what is",
        absent=True,
        parameters=tuple(path_text(name) for name in _names(path)),
        refusals=(404,),
    )


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)
