"""A plugin with several kinds of operators, and a model that uses them; shared by the tests of plugins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from asc_devkit.ops import plugins

PLUGIN = """
import numpy as np
from asc_devkit.ops import operator


@operator("acme::ScaledClip", inputs="x limit?", attrs={"scale": 1.0})
def scaled_clip(x, limit=None, *, scale):
    y = x * scale
    return y if limit is None else np.clip(y, -limit, limit)


@operator("acme::TopK2", outputs="values mean", attrs={"k": int}, flops=lambda x, k: 1e9)
def top_k(x, *, k):
    return np.sort(x, axis=-1)[..., ::-1][..., :k], x.mean(-1)


@top_k.infer
def _(x, *, k):
    return x.with_shape(*x.shape[:-1], k), x.with_shape(*x.shape[:-1])


@operator("acme::JoinAll", inputs="x*", attrs={"axis": 0}, engine="aicpu", exact=True)
def join_all(*parts, axis):
    return np.concatenate(parts, axis)


@join_all.infer
def _(first, *rest, axis):
    shape = list(first.shape)
    shape[axis] += sum(part.shape[axis] for part in rest)
    return first.with_shape(*shape)
"""
WEIGHTS = np.random.default_rng(7).standard_normal((16, 32)).astype(np.float32)


def write_plugin(folder: Path, text: str = PLUGIN, name: str = "acme_plugin.py") -> Path:
    """A plugin file in ``folder``."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def write_model(path: Path, nodes: list[onnx.NodeProto], output: str, shape: tuple[int, ...] = (4, 16)) -> Path:
    """A model of ``nodes`` over the input ``x`` and the constants ``w`` and ``limit``."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.array(1.5, np.float32), "limit")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def chain(path: Path) -> Path:
    """MatMul, ScaledClip, Relu, TopK2, JoinAll."""
    return write_model(
        path,
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
            helper.make_node("ScaledClip", ["product", "limit"], ["clipped"], name="clip", domain="acme", scale=0.3),
            helper.make_node("Relu", ["clipped"], ["positive"], name="relu"),
            helper.make_node("TopK2", ["positive"], ["top", ""], name="top", domain="acme", k=3),
            helper.make_node("JoinAll", ["top", "top"], ["y"], name="join", domain="acme", axis=1),
        ],
        "y",
    )


@contextmanager
def using(*paths: Path) -> Iterator[None]:
    """The plugins loaded inside, and no others afterwards."""
    plugins.load(paths)
    try:
        yield
    finally:
        plugins.unload_all()
