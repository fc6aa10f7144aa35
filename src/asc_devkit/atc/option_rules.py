"""What is wrong with a set of options: values outside their range, and the rules between options (data/option_rules.json).

Called by ``atc.options``. Each rule carries the code that the vendor's front end reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from asc_devkit.errors import Problem

if TYPE_CHECKING:
    from asc_devkit.atc.options import OptionSpec

Flags = Mapping[str, str]
LONGEST_PATH = 4096  # PATH_MAX of Linux, which the vendor's check uses
TRUE, FALSE = ("1", "t", "true", "y", "yes"), ("0", "f", "false", "n", "no")
_SHOWN = 200  # characters of a value in a message


def check(flags: Flags, specs: Mapping[str, OptionSpec]) -> list[Problem]:
    """All problems of ``flags`` (option name -> text): first the values one by one, then the rules between them."""
    problems = [p for name, value in flags.items() for p in _value(specs[name], value)]
    context = _Context(flags, specs)
    for rule in rules():
        if rule.get("strict") and not context.holds("strict"):
            continue
        if all(map(context.holds, rule.get("when", ()))) and not any(map(context.holds, rule.get("unless", ()))):
            problems += _KINDS[rule["kind"]](rule, context)
    return problems


@lru_cache(maxsize=1)
def rules() -> list[dict[str, Any]]:
    """The rules in the order they are checked."""
    text = resources.files("asc_devkit.atc").joinpath("data/option_rules.json").read_text(encoding="utf-8")
    loaded: list[dict[str, Any]] = json.loads(text)["rules"]
    return loaded


class _Context:
    """Answers whether a condition of a rule holds."""

    def __init__(self, flags: Flags, specs: Mapping[str, OptionSpec]) -> None:
        self.flags, self.specs = flags, specs

    def holds(self, condition: str) -> bool:
        name, equals, values = condition.partition("=")
        if equals:
            return (self.flags.get(name) or self.specs[name].default) in values.split("|")
        value = self.flags.get(name, "")
        return value.lower() in TRUE if self.specs[name].kind == "flag" else bool(value)


def _exclusive(rule: Mapping[str, Any], context: _Context) -> Iterable[Problem]:
    given = [option.partition("=")[0] for option in rule["options"] if context.holds(option)]
    if len(given) > 1:
        names = " and ".join(f"[--{name}]" for name in given)
        yield _problem(rule, f"{names} exclude each other.", given)


def _needs(rule: Mapping[str, Any], context: _Context) -> Iterable[Problem]:
    if any(map(context.holds, rule["any_of"])):
        return
    wanted = [option.partition("=") for option in rule["any_of"]]
    names = " or ".join(f"[--{name}]" + f" = {values.replace('|', ', ')}" * bool(eq) for name, eq, values in wanted)
    causes = [c for c in rule.get("when", ()) if c.partition("=")[0] in context.flags]
    because = f" when [{'], ['.join(f'--{c}' for c in causes)}] is given" if causes else ""
    yield _problem(rule, f"{names} is required{because}.", [name for name, _, _ in wanted])


def _only(rule: Mapping[str, Any], context: _Context) -> Iterable[Problem]:
    if others := [name for name in context.flags if name not in rule["options"] and context.flags[name]]:
        names = ", ".join(f"[--{name}]" for name in others)
        yield _problem(rule, f"{names} cannot be used together with [--{rule['when'][0]}].", others)


def _forbids(rule: Mapping[str, Any], context: _Context) -> Iterable[Problem]:
    foreign = [spec.name for spec in context.specs.values() if spec.origin != "vendor" and spec.name != "strict"]
    for name in rule["options"] if rule["options"] != "beyond the vendor" else foreign:
        if context.flags.get(name):
            yield _problem(rule, _invalid(name, context.flags[name], rule["reason"]), [name])


def _values(rule: Mapping[str, Any], context: _Context) -> Iterable[Problem]:
    name = rule["option"]
    value = context.flags.get(name, "")
    if value and value not in rule["values"]:
        fix = nearest(value, rule["values"]) or f"Use one of {', '.join(rule['values'])}."
        yield _problem({**rule, "fix": fix}, _invalid(name, value, rule["reason"]), [name])


_KINDS: dict[str, Callable[[Mapping[str, Any], _Context], Iterable[Problem]]] = {
    "exclusive": _exclusive,
    "needs": _needs,
    "only": _only,
    "forbids": _forbids,
    "values": _values,
}


def _problem(rule: Mapping[str, Any], what: str, names: Iterable[str]) -> Problem:
    nodes = tuple(f"--{name}" for name in names)
    return Problem(rule["code"], what, rule["reason"], rule["fix"], nodes, "EE1001")


def _value(spec: OptionSpec, value: str) -> Iterable[Problem]:
    """What is wrong with one value; an empty value counts as not given."""
    if not value:
        return
    if glued := re.search(r"(--[a-z_]{3,})=", value):
        what = f"[{glued[1]}] stands inside the value of [--{spec.name}]: {value[:_SHOWN]}"
        cause, fix = "A blank or a quotation mark is missing before it.", f"Write a blank before {glued[1]}."
        yield Problem("E10054", what, cause, fix, (f"--{spec.name}", glued[1]), "EE1001")
    elif spec.kind == "enum" and value not in spec.values:
        reason = f"it must be one of {', '.join(spec.values)}"
        fix = nearest(value, list(spec.values)) or f"Use one of {', '.join(spec.values)}."
        yield bad_value(spec.name, value, reason, fix, spec.code or "E10001")
    elif spec.kind == "flag" and value.lower() not in (*TRUE, *FALSE):
        yield bad_value(spec.name, value, "it must be true or false", f"Write --{spec.name} alone.", "E10003")
    elif spec.kind == "int":
        if not re.fullmatch(r"-?\d+", value):
            yield bad_value(spec.name, value, "it must be a whole number", "Write digits only.", "E10003")
        elif not -1 <= int(value[:20]) < 2**31:
            yield bad_value(spec.name, value, "it is out of range", "Use a number from 0 to 2147483647.", "E10013")
    elif spec.kind == "path" and len(value) > LONGEST_PATH:
        yield Problem(
            "E10021",
            f"The path of [--{spec.name}] has {len(value)} characters, at most {LONGEST_PATH} are possible.",
            "The system takes no longer paths.",
            "Use a shorter path.",
            (f"--{spec.name}",),
            "EE1001",
        )
    if spec.name == "output" and value.endswith(("/", "\\")):
        yield Problem(
            "E10022",
            f"[--output] names a folder and no file: {value[:_SHOWN]}",
            "The .om is written as a file of this name plus .om.",
            f"Add a name: --output={value[:_SHOWN]}model",
            ("--output",),
            "EE1001",
        )


def bad_value(name: str, value: str, reason: str, fix: str, code: str = "E10001") -> Problem:
    """A value that its option cannot take."""
    cause = "The value is misspelt or not meant for this option."
    return Problem(code, _invalid(name, value, reason + "."), cause, fix, (f"--{name}",), "EE1001")


def _invalid(name: str, value: str, reason: str) -> str:
    return f"Value [{value[:_SHOWN]}] for parameter [{name}] is invalid. Reason: {reason}"


def nearest(name: str, names: Iterable[str]) -> str:
    """``Did you mean ...`` text for ``name``, empty when nothing is near."""
    import difflib

    known = list(names)
    swapped = [one for one in known if sorted(one) == sorted(name)]  # letters in the wrong order come first
    near = swapped or difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""
