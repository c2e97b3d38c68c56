"""Parameters, requests and responses of each route, for the OpenAPI document."""

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
from bot.api.openai.response_request import Responses
from bot.api.parameters import (
    BYTES,
    FILE,
    JOB,
    KEY,
    LAST_EVENT,
    MODEL,
    UPLOAD,
    Parameter,
    path_text,
    query,
)
from bot.api.routes.jobs import ID_MOST, LIST_MOST, WAIT_MOST_S
from bot.api.routes.models import ApiHealth, AudioModels, ModelRow, ModelRows, Voices
from bot.api.runs.views import HostList, JobList, JobView, QueueView

JSON = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A route with the types of its request and response.

    - `answers`: the response's type by content type; None for a file, or for a format of OpenAI
      that has no record here.
    - `form`: the schemas of the fields of a multipart request.
    - `items`: the type of each event in a stream.
    - `empty`: describes when the response is 204.
    - `refusals`: the error statuses that only this route has.
    - `absent`: the route only returns errors.
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
"""Prefixes of OpenAI's paths that only return an error, which explains why."""
EVENTS = "text/event-stream"
ANY_FILE = "*/*"
TEXT = "text/plain"


_ACCEPTED = {"x-usher-job": "The job's number.", "x-request-id": "The job's id, for error reports."}
_SUBMITTING = (400, 403, 404, 408, 409, 413, 415, 422, 429)
_WAITING = (*_SUBMITTING, 410, 502, 504)


def _waits_in_queue(answers: Mapping[str, Any], **about: Any) -> Operation:
    """Describe an OpenAI route that answers with a job's result."""
    return Operation(
        answers=answers, parameters=(KEY,), headers=_ACCEPTED, refusals=_WAITING, **about
    )


def _streams(answer: Any, **about: Any) -> Operation:
    """Describe an OpenAI route that answers with a job's result, whole or as a stream."""
    return _waits_in_queue({JSON: answer, EVENTS: None}, **about)


_TRANSCRIPT = {JSON: TranscriptAnswer, TEXT: None, EVENTS: None}
_RECORDING: Mapping[str, Mapping[str, Any]] = {
    "file": BYTES,
    "model": {"type": "string"},
    "prompt": {"type": "string"},
    "response_format": {"type": "string", "enum": ["json", "text", "srt", "verbose_json", "vtt"]},
    "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    "stream": {"type": "boolean"},
}


