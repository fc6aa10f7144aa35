"""``.pt`` files without torch and without pickle: the archive's stored members are mapped, its pickle program is *read*.

The program (``data.pkl``) is walked opcode by opcode. Only building of containers and the four calls that make tensors are
understood; other calls that checkpoints make (``HARMLESS``) stand for themselves as inert markers, any other call is refused.
Nothing named in the file is ever imported.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from asc_devkit.precision.sources.numpy_file import member_offset
from asc_devkit.precision.sources.tensor import Array, TensorRef, bounded, checked_shape, problem_of, torn

MAX_PROGRAM: Final = 256 << 20
MAX_STACK: Final = 10_000_000
MAX_DEPTH: Final = 64
MAX_ITEMS: Final = 2_000_000  # entries of containers, counted as often as they are reached
HARMLESS: Final = (
    *("torch.", "collections.", "numpy.", "copyreg.", "datetime.", "pathlib.", "uuid.", "decimal.", "fractions."),
    *(f"{module}.{name}" for module in ("builtins", "__builtin__")
      for name in ("set", "frozenset", "slice", "complex", "bytearray", "range", "object", "int", "float", "list", "tuple")),
    *("_codecs.encode", "functools.partial"),
)  # fmt: skip
STORAGES: Final = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "UntypedStorage": np.uint8,
    "ShortStorage": np.int16,
    "IntStorage": np.int32,
    "LongStorage": np.int64,
    "BoolStorage": np.bool_,
    "ComplexFloatStorage": np.complex64,
    "ComplexDoubleStorage": np.complex128,
}
SCALARS: Final = {  # torch.<dtype> as an argument of the version 3 form
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "bool": np.bool_,
    "complex64": np.complex64,
    "complex128": np.complex128,
}


@dataclass(frozen=True)
class Named:
    """A global name of the program, never resolved."""

    name: str


@dataclass(frozen=True)
class Storage:
    """A storage: element type (None: bytes) and archive member."""

    dtype: np.dtype[Any] | None
    key: str
    elements: int


@dataclass(frozen=True)
class Strided:
    """A tensor as the program describes it."""

    storage: Storage
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Opaque:
    """The result of a call that is not understood and was not made."""


def open_pt(path: Path, name: str) -> list[TensorRef]:
    """All tensors of a file written by ``torch.save``; a single tensor is called ``name``, nested ones by their keys.

    Raises ``AscError`` (ASC5102) for the old (pure pickle) form and for damaged files.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            program = next((n for n in members if n.endswith("/data.pkl") or n == "data.pkl"), None)
            if program is None:
                raise torn(path, "the archive has no data.pkl, so torch.save did not write it")
            if members[program].file_size > MAX_PROGRAM:
                raise torn(path, "its structure is absurdly large")
            root = program[: -len("data.pkl")]
            order = archive.read(f"{root}byteorder") if f"{root}byteorder" in members else b"little"
            value = _Reader(path).run(archive.read(program))
    except zipfile.BadZipFile as error:
        raise torn(
            path, "it is no zip archive; files saved before torch 1.6 are pickles, which are never loaded"
        ) from error
    except (OSError, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise torn(path, problem_of(error)) from error
    if order.strip() != b"little":
        raise torn(path, "its elements are big-endian")
    found: dict[str, Strided] = {}
    for count, (key, tensor) in enumerate(_tensors(value, "", 0)):
        if count > MAX_ITEMS:
            raise torn(path, "its containers hold each other over and over")
        if tensor is not None:
            found[key] = tensor
    if not found:
        raise torn(path, "it holds no tensor")
    return [_ref(path, key or name, tensor, members, root) for key, tensor in found.items()]


def _tensors(value: Any, key: str, depth: int) -> Iterator[tuple[str, Strided | None]]:
    """The tensors by their keys; None for each container, so that the caller can count."""
    if isinstance(value, Strided):
        yield key, value
    elif depth < MAX_DEPTH and isinstance(value, dict):
        yield key, None
        for part, item in value.items():
            if isinstance(part, (str, int)):
                yield from _tensors(item, f"{key}.{part}" if key else str(part), depth + 1)
    elif depth < MAX_DEPTH and isinstance(value, (list, tuple)):
        yield key, None
        for place, item in enumerate(value):
            yield from _tensors(item, f"{key}.{place}" if key else str(place), depth + 1)


def _ref(path: Path, name: str, tensor: Strided, members: dict[str, zipfile.ZipInfo], root: str) -> TensorRef:
    info = members.get(f"{root}data/{tensor.storage.key}")
    if info is None:
        raise torn(path, f"the elements of {name!r} are missing")
    if info.compress_type != zipfile.ZIP_STORED:
        raise torn(path, "its elements are compressed, which torch.save never does")
    item = tensor.dtype.itemsize
    last = sum((d - 1) * s for d, s in zip(tensor.shape, tensor.strides, strict=True)) if 0 not in tensor.shape else -1
    if (tensor.offset + last + 1) * item > info.file_size:
        raise torn(path, f"{name!r} reaches beyond its storage")
    begin = member_offset(path, info)
    plain = TensorRef(name, tensor.dtype, tensor.shape, path, begin + tensor.offset * item)
    if begin + info.file_size > path.stat().st_size:
        raise torn(path, f"the elements of {name!r} are cut off")
    if _contiguous(tensor.shape, tensor.strides):
        return plain
    bounded(path, plain.nbytes)
    flat = TensorRef(name, tensor.dtype, (last + 1,), path, plain.offset)

    def load() -> Array:
        steps = [s * item for s in tensor.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat.array(), tensor.shape, steps, writeable=False))

    return TensorRef(name, tensor.dtype, tensor.shape, path, plain.offset, load)


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


