"""Files that change the float type of single operators: ``--keep_dtype``, ``--customize_dtypes``, ``--modify_mixlist``.

Formats: public ATC manual. All are read with a size limit and their problems are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from asc_devkit.atc.options import nearest
from asc_devkit.atc.select.customised import Custom, parse
from asc_devkit.atc.select.option_files import bad, read
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import ORIGIN_OPS
from asc_devkit.ops.catalogue import Mix

_LISTS: Final = {"white-list": Mix.WHITE, "black-list": Mix.BLACK, "gray-list": Mix.GRAY}


@dataclass(frozen=True)
class Overrides:
    """Operators (names or types of the user's model, or compiled types) that keep their type or get another; changed
    mix lists. ``custom_names`` and ``custom_types`` come before what is kept, names before types."""

    keep_names: frozenset[str] = frozenset()
    keep_types: frozenset[str] = frozenset()
    mix: Mapping[str, Mix] = field(default_factory=dict)
    custom_names: Mapping[str, Custom] = field(default_factory=dict)
    custom_types: Mapping[str, Custom] = field(default_factory=dict)

    def custom(self, node: ir.Node) -> Custom | None:
        """The types asked for ``node`` or for an operator of the user's model that it stands for."""
        origins = node.meta.get(ORIGIN_OPS, ())
        names = (node.name or "", *(name for name, _ in origins))
        types = (node.op_type, *(kind for _, kind in origins))
        found = [self.custom_names[n] for n in names if n in self.custom_names]
        found += [self.custom_types[t] for t in types if t in self.custom_types]
        return found[0] if found else None

    def keeps(self, node: ir.Node) -> bool:
        """Whether ``node``, or an operator of the user's model that it stands for, is to keep its type."""
        if node.op_type in self.keep_types or node.name in self.keep_names:
            return True
        return any(n in self.keep_names or t in self.keep_types for n, t in node.meta.get(ORIGIN_OPS, ()))

    def unmatched(self, nodes: Iterable[ir.Node]) -> list[str]:
        """A sentence for each kept or customised name or type that no operator has (misspelt, or optimised away)."""
        names: set[str] = set()
        types: set[str] = set()
        for node in nodes:
            names.add(node.name or "")
            types.add(node.op_type)
            for name, kind in node.meta.get(ORIGIN_OPS, ()):
                names.add(name)
                types.add(kind)
        asked = (
            ("keep_dtype", self.keep_names, self.keep_types),
            ("customize_dtypes", frozenset(self.custom_names), frozenset(self.custom_types)),
        )
        return [
            f"--{option}: no operator of the optimised model matches {shown}. {nearest(text, sorted(known))}".rstrip()
            for option, wanted_names, wanted_types in asked
            for shown, text, known in (
                *((n, n, names) for n in sorted(wanted_names - names)),
                *((f"OpType::{t}", t, types) for t in sorted(wanted_types - types)),
            )
        ]


def load(keep_dtype: str, modify_mixlist: str, customize_dtypes: str = "") -> Overrides:
    """Read the files (empty path: none). Raises ``AscError`` (E10001) with every problem of all of them."""
    problems: list[Problem] = []
    names, types = _keep(keep_dtype, problems) if keep_dtype else (frozenset[str](), frozenset[str]())
    mix = _mix(modify_mixlist, problems) if modify_mixlist else {}
    custom_names, custom_types = parse(customize_dtypes, problems) if customize_dtypes else ({}, {})
    if problems:
        raise AscError(problems)
    return Overrides(names, types, mix, custom_names, custom_types)


def _keep(path: str, problems: list[Problem]) -> tuple[frozenset[str], frozenset[str]]:
    names: set[str] = set()
    types: set[str] = set()
    for number, raw in enumerate((read(path, "keep_dtype", problems) or "").splitlines(), 1):
        line = raw.strip()
        if not line:
            continue
        kind, colons, op_type = line.partition("::")
        if colons and kind == "OpType":
            if op_type.strip():
                types.add(op_type.strip())
            else:
                problems.append(bad("keep_dtype", f"{path}:{number}", "OpType:: needs an operator type"))
        else:
            names.add(line)
    return frozenset(names), frozenset(types)


def _mix(path: str, problems: list[Problem]) -> dict[str, Mix]:
    text = read(path, "modify_mixlist", problems)
    if text is None:
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(bad("modify_mixlist", path, f"it is not JSON ({str(error)[:100]})"))
        return {}
    if not isinstance(data, dict):
        problems.append(bad("modify_mixlist", path, "it must be an object of lists"))
        return {}
    added: dict[str, Mix] = {}
    removed: set[str] = set()
    for name, changes in data.items():
        if name not in _LISTS or not isinstance(changes, dict):
            hint = nearest(name, [*_LISTS])
            problems.append(bad("modify_mixlist", f"{path}: {name}", f"lists are {', '.join(_LISTS)}", hint))
            continue
        for verb, kinds in changes.items():
            if verb not in ("to-add", "to-remove") or not _is_names(kinds):
                reason = "a list holds to-add and to-remove, each with operator types"
                problems.append(bad("modify_mixlist", f"{path}: {name}.{verb}", reason))
                continue
            for kind in kinds:
                if verb == "to-remove":
                    removed.add(kind)
                elif added.setdefault(kind, _LISTS[name]) is not _LISTS[name]:
                    problems.append(bad("modify_mixlist", f"{path}: {name}", f"{kind} is added to two lists"))
    return {**dict.fromkeys(removed, Mix.GRAY), **added}


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
