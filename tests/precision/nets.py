"""Random networks whose dumps are known to be right or wrong: the yardstick of localisation.

A net is run twice, operator by operator: golden in float32, target with float16 results and honest rounding noise, where some
operators are made faulty on purpose. Benign cancellations (a large constant added and taken away) are put in too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

KINDS = (
    *("inf_sign", "small_values", "permutation", "nan", "short_mantissa"),
    *("channel", "scale", "transpose", "dropped_tile", "stale_buffer"),
)


@dataclass
class Net:
    """An ONNX model under construction, in float32, with the operators that cancel on purpose."""

    rng: np.random.Generator
    nodes: list = field(default_factory=list)
    weights: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    cancels: set = field(default_factory=set)

    def input(self, shape):
        name = f"input{len(self.inputs)}"
        self.inputs.append((name, shape))
        return name

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape, scale=1.0):
        return self.weight((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def cancel(self, x, shape):
        """x + c - c with c some hundred times larger: rounding grows as much, and nobody is to blame."""
        large = self.weight((300 + self.rng.standard_normal(shape[-1:]) * 10).astype(np.float32))
        added = self.op("Add", x, large)
        back = self.op("Sub", added, large)
        self.cancels.add(self.nodes[-1].name)
        return back

    def model(self, output):
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "net", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutional(net, size):
    c, h = 16, 12
    x = net.input((1, c, h, h))
    while len(net.nodes) < size:
        y = net.op("Conv", x, net.normal(c, c, 3, 3, scale=(9 * c) ** -0.5 * 1.3), pads=[1, 1, 1, 1])
        y = net.op("Mul", y, net.weight(net.rng.uniform(0.8, 1.2, (c, 1, 1)).astype(np.float32)))
        y = net.op("Add", y, net.normal(c, 1, 1, scale=0.2))
        y = net.op(net.rng.choice(["Relu", "Sigmoid", "Tanh", "LeakyRelu"]), y)
        if net.rng.random() < 0.15:
            y = net.cancel(y, (1, c, h, h))
        x = net.op("Add", x, y)
        x = net.op("Mul", x, net.weight(np.float32(0.7)))
    return x


def perceptron(net, size):
    n, d = 24, 48
    x = net.input((n, d))
    while len(net.nodes) < size:
        y = net.op("Gemm", x, net.normal(d, d, scale=d**-0.5), net.normal(d, scale=0.1))
        y = net.op(net.rng.choice(["Relu", "Tanh", "Erf", "Softplus"]), y)
        if net.rng.random() < 0.15:
            y = net.cancel(y, (n, d))
        x = net.op("Add", x, y)
        ones, zeros = net.weight(np.ones(d, np.float32)), net.weight(np.zeros(d, np.float32))
        x = net.op("LayerNormalization", x, ones, zeros)
    return x


def attention(net, size):
    n, d = 32, 40
    x = net.input((1, n, d))
    mask = net.weight(np.triu(np.full((n, n), -np.inf, np.float32), 1))
    while len(net.nodes) < size:
        q, k, v = (net.op("MatMul", x, net.normal(d, d, scale=d**-0.5)) for _ in range(3))
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 1]))
        scores = net.op("Mul", scores, net.weight(np.float32(d**-0.5)))
        scores = net.op("Add", scores, mask)
        mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
        if net.rng.random() < 0.2:
            mixed = net.cancel(mixed, (1, n, d))
        x = net.op("Add", x, net.op("MatMul", mixed, net.normal(d, d, scale=d**-0.5)))
        ones, zeros = net.weight(np.ones(d, np.float32)), net.weight(np.zeros(d, np.float32))
        x = net.op("LayerNormalization", x, ones, zeros)
    return x


def branching(net, size):
    """Several inputs that meet, part and are concatenated."""
    n, d = 16, 32
    streams = [net.input((n, d)) for _ in range(3)]
    while len(net.nodes) < size:
        i, j = (int(v) for v in net.rng.choice(3, 2, replace=False))
        joined = net.op("Concat", streams[i], streams[j], axis=1)
        y = net.op("MatMul", joined, net.normal(2 * d, d, scale=(2 * d) ** -0.5))
        y = net.op(net.rng.choice(["Tanh", "Sigmoid", "Relu"]), y)
        if net.rng.random() < 0.15:
            y = net.cancel(y, (n, d))
        y = net.op("Mul", y, net.weight(np.float32(1.5)))
        streams[i] = net.op("Sub" if net.rng.random() < 0.3 else "Add", y, streams[j])
    return net.op("Add", streams[0], net.op("Add", streams[1], streams[2]))


FAMILIES = (convolutional, perceptron, attention, branching)


@dataclass
class Case:
    """A net with both dumps: arrays by tensor name, and which operator is faulty in which way."""

    model: onnx.ModelProto
    golden: dict
    target: dict
    faults: dict
    cancels: set
    inputs_of: dict


class _Single:
    """Runs one node at a time."""

    def __init__(self, model):
        self.model = model
        self.weights = {t.name: t for t in model.graph.initializer}

    def __call__(self, node, values):
        feed = {name: values[name].astype(np.float32) for name in node.input if name and name not in self.weights}
        shown = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feed.items()]
        kept = [self.weights[n] for n in node.input if n in self.weights]
        outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)]
        graph = helper.make_graph([node], "one", shown, outputs, kept)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        return ort.InferenceSession(model.SerializeToString(), options).run(None, feed)[0]


def make(seed, faults_wanted=4):
    """One case. Faults whose trace would not show (values that are all NaN, say) are put elsewhere."""
    rng = np.random.default_rng(seed)
    net = Net(rng)
    output = FAMILIES[seed % len(FAMILIES)](net, int(rng.integers(60, 240)))
    model = net.model(output)
    run = _Single(model)
    golden = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in net.inputs}
    target = {name: value.astype(np.float16) for name, value in golden.items()}
    kinds = list(rng.permutation(KINDS))[:faults_wanted]
    late = [k for k in kinds if k in ("nan", "inf_sign")]
    kinds = [k for k in kinds if k not in late] + late  # what spreads comes last
    count = len(model.graph.node)
    places = sorted(int(p) for p in rng.choice(np.arange(3, count), faults_wanted, replace=False))
    waiting = list(zip(places, kinds, strict=True))
    faults = {}
    for place, node in enumerate(model.graph.node):
        name = node.output[0]
        golden[name] = run(node, golden)
        with np.errstate(all="ignore"):
            healthy = _rounded(run(node, target), rng)
        target[name] = healthy
        if waiting and place >= waiting[0][0] and node.name not in net.cancels:
            broken = FAULTS[waiting[0][1]](healthy, rng, target)
            if broken is not None and _shows(healthy, broken):
                target[name] = broken
                faults[node.name] = waiting.pop(0)[1]
    inputs_of = {n.name: [i for i in n.input if i and i not in run.weights] for n in model.graph.node}
    return Case(model, golden, target, faults, net.cancels, inputs_of)


def _rounded(value, rng):
    """Rounded to float16, a fifth of the elements one unit further."""
    half = value.astype(np.float16)
    off = (rng.random(half.shape) < 0.2) & np.isfinite(half) & (half != 0) & (np.abs(half) < 60000)
    direction = np.where(rng.random(half.shape) < 0.5, np.float16(np.inf), np.float16(-np.inf))
    return np.where(off, np.nextafter(half, direction), half)


def _shows(healthy, broken):
    """Whether the fault changes at least four finite elements by 2 % of the tensor's size, or their kind."""
    a, b = healthy.astype(np.float64), broken.astype(np.float64)
    with np.errstate(all="ignore"):
        kind = (np.isnan(a) != np.isnan(b)) | (np.isinf(a) != np.isinf(b)) | (np.isinf(a) & (a != b))
        gap = np.abs(a - b)
        return int(np.count_nonzero(kind)) >= 1 or int(np.count_nonzero(gap > 2e-3 * np.abs(a) + 1e-7)) >= 4


