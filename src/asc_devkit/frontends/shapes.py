"""The text of ``--input_shape`` (``a:1,3,224,224;b:1,2``; scalars ``c:``) as numbers. Called by ``atc`` and ``cli``."""

from __future__ import annotations

import re

from asc_devkit.errors import AscError, Problem

MAX_RANK = 32
MAX_DIM = 2**31 - 1

_FULL_WIDTH = str.maketrans({"；": ";", "：": ":", "，": ",", "～": "~", "－": "-", "｛": "{", "｝": "}", "　": " "})
_EXAMPLE = 'write it like --input_shape="images:1,3,224,224;ids:1,64" (a scalar input is "sr:")'


def parse_input_shape(text: str, allow_empty: bool = False) -> dict[str, tuple[int, ...]]:
    """Parse the option's text into dimensions by input name; -1 stays -1 (an axis left open).

    ``allow_empty``: 0 is a dimension too (a tensor without elements).

    The name may itself contain colons (``serving_default_x:0:1,64``): the last colon separates it from the dimensions.
    Brackets around the dimensions are understood. Raises ``AscError`` (E10002 syntax, E10011 dimension, E10048 a range
    that cannot be read, E10055 ranges) with every mistake of the text.
    """
    problems: list[Problem] = []
    shapes: dict[str, tuple[int, ...]] = {}
    if not text.strip():
        raise AscError(_syntax(text, "it is empty"))
    if text != text.translate(_FULL_WIDTH):
        problems.append(_syntax(text, "it contains full-width punctuation; use ASCII ; : ,"))
        text = text.translate(_FULL_WIDTH)
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, dims = item.rpartition(":")
        name = name.strip()
        if not colon or not name:
            problems.append(_syntax(item, "an input name, a colon and the dimensions are expected"))
        elif name in shapes:
            problems.append(_syntax(item, f"input {name!r} is given twice"))
        else:
            shapes[name] = _parse_dims(name, dims, problems, allow_empty)
    if problems:
        raise AscError(problems)
    return shapes


def parse_shape_range(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """The text of ``--input_shape_range`` (``a:[1~8,3,-1];b:[1~8,16]``) as (smallest, largest) by axis; -1: no limit.

    Raises ``AscError`` (E10048) with every mistake of the text.
    """
    problems: list[Problem] = []
    ranges: dict[str, tuple[tuple[int, int], ...]] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, dims = item.rpartition(":")
        if not colon or not name.strip():
            problems.append(_bad_range(item, "an input name, a colon and the ranges are expected"))
        else:
            ranges[name.strip()] = _parse_ranges(name.strip(), dims, problems)
    if not text.strip():
        problems.append(_bad_range(text, "it is empty"))
    if problems:
        raise AscError(problems)
    return ranges


def _parse_ranges(name: str, text: str, problems: list[Problem]) -> tuple[tuple[int, int], ...]:
    """Ranges of one input: ``1~8``, a number, or -1, separated by commas, in brackets or not."""
    made: list[tuple[int, int]] = []
    for field in _unbracketed(text).split(","):
        if not (found := re.fullmatch(r"\s*(-1|\d{1,10})\s*(?:~\s*(-1|\d{1,10}))?\s*", field)):
            problems.append(_bad_range(f"{name}:{text}", f"{field.strip()!r} is neither a number nor a range"))
            continue
        low = int(found[1])
        high = low if found[2] is None else int(found[2])
        if found[2] is not None and (low < 0 or -1 < high < low):
            problems.append(_bad_range(f"{name}:{text}", f"{field.strip()!r} ends before it starts"))
        made.append((0 if low < 0 else low, high))
    return tuple(made)


def _unbracketed(text: str) -> str:
    bracketed = re.fullmatch(r"\s*[\[(](.*)[\])]\s*", text)
    return bracketed[1] if bracketed else text


def _parse_dims(name: str, text: str, problems: list[Problem], allow_empty: bool) -> tuple[int, ...]:
    if "~" in text:
        wrong = len(problems)
        _parse_ranges(name, text, problems)
        if len(problems) == wrong:
            problems.append(ranges_unsupported("input_shape", f"{name}:{text.strip()}"))
        return ()
    text = _unbracketed(text)
    if not text.strip():
        return ()
    fields = text.split(",")
    if len(fields) == 1 and re.fullmatch(r"\s*\d+([xX*]\d+)+\s*", text):
        problems.append(_syntax(f"{name}:{text}", "dimensions are separated by commas"))
        return ()
    dims: list[int] = []
    for field in fields:
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", field):
            problems.append(_syntax(f"{name}:{text}", f"{field.strip()!r} is not a whole number"))
            continue
        dims.append(int(field))
    problems.extend(check_dims(name, dims, allow_empty))
    return tuple(dims)


def check_dims(name: str, dims: list[int], allow_empty: bool = False) -> list[Problem]:
    """What is wrong with the dimensions given for one input: too many of them, zero, negative or absurd ones."""
    problems = []
    if len(dims) > MAX_RANK:
        problems.append(_syntax(f"{name}: {len(dims)} dimensions", f"at most {MAX_RANK} dimensions are possible"))
    wrong = [d for d in dims if (d == 0 and not allow_empty) or d < -1 or d > MAX_DIM]
    if wrong:
        problems.append(
            Problem(
                "E10011",
                f"--input_shape gives input {name!r} the dimension {', '.join(map(str, wrong[:4]))}",
                f"a dimension is a positive number up to {MAX_DIM}, or -1 for an axis left open",
                _EXAMPLE,
                (name,),
                "EE1001",
            )
        )
    return problems


def ranges_unsupported(option: str, text: str) -> Problem:
    """A shape range is read, but not compiled: what to write instead."""
    return Problem(
        "E10055",
        f"--{option} gives a range, {text[:200]}, which cannot be compiled: every axis has one size, or one per gear",
        "shape ranges need kernels that are compiled for any size",
        'give the sizes you need as gears: --input_shape="x:-1,3,224,224" --dynamic_batch_size="1,4,8"',
        (f"--{option}",),
        "EE1055",
    )


def _bad_range(text: str, reason: str) -> Problem:
    what = f"the shape range {text[:200]!r} cannot be read: {reason}"
    fix = 'write it like --input_shape_range="images:[1~8,3,224,224];ids:[1~8,-1]"'
    return Problem("E10048", what, "", fix, (), "EE1048")


def _syntax(text: str, reason: str) -> Problem:
    return Problem("E10002", f"--input_shape cannot be read at {text[:200]!r}: {reason}", "", _EXAMPLE, (), "EE1001")
