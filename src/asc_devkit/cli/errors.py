"""Exit codes and error printing shared by all commands: 0 done, 1 check failed, 2 bad input, 3 internal error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from asc_devkit.errors import AscError, Problem


def print_problems(error: AscError) -> None:
    """Print every problem: code and text, then offenders, cause and remedy."""
    for problem in error.problems:
        tag = f" ({problem.seed_class})" if problem.seed_class else ""
        click.echo(f"{problem.code}{tag}: {problem.what}", err=True)
        for node in problem.nodes[:50]:
            click.echo(f"    - {node}", err=True)
        if len(problem.nodes) > 50:
            click.echo(f"    ... and {len(problem.nodes) - 50} more", err=True)
        if problem.cause:
            click.echo(f"  Possible Cause: {problem.cause}", err=True)
        if problem.fix:
            click.echo(f"  Solution: {problem.fix}", err=True)


_NO_MEMORY: Final = Problem(
    "ASC9001",
    "This computer has not enough memory for that.",
    cause="The model or the data are larger than what is free.",
    fix="Close other programs, convert with smaller input shapes, or use a larger machine.",
    seed_class="EE3001",
)
_READING: Final = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


def _system(error: OSError) -> Problem:
    """What the system refused somewhere: a file that cannot be opened, or (a full disk, say) not be written."""
    name, code = error.filename or "?", "E13001" if error.errno in _READING else "E13004"
    verb = "opened" if code == "E13001" else "written"
    return Problem(
        code,
        f"The file [{name}] cannot be {verb}: {error.strerror}.",
        cause="The system refuses it.",
        fix="Check the path, the permissions and the free space (also of the folder for temporary files).",
        nodes=(str(name),),
        seed_class="EE1001",
    )


def guarded(run: Callable[..., Any], on_error: Callable[[AscError], None] = print_problems) -> int:
    """Run a click command (or any callable) and return the exit code; nothing but exit codes leaves it.

    ``ASC_DEBUG=1`` prints the traceback of an internal error.
    """
    try:
        result = run(standalone_mode=False) if isinstance(run, click.Command) else run()
        return result if isinstance(result, int) else 0
    except AscError as error:
        on_error(error)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        return 130
    except MemoryError:
        on_error(AscError(_NO_MEMORY))
        return 2
    except Exception as error:
        if isinstance(error, OSError) and error.errno and not os.environ.get("ASC_DEBUG"):
            on_error(AscError(_system(error)))
            return 2
        if os.environ.get("ASC_DEBUG"):
            raise
        click.echo(
            f"ASC9999: internal error: {type(error).__name__}: {error}\n"
            "  This is a bug of asc-devkit. Set ASC_DEBUG=1 to see where, and report it with the command and the model.",
            err=True,
        )
        return 3
