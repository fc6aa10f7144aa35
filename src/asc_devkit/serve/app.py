"""The HTTP application: routes, the token, limits on bodies, and errors as JSON."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from asc_devkit import __version__
from asc_devkit.errors import AscError
from asc_devkit.serve import protocol
from asc_devkit.serve.models import Engine, Model, QueueFull

EXTENSIONS: Final = ["binary_tensor_data"]
OPEN_PATHS: Final = ("/v2/health/live", "/v2/health/ready")
RETRY: Final = {"retry-after": "1"}


@dataclass(frozen=True)
class Limits:
    """``max_body`` bytes of one request, ``max_buffered`` of all that are being read, ``body_seconds`` to send one."""

    max_body: int = 64 << 20
    max_buffered: int = 1 << 30
    body_seconds: float = 30.0


class Refused(Exception):
    """A request refused before any work, with the status to answer."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Bodies:
    """Reads bodies within the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.buffered = limits, 0

    async def read(self, request: Request) -> bytes:
        """The whole body. Raises ``Refused`` (413, 408, 503)."""
        limit = self.limits.max_body
        declared = request.headers.get("content-length")
        if declared is not None and (not declared.isdecimal() or len(declared) > 15 or int(declared) > limit):
            raise Refused(413, f"bodies are at most {limit} bytes", {"connection": "close"})
        try:
            return await asyncio.wait_for(self._collect(request), self.limits.body_seconds)
        except (asyncio.TimeoutError, TimeoutError):
            text = f"the body did not arrive within {self.limits.body_seconds:g} s"
            raise Refused(408, text, {"connection": "close"}) from None

    async def _collect(self, request: Request) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in request.stream():
                size += len(piece)
                self.buffered += len(piece)
                if size > self.limits.max_body:
                    raise Refused(413, f"bodies are at most {self.limits.max_body} bytes", {"connection": "close"})
                if self.buffered > self.limits.max_buffered:
                    raise Refused(503, "too many bodies are being received", RETRY | {"connection": "close"})
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            self.buffered -= size


def build(engine: Engine, limits: Limits, token: str | None = None) -> FastAPI:
    """The application. ``token``: what clients must send as ``Authorization: Bearer ...``; health checks need none."""
    app = FastAPI(title="asc serve", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    bodies = Bodies(limits)
    app.state.ready = True
    secret = None if token is None else f"Bearer {token}".encode()

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if secret is not None and request.url.path not in OPEN_PATHS:
            sent = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(sent, secret):
                return _error(401, "a bearer token is needed", {"www-authenticate": "Bearer"})
        return await call_next(request)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return _error(error.status_code, str(error.detail))

    def model(name: str, version: str = "1") -> Model:
        found = engine.models.get(name)
        if found is None or version != "1":
            known = ", ".join(engine.models)
            raise HTTPException(404, f"there is no model {name!r} version {version!r}; models are {known}")
        return found

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        return {"name": "asc-devkit virtual NPU", "version": __version__, "extensions": EXTENSIONS}

    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def ready() -> Response:
        return JSONResponse({"ready": app.state.ready}, 200 if app.state.ready else 503)

    @app.post("/v2/repository/index")
    async def index() -> list[dict[str, str]]:
        return [{"name": name, "version": "1", "state": "READY"} for name in engine.models]

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(engine.metrics.registry), media_type="text/plain; version=0.0.4")

    @app.get("/v2/models/{name}")
    @app.get("/v2/models/{name}/versions/{version}")
    async def describe(name: str, version: str = "1") -> dict[str, Any]:
        return protocol.metadata(name, model(name, version).session)

    @app.get("/v2/models/{name}/ready")
    @app.get("/v2/models/{name}/versions/{version}/ready")
    async def model_ready(name: str, version: str = "1") -> dict[str, Any]:
        return {"name": model(name, version).name, "ready": True}

    @app.post("/v2/models/{name}/infer")
    @app.post("/v2/models/{name}/versions/{version}/infer")
    async def infer(request: Request, name: str, version: str = "1") -> Response:
        found = model(name, version)
        response = await _answer(engine, bodies, found, request)
        engine.metrics.requests.labels(found.name, str(response.status_code)).inc()
        return response

    return app


async def _answer(engine: Engine, bodies: Bodies, model: Model, request: Request) -> Response:
    try:
        body = await bodies.read(request)
        content, headers = await engine.infer(model, body, request.headers.get(protocol.BINARY_HEADER))
        return Response(content, headers=headers)
    except Refused as error:
        return _error(error.status, str(error), error.headers)
    except QueueFull:
        return _error(429, f"{engine.queue} requests are waiting already", RETRY)
    except protocol.BadRequest as error:
        return _error(400, str(error))
    except AscError as error:
        return _error(400, " ".join(f"{p.code}: {p.what} {p.fix}".strip() for p in error.problems[:10]))
    except ClientDisconnect:
        return _error(499, "the client went away")


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": text}), status, headers, "application/json")
