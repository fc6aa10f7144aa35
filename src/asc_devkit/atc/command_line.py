"""Reading an ATC command line as the vendor's parser does: ``--x=v``, ``--x v``, ``-x=v``, ``-`` for ``_``, prefixes."""

from __future__ import annotations

from collections.abc import Sequence

from asc_devkit.atc.options import nearest, table
from asc_devkit.errors import AscError, Problem


def parse(argv: Sequence[str]) -> dict[str, str]:
    """Turn ``argv`` (without the program name) into option name -> text; flags without value get ``"true"``.

    Raises ``AscError`` (exit code 2) listing every unknown, ambiguous, valueless or positional argument.
    """
    specs = table()
    names = list(specs)
    flags: dict[str, str] = {}
    problems: list[Problem] = []
    queue = list(argv)
    last = ""
    while queue:
        word = queue.pop(0)
        if word == "--" and not queue:  # ends the options for getopt
            break
        if not word.startswith("-") or word in ("-", "--"):
            problems.append(_stray(word, last, flags.get(last)))
            continue
        spelled, eq, value = word.lstrip("-").partition("=")
        name = spelled.replace("-", "_")
        name = "help" if name == "h" else name
        if name not in specs:
            matches = [known for known in names if known.startswith(name)] if name else []
            if len(matches) != 1:
                problems.append(_unknown(spelled, name, matches, names))
                if not eq and queue and not queue[0].startswith("-"):
                    queue.pop(0)
                continue
            name = matches[0]
        if specs[name].kind == "flag":
            flags[name] = value or "true"
            last = name
            continue
        if not eq:
            if not queue or queue[0].startswith("--"):
                problems.append(
                    Problem(
                        "E10004",
                        f"Value for [--{name}] is empty.",
                        cause="The option was given without a value.",
                        fix=f"Write --{name}=VALUE.",
                        nodes=(f"--{name}",),
                        seed_class="EE1001",
                    )
                )
                continue
            value = queue.pop(0)
        flags[name], last = value, name
    if problems:
        raise AscError(problems)
    return flags


def _stray(word: str, last: str, value: str | None) -> Problem:
    """A word that belongs to no option; ``last`` is the option before it."""
    if last and not value:
        fix = f"Remove the blank after the equals sign: --{last}={word}"
    elif last:
        fix = f'If it belongs to --{last}, put quotes around the whole value: --{last}="{value} {word}"'
    else:
        fix = 'Write options as --name=value, with quotes around values like "a:1,3;b:2".'
    cause = "The word belongs to no option; a value with blanks or semicolons needs quotes."
    return Problem("E10054", f"Non-option parameter: {word}", cause, fix, (word,), "EE1001")


def _unknown(spelled: str, name: str, matches: list[str], names: list[str]) -> Problem:
    if matches:
        fix = f"It could be any of {', '.join('--' + m for m in matches)}: write one in full."
    else:
        fix = nearest(name, names).replace("mean ", "mean --") or "See `atc --help` for all options."
    return Problem(
        "ASC1101",
        f"unknown command line flag '{spelled}'",
        cause="The name is ambiguous." if matches else "ATC has no option of that name.",
        fix=fix,
        nodes=(f"--{spelled}",),
        seed_class="EE1001",
    )
