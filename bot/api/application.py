"""Builds the HTTP API's web application: routes, authentication, CORS and error responses.

`bot.api.calls.callers` rejects requests from pages of unlisted origins. Their responses have no
CORS headers.
"""

import logging
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bot.api.calls.bodies import BodyMemory, until_sent
from bot.api.calls.callers import Authentication, Route
from bot.api.calls.errors import ApiError
from bot.api.runs.attendance import Attendance, job_of
from bot.http.clients import sparing
from bot.http.listener import NAME
from bot.http.signed_links import is_signed_link
from queueing.core.errors import StoreError

_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
_STAINLESS = (
    "lang package-version os arch runtime runtime-version retry-count timeout read-timeout async "
    "helper-method poll-helper custom-poll-interval"
)
_SENT = (
    "authorization",
    "content-type",
    "accept",
    "idempotency-key",
    "last-event-id",
    "prefer",
    "x-api-key",
    "openai-organization",
    "openai-project",
    "openai-beta",
    "http-referer",
    "x-title",
    *(f"x-stainless-{name}" for name in _STAINLESS.split()),
)
"""Headers that a page of a listed origin may always send. A preflight can request more."""
_READ = (
    "retry-after",
    "x-should-retry",
    "x-request-id",
    "x-usher-job",
    "x-usher-waited-s",
    "location",
    "content-disposition",
)
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~, -]{1,4000}", re.ASCII)
_KEPT_S = 600  # seconds that browsers cache a preflight


class Cors:
    """Answers CORS preflights and adds the headers that let a page read a response."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def preflight(self, request: web.Request) -> web.Response | None:
        """Return the response to a listed origin's preflight, or None for any other request."""
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers:
            return None
        if request.headers.get("Origin") not in self._origins:
            return None
        asked = request.headers.get("Access-Control-Request-Headers", "")
        more = asked.casefold().split(",") if _NAMES.fullmatch(asked) else []
        names = dict.fromkeys([*_SENT, *filter(None, map(str.strip, more))])
        return web.Response(
            status=204,
            headers={
                "Access-Control-Allow-Methods": _METHODS,
                "Access-Control-Allow-Headers": ", ".join(names),
                "Access-Control-Max-Age": str(_KEPT_S),
            },
        )

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the CORS headers to a response before it is sent."""
        if not self._origins:
            return
        response.headers.add("Vary", "Origin")
        origin = request.headers.get("Origin", "")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(_READ)


_BELOW = "compact|input_tokens"
_OPENAI = (
    "Usher offers OpenAI's API: choose “OpenAI-compatible” in the program, with the base URL …/v1"
)
_PATH = re.compile(rf"/*(?:v1/+)*(?P<kind>[a-z_]+(?:/(?:{_BELOW}))?)")
_NOTHING_KEPT = "nothing is stored here; send the whole conversation with each call"
_NO_TRAINING = "Usher runs models but does not train or grade them"
_FILES = "send files in the request, as data URLs, or upload them to /v1/files first"
_SENTENCES = {
    "uploads": f"There are no uploads here: {_FILES}.",
    "containers": f"There are no containers here: {_FILES}.",
    "vector_stores": "There are no vector stores here: /v1/embeddings makes the vectors for one.",
    "assistants": f"There are no assistants here: {_NOTHING_KEPT}, to /v1/responses.",
    "threads": f"There are no threads here: {_NOTHING_KEPT}, to /v1/responses.",
    "conversations": f"There are no conversations here: {_NOTHING_KEPT}, to /v1/responses.",
    "batches": "There are no batches here: submit each job to /v1/jobs, which queues them.",
    "moderations": "There are no moderations here: ask a model of your choice.",
    "fine_tuning": f"There is no fine-tuning here: {_NO_TRAINING}.",
    "evals": f"There are no evaluations here: {_NO_TRAINING}.",
    "realtime": "There are no realtime sessions here: use /v1/responses with stream.",
    "rerank": "There is no reranking here: compare the vectors of /v1/embeddings.",
    "videos": "There are no videos at this path: submit a video to /v1/jobs, with `kind` video.",
    "messages": f"This path belongs to Anthropic's API. {_OPENAI}.",
    "api": f"This path belongs to Ollama's or another server's API. {_OPENAI}.",
    "sdapi": f"This path belongs to Automatic1111's API. {_OPENAI}. Images are at"
    " /v1/images/generations.",
    "responses/compact": "Conversations are not compacted here: ask a model to summarize yours.",
    "responses/input_tokens": "Tokens are not counted in advance here: see `usage` of the answer.",
}


def not_offered(path: str) -> str | None:
    """Explain why a known path of another API is not available. Returns None for other paths."""
    match = _PATH.match(path)
    return None if match is None else _SENTENCES.get(match["kind"])


log = sparing(logging.getLogger(__name__))

Served = Callable[[str, int], None]
"""Called after each request with its route's path (`NOWHERE` if none matches) and its status."""
Paths = dict[web.AbstractResource | None, str]
NOWHERE = "none"
HUNG_UP = 499
"""Status recorded when the caller hangs up before the response, as in nginx."""


def unmeasured(_path: str, _status: int) -> None:
    """Ignore a request; the default for `Served`."""