OPERATIONS: Mapping[str, Operation] = {
    "GET /v1/openapi.json": Operation(
        summary="Describe this API", tag="Usher", answers={JSON: dict[str, Any]}, public=True
    ),
    "GET /v1/models": Operation(summary="List the models", answers={JSON: ModelRows}),
    "GET /v1/models/{name}": Operation(
        summary="Return a model", answers={JSON: ModelRow}, parameters=(MODEL,), refusals=(404,)
    ),
    "POST /v1/chat/completions": _streams(
        ChatCompletion,
        items=ChatCompletionChunk,
        summary="Answer a conversation",
        request=ChatCompletions,
    ),
    "POST /v1/responses": _streams(
        ResponseAnswer,
        summary="Answer a conversation, in OpenAI's Responses format; nothing is stored",
        request=Responses,
    ),
    "POST /v1/completions": _streams(
        TextCompletion,
        items=TextCompletion,
        summary="Continue a prompt, or fill a gap in it",
        request=Completions,
    ),
    "POST /v1/fim/completions": _streams(
        ChatCompletion,
        items=ChatCompletionChunk,
        summary="Fill a gap in a prompt; the response is a chat completion",
        request=Completions,
    ),
    "POST /v1/embeddings": _waits_in_queue(
        {JSON: Embeddings},
        summary="Turn texts, tokens or images into vectors",
        request=EmbeddingCall,
    ),
    "POST /v1/images/generations": _streams(
        ImagesAnswer,
        summary="Generate images",
        request=ImageGeneration,
    ),
    "POST /v1/images/edits": _streams(
        ImagesAnswer,
        summary="Edit or combine images, sent as JSON or as OpenAI's multipart form",
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
    "POST /v1/audio/speech": _waits_in_queue(
        {ANY_FILE: None, EVENTS: None},
        summary="Read a text aloud; streams events with `stream_format` set to `sse`",
        request=SpeechCall,
    ),
    "POST /v1/audio/transcriptions": _waits_in_queue(
        _TRANSCRIPT,
        summary="Transcribe a recording",
        form={**_RECORDING, "language": {"type": "string"}},
    ),
    "POST /v1/audio/translations": _waits_in_queue(
        _TRANSCRIPT, summary="Transcribe a recording in English", form=_RECORDING
    ),
    "GET /v1/audio/models": Operation(
        summary="List the models that speak or transcribe",
        answers={JSON: AudioModels},
        public=True,
    ),
    "GET /v1/audio/voices": Operation(
        summary="List the known voices", answers={JSON: Voices}, public=True
    ),
    "GET /v1/health": Operation(
        summary="Check that the API is up; also at /health",
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
                "Only jobs in this state. `open` means `pending` or `processing`.",
                enum=["open", "pending", "processing", "completed", "failed", "cancelled"],
            ),
            query(
                "limit",
                "The maximum number of jobs to return.",
                type="integer",
                minimum=1,
                maximum=LIST_MOST,
                default=20,
            ),
            query(
                "before",
                "Only jobs with a lower number.",
                type="integer",
                minimum=1,
                maximum=ID_MOST,
            ),
        ),
        refusals=(400,),
    ),
    "GET /v1/jobs/{job}": Operation(
        summary="Return a job; `wait` delays the response until the job ends",
        tag="Jobs",
        answers={JSON: JobView},
        parameters=(
            JOB,
            query(
                "wait",
                "The maximum wait in seconds.",
                type="number",
                minimum=0,
                maximum=WAIT_MOST_S,
                default=0,
            ),
        ),
        refusals=(400, 404),
    ),
    "DELETE /v1/jobs/{job}": Operation(
        summary="Cancel a waiting or running job; does nothing once the job has ended",
        tag="Jobs",
        answers={JSON: JobView},
        parameters=(JOB,),
        refusals=(404,),
    ),
    "GET /v1/jobs/{job}/events": Operation(
        summary="Stream a job's progress until it ends",
        tag="Jobs",
        answers={EVENTS: None},
        items=JobEvent,
        empty="No events follow `Last-Event-ID`.",
        parameters=(JOB, LAST_EVENT),
        refusals=(404,),
    ),
    "GET /v1/jobs/{job}/files/{number}": Operation(
        summary="Return a file of a job's result",
        tag="Jobs",
        answers={ANY_FILE: None},
        parameters=(JOB, FILE),
        refusals=(404, 416, 429),
    ),
    "POST /v1/files": Operation(
        summary="Upload an image, audio or video file for use in later jobs",
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
        summary="Return the content of a file",
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
        summary="Return the allowed webhook origins, and the secret that signs webhook calls",
        tag="Jobs",
        answers={JSON: HookSecret},
    ),
    "GET /v1/originals/{job}/{number}/{until}/{seal}": Operation(
        summary="Return a file of a job's result through its signed link",
        tag="Jobs",
        answers={ANY_FILE: None},
        parameters=tuple(path_text(each) for each in ("job", "number", "until", "seal")),
        refusals=(404, 429),
        public=True,
    ),
    "GET /v1/queue": Operation(
        summary="List all queues, with the reason for each wait and an estimate",
        tag="Queue",
        answers={JSON: QueueView},
    ),
    "GET /v1/hosts": Operation(
        summary="List all hosts, with their memory and servers",
        tag="Queue",
        answers={JSON: HostList},
    ),
}


def operation_of(route: str) -> Operation:
    """Return the description of a route. Raises `KeyError` for unknown routes."""
    path = route.split(" ")[1]
    if not path.startswith(ABSENT):
        return OPERATIONS[route]
    return Operation(
        summary="Not available; the error names an alternative",
        absent=True,
        parameters=tuple(path_text(name) for name in _names(path)),
        refusals=(404,),
    )


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)
