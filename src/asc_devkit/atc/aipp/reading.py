"""The configuration file: protobuf text with ``aipp_op`` blocks, read so that all its mistakes come out at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from google.protobuf import text_format

from asc_devkit.atc.aipp.config import Aipp, DynamicAipp, from_message, invalid
from asc_devkit.atc.options import nearest
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.pictures import PICTURES
from asc_devkit.ge.proto import aipp_pb2

MAX_BYTES: Final = 128 << 10  # the manual's template with all comments has 20 KiB
MAX_PROBLEMS: Final = 40
MAX_OPS: Final = 64
_FIELDS: Final = [f.name for f in aipp_pb2.AippOp.DESCRIPTOR.fields]
_PAIR: Final = re.compile(r"""\w+\s*(?::\s*("[^"]*"|'[^']*'|[^\s,;{}#]+))?[,;]?""")
_WIDE: Final = "：，；｛｝“”"
_OP: Final = re.compile(r"^[^#\n]*?\baipp_op\b", re.M)


def load(path: Path) -> list[Aipp | DynamicAipp]:
    """The configurations of the file, in order. Raises ``AscError`` with everything that is wrong in it."""
    text = _text(path)
    problems: list[Problem] = []
    file = _parse(text, path.name, problems)
    mistaken = {name for problem in problems for name in problem.nodes}
    lines = [text.count("\n", 0, match.end()) + 1 for match in _OP.finditer(text)]
    found: list[Aipp | DynamicAipp] = []
    if not file.aipp_op and not problems:
        problems.append(invalid(f"{path} has no aipp_op", "Write aipp_op { ... } around the fields."))
    if len(file.aipp_op) > MAX_OPS:
        raise AscError(invalid(f"{path} has {len(file.aipp_op)} aipp_op, more than {MAX_OPS}"))
    for index, message in enumerate(file.aipp_op):
        where = f", line {lines[index]}" if len(lines) == len(file.aipp_op) else ""
        made = from_message(message, f"aipp_op {index + 1} of {path.name}{where}", problems, mistaken)
        if made is not None:
            found.append(made)
    if problems:
        raise AscError(problems[:MAX_PROBLEMS])
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise AscError(
            Problem(
                "E13001",
                f"Cannot open {path}: {error.strerror or error}.",
                cause="--insert_op_conf names the AIPP configuration file.",
                fix="Check the path.",
                nodes=("--insert_op_conf",),
                seed_class="EE1001",
            )
        ) from error
    if len(raw) > MAX_BYTES:
        raise AscError(invalid(f"{path} is larger than {MAX_BYTES >> 10} KiB"))
    # Comments come in any encoding; names and values are ASCII, so a byte that is no UTF-8 cannot change their meaning.
    return raw.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _parse(text: str, name: str, problems: list[Problem]) -> aipp_pb2.AippFile:
    """Parse; on a mistake note it, blank the field it is in, and go on until nothing new can be learned."""
    while len(problems) < MAX_PROBLEMS:
        file = aipp_pb2.AippFile()
        try:
            text_format.Parse(text, file)
        except text_format.ParseError as error:
            line, column = error.GetLine() or 1, error.GetColumn() or 1
            pair = _pair_at(text, line, column)
            written = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
            problems.append(_mistake(str(error), name, line, pair.group() if pair else "", written))
            if pair is None or not pair.group(1):  # a block or stray sign: blanking it would only shift the mistake
                return aipp_pb2.AippFile()
            text = text[: pair.start()] + " " * len(pair.group()) + text[pair.end() :]
        else:
            return file
    return aipp_pb2.AippFile()


def _pair_at(text: str, line: int, column: int) -> re.Match[str] | None:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    end = text.find("\n", start)
    where = start + column - 1
    for match in _PAIR.finditer(text, start, len(text) if end < 0 else end):
        if match.start() <= where < match.end():
            return match
    return None


def _mistake(message: str, file: str, line: int, pair: str, written: str) -> Problem:
    name = re.match(r"\w*", pair).group()  # type: ignore[union-attr]
    value = pair.partition(":")[2].strip(" ,;")
    place = f"{file}, line {line}"
    fix = ""
    if "has no field named" in message:
        what, fix = f"there is no field {name}", nearest(name, [*_FIELDS, "aipp_op"])
    elif "should not have multiple" in message:
        what, fix = f"{name} is given twice", "Keep one."
    elif 'Expected "true" or "false"' in message or "as bool" in message:
        what = f"{name} is {value}, not true or false"
    elif "Enum type" in message:
        values = ("static", "dynamic") if name == "aipp_mode" else tuple(PICTURES)
        what, fix = f"{name} is {value}, not one of {', '.join(values)}", nearest(value, list(values))
    elif "parse integer" in message:
        what = f"{name} is {value}, not a whole number"
        if name.startswith("mean_chn"):
            fix = "Put fractions into min_chn_i instead: mean_chn_i and min_chn_i are both subtracted."
    elif "parse float" in message:
        what = f"{name} is {value}, not a number"
    elif "out of range" in message:
        what = f"{name} is {value}, which is too large"
    else:
        what = message.split(": ", 1)[-1].rsplit("': ", 1)[-1].strip().rstrip(".")
        wide = sorted(set(written.partition("#")[0]) & set(_WIDE))
        fix = "The file is protobuf text: aipp_op { name: value ... }, comments behind #."
        if wide:
            fix = f"Type the plain sign instead of the full-width {' '.join(wide)}."
    return invalid(f"{place}: {what}", fix, (name or place,))
