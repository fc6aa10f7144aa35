"""Files that change the float type of single operators: ``--keep_dtype`` and ``--modify_mixlist``.

Formats: public ATC manual (facts: ATC command line, 4.4). Both are read with a size limit and all their problems are
reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import onnx_ir as ir

from asc_devkit.atc.options import nearest
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ORIGIN_OPS
from asc_devkit.ops.catalogue import Mix

MAX_BYTES: Final = 1 << 20
_LISTS: Final = {"white-list": Mix.WHITE, "black-list": Mix.BLACK, "gray-list": Mix.GRAY}


@dataclass(frozen=True)
class Overrides:
    """Operators (names or types of the user's model, or compiled types) that keep their type; changed mix lists."""

    keep_names: frozenset[str] = frozenset()
    keep_types: frozenset[str] = frozenset()
    mix: Mapping[str, Mix] = field(default_factory=dict)

    def keeps(self, node: ir.Node) -> bool:
        """Whether ``node``, or an operator of the user's model that it stands for, is to keep its type."""
        if node.op_type in self.keep_types or node.name in self.keep_names:
            return True
        return any(n in self.keep_names or t in self.keep_types for n, t in node.meta.get(ORIGIN_OPS, ()))

    def unmatched(self, nodes: Iterable[ir.Node]) -> list[str]:
        """A sentence for each kept name or type that no operator has (misspelt, or optimised away)."""
        names: set[str] = set()
        types: set[str] = set()
        for node in nodes:
            names.add(node.name or "")
            types.add(node.op_type)
            for name, kind in node.meta.get(ORIGIN_OPS, ()):
                names.add(name)
                types.add(kind)
        missing = [(n, n, names) for n in sorted(self.keep_names - names)]
        missing += [(f"OpType::{t}", t, types) for t in sorted(self.keep_types - types)]
        return [
            f"--keep_dtype: no operator of the optimised model matches {shown}. {nearest(text, sorted(known))}".rstrip()
            for shown, text, known in missing
        ]


def load(keep_dtype: str, modify_mixlist: str) -> Overrides:
    """Read both files (empty path: none). Raises ``AscError`` (E10001) with every problem of both."""
    problems: list[Problem] = []
    names, types = _keep(keep_dtype, problems) if keep_dtype else (frozenset[str](), frozenset[str]())
    mix = _mix(modify_mixlist, problems) if modify_mixlist else {}
    if problems:
        raise AscError(problems)
    return Overrides(names, types, mix)


def _read(path: str, option: str, problems: list[Problem]) -> str | None:
    try:
        with Path(path).open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        problems.append(_bad(option, path, f"it cannot be read ({error.strerror})"))
    except ValueError as error:
        problems.append(_bad(option, path, str(error)))
    return None


def _keep(path: str, problems: list[Problem]) -> tuple[frozenset[str], frozenset[str]]:
    names: set[str] = set()
    types: set[str] = set()
    for number, raw in enumerate((_read(path, "keep_dtype", problems) or "").splitlines(), 1):
        line = raw.strip()
        if not line:
            continue
        kind, colons, op_type = line.partition("::")
        if colons and kind == "OpType":
            if op_type.strip():
                types.add(op_type.strip())
            else:
                problems.append(_bad("keep_dtype", f"{path}:{number}", "OpType:: needs an operator type"))
        else:
            names.add(line)
    return frozenset(names), frozenset(types)


def _mix(path: str, problems: list[Problem]) -> dict[str, Mix]:
    text = _read(path, "modify_mixlist", problems)
    if text is None:
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(_bad("modify_mixlist", path, f"it is not JSON ({str(error)[:100]})"))
        return {}
    if not isinstance(data, dict):
        problems.append(_bad("modify_mixlist", path, "it must be an object of lists"))
        return {}
    added: dict[str, Mix] = {}
    removed: set[str] = set()
    for name, changes in data.items():
        if name not in _LISTS or not isinstance(changes, dict):
            hint = nearest(name, [*_LISTS])
            problems.append(_bad("modify_mixlist", f"{path}: {name}", f"lists are {', '.join(_LISTS)}", hint))
            continue
        for verb, kinds in changes.items():
            if verb not in ("to-add", "to-remove") or not _is_names(kinds):
                reason = "a list holds to-add and to-remove, each with operator types"
                problems.append(_bad("modify_mixlist", f"{path}: {name}.{verb}", reason))
                continue
            for kind in kinds:
                if verb == "to-remove":
                    removed.add(kind)
                elif added.setdefault(kind, _LISTS[name]) is not _LISTS[name]:
                    problems.append(_bad("modify_mixlist", f"{path}: {name}", f"{kind} is added to two lists"))
    return {**dict.fromkeys(removed, Mix.GRAY), **added}


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _bad(option: str, where: str, reason: str, fix: str = "") -> Problem:
    return Problem(
        "E10001",
        f"Value [{where}] for parameter [{option}] is invalid. Reason: {reason}.",
        cause=f"The file given with --{option} does not have the documented form.",
        fix=fix or "See docs/precision_control.md for an example.",
        nodes=(where,),
        seed_class="EE1001",
    )
