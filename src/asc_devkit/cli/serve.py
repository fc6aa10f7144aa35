"""`asc serve MODEL.om ...`: models behind HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]MODEL.om...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Requests run at once.")
@click.option("--threads", type=click.IntRange(1, 1024), help="CPU threads of one request [default: all].")
@click.option("--queue", type=click.IntRange(1, 1_000_000), default=64, show_default=True,
              help="Requests that may wait or run; more are answered 429.")  # fmt: skip
@click.option("--max-body", type=click.IntRange(1, 1 << 40), default=64 << 20, show_default=True, help="Bytes.")
@click.option("--connections", type=click.IntRange(1, 100_000), default=256, show_default=True, help="Open at once.")
@click.option("--header-timeout", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True,
              help="Seconds a client has to send a request's headers.")  # fmt: skip
@click.option("--body-timeout", type=click.FloatRange(0.1, 3600), default=30.0, show_default=True,
              help="Seconds a client has to send a body.")  # fmt: skip
@click.option("--stop-timeout", type=click.FloatRange(1, 3600), default=30.0, show_default=True,
              help="Seconds that running requests have after SIGTERM.")  # fmt: skip
@click.option("--token-file", type=click.Path(path_type=Path), help="File with the bearer token clients must send "
              "(or the environment variable ASC_SERVE_TOKEN).")  # fmt: skip
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    workers: int,
    threads: int | None,
    queue: int,
    max_body: int,
    connections: int,
    header_timeout: float,
    body_timeout: float,
    stop_timeout: float,
    token_file: Path | None,
) -> None:
    """Serve MODELs (.om) on the virtual NPU in the KServe v2 protocol."""
    from asc_devkit.errors import AscError, Problem

    try:
        from asc_devkit.serve import app, server
        from asc_devkit.serve import models as serving
    except ImportError as error:
        fix = "pip install 'asc-devkit[serve]'"
        raise AscError(Problem("ASC4603", f"asc serve needs {error.name}.", fix=fix)) from error
    token = _token(token_file)
    settings = server.Settings(host, port, connections, header_timeout, stop_seconds=stop_timeout)
    listener = server.bind(settings)
    engine = serving.Engine(serving.load(models, threads), workers, queue)
    limits = app.Limits(max_body, max(max_body, 1 << 30), body_timeout)
    if token is None and host not in server.LOOPBACK:
        click.echo("Warning: anyone who reaches this address can use the server; set a token.", err=True)
    address = f"[{host}]" if ":" in host else host
    click.echo(
        f"Serving {', '.join(engine.models)} on http://{address}:{listener.getsockname()[1]} "
        "(virtual NPU; times are of this CPU, not of an NPU)"
    )
    sys.stdout.flush()
    server.run(app.build(engine, limits, token), engine, listener, settings)


def _token(path: Path | None) -> str | None:
    from asc_devkit.errors import AscError, Problem

    token = os.environ.get("ASC_SERVE_TOKEN")
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8")[:4097]
        except (OSError, UnicodeDecodeError) as error:
            raise AscError(Problem("E13001", f"{path} cannot be read: {error}.", fix="Check --token-file.")) from error
    if token is None:
        return None
    token = token.strip()
    if not 8 <= len(token) <= 4096 or not token.isascii() or not token.isprintable():
        raise AscError(Problem("ASC4604", "The token is not usable.", fix="Use 8 to 4096 printable ASCII characters."))
    return token
