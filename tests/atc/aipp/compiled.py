"""A one-operator model compiled with an AIPP configuration, to see what AIPP makes of a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from asc_devkit import atc, npu
from asc_devkit.atc.options import from_flags

Array = np.ndarray[Any, Any]
JPEG = """csc_switch: true
  matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
  matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
  matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
  input_bias_0: 0 input_bias_1: 128 input_bias_2: 128"""
GREY = """csc_switch: true
  matrix_r0c0: 76 matrix_r0c1: 150 matrix_r0c2: 30
  matrix_r1c0: 0 matrix_r1c1: 0 matrix_r1c2: 0
  matrix_r2c0: 0 matrix_r2c1: 0 matrix_r2c2: 0
  output_bias_0: 0 output_bias_1: 0 output_bias_2: 0"""


def model(path: Path, *shapes: tuple[int, ...], kind: int = TensorProto.FLOAT) -> Path:
    """Inputs ``x``, ``x1``, ... of the given shapes; outputs are their negatives (of bytes: their values as floats)."""
    names = ["x" if i == 0 else f"x{i}" for i in range(len(shapes))]
    graph = helper.make_graph(
        [
            helper.make_node("Neg", [n], [f"y_{n}"], name=f"neg_{n}")
            if kind != TensorProto.UINT8
            else helper.make_node("Cast", [n], [f"y_{n}"], to=TensorProto.FLOAT)
            for n in names
        ],
        "g",
        [helper.make_tensor_value_info(n, kind, shape) for n, shape in zip(names, shapes, strict=True)],
        [
            helper.make_tensor_value_info(f"y_{n}", kind if kind == TensorProto.FLOAT16 else TensorProto.FLOAT, shape)
            for n, shape in zip(names, shapes, strict=True)
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def compile_with(
    folder: Path, fields: str, *shapes: tuple[int, ...], kind: int = TensorProto.FLOAT, **flags: str
) -> atc.Result:
    """Convert ``model`` with one static ``aipp_op`` of these fields."""
    (folder / "aipp.cfg").write_text("aipp_op {\n  aipp_mode: static\n  " + fields + "\n}\n", encoding="utf-8")
    given = {
        "model": str(model(folder / "m.onnx", *shapes, kind=kind)),
        "framework": "5",
        "output": str(folder / "m"),
        "soc_version": "Ascend310P3",
        "insert_op_conf": str(folder / "aipp.cfg"),
        **flags,
    }
    return atc.compile(from_flags(given))


def preprocessed(
    folder: Path, fields: str, picture: Array, shape: tuple[int, ...], kind: int = TensorProto.FLOAT, **flags: str
) -> Array:
    """What AIPP hands to a model whose input has ``shape``, for one batch of pictures."""
    result = compile_with(folder, fields, shape, kind=kind, **flags)
    session = npu.load(result.om_path, threads=1, cache=False)
    (value,) = session.run({"x": np.ascontiguousarray(picture)}).values()
    return value if kind == TensorProto.UINT8 else -value


def nv12(yuv: Array) -> Array:
    """[H, W, 3] with chroma constant in 2 x 2 blocks -> the bytes of one YUV420SP picture, [1, H * 3 / 2, W, 1]."""
    luma = yuv[..., 0]
    chroma = yuv[::2, ::2, 1:].reshape(luma.shape[0] // 2, luma.shape[1])
    return np.concatenate([luma, chroma])[None, ..., None]
