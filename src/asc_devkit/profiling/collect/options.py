"""The options of ``msprof``: the table (data/options.csv), reading a command line, and the rules between options."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

from asc_devkit.errors import AscError, Problem
from asc_devkit.profiling.schema import GROUPS

# Spellings of articles -> the option they mean; the value is kept unless the table after says otherwise.
ALIASES: Final = {
    "model-execution-on": "model-execution",
    "data-sampling-on": "aic-mode",
    "aicpu-trace-on": "aicpu",
    "task-trace-on": "task-time",
    "host-sys-pid-on": "host-sys-pid",
}
_ALIAS_VALUES: Final = {"data-sampling-on": {"on": "sample-based", "off": "task-based"}}
AFTER: Final = ("export", "query", "parse", "analyze")
_INSTR_EXCLUDES: Final = ("ascendcl", "runtime-api", "hccl", "task-time", "aicpu", "ai-core", "aic-mode", "aic-freq",
                          "aic-metrics", "l2")  # fmt: skip
_CUSTOM: Final = re.compile(r"Custom:0x[0-9a-fA-F]{1,4}(,0x[0-9a-fA-F]{1,4}){0,7}")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One row of the table."""

    name: str
    group: str
    kind: str
    values: str
    default: str
    effect: str
    sentence: str

    @property
    def allowed(self) -> tuple[str, ...]:
        """The words a value may be; () for free values."""
        if self.kind == "switch":
            return ("on", "off")
        return tuple(self.values.split("|")) if self.kind == "choice" else ()


