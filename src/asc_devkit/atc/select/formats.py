"""Device formats: which operators read NC1HWC0, FRACTAL_Z or FRACTAL_NZ, and the TransData nodes between them.

Convolutions and poolings work on NC1HWC0 (NDC1HWC0 in 3-D) with FRACTAL_Z filters on every chip; matrix products work on
FRACTAL_NZ on chips whose ``Soc.matmul_format`` says so, on ND elsewhere. Element-wise operators keep the format their
inputs arrive in, so that chains of convolutions need no conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.ge.desc import DESC, ENGINE, GE_DOMAIN, Engine, TensorDesc
from asc_devkit.ge.formats import storage_shape
from asc_devkit.ops.catalogue import Cost, GeOp
from asc_devkit.soc import Soc

_FIVE_HD: Final = {4: "NC1HWC0", 5: "NDC1HWC0"}
_ORIGIN: Final = {4: "NCHW", 5: "NCDHW"}
_CHANNELS_LAST: Final = {"NHWC": 4, "NDHWC": 5}  # how TensorFlow lays pictures out
_FILTER: Final = {4: "FRACTAL_Z", 5: "FRACTAL_Z_3D"}


@dataclass
class Formats:
    """Counts for the log."""

    trans_data: int = 0


def apply(model: ir.Model, soc: Soc, input_format: str = "NCHW") -> Formats:
    """Set ``meta[DESC]`` on every value of the graph (bodies included) and insert TransData nodes in place."""
    chooser = _Chooser(soc, input_format)
    chooser.walk(model.graph)
    return chooser.result


class _Chooser:
    """State of one walk: the format each value is stored in, and conversions already made."""

    def __init__(self, soc: Soc, input_format: str) -> None:
        self.soc, self.input_format = soc, input_format
        self.made: dict[tuple[ir.Value, str], ir.Value] = {}
        self.result = Formats()

    def walk(self, graph: ir.Graph) -> None:
        for value in graph.inputs:
            if DESC not in value.meta:  # AIPP has described its pictures already
                self._plain(value)
                if _CHANNELS_LAST.get(self.input_format) == _rank(value) and (shape := _static(value)) is not None:
                    value.meta[DESC] = TensorDesc(self.input_format, self.input_format, shape)
        for value in graph.initializers.values():
            self._plain(value)
        for node in list(graph):
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    self.walk(attribute.as_graph())
            spec = ops.lookup(node.op_type) if node.domain == GE_DOMAIN else None
            if spec is None or spec.plugin:
                self._all_plain(node)
            elif spec.type == "Aipp":
                self._outputs(node, _FIVE_HD[4])
            elif spec.cost is Cost.CONV:
                self._conv(node)
            elif spec.cost is Cost.POOL:
                self._image(node, "NC1HWC0")
            elif spec.cost is Cost.MATMUL and self.soc.matmul_format == "FRACTAL_NZ":
                self._matmul(node)
            elif spec.cost in (Cost.ELEMENTWISE, Cost.QUANT):
                self._follow(node, spec)
            else:
                self._all_plain(node)
        for index, value in enumerate(graph.outputs):
            if _fmt(value) in _PRIVATE:
                graph.outputs[index] = self._converted(value, _origin(value))
                _swap_names(value, graph.outputs[index])

    def _conv(self, node: ir.Node) -> None:
        rank = _rank(node.outputs[0])
        if rank not in _FIVE_HD:
            self._all_plain(node)
            return
        groups = node.attributes["groups"].as_int() if "groups" in node.attributes else 1
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            if index == 1 and value.const_value is not None and _rank(value) == rank:
                if value.meta[DESC].format != _FILTER[rank]:
                    self._set(value, _FILTER[rank], groups)
            elif index == 0:
                node.replace_input_with(0, self._converted(value, _FIVE_HD[rank]))
        self._outputs(node, _FIVE_HD[rank])

    def _image(self, node: ir.Node, _: str) -> None:
        rank = _rank(node.outputs[0])
        source = node.inputs[0]
        if source is None or rank not in _FIVE_HD or not _is_half(source):
            self._all_plain(node)
            return
        node.replace_input_with(0, self._converted(source, _FIVE_HD[rank]))
        self._outputs(node, _FIVE_HD[rank])

    def _matmul(self, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs[:2]):
            if value is None or not _is_half(value) or (_rank(value) or 0) < 2:
                if value is not None:
                    node.replace_input_with(index, self._converted(value, _origin(value)))
                continue
            if value.const_value is not None:
                self._set(value, "FRACTAL_NZ")
            else:
                node.replace_input_with(index, self._converted(value, "FRACTAL_NZ"))
        half = _is_half(node.outputs[0]) and (_rank(node.outputs[0]) or 0) >= 2
        self._outputs(node, "FRACTAL_NZ" if half else "ND")

    def _follow(self, node: ir.Node, spec: GeOp) -> None:
        private = [v for v in node.inputs if v is not None and _fmt(v) in _PRIVATE and v.const_value is None]
        if not private or not self._can_follow(node, private[0]):
            self._all_plain(node)
            return
        fmt = _fmt(private[0])
        for index, value in enumerate(node.inputs):
            if value is None or value.const_value is not None or _size(value) == 1:
                continue
            node.replace_input_with(index, self._converted(value, fmt))
        self._outputs(node, fmt)

    def _can_follow(self, node: ir.Node, leader: ir.Value) -> bool:
        """All tensors have the leader's shape, or are constants/per-channel values that broadcast in its format."""
        if leader.shape is None or any(o.shape is None or len(o.shape) != len(leader.shape) for o in node.outputs):
            return False
        shape = tuple(leader.shape)
        for value in node.inputs:
            if value is None or _size(value) == 1:
                continue
            if value.shape is None:
                return False
            if value.const_value is not None:
                continue
            other = tuple(value.shape)
            per_channel = _fmt(leader) == "NC1HWC0" and len(other) == 4 and other[1] == shape[1]
            if other != shape and not per_channel:
                return False
        return True

    def _all_plain(self, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs):
            if value is not None and _fmt(value) in _PRIVATE and value.const_value is None:
                node.replace_input_with(index, self._converted(value, _origin(value)))
        for value in node.outputs:
            self._plain(value)

    def _outputs(self, node: ir.Node, fmt: str) -> None:
        for value in node.outputs:
            self._set(value, fmt)

    def _plain(self, value: ir.Value) -> None:
        rank = _rank(value)
        plain = "ND" if self.input_format == "ND" else _ORIGIN.get(rank or 0, "ND")
        self._set(value, plain)

    def _set(self, value: ir.Value, fmt: str, groups: int = 1) -> None:
        rank = _rank(value)
        origin = _ORIGIN.get(rank or 0, "ND") if fmt not in ("ND", "FRACTAL_NZ") or value.const_value is None else "ND"
        shape = _static(value)
        if shape is None and fmt in _PRIVATE:  # a size nobody knows cannot be laid out in blocks
            fmt = origin
        stored = shape or ()
        if shape is not None and fmt in _PRIVATE:
            assert value.dtype is not None
            stored = storage_shape(shape, origin, fmt, value.dtype, groups)
        value.meta[DESC] = TensorDesc(fmt, origin, tuple(stored), groups)

    def _converted(self, value: ir.Value, fmt: str) -> ir.Value:
        """``value`` in format ``fmt``: itself, an earlier conversion, or the output of a new TransData node."""
        if value.const_value is not None or _fmt(value) == fmt or _static(value) is None:
            return value
        if fmt not in _PRIVATE and _fmt(value) not in _PRIVATE:
            return value
        source = value
        producer = value.producer()
        if producer is not None and producer.op_type == "TransData" and producer.inputs[0] is not None:
            if _fmt(producer.inputs[0]) == fmt:
                return producer.inputs[0]
            source = producer.inputs[0]
        key = (source, fmt)
        if key not in self.made:
            self.made[key] = self._trans_data(source, fmt)
        return self.made[key]

    def _trans_data(self, value: ir.Value, fmt: str) -> ir.Value:
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        node = ir.Node(
            GE_DOMAIN,
            "TransData",
            [value],
            [ir.AttrString("src_format", _fmt(value)), ir.AttrString("dst_format", fmt)],
            name=f"trans_{value.name}_{fmt}",
        )
        node.meta[ENGINE] = Engine.VECTOR
        output = node.outputs[0]
        output.name, output.shape = f"{value.name}__{fmt}", value.shape
        output.type = None if value.dtype is None else ir.TensorType(value.dtype)
        self._set(output, fmt)
        producer = value.producer()
        if producer is None:
            first = next(iter(graph), None)
            graph.append(node) if first is None else graph.insert_before(first, node)
        else:
            graph.insert_after(producer, node)
        self.result.trans_data += 1
        return output


_PRIVATE: Final = frozenset({"NC1HWC0", "NDC1HWC0", "FRACTAL_NZ", "FRACTAL_Z", "FRACTAL_Z_3D"})


def _swap_names(inner: ir.Value, outer: ir.Value) -> None:
    """Let the converted graph output carry the user's name."""
    name = inner.name
    inner.name = f"{name}__{_fmt(inner)}"
    outer.name = name
    outer.meta.update({k: v for k, v in inner.meta.items() if k != DESC})


def _fmt(value: ir.Value) -> str:
    desc = value.meta.get(DESC)
    return desc.format if isinstance(desc, TensorDesc) else "ND"


def _origin(value: ir.Value) -> str:
    desc = value.meta.get(DESC)
    return desc.origin_format if isinstance(desc, TensorDesc) else "ND"


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _static(value: ir.Value) -> tuple[int, ...] | None:
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(d) for d in value.shape)  # type: ignore[arg-type]


def _size(value: ir.Value) -> int:
    shape = _static(value)
    if shape is None:
        return -1
    total = 1
    for dim in shape:
        total *= dim
    return total


def _is_half(value: ir.Value) -> bool:
    return value.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.INT8)
