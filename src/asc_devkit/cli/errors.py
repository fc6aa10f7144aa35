"""Exit codes and error printing shared by all commands: 0 done, 1 check failed, 2 bad input, 3 internal error."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from asc_devkit.errors import AscError, Problem


def print_problems(error: AscError) -> None:
    """Print every problem: code and text, then offenders, cause and remedy."""
    from asc_devkit.atc.errors import described

    for problem in map(described, error.problems):
        tag = f" ({problem['seed_class']})" if problem["seed_class"] else ""
        click.echo(f"{problem['code']}{tag}: {problem['what']}", err=True)
        nodes = problem["nodes"]
        for node in nodes[:50]:
            click.echo(f"    - {node}", err=True)
        if len(nodes) > 50:
            click.echo(f"    ... and {len(nodes) - 50} more", err=True)
        if problem["cause"]:
            click.echo(f"  Possible Cause: {problem['cause']}", err=True)
        if problem["fix"]:
            click.echo(f"  Solution: {problem['fix']}", err=True)


def print_json(error: AscError) -> None:
    """Print every problem as JSON on stdout, where a caller that asked for ``--json`` reads, and as text on stderr."""
    from asc_devkit.atc.errors import described

    problems = [described(problem) for problem in error.problems]
    report = {"schema": "asc-devkit/error/1", "exit_code": error.exit_code, "problems": problems}
    click.echo(json.dumps(report, indent=2))
    print_problems(error)


_READING: Final = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


def _no_memory() -> AscError:
    what = "This computer has not enough memory for that."
    cause = "The model or the data are larger than what is free."
    fix = "Close other programs, convert with smaller input shapes, or use a larger machine."
    return AscError(Problem("ASC9001", what, cause, fix, (), "EE3001"))


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


def _usage(error: click.ClickException) -> AscError:
    command = getattr(getattr(error, "ctx", None), "command_path", "asc")
    what, fix = error.format_message(), f"See `{command} --help`."
    return AscError(Problem("ASC1102", what, "The command line is not understood.", fix, (), "EE1001"))


def _internal(error: Exception) -> AscError:
    what = f"Internal error: {type(error).__name__}: {error}"
    fix = "Set ASC_DEBUG=1 to see where, and report it with the command and the model."
    return AscError(Problem("ASC9999", what, "This is a bug of asc-devkit.", fix), exit_code=3)


def guarded(run: Callable[..., Any], on_error: Callable[[AscError], None] = print_problems) -> int:
    """Run a click command (or any callable) and return the exit code; nothing but exit codes leaves it.

    ``ASC_DEBUG=1`` prints the traceback of an internal error.
    """
    try:
        result = run(standalone_mode=False) if isinstance(run, click.Command) else run()
        return result if isinstance(result, int) else 0
    except AscError as error:
        return _told(error, on_error)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        if on_error is print_json:
            return _told(_usage(error), on_error)
        error.show()
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    except MemoryError:
        return _told(_no_memory(), on_error)
    except Exception as error:
        if os.environ.get("ASC_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno:
            return _told(AscError(_system(error)), on_error)
        return _told(_internal(error), on_error)


def _told(error: AscError, on_error: Callable[[AscError], None]) -> int:
    on_error(error)
    return error.exit_code