def _usable(x, least=256):
    return x.size >= least and np.isfinite(x).mean() > 0.4 and np.ptp(x[np.isfinite(x)].astype(np.float32)) > 1e-3


def _inf_sign(x, rng, seen):
    places = np.flatnonzero(np.isinf(x))
    if places.size < 4:
        return None
    y = x.copy().reshape(-1)
    y[rng.choice(places, 4, replace=False)] *= -1
    return y.reshape(x.shape)


def _small(x, rng, seen):
    if not _usable(x):
        return None
    y = x.astype(np.float32)
    finite = np.isfinite(y)
    rms = np.sqrt(np.mean(y[finite] ** 2))
    small = finite & (np.abs(y) < 0.02 * rms) & (y != 0)
    if small.sum() < 8:
        return None
    y[small] *= rng.choice([-2.0, 3.0, 0.0], int(small.sum()))
    return y.astype(np.float16)


def _rows(x, rng, seen):
    if not _usable(x) or x.ndim < 2 or x.shape[-2] < 4 or not np.isfinite(x).all():
        return None
    y = x.copy()
    i, j = rng.choice(x.shape[-2], 2, replace=False)
    y[..., [i, j], :] = y[..., [j, i], :]
    return y if np.abs(x[..., i, :].astype(np.float32) - x[..., j, :]).mean() > 0.05 * np.abs(x).mean() else None


