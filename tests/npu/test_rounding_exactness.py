"""The casts inserted after optimisation round exactly as IEEE 754 says; independent sources: struct and ml_dtypes."""

from __future__ import annotations

import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from asc_devkit.npu import ort, rewrite
from asc_devkit.npu.numerics import LIMITS, Rounding, rounded
from tests.npu.build import Array, proto

N = 64
FP16, BF16 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16


def _session(folder: Path, dtype: ir.DataType, saturate: bool) -> onnxruntime.InferenceSession:
    """y = round(x), through a Neg of Neg so that there is a node to round."""
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Neg", ["n"], ["y"])]
    model = ir.from_proto(proto(nodes, {"x": ["n"]}, {"y": ["n"]}))  # type: ignore[dict-item]
    rewrite.build(model, [Rounding("y", dtype, saturate)], {"y": ir.DataType.FLOAT}, folder)
    return ort.load(folder / "0.run.onnx", 1)


@pytest.fixture(scope="module", params=[(FP16, True), (FP16, False), (BF16, True), (BF16, False)])
def rounding(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    dtype, saturate = request.param
    session = _session(tmp_path_factory.mktemp("round"), dtype, saturate)
    return dtype, saturate, lambda x: session.run(None, {"x": x})[0]


def _same(a: Array, b: Array) -> bool:
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))


def _expected(x: Array, dtype: ir.DataType, saturate: bool) -> Array:
    kind = np.float16 if dtype == FP16 else ml_dtypes.bfloat16
    with np.errstate(all="ignore"):
        y = x.astype(kind).astype(np.float32)
    if saturate:
        y = np.where(np.isinf(y), np.copysign(np.float32(LIMITS[dtype]), y), y).astype(np.float32)
    return y


def test_every_upper_half_and_all_ties_round_like_ieee(rounding) -> None:  # type: ignore[no-untyped-def]
    dtype, saturate, run = rounding
    kind = np.float16 if dtype == FP16 else ml_dtypes.bfloat16
    patterns = np.arange(0, 1 << 32, 40503, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        finite = np.arange(65536, dtype=np.uint16).view(kind).astype(np.float64)
        finite = np.unique(finite[np.isfinite(finite)])
        ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
        ends = np.array([LIMITS[dtype], LIMITS[dtype] * 1.0001, 65519.99, 65520, 3.4e38, np.inf, np.nan], np.float32)
        points = [patterns, ends, -ends, *(np.nextafter(ties, np.float32(t)) for t in (-np.inf, np.inf)), ties]
    for x in points:
        assert _same(run(x), _expected(x, dtype, saturate))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=N))
def test_fp16_agrees_with_the_struct_module(tmp_path_factory: pytest.TempPathFactory, numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    got = _struct_session(tmp_path_factory)(x)
    for value, result in zip(x.tolist(), got.tolist(), strict=True):
        try:
            expected = struct.unpack("<e", struct.pack("<e", value))[0]
        except OverflowError:
            expected = float("inf") if value > 0 else float("-inf")
        assert result == expected or (expected != expected and result != result)


_cached: list[object] = []


def _struct_session(factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    if not _cached:
        session = _session(factory.mktemp("struct"), FP16, False)
        _cached.append(lambda x: session.run(None, {"x": x})[0])
    return _cached[0]


def test_the_documented_edges_of_fp16(tmp_path: Path) -> None:
    x = np.array([65519.99, 65520, -65520, np.inf, np.nan, 2.0**-25, 2.0**-24 * 1.5, 2.0**-24], np.float32)
    infnan = _session(tmp_path, FP16, False).run(None, {"x": x})[0]
    assert infnan[:4].tolist() == [65504, np.inf, -np.inf, np.inf]
    assert np.isnan(infnan[4])
    assert infnan[5:].tolist() == [0, 2.0**-23, 2.0**-24]  # ties go to even, also among subnormals
    (tmp_path / "s").mkdir()
    saturated = _session(tmp_path / "s", FP16, True).run(None, {"x": x})[0]
    assert saturated[:4].tolist() == [65504, 65504, -65504, 65504]
    assert np.isnan(saturated[4])


def test_numpy_reference_agrees(rounding) -> None:  # type: ignore[no-untyped-def]
    dtype, saturate, run = rounding
    x = np.concatenate([np.random.default_rng(0).standard_normal(1000) * 10.0**e for e in range(-8, 9)])
    x = x.astype(np.float32)
    assert _same(run(x), rounded(x, dtype, saturate))


def test_casts_are_still_in_the_graph_that_runs(tmp_path: Path) -> None:
    _session(tmp_path, FP16, True)
    kinds = [n.op_type for n in onnx.load(tmp_path / "0.run.onnx", load_external_data=False).graph.node]
    assert kinds.count("Cast") == 2
    assert kinds.count("Clip") == 1
