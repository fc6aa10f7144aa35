"""The `atc` command: the vendor's command line (`atc --model=... --framework=5 --output=... --soc_version=...`)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import click

from asc_devkit.errors import AscError


def main(argv: Sequence[str] | None = None) -> None:
    """Console entry point; exits with 0 (done), 2 (bad input) or 3 (internal error)."""
    from asc_devkit.cli.errors import guarded

    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(guarded(lambda: run(words), on_error=_print_failure))


def run(words: list[str]) -> int:
    """Parse and carry out one ATC command line; raises ``AscError`` for every kind of bad input."""
    from asc_devkit.atc import command_line, options

    if not words or any(w in ("--help", "-h", "--h", "-help") for w in words):
        print_help()
        return 0
    click.echo("ATC start working now, please wait for a moment.")
    flags = command_line.parse(words)
    mode = flags.get("mode", "0")
    if mode not in ("0", "7"):
        return _other_mode(mode, flags)
    from asc_devkit.cli.convert import run_conversion

    request = options.from_flags(flags, command_line=shlex.join(["atc", *words]))
    if request.auto_keep_dtype:
        from asc_devkit.cli.tune import keep_then

        tuned = keep_then(request)
        if tuned is None:
            click.echo("ATC run failed: the target of --auto_keep_dtype is not reached; no .om was written.")
            return 1
        request = tuned
    result = run_conversion(request)
    click.echo(f"ATC run success, the model save path is {_shown(str(result.om_path))}")
    if flags.get("display_model_info") == "1":
        _show_info(str(result.om_path))
    click.echo("ATC run success, welcome to the next use.")
    return 0


def _shown(path: str) -> str:
    return path if path.startswith(("/", ".")) else f"./{path}"


def _other_mode(mode: str, flags: dict[str, str]) -> int:
    from asc_devkit.atc.modes import run_mode

    click.echo(run_mode(mode, flags), nl=False)
    click.echo("ATC run success, welcome to the next use.")
    return 0


def _show_info(path: str) -> None:
    from asc_devkit.atc.modes import model_info

    click.echo(model_info(path), nl=False)


def print_help() -> None:
    """Print all options with values, default and effect, from the option table."""
    from asc_devkit.atc.options import table

    click.echo("usage: atc --model=FILE --framework=5 --output=PATH --soc_version=CHIP [options]\n")
    click.echo("(recorded): accepted and noted in the log, without effect here.")
    group = ""
    for spec in table().values():
        if spec.group != group:
            group = spec.group
            click.echo(f"\n{group.capitalize()}:")
        values = f" {{{'|'.join(spec.values)}}}" if spec.values else ""
        default = f" [default: {spec.default}]" if spec.default else ""
        effect = "" if spec.effect == "implemented" else f" ({spec.effect})"
        click.echo(f"  --{spec.name}{values}{default}{effect}\n      {spec.sentence}")


def _print_failure(error: AscError) -> None:
    from asc_devkit.cli.errors import print_problems

    click.echo(
        "ATC run failed, Please check the detail log, Try 'atc --help' for more information",
        file=sys.stdout,
    )
    print_problems(error)
