"""Frozen TensorFlow graphs: what comes out computes what TensorFlow computes; unfit graphs are refused in a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

from asc_devkit import atc, npu, om
from asc_devkit.atc.options import from_flags
from asc_devkit.errors import AscError
from asc_devkit.frontends.source import Source
from tests.cli.shell import asc
from tests.cli.shell import atc as atc_command
from tests.models import ROOT

CHIP = "Ascend910B2"
RNG = np.random.default_rng(11)


def _w(*shape: int) -> Any:
    return tf.constant((RNG.standard_normal(shape) * 0.3).astype(np.float32))


def cnn(image: Any) -> Any:
    """Channels last: strided and depthwise convolution, batch norm, pooling with SAME edges, resize, softmax."""
    y = tf.nn.conv2d(image, _w(3, 3, 3, 8), 2, "SAME")
    y, _, _ = tf.compat.v1.nn.fused_batch_norm(y, _w(8), _w(8), _w(8), tf.abs(_w(8)) + 0.5, is_training=False)
    y = tf.nn.relu6(y)
    y = tf.nn.depthwise_conv2d(y, _w(3, 3, 8, 2), [1, 1, 1, 1], "VALID")
    y = tf.nn.bias_add(y, _w(16))
    y = tf.concat([tf.nn.max_pool2d(y, 3, 2, "SAME"), tf.nn.avg_pool2d(y, 3, 2, "SAME")], 3)
    y = tf.image.resize(y, (9, 11), "bilinear")
    y = tf.pad(y, [[0, 0], [1, 1], [0, 2], [0, 0]])
    y = tf.nn.leaky_relu(y[:, 1:, ::2], 0.1)
    return tf.nn.softmax(tf.matmul(tf.reduce_mean(y, [1, 2]), _w(32, 5)))


def attention(ids: Any) -> Any:
    """An attention block over an embedding, with layer normalisation, GELU and a mask."""
    x = tf.gather(_w(40, 16), ids)
    heads = [
        tf.transpose(tf.reshape(tf.einsum("bse,ef->bsf", x, _w(16, 16)), (-1, 6, 4, 4)), (0, 2, 1, 3)) for _ in range(3)
    ]
    scores = tf.matmul(heads[0], heads[1], transpose_b=True) / 2.0
    scores += tf.where(tf.equal(ids, 0), -1e4, 0.0)[:, None, None, :]
    y = tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(scores), heads[2]), (0, 2, 1, 3)), (-1, 6, 16)) + x
    mean, variance = tf.nn.moments(y, [-1], keepdims=True)
    y = (y - mean) * tf.math.rsqrt(variance + 1e-6)
    return tf.nn.gelu(tf.matmul(y, _w(16, 8)))


NETS: dict[str, tuple[Callable[[Any], Any], tuple[int | None, ...], Any]] = {
    "cnn": (cnn, (None, 33, 40, 3), tf.float32),
    "attention": (attention, (None, 6), tf.int32),
}


def frozen(function: Any, name: str, shape: Any, dtype: Any) -> tuple[bytes, Callable[..., Any]]:
    """The frozen GraphDef of a function of one input called ``name``, and the function to compare with."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    concrete = tf.function(function).get_concrete_function(tf.TensorSpec(shape, dtype, name=name))
    made = convert_variables_to_constants_v2(concrete)
    return made.graph.as_graph_def().SerializeToString(), made


def _input(shape: Any, dtype: Any) -> Any:
    dims = [2 if d is None else d for d in shape]
    return RNG.integers(0, 40, dims).astype(np.int32) if dtype is tf.int32 else RNG.random(dims).astype(np.float32)


@pytest.mark.seed("C9")
@pytest.mark.parametrize("net", NETS)
def test_a_frozen_graph_computes_what_tensorflow_computes(net: str, tmp_path: Path) -> None:
    function, shape, dtype = NETS[net]
    data, original = frozen(function, "x", shape, dtype)
    (tmp_path / "m.pb").write_bytes(data)
    x = _input(shape, dtype)
    done = atc_command(
        f"--model={tmp_path / 'm.pb'}", "--framework=3", f"--output={tmp_path / 'm'}", f"--soc_version={CHIP}",
        f"--input_shape=x:{','.join(map(str, x.shape))}", "--precision_mode=must_keep_origin_dtype",
    )  # fmt: skip
    assert done.code == 0, done.out + done.err
    (got,) = npu.load(tmp_path / "m.om").run({"x": x}).values()
    np.testing.assert_allclose(got, original(tf.constant(x))[0].numpy(), rtol=1e-4, atol=1e-5)
    file = om.read(tmp_path / "m.om")
    assert file.attrs["framework_type"] == 3
    assert file.inputs[0].format == (1 if len(shape) == 4 else 2)  # NHWC, ND