def application(
    authentication: Authentication,
    routes: Mapping[str, Route],
    attendance: Attendance,
    public: Mapping[str, Handler],
    origins: Collection[str] = (),
    *,
    served: Served = unmeasured,
) -> web.Application:
    """Build the application that serves routes such as "POST /v1/chat/completions".

    Routes in `public` need no key. Pages of `origins` may call the API. `served` is called after
    each request.
    """
    cors = Cors(origins)

    @web.middleware
    async def in_openais_words(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            authentication.require_place(request)
            return cors.preflight(request) or await handler(request)
        except ApiError as error:
            return error_response(error)
        except web.HTTPMethodNotAllowed as error:
            return _other_methods(request, error.allowed_methods)
        except web.HTTPException as error:
            return _refused(request, error)
        except StoreError as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            return error_response(_away())
        except ConnectionError:
            raise  # the caller has hung up, so there is no one to answer
        except Exception:
            log.exception("%s %s failed because of a bug", request.method, request.path)
            return error_response(_bug())

    paths: Paths = {}
    app = web.Application(middlewares=[_measured(paths, served), in_openais_words])
    app.on_response_prepare.append(_number)
    app.on_response_prepare.append(cors.on_prepare)
    room = BodyMemory()
    handlers = {
        name: _called(route, authentication, attendance, room) for name, route in routes.items()
    }
    for name, entered, handler in _as_entered({**handlers, **public}):
        method, path = entered.split(" ")
        route = app.router.add_route(method, path, handler)
        paths[route.resource] = name.split(" ")[1]
        if method == "GET":
            app.router.add_route("HEAD", path, handler)
    return app


def _measured(paths: Paths, served: Served) -> Middleware:
    @web.middleware
    async def measured(request: web.Request, handler: Handler) -> web.StreamResponse:
        status = HUNG_UP
        try:
            response = await handler(request)
            status = response.status
            return response
        finally:
            served(paths.get(request.match_info.route.resource, NOWHERE), status)

    return measured


def _as_entered(handlers: Mapping[str, Handler]) -> Iterable[tuple[str, str, Handler]]:
    """Yield each route's name with every path that reaches it: the exact path first, then variants.

    The variants cover base URLs as people enter them: without "/v1", with "/v1" twice, with extra
    slashes. Model names may contain slashes.
    """
    exact = {name: name.replace("{name}", "{name:.+}") for name in handlers}
    for name, path in exact.items():
        yield name, path, handlers[name]
    for name, path in exact.items():
        loose = path.replace("/v1/", "/{_base:/*(?:v1/+)*}", 1)
        yield name, loose if loose.endswith("}") else loose + "{_end:/*}", handlers[name]


async def _number(request: web.Request, response: web.StreamResponse) -> None:
    """Add the job and request ids to every response, including errors. SDKs show `x-request-id`.

    Pages of other origins may embed only files behind signed links.
    """
    if (job := job_of(request)) is not None:
        response.headers["x-usher-job"] = str(job)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault(
        "Cross-Origin-Resource-Policy",
        "cross-origin" if is_signed_link(request) else "same-origin",
    )
    if "x-request-id" not in response.headers:
        number = f"req-{secrets.token_hex(8)}" if job is None else f"job-{job}"
        response.headers["x-request-id"] = number


def _called(
    route: Route, authentication: Authentication, attendance: Attendance, room: BodyMemory
) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        caller = await authentication.caller(request)
        if (name := request.get(NAME)) is not None:
            name(caller.user)
        with attendance.call(request) as call, room.of(request, caller.user):
            async with until_sent():
                response = await route(request, caller)
                if not response.prepared:
                    await attendance.answer(request)
                await response.prepare(request)
                await response.write_eof()
            call.answered = True
        return response

    return handle


def error_response(error: ApiError, *, allow: str | None = None) -> web.Response:
    """Build the response for an error. `allow` lists the methods a path supports."""
    headers = error.headers if allow is None else {**error.headers, "Allow": allow}
    return web.json_response(error.body, status=error.status, headers=headers)


def _other_methods(request: web.Request, allowed: Iterable[str]) -> web.Response:
    """Answer OPTIONS, and reject a method that the path does not support."""
    allow = ", ".join(sorted({*allowed, "OPTIONS"}))
    if request.method == "OPTIONS":
        return web.Response(status=HTTPStatus.NO_CONTENT, headers={"Allow": allow})
    if sentence := not_offered(request.path):
        return error_response(ApiError(status=HTTPStatus.NOT_FOUND, message=sentence))
    message = f"{request.path} takes {allow}, not {request.method}."
    error = ApiError(status=HTTPStatus.METHOD_NOT_ALLOWED, message=message)
    return error_response(error, allow=allow)


def _refused(request: web.Request, error: web.HTTPException) -> web.Response:
    """Convert an error of aiohttp or of a download to OpenAI's format."""
    response = error_response(_of_aiohttp(request, error))
    for name in ("Content-Range", "Retry-After"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> ApiError:
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        hint = "" if request.path.startswith("/v1/") else " Paths here begin with /v1/."
        nothing = f"Unknown path: {request.method} {request.path}.{hint}"
        return ApiError(status=status, message=not_offered(request.path) or nothing)
    return ApiError(status=status, message=f"{status.phrase}.")


def _away() -> ApiError:
    return ApiError(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        message="Usher's queue or its database cannot be reached at the moment.",
        retry_after_s=10.0,
    )


def _bug() -> ApiError:
    return ApiError(
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        message="Internal error in Usher. Its log has the details.",
        repeat=False,
    )
