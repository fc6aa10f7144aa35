"""`asc explain`: what an error code means, or which codes speak of something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from asc_devkit.atc.errors import ErrorCode


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="CODE|WORDS...")
def explain(words: tuple[str, ...]) -> int:
    """Explain an error code (`asc explain E10016`), or list the codes that mention some words (`asc explain caffe`)."""
    from asc_devkit.atc import errors
    from asc_devkit.errors import AscError, Problem

    text = " ".join(words)
    entry = errors.lookup(text)
    if entry is not None:
        _show(entry)
        return 0
    found = errors.search(text)
    if not found:
        near = errors.near(text)
        raise AscError(
            Problem(
                "E10001",
                f"Value [{text}] for parameter [CODE] is invalid. Reason: no error code is called so or mentions it.",
                cause="The code is misspelt, or is not in the public lists.",
                fix=f"Did you mean {', '.join(near)}?" if near else "Try a single word, such as shape or file.",
                seed_class="EE1001",
            )
        )
    for item in found:
        click.echo(f"{item.code:<8} {item.seed_class:<7} {item.message}")
    return 0


def _show(entry: ErrorCode) -> None:
    tag = f" ({entry.seed_class})" if entry.seed_class else ""
    click.echo(f"{entry.code}{tag}: {entry.message}")
    click.echo(f"  Possible Cause: {entry.cause}")
    click.echo(f"  Solution: {entry.solution}")
    if entry.arguments:
        click.echo(f"  Arguments: {', '.join(entry.arguments)}")
    group = "; described there only together with its neighbours" if entry.listed == "group" else ""
    click.echo(f"  Source: {entry.source}{group}")
