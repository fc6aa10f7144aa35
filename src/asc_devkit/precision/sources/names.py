"""File names of tensors: the forms that dumping tools write, each taken apart into operator, side and index.

Forms: ``{op}.{index}.{time}``; ``{op}_{index}_{time}``;
``{type}.{op}.{task}[.{stream}].{time}.{input|output}.{index}[.{format}]`` (files
converted from NPU dumps); ``{api}.{n}.{forward|backward}.{input|output}.{...}`` (msprobe). Anything else is a
name as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SUFFIX: Final = re.compile(r"\.(npy|npz|bin|pt|pth|safetensors)$", re.IGNORECASE)
_CONVERTED: Final = re.compile(
    r"^(?P<type>[A-Za-z0-9_]+)\.(?P<op>.+?)\.\d+(?:\.\d+)?\.(?P<time>\d{10,})\.(?P<side>input|output)\.(?P<index>\d+)"
    r"(?:\.(?P<format>[A-Za-z0-9_]+))?$"
)
_DOTTED: Final = re.compile(r"^(?P<op>.+)\.(?P<index>\d+)\.(?P<time>\d{10,})$")
_UNDERSCORED: Final = re.compile(r"^(?P<op>.+)_(?P<index>\d+)_(?P<time>\d{10,})$")


@dataclass(frozen=True)
class Key:
    """``name`` is the canonical one, ``{op}.{side}.{index}``, or the plain stem when no form fits."""

    name: str
    op: str = ""
    side: str = ""
    index: int = 0
    op_type: str = ""
    time: int = 0


def key_of(file_name: str) -> Key:
    """What a file name says."""
    stem = _SUFFIX.sub("", file_name)
    for form in (_CONVERTED, _DOTTED, _UNDERSCORED):
        match = form.match(stem)
        if match:
            parts = match.groupdict()
            op, side, index = parts["op"], parts.get("side") or "output", int(parts["index"])
            return Key(f"{op}.{side}.{index}", op, side, index, parts.get("type") or "", int(parts["time"]))
    return Key(stem)


def plain(name: str) -> str:
    """A name with everything that tools replace in names replaced: what is compared when exact names differ."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
