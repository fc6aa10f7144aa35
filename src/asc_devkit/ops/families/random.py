"""Random numbers (AI CPU). ONNX's mean, scale and range become arithmetic behind the standard distributions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from asc_devkit.ops.catalogue import Convert, Emit
from asc_devkit.ops.declare import AICPU, Attr, ge, onnx, rename
from asc_devkit.ops.families.steps import int64

_SEEDS = [Attr("dtype", "dtype", 1), Attr("seed", "int", 0), Attr("seed2", "int", 0), Attr("_seed", "float")]


def _draw(ge_type: str, normal: bool) -> Convert:
    def convert(e: Emit) -> ir.Value:
        shape = e.attr("shape")
        dims = e.shape(0) if shape is None else tuple(shape)
        if dims is None:
            raise e.reject("the shape of the drawn tensor is unknown", "Give the model static shapes (--input_shape).")
        dtype = e.attr("dtype")
        kind = (e.dtype(0) if e.inputs else None) if dtype is None else ir.DataType(dtype)
        kind = kind or ir.DataType.FLOAT
        seed = e.attr("seed")
        attrs = {"dtype": kind, "seed": int(seed or 0), "seed2": 0, "_seed": seed}
        y = e.op(ge_type, [int64(*dims)], attrs, shape=dims, dtype=kind)
        if normal:
            factor, offset = e.attr("scale", 1.0), e.attr("mean", 0.0)
        else:
            offset = e.attr("low", 0.0)
            factor = e.attr("high", 1.0) - offset
        y = y if factor == 1 else e.op("Muls", [y], {"value": factor}, shape=dims)
        return y if offset == 0 else e.op("Adds", [y], {"value": offset}, shape=dims)

    return convert


def _lower(onnx_type: str) -> Convert:
    def lower(e: Emit) -> ir.Value:
        like = e.op("ConstantOfShape", [e.need(0)], {"value": np.zeros(1, np.float32)}, dtype=ir.DataType.FLOAT)
        return e.op(onnx_type, [like], {"dtype": e.attr("dtype"), "seed": e.attr("_seed")})

    return lower


ge("RandomStandardNormal", "shape", _lower("RandomNormalLike"), _SEEDS, **AICPU)
ge("RandomUniform", "shape", _lower("RandomUniformLike"), _SEEDS, **AICPU, bounds=(0.0, 1.0))
for _type in ("RandomNormal", "RandomNormalLike"):
    onnx(_type, _draw("RandomStandardNormal", True), "RandomStandardNormal", "Muls", "Adds")
for _type in ("RandomUniform", "RandomUniformLike"):
    onnx(_type, _draw("RandomUniform", False), "RandomUniform", "Muls", "Adds")


def _multinomial(e: Emit) -> ir.Value:
    kind = ir.DataType(e.attr("dtype", int(ir.DataType.INT32)))
    seed = e.attr("seed")
    attrs = {"dtype": kind, "seed": int(seed or 0), "seed2": 0, "_seed": seed}
    return e.op("Multinomial", [e.need(0), np.array(e.attr("sample_size", 1), np.int32)], attrs)


def _lower_multinomial(e: Emit) -> ir.Value:
    count = e.ints(1)
    if count is None:
        raise e.reject("the number of samples is not constant")
    attrs = {"dtype": e.attr("dtype"), "sample_size": count[0], "seed": e.attr("_seed")}
    return e.op("Multinomial", [e.need(0)], attrs)


ge("Multinomial", "logits num_samples", _lower_multinomial, _SEEDS, **AICPU, exact=True)
onnx("Multinomial", _multinomial, "Multinomial")
rename("Bernoulli", "StatelessBernoulliV2", attrs=[Attr("dtype", "dtype"), Attr("_seed", "float", None, onnx="seed")],
       **AICPU, exact=True, bounds=(0.0, 1.0))  # fmt: skip
