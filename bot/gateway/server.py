"""The application of the HTTP API: routes, the identification of callers, and errors."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.gateway.attendance import Attendance
from bot.gateway.callers import Authentication, Caller
from bot.gateway.errors import ApiError
from bot.serving.listener import NAME
from queueing.core.errors import StoreError

log = logging.getLogger(__name__)

Route = Callable[[web.Request, Caller], Awaitable[web.StreamResponse]]
AWAY = ApiError(
    status=HTTPStatus.SERVICE_UNAVAILABLE,
    message="Usher's database cannot be used just now.",
    retry_after_s=10.0,
)
BUG = ApiError(
    status=HTTPStatus.INTERNAL_SERVER_ERROR, message="Something went wrong here.", repeat=False
)


def application(
    authentication: Authentication,
    routes: Mapping[str, Route],
    attendance: Attendance,
    public: Mapping[str, Handler] | None = None,
) -> web.Application:
    """Return the application that serves routes such as "POST /v1/chat/completions".

    The `public` ones need no key.
    """

    @web.middleware
    async def in_openais_words(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            authentication.require_place(request)
            return await handler(request)
        except ApiError as error:
            return error_response(error)
        except web.HTTPException as error:
            return error_response(_of_aiohttp(request, error), allow=error.headers.get("Allow"))
        except StoreError as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            return error_response(AWAY)
        except ConnectionError:
            raise  # the caller has hung up, so there is no one to answer
        except Exception:
            log.exception("%s %s: stopped by a bug", request.method, request.path)
            return error_response(BUG)

    app = web.Application(middlewares=[in_openais_words])
    handlers = {name: _called(route, authentication, attendance) for name, route in routes.items()}
    for name, handler in {**handlers, **(public or {})}.items():
        method, path = name.split(" ")
        app.router.add_route(method, path, handler)
    return app


def _called(route: Route, authentication: Authentication, attendance: Attendance) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        caller = await authentication.caller(request)
        if (name := request.get(NAME)) is not None:
            name(caller.user)
        with attendance.call(request) as call:
            response = await route(request, caller)
            await response.prepare(request)
            await response.write_eof()
            call.answered = request.transport is not None and not request.transport.is_closing()
        return response

    return handle


def error_response(error: ApiError, *, allow: str | None = None) -> web.Response:
    """Return an error as a response with its status; `allow` names the methods of a path."""
    headers = error.headers if allow is None else {**error.headers, "Allow": allow}
    return web.json_response(error.body, status=error.status, headers=headers)


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> ApiError:
    status = HTTPStatus(error.status)
    if status is HTTPStatus.NOT_FOUND:
        hint = "" if request.path.startswith("/v1/") else " Paths here begin with /v1/."
        return ApiError(
            status=status, message=f"There is nothing at {request.method} {request.path}.{hint}"
        )
    return ApiError(status=status, message=f"{status.phrase}.")
