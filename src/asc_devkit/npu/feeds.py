"""What a model takes and gives, and arrays made to fit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit.errors import AscError, Problem
from asc_devkit.npu.numerics import Array, numpy_dtype, to_device

BF16: Final = numpy_dtype(ir.DataType.BFLOAT16)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the model: device dtype (numpy), shape with None where it is not fixed.

    ``kind``: ``tensor``, ``sequence`` (a list of arrays) or ``optional`` (None or one of the former), which have no
    shape and the dtype object.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]
    kind: str = "tensor"


Inputs = Mapping[str, Array] | Sequence[Array]


def checked(tensors: Sequence[Tensor], inputs: Inputs, saturate: bool) -> dict[str, Array]:
    """``inputs`` as the graph wants them: each of its input's dtype and shape, bfloat16 as rounded float32.

    Raises ``AscError`` listing everything unknown, missing or of another shape or dtype.
    """
    problems: list[Problem] = []
    if isinstance(inputs, Mapping):
        given = dict(inputs)
        known = {t.name for t in tensors}
        problems += [
            Problem("ASC4010", f"The model has no input {n!r}.", fix=f"Inputs are {', '.join(sorted(known))}.")
            for n in given
            if n not in known
        ]
    else:
        given = {t.name: a for t, a in zip(tensors, inputs, strict=False)}
        if len(inputs) > len(tensors):
            problems.append(Problem("ASC4010", f"{len(inputs)} inputs for a model with {len(tensors)}."))
    feed: dict[str, Array] = {}
    for tensor in tensors:
        if tensor.name not in given:
            problems.append(Problem("ASC4011", f"Input {tensor.name!r} {_describe(tensor)} is missing."))
            continue
        if tensor.kind != "tensor":
            feed[tensor.name] = given[tensor.name]
            continue
        array = np.asarray(given[tensor.name])
        if tensor.dtype == object and array.dtype.kind in "US":
            array = array.astype(object)
        problem = _mismatch(tensor, array)
        if problem is not None:
            problems.append(problem)
            continue
        if array.dtype != tensor.dtype:
            kind = ir.DataType.BFLOAT16 if tensor.dtype == BF16 else ir.DataType.FLOAT16
            array = to_device(array, kind, saturate)
        feed[tensor.name] = array.astype(np.float32) if tensor.dtype == BF16 else array
    if problems:
        raise AscError(problems)
    return feed


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype.name} {[d if d is not None else '?' for d in tensor.shape]}"


def _mismatch(tensor: Tensor, array: Array) -> Problem | None:
    fits = len(array.shape) == len(tensor.shape) and all(
        want is None or want == have for want, have in zip(tensor.shape, array.shape, strict=True)
    )
    floats = tensor.dtype in (BF16, np.dtype(np.float16)) and array.dtype in (
        np.dtype(np.float32),
        np.dtype(np.float16),
    )
    if fits and (array.dtype == tensor.dtype or floats):
        return None
    return Problem(
        "ASC4012",
        f"Input {tensor.name!r} is {array.dtype.name} {list(array.shape)}; the model wants {_describe(tensor)}.",
        fix="Convert it (array.astype, reshape), or convert the model again with another --input_shape.",
    )
