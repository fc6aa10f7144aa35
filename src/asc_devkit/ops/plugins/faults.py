"""What goes wrong inside a plugin, said with its file and line instead of a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from asc_devkit.errors import AscError, Problem

if TYPE_CHECKING:
    from asc_devkit.ops.plugins.declare import CustomOperator


def place_of(error: BaseException, file: str) -> str:
    """``file, line N`` of the innermost step of ``error`` that lies in ``file`` (or in the file of a syntax error)."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _same(f.filename, file)]
    return f"{file}, line {frames[-1].lineno}" if frames else file


def text_of(error: BaseException) -> str:
    """Kind and message of an exception."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}"[:500]


@contextmanager
def reported(op: CustomOperator, node: str, what: str) -> Iterator[None]:
    """Turns whatever the user's code raises into ``ASC2012`` naming operator, file and line."""
    try:
        yield
    except AscError:
        raise
    except Exception as error:
        raise AscError(
            Problem(
                "ASC2012",
                f"Custom operator {op.onnx_name}{f' ({node})' if node else ''}: {what} failed: {text_of(error)}",
                cause=f"The plugin raised it at {place_of(error, op.file)}.",
                fix="Correct the plugin; it can be tested without the toolkit's commands (docs/plugins.md).",
                nodes=(place_of(error, op.file),),
                seed_class="EE2001",
            )
        ) from error


def _same(one: str, other: str) -> bool:
    return one == other or Path(one).resolve() == Path(other).resolve()
