"""The text of ``--input_shape`` (``a:1,3,224,224;b:1,2``; scalars ``c:``) as numbers. Called by ``atc`` and ``cli``."""

from __future__ import annotations

import re

from asc_devkit.errors import AscError, Problem

MAX_RANK = 32
MAX_DIM = 2**31 - 1

_FULL_WIDTH = str.maketrans({"；": ";", "：": ":", "，": ",", "～": "~", "－": "-", "　": " "})
_EXAMPLE = 'write it like --input_shape="images:1,3,224,224;ids:1,64" (a scalar input is "sr:")'


def parse_input_shape(text: str, allow_empty: bool = False) -> dict[str, tuple[int, ...]]:
    """Parse the option's text into dimensions by input name; -1 stays -1 (an axis left open).

    ``allow_empty``: 0 is a dimension too (a tensor without elements).

    The name may itself contain colons (``serving_default_x:0:1,64``): the last colon separates it from the dimensions.
    Raises ``AscError`` (E10002 syntax, E10011 dimension, E10055 ranges) with every mistake of the text.
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


def _parse_dims(name: str, text: str, problems: list[Problem], allow_empty: bool) -> tuple[int, ...]:
    if "~" in text:
        problems.append(
            Problem(
                "E10055",
                f"--input_shape gives a range for input {name!r}: {text.strip()}",
                "shape ranges (a~b) are not supported yet",
                "give one fixed size per axis, e.g. the largest you need",
                (name,),
                "EE1001",
            )
        )
        return ()
    bracketed = re.fullmatch(r"\s*[\[(](.*)[\])]\s*", text)
    if bracketed:
        problems.append(_syntax(f"{name}:{text}", "the dimensions stand in brackets; leave the brackets out"))
        text = bracketed[1]
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


def _syntax(text: str, reason: str) -> Problem:
    return Problem("E10002", f"--input_shape cannot be read at {text[:200]!r}: {reason}", "", _EXAMPLE, (), "EE1001")