def test_a_real_model_frozen_from_its_saved_model(tmp_path: Path) -> None:
    """basic-pitch (note transcription), as its authors publish it."""
    folder = ROOT / "basic_pitch/saved_models/icassp_2022/nmp"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
        ((_, given),) = signature.inputs.items()
        outputs = [signature.outputs[name].name for name in sorted(signature.outputs)]
        shape = (1, *(d.size for d in given.tensor_shape.dim[1:]))
        nodes = [name.partition(":")[0] for name in outputs]
        graph = tf.compat.v1.graph_util.convert_variables_to_constants(session, session.graph_def, nodes)
        x = (RNG.standard_normal(shape) * 0.1).astype(np.float32)
        expected = session.run(outputs, {given.name: x})
    (tmp_path / "m.pb").write_bytes(graph.SerializeToString())
    flags = {
        "model": str(tmp_path / "m.pb"), "framework": "3", "output": str(tmp_path / "m"), "soc_version": CHIP,
        "precision_mode": "must_keep_origin_dtype", "out_nodes": ";".join(outputs),
        "input_shape": f"{given.name.partition(':')[0]}:{','.join(map(str, shape))}",
    }  # fmt: skip
    atc.compile(from_flags(flags))
    loaded = npu.load(tmp_path / "m.om")
    got = list(loaded.run({loaded.inputs[0].name: x}).values())
    assert [g.shape for g in got] == [e.shape for e in expected]
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)


def test_outputs_are_cut_and_gears_are_made(tmp_path: Path) -> None:
    data, original = frozen(cnn, "x", (None, 33, 40, 3), tf.float32)
    (tmp_path / "m.pb").write_bytes(data)
    names = [n.name for n in original.graph.get_operations() if n.type == "Relu6"]
    flags = {
        "model": str(tmp_path / "m.pb"), "framework": "3", "output": str(tmp_path / "m"), "soc_version": CHIP,
        "dynamic_batch_size": "1,2", "out_nodes": f"{names[0]}:0",
    }  # fmt: skip
    flags["input_shape"] = "x:-1,33,40,3"
    made = atc.compile(from_flags(flags))
    assert len(made.gears) == 2
    session = npu.load(made.om_path)
    assert session.run({"x": _input((1, 33, 40, 3), tf.float32)}).popitem()[1].shape == (1, 17, 20, 8)


def test_a_placeholder_without_a_shape_takes_the_one_given(tmp_path: Path) -> None:
    data, _ = frozen(lambda x: tf.nn.relu(tf.matmul(x, _w(4, 3))), "x", None, tf.float32)
    (tmp_path / "m.pb").write_bytes(data)
    with pytest.raises(AscError, match="states no shape for x"):
        Source(tmp_path / "m.pb", "3").load()
    model = Source(tmp_path / "m.pb", "3").load({"x:0": (2, 4)}).model
    assert [tuple(v.shape) for v in model.graph.inputs] == [(2, 4)]


def _refused(tmp_path: Path, data: bytes, **options: Any) -> list[str]:
    (tmp_path / "m.pb").write_bytes(data)
    with pytest.raises(AscError) as caught:
        Source(tmp_path / "m.pb", "3").load(**options)
    assert caught.value.exit_code == 2
    return [f"{p.code} {p.what} {p.fix}" for p in caught.value.problems]


@pytest.mark.provokes("E12004")
def test_a_graph_with_variables_is_not_frozen(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.compat.v1.get_variable("v", (2, 2), use_resource=True), name="y")
    (said,) = _refused(tmp_path, graph.as_graph_def().SerializeToString())
    assert said.startswith("E12004") and "not frozen" in said and "v (VarHandleOp)" in said


def test_a_graph_that_reads_files_is_refused(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(tf.io.read_file("/etc/hostname"), name="y")
    (said,) = _refused(tmp_path, graph.as_graph_def().SerializeToString())
    assert "read files" in said and "ReadFile" in said


@pytest.mark.provokes("E10501")
def test_all_operators_that_cannot_be_converted_are_named(tmp_path: Path) -> None:
    data, _ = frozen(lambda x: tf.math.igamma(x, tf.math.special.bessel_j0(x) + 2.0), "x", (2, 3), tf.float32)
    said = _refused(tmp_path, data)
    assert len(said) == 2 and all(s.startswith("E10501 ATC unsupported op type") for s in said)
    assert "BesselJ0" in said[0] and "Igamma" in said[1]


def test_a_wrong_out_node_is_answered_with_the_nearest(tmp_path: Path) -> None:
    data, _ = frozen(lambda x: tf.nn.relu(x, name="activation"), "x", (2, 3), tf.float32)
    (said,) = _refused(tmp_path, data, out_nodes=["activatoin:0"])
    assert said.startswith("E10016") and "did you mean 'activation:0'" in said


@pytest.mark.parametrize("data", [b"", b"\x00" * 50, b"\x0a\xff\xff\xff\x7f", b"layer { }"])
def test_a_damaged_graph_is_refused(data: bytes, tmp_path: Path) -> None:
    (said,) = _refused(tmp_path, data)
    assert said.startswith("E10041")


def test_without_tensorflow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = frozen(tf.nn.relu, "x", (2, 3), tf.float32)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    (said,) = _refused(tmp_path, data)
    assert said.startswith("ASC1301") and "asc-devkit[tensorflow]" in said


def test_asc_convert_knows_a_pb_file(tmp_path: Path) -> None:
    data, _ = frozen(tf.nn.relu, "x", (2, 3), tf.float32)
    (tmp_path / "m.pb").write_bytes(data)
    done = asc("convert", str(tmp_path / "m.pb"), "--soc", CHIP)
    assert done.code == 0, done.err