def _nan(x, rng, seen):
    if not _usable(x):
        return None
    y = x.copy().reshape(-1)
    y[rng.choice(np.flatnonzero(np.isfinite(y)), 3, replace=False)] = np.nan
    return y.reshape(x.shape)


def _mantissa(x, rng, seen):
    if not _usable(x) or len(np.unique(x[np.isfinite(x)])) < 64:
        return None
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(x.astype(np.float32))
        return np.where(np.isfinite(x), np.ldexp(np.rint(mantissa * 64) / 64, exponent), x).astype(np.float16)


def _channel(x, rng, seen):
    if not _usable(x) or x.ndim < 2 or not np.isfinite(x).all():
        return None
    axis = 1 if x.ndim == 4 else x.ndim - 1
    y = np.moveaxis(x.copy(), axis, 0)
    place = int(rng.integers(y.shape[0]))
    y[place] = (rng.standard_normal(y[place].shape) * (np.std(x.astype(np.float32)) + 0.1)).astype(np.float16)
    return np.moveaxis(y, 0, axis)


def _scale(x, rng, seen):
    return (x.astype(np.float32) * 1.03).astype(np.float16) if _usable(x) else None


def _transpose(x, rng, seen):
    if not _usable(x) or x.ndim < 2 or not np.isfinite(x).all() or min(x.shape[-2:]) < 4:
        return None
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)).reshape(x.shape)


def _tile(x, rng, seen):
    if not _usable(x) or not np.isfinite(x).all():
        return None
    y = x.copy().reshape(-1)
    length = int(x.size * rng.uniform(0.1, 0.25)) // 16 * 16
    start = int(rng.integers(0, (x.size - length) // 16 + 1)) * 16
    y[start : start + length] = 0
    return y.reshape(x.shape) if np.count_nonzero(x.reshape(-1)[start : start + length]) > length / 3 else None


def _stale(x, rng, seen):
    if not _usable(x) or not np.isfinite(x).all():
        return None
    others = [v for v in seen.values() if v.size >= x.size and np.isfinite(v).all() and _usable(v)]
    if not others:
        return None
    other = others[int(rng.integers(len(others)))].reshape(-1)
    length = int(x.size * rng.uniform(0.2, 0.5)) // 16 * 16
    start = int(rng.integers(0, (x.size - length) // 16 + 1)) * 16
    y = x.copy().reshape(-1)
    part = other[:length].astype(np.float32)
    if np.count_nonzero(part) < 0.6 * length or len(np.unique(part)) < 0.3 * length:
        return None
    y[start : start + length] = other[:length]
    return (
        y.reshape(x.shape)
        if np.mean(np.abs(y - x.reshape(-1)) > 0.02 * np.std(x.astype(np.float32))) > 0.5 * length / x.size
        else None
    )


FAULTS = {
    "inf_sign": _inf_sign,
    "small_values": _small,
    "permutation": _rows,
    "nan": _nan,
    "short_mantissa": _mantissa,
    "channel": _channel,
    "scale": _scale,
    "transpose": _transpose,
    "dropped_tile": _tile,
    "stale_buffer": _stale,
}
