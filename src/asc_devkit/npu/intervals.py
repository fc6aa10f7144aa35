"""Which interval the finite results of each value lie in: tells where a saturating clamp can never act.

Bounds are one pair of numbers per value of an ONNX graph in fp32, found in one forward walk. A rule may answer
"anything"; every other answer is a guarantee for inputs without NaN and, for values clamped upstream, without inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

Interval = tuple[float, float]
ANY: Final[Interval] = (-math.inf, math.inf)
#: Bounds are kept this much wider than the real-number rule says, for rounding inside long sums.
SLACK: Final = 1.001
#: Constants larger than this are not scanned (a pass over the weights must stay cheap).
MAX_SCAN: Final = 1 << 24


class Bounds:
    """Intervals of all values of a graph.

    ``clamped`` (name -> limit) are the values that saturate at a rounding point, ``known`` intervals that the graph
    alone does not show.
    """

    def __init__(self, graph: ir.Graph, clamped: Mapping[str, float], known: Mapping[str, Interval]) -> None:
        self.before: dict[ir.Value, Interval] = {}  # without the clamp of the value itself
        self.after: dict[ir.Value, Interval] = {}
        self.clamped = clamped
        for node in graph:
            rule = RULES.get(node.op_type) if node.domain == "" and node.inputs else None
            for index, output in enumerate(node.outputs):
                described = rule is not None and (index == 0 or node.op_type == "Split")
                bound = _clean(rule(self, node)) if rule is not None and described else ANY
                low, high = known.get(output.name or "", ANY)
                bound = max(bound[0], low), min(bound[1], high)
                self.before[output] = bound
                self.after[output] = _meet(bound, clamped.get(output.name or ""))

    def within(self, value: ir.Value, limit: float) -> bool:
        """True when no finite result leaves [-limit, limit] even without a clamp."""
        low, high = self.before.get(value, ANY)
        return -limit <= low and high <= limit

    def of(self, value: ir.Value | None) -> Interval:
        """Interval of ``value``; constants are scanned once."""
        if value is None:
            return ANY
        if value not in self.after:
            self.after[value] = self._constant(value)
        return self.after[value]

    def at(self, node: ir.Node, index: int, absent: Interval = ANY) -> Interval:
        """Interval of input ``index`` of ``node``, ``absent`` when there is none."""
        value = _input(node, index)
        return absent if value is None else self.of(value)

    def _constant(self, value: ir.Value) -> Interval:
        limit = self.clamped.get(value.name or "")
        tensor = value.const_value
        if tensor is None or value.producer() is not None or not 0 < tensor.size <= MAX_SCAN:
            return _meet(ANY, limit)
        if not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
            return _meet(ANY, limit)
        array = tensor.numpy()
        return _meet(_clean((float(array.min()), float(array.max()))), limit)

    def columns(self, value: ir.Value | None) -> float:
        """Largest sum of magnitudes over the second last axis of a constant matrix, inf when not known."""
        tensor = None if value is None or value.producer() is not None else value.const_value
        if tensor is None or tensor.size > MAX_SCAN or tensor.size == 0 or not tensor.dtype.is_floating_point():
            return math.inf
        array = tensor.numpy()
        if array.ndim < 2:
            return float(np.abs(array).sum())
        return float(np.abs(array).sum(axis=-2, dtype=np.float32).max())


Rule = Callable[[Bounds, ir.Node], Interval]


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _clean(bound: Interval) -> Interval:
    low, high = bound
    return (-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _meet(bound: Interval, limit: float | None) -> Interval:
    if limit is None:
        return bound
    return max(bound[0], -limit), min(bound[1], limit)


def _product(a: Interval, b: Interval) -> Interval:
    corners = [0.0 if 0.0 in (x, y) else x * y for x in a for y in b]
    return min(corners) * (SLACK if min(corners) < 0 else 1), max(corners) * (SLACK if max(corners) > 0 else 1)


def _fixed(low: float, high: float) -> Rule:
    return lambda bounds, node: (low, high)


def _same(bounds: Bounds, node: ir.Node) -> Interval:
    return bounds.at(node, 0)


def _union(values: Iterable[Interval]) -> Interval:
    found = list(values)
    return min(b[0] for b in found), max(b[1] for b in found)


def _all(bounds: Bounds, node: ir.Node) -> Interval:
    return _union(bounds.of(v) for v in node.inputs)


def _relu(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    return max(low, 0.0), max(high, 0.0)


def _clip(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    floor, ceil = bounds.at(node, 1, (-math.inf, -math.inf)), bounds.at(node, 2, (math.inf, math.inf))
    return min(max(low, floor[0]), ceil[0]), min(max(high, floor[1]), ceil[1])


def _add(bounds: Bounds, node: ir.Node) -> Interval:
    a, b = bounds.at(node, 0), bounds.at(node, 1)
    return _wide(a[0] + b[0]), _wide(a[1] + b[1])


def _sub(bounds: Bounds, node: ir.Node) -> Interval:
    a, b = bounds.at(node, 0), bounds.at(node, 1)
    return _wide(a[0] - b[1]), _wide(a[1] - b[0])


def _wide(x: float) -> float:
    return x + abs(x) * (SLACK - 1) if x > 0 else x - abs(x) * (SLACK - 1)


def _mul(bounds: Bounds, node: ir.Node) -> Interval:
    if _input(node, 0) is _input(node, 1):
        low, high = bounds.at(node, 0)
        return 0.0, _wide(max(low * low, high * high))
    return _product(bounds.at(node, 0), bounds.at(node, 1))


def _div(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 1)
    if low <= 0.0 <= high:
        return ANY
    return _product(bounds.at(node, 0), (1 / high, 1 / low))


def _sum(bounds: Bounds, node: ir.Node) -> Interval:
    found = [bounds.of(v) for v in node.inputs]
    return _wide(sum(b[0] for b in found)), _wide(sum(b[1] for b in found))


def _neg(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    return -high, -low


def _abs(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    return 0.0, max(abs(low), abs(high))


def _sqrt(bounds: Bounds, node: ir.Node) -> Interval:
    high = bounds.at(node, 0)[1]
    return 0.0, math.sqrt(high) if high > 0 else 0.0


def _exp(bounds: Bounds, node: ir.Node) -> Interval:
    high = bounds.at(node, 0)[1]
    return 0.0, _wide(math.exp(high)) if high < 80 else math.inf


def _pad(bounds: Bounds, node: ir.Node) -> Interval:
    return _union([bounds.at(node, 0), bounds.at(node, 2, (0.0, 0.0))])


def _where(bounds: Bounds, node: ir.Node) -> Interval:
    return _union([bounds.at(node, 1), bounds.at(node, 2)])


def _extreme(pick: Callable[..., float]) -> Rule:
    def rule(bounds: Bounds, node: ir.Node) -> Interval:
        found = [bounds.of(v) for v in node.inputs]
        return pick(b[0] for b in found), pick(b[1] for b in found)

    return rule


def _cast(bounds: Bounds, node: ir.Node) -> Interval:
    source = _input(node, 0)
    kind = None if source is None else source.dtype
    if kind == ir.DataType.BOOL:
        return 0.0, 1.0
    if kind in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16):
        return (-32768.0, 32767.0) if kind == ir.DataType.INT16 else (-128.0, 255.0)
    return bounds.of(source)


def _resize(bounds: Bounds, node: ir.Node) -> Interval:
    mode, coordinates = node.attributes.get("mode"), node.attributes.get("coordinate_transformation_mode")
    if coordinates is not None and coordinates.value == "tf_crop_and_resize":
        return ANY
    low, high = bounds.at(node, 0)
    if mode is None or mode.value != "cubic":
        return min(low, 0.0), max(high, 0.0)
    reach = 2.0 * max(abs(low), abs(high))  # cubic kernels have an absolute sum below 2
    return -reach, reach


def _log(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    if low <= 0 or high <= 0:
        return -math.inf, 89.0 if high > 0 else math.inf  # log(0) is -inf; the largest fp32 number gives 88.8
    return math.log(low) - 1e-3, min(math.log(high), 89.0) + 1e-3


def _mean(bounds: Bounds, node: ir.Node) -> Interval:
    """Means stay inside, up to the error of a long sum; padding may count as zero."""
    low, high = bounds.at(node, 0)
    return _wide(min(low, 0.0)), _wide(max(high, 0.0))


def _lstm(bounds: Bounds, node: ir.Node) -> Interval:
    return ANY if "activations" in node.attributes else (-1.0, 1.0)


def _gru(bounds: Bounds, node: ir.Node) -> Interval:
    """Each state is a convex mix of tanh(..) and the previous state."""
    if "activations" in node.attributes:
        return ANY
    start = bounds.at(node, 5, (0.0, 0.0))
    return min(-1.0, start[0]), max(1.0, start[1])


def _gelu(bounds: Bounds, node: ir.Node) -> Interval:
    return -0.2, max(bounds.at(node, 0)[1], 0.0)


def _swish(bounds: Bounds, node: ir.Node) -> Interval:
    return -0.4, max(bounds.at(node, 0)[1], 0.0)


def _layer_norm(bounds: Bounds, node: ir.Node) -> Interval:
    """A normalised row of n elements has no element beyond sqrt(n)."""
    source = _input(node, 0)
    axis = node.attributes.get("axis")
    if source is None or source.shape is None:
        return ANY
    dims = source.shape[axis.as_int() if axis is not None else -1 :]
    count = math.prod(d for d in dims if isinstance(d, int)) if all(isinstance(d, int) for d in dims) else math.inf
    reach = math.sqrt(count) * SLACK
    scaled = _product((-reach, reach), bounds.at(node, 1))
    shift = bounds.at(node, 2, (0.0, 0.0))
    return scaled[0] + shift[0], scaled[1] + shift[1]


def _matmul(bounds: Bounds, node: ir.Node) -> Interval:
    low, high = bounds.at(node, 0)
    columns, first = bounds.columns(_input(node, 1)), _input(node, 0)
    if math.isinf(columns):
        shape = None if first is None else first.shape
        if shape is None or not len(shape) or not isinstance(shape[-1], int):
            return ANY
        second = bounds.at(node, 1)
        columns = shape[-1] * max(abs(second[0]), abs(second[1]))
    reach = max(abs(low), abs(high)) * columns * SLACK
    return -reach, reach


_MOVES: Final = (
    "Identity Reshape Transpose Squeeze Unsqueeze Flatten Expand Slice Split Gather GatherElements GatherND Tile "
    "DepthToSpace SpaceToDepth MaxPool GlobalMaxPool ReduceMax ReduceMin"
)
RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_MOVES.split(), _same),
    "Sigmoid": _fixed(0.0, 1.0),
    "HardSigmoid": _fixed(0.0, 1.0),
    "Softmax": _fixed(0.0, 1.0),
    "Tanh": _fixed(-1.0, 1.0),
    "Softsign": _fixed(-1.0, 1.0),
    "Erf": _fixed(-1.0, 1.0),
    "Sin": _fixed(-1.0, 1.0),
    "Cos": _fixed(-1.0, 1.0),
    "Sign": _fixed(-1.0, 1.0),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), _mean),
    "Log": _log,
    "GRU": _gru,
    "LSTM": _lstm,
    "Concat": _all,
    "Relu": _relu,
    "Clip": _clip,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Sum": _sum,
    "Neg": _neg,
    "Abs": _abs,
    "Sqrt": _sqrt,
    "Exp": _exp,
    "Pad": _pad,
    "Where": _where,
    "Max": _extreme(max),
    "Min": _extreme(min),
    "Cast": _cast,
    "Resize": _resize,
    "Gelu": _gelu,
    "HardSwish": _swish,
    "LayerNormalization": _layer_norm,
    "MatMul": _matmul,
}
