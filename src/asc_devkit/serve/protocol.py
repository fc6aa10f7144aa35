"""The KServe v2 inference protocol: requests to arrays, arrays to responses, JSON and the binary tensor extension."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from asc_devkit import npu
from asc_devkit.npu.numerics import Array

DATATYPES: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_NAMES: Final = {dtype: name for name, dtype in DATATYPES.items()}
MAX_RANK: Final = 32
MAX_ID: Final = 1024
BINARY_HEADER: Final = "Inference-Header-Content-Length"


class BadRequest(ValueError):
    """A request that cannot be understood; the text goes to the client (status 400)."""


@dataclass(frozen=True)
class Request:
    """A decoded request. ``wanted``: output names, empty for all; ``binary``: those to answer as raw bytes."""

    inputs: dict[str, Array]
    wanted: tuple[str, ...] = ()
    binary: frozenset[str] = frozenset()
    all_binary: bool = False
    id: str = ""


def datatype(dtype: np.dtype[Any]) -> str:
    """The protocol's word for an element type."""
    return _NAMES.get(dtype, "BYTES")


def metadata(name: str, session: npu.Session) -> dict[str, Any]:
    """Model metadata; open axes are -1."""

    def tensors(rows: Sequence[npu.Tensor]) -> list[dict[str, Any]]:
        return [
            {"name": t.name, "datatype": datatype(t.dtype), "shape": [-1 if d is None else d for d in t.shape]}
            for t in rows
        ]

    return {
        "name": name,
        "versions": ["1"],
        "platform": "ascend_om_virtual_npu",
        "inputs": tensors(session.inputs),
        "outputs": tensors(session.outputs),
    }


def decode(body: bytes, header_length: str | None) -> Request:
    """The request in ``body``. ``header_length``: value of ``BINARY_HEADER``, after whose bytes raw tensors follow.

    Raises ``BadRequest``.
    """
    size = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or len(header_length) > 12 or int(header_length) > size:
            raise BadRequest(f"{BINARY_HEADER} is no size within the body")
        size = int(header_length)
    try:
        given = json.loads(body[:size])
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {str(error)[:200]}") from error
    if not isinstance(given, dict) or not isinstance(given.get("inputs"), list):
        raise BadRequest("the request needs an object with a list 'inputs'")
    raw = memoryview(body)[size:]
    inputs: dict[str, Array] = {}
    for item in given["inputs"]:
        name, array, used = _tensor(item, raw)
        if name in inputs:
            raise BadRequest(f"input {name!r} is given twice")
        inputs[name] = array
        raw = raw[used:]
    if len(raw):
        raise BadRequest(f"{len(raw)} bytes follow the last tensor")
    wanted, binary = _outputs(given.get("outputs"))
    parameters = given.get("parameters")
    everything = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    ident = given.get("id", "")
    if not isinstance(ident, str) or len(ident) > MAX_ID:
        raise BadRequest(f"'id' is no text of at most {MAX_ID} characters")
    return Request(inputs, wanted, binary, everything, ident)


def encode(request: Request, name: str, outputs: Mapping[str, Array]) -> tuple[bytes, dict[str, str]]:
    """Body and headers of the response. Raises ``BadRequest`` for outputs that do not exist."""
    wanted = request.wanted or tuple(outputs)
    missing = [n for n in wanted if n not in outputs]
    if missing:
        raise BadRequest(f"the model has no output {missing[0]!r}; outputs are {', '.join(outputs)}")
    rows: list[dict[str, Any]] = []
    pieces: list[bytes] = []
    for output in wanted:
        array = outputs[output]
        row: dict[str, Any] = {"name": output, "datatype": datatype(array.dtype), "shape": list(array.shape)}
        if (output in request.binary or request.all_binary) and array.dtype != object:
            piece = np.ascontiguousarray(array).tobytes()
            row["parameters"] = {"binary_data_size": len(piece)}
            pieces.append(piece)
        else:
            plain = array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array
            row["data"] = plain.reshape(-1).tolist()
        rows.append(row)
    answer: dict[str, Any] = {"model_name": name, "model_version": "1", "outputs": rows}
    if request.id:
        answer["id"] = request.id
    head = json.dumps(answer, separators=(",", ":")).encode()
    if not pieces:
        return head, {"content-type": "application/json"}
    return head + b"".join(pieces), {"content-type": "application/octet-stream", BINARY_HEADER: str(len(head))}


def _tensor(item: Any, raw: memoryview) -> tuple[str, Array, int]:
    """Name, array and how many bytes of ``raw`` it took."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise BadRequest("each input is an object with a 'name'")
    name, kind, shape = item["name"], item.get("datatype"), item.get("shape")
    if not isinstance(kind, str) or kind not in DATATYPES:
        raise BadRequest(f"input {name!r}: 'datatype' is none of {', '.join(DATATYPES)}")
    dtype = DATATYPES[kind]
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_RANK
        or not all(type(d) is int and 0 <= d <= 1 << 40 for d in shape)
    ):
        raise BadRequest(f"input {name!r}: 'shape' is no list of at most {MAX_RANK} sizes")
    count = math.prod(shape)
    parameters = item.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None:
        if type(size) is not int or size != count * dtype.itemsize or size > len(raw):
            raise BadRequest(f"input {name!r}: {kind} {shape} takes {count * dtype.itemsize} bytes, not {size}")
        if "data" in item:
            raise BadRequest(f"input {name!r} has both 'data' and binary data")
        return name, np.frombuffer(raw[:size], dtype).reshape(shape), size
    return name, _from_json(name, item.get("data"), dtype, kind, shape, count), 0


def _from_json(name: str, data: Any, dtype: np.dtype[Any], kind: str, shape: list[int], count: int) -> Array:
    if not isinstance(data, list):
        raise BadRequest(f"input {name!r} has no 'data'")
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError, RecursionError) as error:
        raise BadRequest(f"input {name!r}: 'data' is not rectangular") from error
    if array.size != count:
        raise BadRequest(f"input {name!r}: 'data' has {array.size} elements, 'shape' {shape} says {count}")
    if array.size == 0:
        return np.zeros(shape, dtype)
    numbers = {"f": "fiu", "V": "fiu", "i": "iu", "u": "iu", "b": "b"}[dtype.kind]
    if array.dtype.kind not in numbers:
        raise BadRequest(f"input {name!r}: 'data' does not hold {kind} numbers")
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise BadRequest(f"input {name!r}: 'data' goes beyond {kind}")
    with np.errstate(over="ignore"):
        return array.astype(dtype).reshape(shape)


def _outputs(given: Any) -> tuple[tuple[str, ...], frozenset[str]]:
    if given is None:
        return (), frozenset()
    if not isinstance(given, list) or not all(isinstance(o, dict) and isinstance(o.get("name"), str) for o in given):
        raise BadRequest("'outputs' is no list of objects with a 'name'")
    binary = {
        o["name"] for o in given if isinstance(o.get("parameters"), dict) and o["parameters"].get("binary_data") is True
    }
    return tuple(dict.fromkeys(o["name"] for o in given)), frozenset(binary)
