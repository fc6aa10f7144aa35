"""``--customize_dtypes``: float types of the inputs and outputs of chosen operators, by name or by type.

Lines (public ATC manual)::

    conv1::InputDtype:float16,float16,OutputDtype:float32
    OpType::Relu:InputDtype:float16,OutputDtype:float32
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from asc_devkit.atc.options import nearest
from asc_devkit.atc.select.option_files import bad, read
from asc_devkit.errors import Problem

OPTION: Final = "customize_dtypes"
_LINE: Final = re.compile(
    r"(?:OpType::(?P<type>[^:]+):|(?P<name>.+?)::)InputDtype:(?P<inputs>[\w, ]*?),?\s*OutputDtype:(?P<outputs>[\w, ]*)"
)
#: What the vendor's spellings mean. Integer types of an operator follow from the model and cannot be changed.
NAMES: Final = {
    "float16": ir.DataType.FLOAT16,
    "float": ir.DataType.FLOAT,
    "float32": ir.DataType.FLOAT,
    "bfloat16": ir.DataType.BFLOAT16,
}


@dataclass(frozen=True)
class Custom:
    """Types of an operator's inputs and outputs by position; None leaves one as it is (it is no float)."""

    text: str
    inputs: tuple[ir.DataType | None, ...]
    outputs: tuple[ir.DataType | None, ...]


def parse(path: str, problems: list[Problem]) -> tuple[dict[str, Custom], dict[str, Custom]]:
    """The wishes of the file by operator name and by operator type; what is wrong goes to ``problems``."""
    names: dict[str, Custom] = {}
    types: dict[str, Custom] = {}
    for number, raw in enumerate((read(path, OPTION, problems) or "").splitlines(), 1):
        line, where = raw.strip(), f"{path}:{number}"
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            problems.append(bad(OPTION, where, "the line is not NAME::InputDtype:t1,t2,OutputDtype:t3"))
            continue
        wish = Custom(line, *(_types(found[k], where, problems) for k in ("inputs", "outputs")))
        table, key = (types, found["type"]) if found["type"] else (names, found["name"])
        if table.setdefault(key.strip(), wish) != wish:
            problems.append(bad(OPTION, where, f"{key} is given twice with different types"))
    return names, types


def _types(text: str, where: str, problems: list[Problem]) -> tuple[ir.DataType | None, ...]:
    made: list[ir.DataType | None] = []
    for word in filter(None, (part.strip().lower() for part in text.split(","))):
        if word in NAMES:
            made.append(NAMES[word])
        elif re.fullmatch(r"u?int\d+|bool|string|double", word):
            made.append(None)
        else:
            problems.append(bad(OPTION, where, f"{word} is no element type", nearest(word, [*NAMES])))
    return tuple(made)
