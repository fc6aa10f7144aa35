"""The decorator with which a plugin declares an operator, and the declared operator itself.

@operator("my_company::ScaledClip", inputs="x limit", attrs={"scale": 1.0}, floats="fp16 fp32")
def scaled_clip(x, limit, *, scale):
    return np.clip(x * scale, -limit, limit)

@scaled_clip.infer
def _(x, limit, *, scale):
    return x
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asc_devkit.ge.desc import Engine
from asc_devkit.ops.catalogue import Cost, Mix

Array = np.ndarray[Any, Any]
REQUIRED: Final = object()
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_DOMAIN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,200}")
_KINDS: Final[Mapping[Any, str]] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list[int]: "ints",
    list[float]: "floats",
    list[str]: "strs",
    np.ndarray: "tensor",
}
_ENGINES: Final = {"vector": Engine.VECTOR, "cube": Engine.CUBE, "aicpu": Engine.AICPU}
# Classes whose formula needs nothing but the shapes of inputs and outputs.
COSTS: Final = ("elementwise", "reduce", "norm", "softmax", "movement", "gather")
FLOATS: Final = ("fp16", "bf16", "fp32")
FRAMEWORKS: Final = ("numpy", "torch")


class DeclarationError(ValueError):
    """A declaration that cannot be; the loader reports it with file and line."""


@dataclass(frozen=True)
class TensorType:
    """Shape and element type of a tensor, as shape inference sees it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(d) for d in self.shape))
        object.__setattr__(self, "dtype", np.dtype(self.dtype))

    def with_shape(self, *shape: int) -> TensorType:
        """The same element type with another shape."""
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: Any) -> TensorType:
        """The same shape with another element type (anything ``numpy.dtype`` takes)."""
        return TensorType(self.shape, dtype)


@dataclass(frozen=True)
class Attribute:
    """One attribute: kind as in ``GeOp.attrs``; ``default`` is ``REQUIRED`` when a node must carry it."""

    kind: str
    default: Any


@dataclass(frozen=True)
class Port:
    """One input: ``optional`` may be absent, ``variadic`` (the last one only) stands for any number."""

    name: str
    optional: bool = False
    variadic: bool = False


