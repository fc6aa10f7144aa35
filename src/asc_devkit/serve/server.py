"""The process: socket, signals, and a time limit on request headers (slow clients must not hold connections)."""

from __future__ import annotations

import asyncio
import signal
import socket
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from asc_devkit.errors import AscError, Problem
from asc_devkit.serve.models import Engine

MAX_HEADER_BYTES: Final = 16 << 10
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Settings:
    """``header_seconds`` a client has to send a request's headers; ``stop_seconds`` running requests have to end."""

    host: str = "127.0.0.1"
    port: int = 8000
    connections: int = 256
    header_seconds: float = 10.0
    idle_seconds: float = 30.0
    stop_seconds: float = 30.0


def bind(settings: Settings) -> socket.socket:
    """The listening socket; port 0 takes a free one. Raises ``AscError`` when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(min(settings.connections, 4096))
    except OSError as error:
        listener.close()
        raise AscError(
            Problem(
                "ASC4602",
                f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}.",
                fix="Choose another --port (0 takes a free one) or --host.",
            )
        ) from error
    return listener


def run(app: FastAPI, engine: Engine, listener: socket.socket, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; running requests end first, new connections are refused meanwhile."""
    config = uvicorn.Config(
        app,
        http=_protocol(settings.header_seconds),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=settings.connections,
        timeout_keep_alive=int(settings.idle_seconds),
        timeout_graceful_shutdown=int(settings.stop_seconds),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    server = _Server(config)
    # uvicorn sends itself the signal again when it is done; a clean stop should end with exit code 0
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listener])
    finally:
        engine.close()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """Not ready any more as soon as it is told to stop."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.config.app.state.ready = False  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


def _protocol(header_seconds: float) -> type[H11Protocol]:
    """HTTP/1.1 that closes connections whose request headers take longer than ``header_seconds``."""

    class TimedHeaders(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._arm()

        def data_received(self, data: bytes) -> None:
            if self._waiting() and self._deadline is None:
                self._arm()
            super().data_received(data)
            if not self._waiting():
                self._disarm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._waiting():  # the next request of a pipelining client has begun
                self._disarm()

        def _waiting(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def _arm(self) -> None:
            self._deadline = self.loop.call_later(header_seconds, self._late)

        def _disarm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _late(self) -> None:
            self._deadline = None
            if self._waiting() and not self.transport.is_closing():
                self.transport.abort()

    return TimedHeaders