@lru_cache(maxsize=1)
def table() -> dict[str, OptionSpec]:
    """All options by name (``-`` between words), in documentation order."""
    text = resources.files("asc_devkit.profiling.collect").joinpath("data/options.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {r["name"]: OptionSpec(**r) for r in rows}


@dataclass(frozen=True)
class Command:
    """A parsed command line: options that were given, and the program with its arguments (empty: none)."""

    given: Mapping[str, str]
    program: tuple[str, ...]

    def get(self, name: str) -> str:
        """Value of an option, its default when it was not given."""
        return self.given.get(name, table()[name].default)

    def on(self, name: str) -> bool:
        """True for a switch that is on."""
        return self.get(name) not in ("off", "")

    @property
    def settings(self) -> dict[str, str]:
        """What the collection needs to know: the given collection options."""
        return {n: v for n, v in self.given.items() if table()[n].group != "After" and n not in _NOT_SETTINGS}


_NOT_SETTINGS: Final = frozenset({"help", "json", "output", "application", "environment", "type", "python-path"})


def parse(argv: Sequence[str]) -> Command:
    """Read ``msprof [--name=value ...] [program arguments]``.

    ``--name value``, ``-`` for ``--`` and ``_`` for ``-`` are understood; the first word that is neither an option nor the
    value of one begins the program. Raises ``AscError`` (exit code 2) listing every mistake.
    """
    specs = table()
    given: dict[str, str] = {}
    problems: list[Problem] = []
    queue = list(argv)
    while queue and queue[0].startswith("-") and len(queue[0]) > 1:
        word = queue.pop(0)
        spelled, equals, value = word.lstrip("-").partition("=")
        name = spelled.replace("_", "-").lower()
        alias, name = name, ALIASES.get(name, "help" if name == "h" else name)
        if name not in specs:
            problems.append(_unknown(spelled, name))
            continue
        if specs[name].kind == "flag":
            given[name] = "on"
            continue
        if not equals:
            if not queue or queue[0].startswith("-"):
                problems.append(_bad(name, "needs a value", f"Write --{name}=VALUE."))
                continue
            value = queue.pop(0)
        value = _ALIAS_VALUES.get(alias, {}).get(value, value)
        problems += _check(specs[name], value)
        given[name] = value
    command = Command(given, tuple(queue))
    problems += _rules(command)
    if problems:
        raise AscError(problems)
    return command


def _unknown(spelled: str, name: str) -> Problem:
    near = difflib.get_close_matches(name, [*table(), *ALIASES], n=1)
    fix = f"Did you mean --{near[0]}?" if near else "See msprof --help."
    return Problem("ASC6010", f"msprof has no option --{spelled}.", fix=fix, nodes=(f"--{spelled}",))


def _bad(name: str, what: str, fix: str) -> Problem:
    return Problem("ASC6011", f"--{name} {what}.", fix=fix, nodes=(f"--{name}",))


def _check(spec: OptionSpec, value: str) -> list[Problem]:
    if spec.effect == "refused":
        return [
            _bad(
                spec.name,
                "is not available on the virtual NPU",
                "Use --delay and --duration, or acl.prof.start/stop in the program.",
            )
        ]
    if spec.allowed and value not in spec.allowed:
        return [_bad(spec.name, f"cannot be {value!r}", f"Use one of {', '.join(spec.allowed)}.")]
    if spec.kind == "number":
        least, most = (float(v) for v in spec.values.split(".."))
        number = re.fullmatch(r"\d{1,10}(MB)?", value)
        if number is None or not least <= float(value.removesuffix("MB")) <= most:
            return [_bad(spec.name, f"cannot be {value!r}", f"Use a whole number from {least:.0f} to {most:.0f}.")]
    if spec.kind == "metrics" and value not in GROUPS:
        if _CUSTOM.fullmatch(value):
            return [_bad(spec.name, "knows no registers", "Single registers are not modelled: use a named group.")]
        near = difflib.get_close_matches(value, GROUPS, n=1)
        return [_bad(spec.name, f"cannot be {value!r}", (f"Did you mean {near[0]}? " if near else "") + _groups())]
    if spec.kind in ("text", "path") and not value:
        return [_bad(spec.name, "is empty", f"Write --{spec.name}=VALUE.")]
    return []


def _groups() -> str:
    return f"Groups: {', '.join(GROUPS)}."


def _rules(command: Command) -> list[Problem]:
    """What options say about each other."""
    given = command.given
    problems = []
    if ("model-id" in given) != ("iteration-id" in given):
        problems.append(_bad("model-id", "and --iteration-id belong together", "Give both or neither."))
    if "mstx-domain-include" in given and "mstx-domain-exclude" in given:
        problems.append(_bad("mstx-domain-include", "excludes --mstx-domain-exclude", "Give one of them."))
    if given.get("instr-profiling") == "on":
        clash = [n for n in _INSTR_EXCLUDES if given.get(n, "off") != "off"]
        if clash:
            text = ", ".join(f"--{n}" for n in clash)
            problems.append(_bad("instr-profiling", f"excludes {text}", "Collect them in two runs."))
    if command.program and "application" in given:
        problems.append(_bad("application", "and a trailing program are given", "Give the program once."))
    if any(command.on(name) for name in AFTER) and (command.program or "application" in given):
        problems.append(
            _bad("application", "does not go with --export, --query, --parse, --analyze", "Run them apart.")
        )
    return problems


def help_text() -> str:
    """All options by group."""
    lines = [
        "usage: msprof [options] program [arguments]",
        '       msprof [options] --application="program arguments"',
        "       msprof --export=on|--query=on|--parse=on|--analyze=on --output=DIR [options]",
        "",
        "Runs a program on the virtual NPU and writes its profile. Host times are measured, device times simulated.",
        "(recorded): kept in sample.json, no data. (not here): nothing to collect on a virtual NPU.",
    ]
    group = ""
    for spec in table().values():
        if spec.group != group:
            group = spec.group
            lines += ["", f"{group}:"]
        values = "|".join(spec.allowed) or (spec.values if spec.kind == "number" else spec.kind.upper())
        default = f" [default: {spec.default}]" if spec.default else ""
        effect = "" if spec.effect == "implemented" else f" ({spec.effect})"
        shown = f"  --{spec.name}" + ("" if spec.kind == "flag" else f"=<{values}>")
        lines += [f"{shown}{default}{effect}", f"      {spec.sentence}"]
    return "\n".join(lines) + "\n"