class CustomOperator:
    """An operator declared by a plugin. Calling it calls the user's function, so plugins can be tested directly."""

    def __init__(self, function: Callable[..., Any], facts: Mapping[str, Any]) -> None:
        self.function = function
        self.domain: str = facts["domain"]
        self.name: str = facts["name"]
        self.ge_type: str = facts["ge_type"]
        self.inputs: tuple[Port, ...] = facts["inputs"]
        self.outputs: tuple[str, ...] = facts["outputs"]
        self.attrs: dict[str, Attribute] = facts["attrs"]
        self.engine: Engine = facts["engine"]
        self.mix: Mix = facts["mix"]
        self.cost: Cost = facts["cost"]
        self.floats: frozenset[str] = facts["floats"]
        self.exact: bool = facts["exact"]
        self.bounds: tuple[float, float] | None = facts["bounds"]
        self.flops: Callable[..., float] | None = facts["flops"]
        self.framework: str = facts["framework"]
        self.file = inspect.getsourcefile(function) or "?"
        self.line = function.__code__.co_firstlineno if hasattr(function, "__code__") else 0
        self.infer_function: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def infer(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the shape inference. Gets a ``TensorType`` per input (None: absent) and the attributes.

        Returns a ``TensorType`` per output. Without it every output is like the first input.
        """
        self.infer_function = function
        return function

    @property
    def onnx_name(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.name}"

    def attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the user's functions: given values in their declared kinds, defaults for the rest."""
        values = {name: given.get(name, attribute.default) for name, attribute in self.attrs.items()}
        return {name: _as_kind(value, self.attrs[name].kind) for name, value in values.items()}

    def output_types(self, inputs: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """Inferred types of all outputs; raises ``TypeError`` when the plugin's function returns something else."""
        if self.infer_function is None:
            first = next((i for i in inputs if i is not None), None)
            if first is None:
                raise TypeError(f"{self.onnx_name} has no shape inference and this node has no input")
            return (first,) * len(self.outputs)
        found = self.infer_function(*inputs, **attrs)
        made = (found,) if isinstance(found, TensorType) else tuple(found)
        if len(made) != len(self.outputs) or not all(isinstance(t, TensorType) for t in made):
            raise TypeError(
                f"the shape inference of {self.onnx_name} must return a TensorType for each of the outputs "
                f"{', '.join(self.outputs)}"
            )
        return made


def operator(
    name: str,
    *,
    ge: str = "",
    inputs: str = "x",
    outputs: str = "y",
    attrs: Mapping[str, Any] | None = None,
    engine: str = "vector",
    floats: str = "fp16 fp32",
    mix: str = "gray",
    cost: str = "elementwise",
    flops: Callable[..., float] | None = None,
    exact: bool = False,
    bounds: tuple[float, float] | None = None,
    framework: str = "numpy",
) -> Callable[[Callable[..., Any]], CustomOperator]:
    """Declare the operator that the decorated function computes.

    ``name``: ONNX domain and type, ``"my_company::ScaledClip"``. ``ge``: type in the ``.om`` (default: the ONNX type).
    ``inputs``, ``outputs``: names separated by spaces; ``limit?`` may be absent, ``x*`` (last) is any number of inputs.
    ``attrs``: name -> default value, or a type (``int``, ``float``, ``str``, ``bool``, ``list[int]``, ...) when required.
    ``engine``: ``vector``, ``cube`` or ``aicpu``. ``floats``: element types its kernel takes on the device; other floats
    are cast. ``mix``: under mixed precision ``white`` (drops to 16 bit), ``black`` (stays float32) or ``gray``.
    ``cost``: class that prices it (``COSTS``); ``flops``: operations of one call from the types of the inputs and the
    attributes, a better hint. ``exact``: results need no rounding (moves, selections). ``bounds``: interval of finite
    results. ``framework``: ``torch`` hands tensors to the function instead of arrays.

    The function gets one array per input (None: absent) and the attributes by keyword; 16-bit floats arrive as float32,
    and what it returns is rounded once. Raises ``DeclarationError``.
    """
    domain, _, kind = name.rpartition("::")
    problems: list[str] = []
    domain = "" if domain == "ai.onnx" else domain
    if not _NAME.fullmatch(kind) or (domain and not _DOMAIN.fullmatch(domain)):
        problems.append(f"{name!r} is no operator name; write it as 'domain::Type'")
    if ge and not _NAME.fullmatch(ge):
        problems.append(f"ge={ge!r} is no type name")
    ports = _ports(inputs, problems)
    results = tuple(outputs.split())
    if not results or not all(_NAME.fullmatch(o) for o in results) or len(set(results)) < len(results):
        problems.append(f"outputs={outputs!r}: give different names separated by spaces")
    declared = {key: _attribute(key, value, problems) for key, value in (attrs or {}).items()}
    taken = frozenset(floats.split())
    for what, given, known in (
        ("engine", engine, tuple(_ENGINES)),
        ("mix", mix, tuple(m.value for m in Mix)),
        ("cost", cost, COSTS),
        ("framework", framework, FRAMEWORKS),
    ):
        if given not in known:
            problems.append(f"{what}={given!r}: use one of {', '.join(known)}")
    if not taken or taken - set(FLOATS):
        problems.append(f"floats={floats!r}: use some of {', '.join(FLOATS)}")
    if problems:
        raise DeclarationError("; ".join(problems))

    def decorate(function: Callable[..., Any]) -> CustomOperator:
        from asc_devkit.ops.plugins.entries import register

        made = CustomOperator(
            function,
            {
                "domain": domain,
                "name": kind,
                "ge_type": ge or kind,
                "inputs": ports,
                "outputs": results,
                "attrs": declared,
                "engine": _ENGINES[engine],
                "mix": Mix(mix),
                "cost": Cost.AICPU if engine == "aicpu" else Cost(cost),
                "floats": taken,
                "exact": exact,
                "bounds": bounds,
                "flops": flops,
                "framework": framework,
            },
        )
        register(made)
        return made

    return decorate


def _ports(text: str, problems: list[str]) -> tuple[Port, ...]:
    made: list[Port] = []
    words = text.split()
    for index, word in enumerate(words):
        port = Port(word.rstrip("?*"), optional=word.endswith("?"), variadic=word.endswith("*"))
        if not _NAME.fullmatch(port.name) or any(p.name == port.name for p in made):
            problems.append(f"inputs={text!r}: {word!r} is no name, or stands there twice")
        elif port.variadic and index + 1 < len(words):
            problems.append(f"inputs={text!r}: only the last input can be {word!r}")
        made.append(port)
    return tuple(made)


def _attribute(name: str, value: Any, problems: list[str]) -> Attribute:
    kind = _KINDS.get(value) if isinstance(value, type) or hasattr(value, "__origin__") else _kind_of(value)
    if not _NAME.fullmatch(name) or kind is None:
        problems.append(f"attrs: {name!r} is {value!r}; give a default value or a type such as int or list[float]")
        return Attribute("int", REQUIRED)
    return Attribute(kind, REQUIRED if isinstance(value, type) or hasattr(value, "__origin__") else value)


def _kind_of(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        kinds = {_KINDS.get(type(item)) for item in value}
        if kinds == {"int", "float"}:
            kinds = {"float"}
        return f"{kinds.pop()}s" if len(kinds) == 1 and kinds <= {"int", "float", "str"} else None
    return _KINDS.get(type(value))


def _as_kind(value: Any, kind: str) -> Any:
    if kind in ("int", "float", "str", "bool"):
        return {"int": int, "float": float, "str": str, "bool": bool}[kind](value)
    if kind in ("ints", "floats", "strs"):
        item = {"ints": int, "floats": float, "strs": str}[kind]
        return [item(v) for v in value]
    return value.numpy() if hasattr(value, "numpy") else value
