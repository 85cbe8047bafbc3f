"""The HTTP interface of a service: page, JSON API, server-sent events, metrics, health.

It only shows. Requests that change something need a token, and there are none without one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evidentia.service import views
from evidentia.service.metrics import registry_of
from evidentia.service.running import Service
from evidentia.service.settings import LOOPBACK
from evidentia.service.worker import Worker

EVENT_SECONDS = 1.0  # between server-sent events
LONGEST_WAIT = 60.0  # seconds for a change that waits for the end of a batch
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def make_app(service: Service, is_over: threading.Event) -> Starlette:
    """The ASGI application of a service; streams of events end once `is_over` is set."""
    site = _Site(service, is_over)
    at = "/api/streams/{stream}/monitors/{monitor}"
    routes = [
        *(Route(path, _file(*file)) for path, file in FILES.items()),
        Route("/healthz", site.health),
        Route("/metrics", site.metrics),
        Route("/api", site.overview),
        Route("/api/alarms", site.alarms),
        Route("/api/events", site.events),
        Route(f"{at}/keys", site.keys),
        Route(f"{at}/result", site.result),
        Route("/api/checkpoint", site.save, methods=["POST"]),
        Route("/api/streams/{stream}/keys", site.forget, methods=["DELETE"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _problem})
    is_local = service.settings.server.host in LOOPBACK
    app.add_middleware(_Guard, hosts=frozenset(LOOPBACK) if is_local else None)
    return app


class _Site:
    """The handlers of requests."""

    def __init__(self, service: Service, is_over: threading.Event):
        self._service, self._is_over = service, is_over
        self._registry = registry_of(service)

    async def health(self, request: Request) -> Response:
        is_well, found = views.health(self._service)
        return JSONResponse({"status": "ok" if is_well else "failed", **found}, 200 if is_well else 503)

    async def metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(generate_latest, self._registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def overview(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(views.overview, self._service))

    async def alarms(self, request: Request) -> Response:
        limit = _whole(request, "limit", 100, 1000)
        return JSONResponse({"alarms": await run_in_threadpool(views.alarms, self._service, limit)})

    async def keys(self, request: Request) -> Response:
        worker, monitor = self._monitor(request)
        order = request.query_params.get("order", "key")
        if order not in views.ORDERS:
            raise HTTPException(400, f"order must be one of {', '.join(views.ORDERS)}; got {order!r}.")
        found = await run_in_threadpool(
            views.keys,
            worker,
            monitor,
            offset=_whole(request, "offset", 0, 10**9),
            limit=_whole(request, "limit", 50, views.MOST_KEYS),
            order=order,
            search=request.query_params.get("search", ""),
        )
        return JSONResponse(found)

    async def result(self, request: Request) -> Response:
        worker, monitor = self._monitor(request)
        key = request.query_params.get("key", "all")
        found = await run_in_threadpool(views.result, worker, monitor, key)
        if found is None:
            raise HTTPException(404, f"there are no results of the key {key!r}.")
        return JSONResponse(found)

    async def events(self, request: Request) -> Response:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(request), headers=headers)

    async def save(self, request: Request) -> Response:
        self._check_token(request)
        results = {name: await self._asked(one, one.save) for name, one in self._service.workers.items()}
        return JSONResponse({"saved": results}, 200 if all(results.values()) else 503)

    async def forget(self, request: Request) -> Response:
        self._check_token(request)
        worker, key = self._worker(request), request.query_params.get("key", "")
        if not await self._asked(worker, lambda: worker.forget(key)):
            raise HTTPException(404, f"there are no results of the key {key!r}.")
        return JSONResponse({"forgotten": key})

    async def _events(self, request: Request) -> AsyncIterator[str]:
        """An overview whenever it has changed, or a comment that keeps the connection."""
        before = None
        while not self._is_over.is_set() and not await request.is_disconnected():
            found = await run_in_threadpool(views.overview, self._service)
            text = json.dumps({name: value for name, value in found.items() if name != "now"})
            yield f"event: overview\ndata: {text}\n\n" if text != before else ": \n\n"
            before = text
            await asyncio.sleep(EVENT_SECONDS)

    def _check_token(self, request: Request) -> None:
        if self._service.token is None:
            raise HTTPException(
                403, "this service only shows: server.token_env is not set in its configuration."
            )
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._service.allows(token.strip()):
            raise HTTPException(401, "needs the header Authorization: Bearer with the service's token.")

    def _worker(self, request: Request) -> Worker:
        name = request.path_params["stream"]
        if name not in self._service.workers:
            raise HTTPException(404, f"there is no stream {name!r}.")
        return self._service.workers[name]

    def _monitor(self, request: Request) -> tuple[Worker, str]:
        worker, name = self._worker(request), request.path_params["monitor"]
        if name not in worker.engine.records:
            raise HTTPException(404, f"the stream has no monitor {name!r}.")
        return worker, name

    @staticmethod
    async def _asked(worker: Worker, function: Callable[[], Any]) -> Any:
        if not worker.is_alive():
            raise HTTPException(409, f"the stream {worker.engine.name!r} is not running.")
        try:
            return await asyncio.wait_for(asyncio.wrap_future(worker.ask(function)), LONGEST_WAIT)
        except TimeoutError:
            raise HTTPException(503, "the stream did not answer in time; its batch takes long.") from None


class _Guard:
    """Adds headers to all answers, and rejects requests for other hosts, as of rebound names.

    Args:
        app: the application.
        hosts: that may be asked for; None for any.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None):
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        if scope["type"] == "http" and self._hosts is not None:
            given = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            host = given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
            if host not in self._hosts:
                answer = JSONResponse({"error": "the service answers requests for this machine only."}, 400)
                await answer(scope, receive, with_headers)
                return
        await self._app(scope, receive, with_headers)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("evidentia.service") / "page" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, headers={"Content-Type": kind})

    return answer


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else None
    return JSONResponse({"error": error.detail}, error.status_code, headers)


def _whole(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or not int(text[:12]) <= most:
        raise HTTPException(400, f"{name} must be a whole number up to {most:,}; got {text[:20]!r}.")
    return int(text)