class _Reader:
    """Walks a pickle program without executing it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, program: bytes) -> Any:
        try:
            for opcode, argument, _ in pickletools.genops(io.BytesIO(program)):
                if opcode.name == "STOP":
                    return self.stack[-1]
                self._step(opcode.name, argument)
                if len(self.stack) > MAX_STACK:
                    break
        except (IndexError, KeyError, ValueError, TypeError, RecursionError, OverflowError, UnicodeError) as error:
            raise torn(self.path, f"its structure is damaged ({problem_of(error)})") from error
        raise torn(self.path, "its structure does not end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]() if callable(_CONSTANTS[name]) else _CONSTANTS[name])
        elif name in _LITERALS:
            stack.append(argument)
        elif name == "GLOBAL":
            stack.append(Named(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(Named(f"{module}.{attribute}"))
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[int(argument)])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("TUPLE", "LIST", "DICT", "FROZENSET"):
            self._collect(name)
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"):
            self._extend(name)
        elif name == "BINPERSID":
            stack.append(self._storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._call(function, arguments))
        elif name == "NEWOBJ":  # an object of a class: its fields follow and are left out
            del stack[-2:]
            stack.append(Opaque())
        elif name == "NEWOBJ_EX":
            del stack[-3:]
            stack.append(Opaque())
        elif name == "BUILD" or name == "POP":
            stack.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        else:
            raise torn(self.path, f"it asks for {name}, which no tensor file needs and which is never executed")

    def _items(self) -> list[Any]:
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def _collect(self, name: str) -> None:
        items = self._items()
        if name == "DICT":
            self.stack.append(_pairs(items))
        else:
            self.stack.append(items if name == "LIST" else tuple(items))

    def _extend(self, name: str) -> None:
        if name == "APPEND":
            items = [self.stack.pop()]
        elif name == "SETITEM":
            value, key = self.stack.pop(), self.stack.pop()
            items = [key, value]
        else:
            items = self._items()
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(_pairs(items))
        elif isinstance(target, list):
            target.extend(items)

    def _storage(self, identity: Any) -> Any:
        if not (isinstance(identity, tuple) and len(identity) >= 5 and identity[0] == "storage"):
            return Opaque()
        kind = identity[1].name.rsplit(".", 1)[-1] if isinstance(identity[1], Named) else ""
        if kind not in STORAGES:
            return Opaque()
        dtype = None if kind == "UntypedStorage" else np.dtype(STORAGES[kind])
        return Storage(dtype, str(identity[2]), int(identity[4]))

    def _call(self, function: Any, arguments: Any) -> Any:
        name = function.name if isinstance(function, Named) else ""
        if name in ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"):
            return self._tensor(arguments, None)
        if name == "torch._utils._rebuild_tensor_v3":
            kind = arguments[6].name.rsplit(".", 1)[-1] if isinstance(arguments[6], Named) else ""
            return self._tensor(arguments, np.dtype(SCALARS[kind]))
        if name in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"):
            return arguments[0]
        if name == "torch._tensor._rebuild_from_type_v2":
            return self._call(arguments[0], arguments[2])
        if name == "collections.OrderedDict":
            return {}
        if name and not name.startswith(HARMLESS):
            raise torn(self.path, f"it asks for a call of {name[:80]}, which is never executed")
        return Opaque()

    def _tensor(self, arguments: Any, dtype: np.dtype[Any] | None) -> Any:
        storage, offset, shape, strides = arguments[:4]
        if not isinstance(storage, Storage):
            return Opaque()
        dtype = dtype or storage.dtype or np.dtype(np.uint8)
        dims, steps = checked_shape(self.path, shape), checked_shape(self.path, strides)
        if len(dims) != len(steps) or type(offset) is not int or not 0 <= offset < 1 << 48:
            raise torn(self.path, "a tensor's strides do not fit its shape")
        return Strided(storage, dtype, offset, dims, steps)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if isinstance(key, (str, int, float, bool, tuple, bytes)):
            found[key] = value
    return found


_CONSTANTS: Final[dict[str, Any]] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
}
_LITERALS: Final = frozenset(
    [
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ]
)
