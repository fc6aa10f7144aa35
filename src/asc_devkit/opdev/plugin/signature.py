"""Name, inputs, outputs and attributes of a new operator, read from words of a command line."""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from asc_devkit.errors import AscError, Problem
from asc_devkit.ops import registry
from asc_devkit.ops.plugins.declare import DeclarationError, operator

DEFAULT_DOMAIN: Final = "custom"
MAX_PORTS: Final = 64
_TYPES: Final[dict[str, Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list[int]": list[int],
    "list[float]": list[float],
    "list[str]": list[str],
}
#: A value that a test gives to an attribute which every node must carry.
_EXAMPLES: Final[dict[str, Any]] = {
    "int": 2,
    "float": 0.5,
    "str": "text",
    "bool": True,
    "list[int]": [1, 2],
    "list[float]": [0.5, 2.0],
    "list[str]": ["text"],
}
_RESERVED: Final = frozenset({"np", "operator"})  # names the plugin file uses itself


@dataclass(frozen=True)
class Port:
    """One input; ``optional`` may be absent, ``variadic`` stands for any number."""

    name: str
    optional: bool
    variadic: bool


@dataclass(frozen=True)
class Attribute:
    """One attribute as Python source: what ``attrs`` declares, and a value for tests."""

    name: str
    declared: str
    example: str
    number: bool


@dataclass(frozen=True)
class Signature:
    """A valid declaration of an operator. ``function``: name of the Python function and of the files."""

    domain: str
    name: str
    function: str
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    attrs: tuple[Attribute, ...]


def signature(
    name: str, inputs: str = "x", outputs: str = "y", attrs: Sequence[str] = (), domain: str = ""
) -> Signature:
    """The operator ``name`` (``domain::Type``, or ``Type`` in ``domain``), declared as a plugin declares it.

    ``attrs``: ``name=default`` or ``name:type`` for one that every node must carry. Raises ``AscError`` listing
    everything that is wrong.
    """
    given, _, kind = name.rpartition("::")
    where = given or domain or DEFAULT_DOMAIN
    problems: list[str] = []
    if given and domain and given != domain:
        problems.append(f"the domain is both {given!r} and {domain!r}")
    values = dict(_attributes(attrs, problems))
    try:
        operator(f"{where}::{kind}", inputs=inputs, outputs=outputs, attrs={n: v for n, (v, _) in values.items()})
    except DeclarationError as error:
        problems.append(str(error))
    ports = tuple(Port(w.rstrip("?*"), w.endswith("?"), w.endswith("*")) for w in inputs.split())
    function = _snake(kind)
    function += "_op" if function in values or any(port.name == function for port in ports) else ""
    problems += _clashes(kind, where, function, ports, tuple(values))
    keys = [re.split("[=:]", word)[0].strip() for word in attrs]
    problems += [f"the attribute {key!r} stands there twice" for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if not ports or len(ports) + len(values) + len(outputs.split()) > MAX_PORTS:
        problems.append(f"an operator has at least one input, and at most {MAX_PORTS} inputs, outputs and attributes")
    elif ports[0].optional:
        problems.append(f"the first input {ports[0].name!r} cannot be optional in a project made from the template")
    if problems:
        raise AscError([_invalid(name, text) for text in dict.fromkeys(problems)])
    return Signature(
        where, kind, function, ports, tuple(outputs.split()), tuple(_source(n, *v) for n, v in values.items())
    )


def _attributes(words: Sequence[str], problems: list[str]) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Name, and declared value with the word of its type (empty for a default)."""
    for word in words:
        found = re.fullmatch(r"\s*(\w+)\s*([=:])\s*(.+?)\s*", word)
        if found is None:
            problems.append(f"attribute {word!r}: write name=default or name:type")
            continue
        key, sign, text = found.groups()
        if sign == ":":
            if text not in _TYPES:
                problems.append(f"attribute {word!r}: the type is one of {', '.join(_TYPES)}")
                continue
            yield key, (_TYPES[text], text)
            continue
        try:
            value = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = text  # a word without quotes
        parts = value if isinstance(value, (list, tuple)) else (value,)
        if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
            problems.append(f"attribute {word!r}: the default must be finite")
            continue
        yield key, (value, "")


def _source(name: str, value: Any, type_word: str) -> Attribute:
    if type_word:
        return Attribute(name, type_word, _literal(_EXAMPLES[type_word]), type_word in ("int", "float"))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Attribute(name, _literal(value), _literal(value), number)


def _literal(value: Any) -> str:
    """``value`` as Python source; texts in double quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _clashes(kind: str, domain: str, function: str, ports: Sequence[Port], attrs: Sequence[str]) -> Iterator[str]:
    """Names that the operator, or the Python function, cannot have."""
    names = [*(port.name for port in ports), *attrs]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name!r} is an input and an attribute"
        if keyword.iskeyword(name) or name in _RESERVED or name == function:
            yield f"{name!r} cannot name an input or an attribute of a Python function here"
    if registry.lookup_onnx(kind, "" if domain == "ai.onnx" else domain) is not None:
        yield f"{domain}::{kind} is in the catalogue already; a plugin cannot replace it"


def _snake(kind: str) -> str:
    """``ScaledClip`` -> ``scaled_clip``, ``MyGELUv2`` -> ``my_gelu_v2``; never a word of Python's own."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind)
    text = re.sub(r"_+", "_", text).strip("_").lower() or "custom"
    text = f"op_{text}" if text[0].isdigit() else text
    return f"{text}_op" if keyword.iskeyword(text) or text in _RESERVED else text


def _invalid(name: str, text: str) -> Problem:
    return Problem(
        "ASC2015",
        f"The operator {name} cannot be declared: {text}.",
        cause="Name, inputs, outputs or attributes are not what a plugin may declare.",
        fix='Write it as in: asc op new my_company::ScaledClip --inputs "x limit?" --attr scale=1.0',
        nodes=(name,),
        seed_class="EE1001",
    )
