"""Dynamic AIPP at run time: pictures and parameters in, the tensors that the compiled graph works on out.

The graph is executed behind its ``Aipp`` operators. What these do depends on the parameters of the run; each set of
parameters becomes a static ``Aipp`` operator, lowered by the catalogue like any other, so both kinds of AIPP compute the
same numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit import ops
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge.desc import GE_DOMAIN
from asc_devkit.ge.pictures import PICTURES, parameter_bytes
from asc_devkit.npu import ort
from asc_devkit.npu.aipp_params import AippParameters, PictureParameters, invalid
from asc_devkit.npu.feeds import Inputs, Tensor
from asc_devkit.npu.lower import Output
from asc_devkit.npu.numerics import Array, to_device
from asc_devkit.npu.session import Session
from asc_devkit.om import OmFile
from asc_devkit.ops import attributes

DYNAMIC: Final = "dynamic"
MODE: Final = "aipp_mode"
MAX_BYTES: Final = "max_src_image_size"
KEPT: Final = 16  # compiled parameter sets


@dataclass(frozen=True)
class DynamicInput:
    """An input with dynamic AIPP: its name, that of its parameters, the bytes its pictures may take, and the shape and
    type of what AIPP makes of them."""

    name: str
    parameters: str
    max_bytes: int
    shape: tuple[int, ...]
    dtype: ir.DataType


def has_dynamic(file: OmFile) -> bool:
    """True when the model holds an ``Aipp`` operator that reads its parameters at run time."""
    return any(
        op.type == "Aipp" and MODE in op.attr and op.attr[MODE].s == DYNAMIC.encode()
        for graph in file.model_def.graph
        for op in graph.op
    )


def cut(model: ir.Model) -> tuple[DynamicInput, ...]:
    """Let the graph begin behind its dynamic ``Aipp`` operators, in place; says what was in front of them."""
    found: list[DynamicInput] = []
    order = [value.name or "" for value in model.graph.inputs]
    for node in model.graph:
        mode = node.attributes.get(MODE)
        if node.op_type != "Aipp" or mode is None or mode.value != DYNAMIC:
            continue
        pictures, parameters = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
        made = node.outputs[0]
        shape = tuple(d for d in made.shape or () if isinstance(d, int))
        if pictures is None or parameters is None or len(shape) != 4 or made.dtype is None:
            raise invalid(f"operator {node.name} lacks an input or a shape", "Convert the model again.")
        limit = node.attributes[MAX_BYTES].as_int() if MAX_BYTES in node.attributes else 0
        found.append(DynamicInput(pictures.name or "", parameters.name or "", limit, shape, made.dtype))
        pictures.shape, pictures.type = ir.Shape(shape), ir.TensorType(made.dtype)
        node.replace_input_with(1, None)
        node.resize_inputs(1)
        model.graph.inputs.remove(parameters)
    return tuple(sorted(found, key=lambda item: order.index(item.parameters)))


class AippSession(Session):
    """A session whose pictures pass through dynamic AIPP first.

    ``inputs`` are those of the OM: uint8 pictures and the parameter input of each. Parameters come from ``set_aipp``, or
    per run as the parameter input's bytes.
    """

    def __init__(self, inner: Session, gears: Iterable[tuple[DynamicInput, ...]]) -> None:
        self.inner = inner
        self.by_gear = tuple(gears)
        self.dynamic = {
            item.name: max((g[i] for g in self.by_gear), key=_size) for i, item in enumerate(self.by_gear[0])
        }
        self.info: dict[str, Any] = {**inner.info, "dynamic_aipp": list(self.dynamic)}
        self.outputs = inner.outputs
        self.inputs = tuple(
            Tensor(t.name, (t.shape[0], None, None, None), np.dtype(np.uint8)) if t.name in self.dynamic else t
            for t in inner.inputs
        ) + tuple(
            Tensor(item.parameters, (parameter_bytes(item.shape[0]),), np.dtype(np.uint8))
            for item in self.dynamic.values()
        )
        self._set: dict[str, AippParameters] = {}
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    @property
    def operators(self) -> tuple[Output, ...]:
        return self.inner.operators

    @property
    def gears(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """Shapes behind AIPP of each gear; empty for a static model."""
        return tuple(getattr(self.inner, "gears", ()))

    def set_aipp(self, parameters: AippParameters, name: str | None = None) -> None:
        """Parameters for the runs that follow. ``name``: the picture input, or that of its parameters, when there are
        several. Raises ``AscError`` for unknown names (ASC4010) and impossible parameters (ASC4015)."""
        found = [i for i in self.dynamic.values() if name in (None, i.name, i.parameters)]
        if len(found) != 1:
            names = ", ".join(self.dynamic)
            raise AscError(
                Problem("ASC4010", f"No single input with AIPP is meant by {name!r}.", fix=f"Name one of {names}.")
            )
        parameters.pack(found[0].shape[0])
        self._set[found[0].name] = parameters

    def fixed_inputs(self, gear: int | None = None) -> tuple[Tensor, ...]:
        """Inputs with the sizes that the parameters set before ask for; parameter inputs are left out."""
        made = []
        for tensor in self.inner.fixed_inputs(gear):
            if tensor.name in self.dynamic:
                p = self._parameters(self.dynamic[tensor.name], {})
                shape = p.picture.buffer_shape(tensor.shape[0] or 1, p.src_image_size_h, p.src_image_size_w)
                tensor = Tensor(tensor.name, shape, np.dtype(np.uint8))
            made.append(tensor)
        return tuple(made)

    def run(
        self, inputs: Inputs, dump: PathLike[str] | str | bool | None = None, dump_format: str = "npy"
    ) -> dict[str, Array]:
        """As ``Session.run``; pictures are uint8 arrays with the bytes of the format, of any shape. A flat array may be
        longer, as a buffer of the largest size is."""
        return self.inner.run(self._prepared(inputs), dump, dump_format)

    def run_with_values(
        self, inputs: Inputs, names: Iterable[str] | None = None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """As ``Session.run_with_values``, behind AIPP."""
        return self.inner.run_with_values(self._prepared(inputs), names)

    def _prepared(self, inputs: Inputs) -> dict[str, Array]:
        given = (
            dict(inputs)
            if isinstance(inputs, Mapping)
            else dict(zip((t.name for t in self.inputs), inputs, strict=False))
        )
        feed = {n: a for n, a in given.items() if n not in {i.parameters for i in self.dynamic.values()}}
        for item in self.dynamic.values():
            if item.name in given:
                feed[item.name] = self._preprocess(item, self._parameters(item, given), np.asarray(given[item.name]))
        return feed

    def _parameters(self, item: DynamicInput, given: Mapping[str, Array]) -> AippParameters:
        if item.parameters in given:
            return AippParameters.unpack(np.asarray(given[item.parameters]))
        if item.name in self._set:
            return self._set[item.name]
        raise AscError(
            Problem(
                "ASC4014",
                f"Input {item.name!r} has dynamic AIPP, and its parameters are not set.",
                cause="The model was converted with aipp_mode: dynamic: each run needs picture format, size and colours.",
                fix=f"Call set_aipp (asc run: --aipp FILE), or feed the input {item.parameters}.",
                nodes=(item.name,),
            )
        )

    def _preprocess(self, item: DynamicInput, parameters: AippParameters, pictures: Array) -> Array:
        """uint8 pictures -> what AIPP makes of them, [N, C, H, W], in the shape of the gear that fits."""
        picture = parameters.picture
        width, height = parameters.src_image_size_w, parameters.src_image_size_h
        one = int(np.prod(picture.buffer_shape(1, height, width)))
        shape = self._gear_shape(item, parameters, pictures, one)
        needed = shape[0] * one
        if pictures.dtype != np.uint8 or needed > item.max_bytes or not _enough(pictures, needed):
            raise AscError(
                Problem(
                    "ASC4012",
                    f"Input {item.name!r} is {pictures.dtype.name} with {pictures.nbytes} bytes; {shape[0]} "
                    f"{width} x {height} {picture.name} pictures have {needed}, and {item.max_bytes} are allowed.",
                    fix="Give uint8 pictures of the size the parameters say, or convert with a larger max_src_image_size.",
                    nodes=(item.name,),
                )
            )
        flat = np.ascontiguousarray(pictures).reshape(-1)[:needed].reshape(shape[0], one)
        each = parameters.of_batch(shape[0])
        if all(p == each[0] for p in each):
            return self._run(item, parameters, each[0], flat, shape)
        rows = [self._run(item, parameters, p, flat[i : i + 1], (1, *shape[1:])) for i, p in enumerate(each)]
        return np.concatenate(rows)

    def _gear_shape(self, item: DynamicInput, parameters: AippParameters, pictures: Array, one: int) -> tuple[int, ...]:
        """The gear whose height and width AIPP makes and, where batches differ, whose pictures these are."""
        index = list(self.dynamic).index(item.name)
        shapes = list(dict.fromkeys(gear[index].shape for gear in self.by_gear))
        first = parameters.pictures[0]
        width = first.crop_size_w if first.crop else parameters.src_image_size_w
        height = first.crop_size_h if first.crop else parameters.src_image_size_h
        if first.padding:
            width += first.left_padding_size + first.right_padding_size
            height += first.top_padding_size + first.bottom_padding_size
        fitting = [s for s in shapes if s[2:] == (height, width)]
        if not fitting:
            wanted = ", ".join(f"{s[3]} x {s[2]}" for s in shapes)
            raise invalid(f"AIPP makes {width} x {height} (width x height), the model takes {wanted}")
        exact = [s for s in fitting if s[0] * one == pictures.nbytes]
        return exact[0] if exact else max(fitting)

    def _run(
        self,
        item: DynamicInput,
        parameters: AippParameters,
        picture: PictureParameters,
        data: Array,
        shape: tuple[int, ...],
    ) -> Array:
        facts = parameters.attributes(picture)
        key = repr((sorted(facts.items()), shape, item.dtype))
        session = self._compiled.get(key)
        if session is None:
            session = self._compiled[key] = _compile(facts, item, shape)
            if len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        buffer = PICTURES[parameters.input_format].buffer_shape(
            shape[0], parameters.src_image_size_h, parameters.src_image_size_w
        )
        made: Array = session.run(None, {"images": data.reshape(buffer)})[0]
        if item.dtype == ir.DataType.UINT8:
            return made
        return to_device(made, item.dtype, self.inner.info["overflow_mode"] == "saturate")


def _size(item: DynamicInput) -> int:
    return int(np.prod(item.shape))


def _enough(pictures: Array, needed: int) -> bool:
    return pictures.nbytes == needed or (pictures.ndim == 1 and pictures.nbytes > needed)


def _compile(facts: Mapping[str, Any], item: DynamicInput, shape: tuple[int, ...]) -> Any:
    """A session that does what a static ``Aipp`` operator with these attributes does."""
    import onnxruntime

    spec = ops.lookup("Aipp")
    assert spec is not None
    width, height = facts["src_image_size_w"], facts["src_image_size_h"]
    if not (2 <= width <= 4096 and 1 <= height <= 4096):
        raise invalid(f"the picture is {width} x {height}; pictures are 2 to 4096 wide and 1 to 4096 high")
    source = PICTURES[facts["input_format"]].buffer_shape(shape[0], height, width)
    pictures = ir.Value(name="images", shape=ir.Shape(source), type=ir.TensorType(ir.DataType.UINT8))
    made = [attributes.typed(name, value, spec.attrs[name]) for name, value in facts.items()]
    output = ir.Value(name="features", shape=ir.Shape(shape), type=ir.TensorType(item.dtype))
    node = ir.Node(GE_DOMAIN, "Aipp", [pictures], made, outputs=[output], name="aipp")
    graph = ir.Graph([pictures], [output], nodes=[node], opset_imports={GE_DOMAIN: 1}, name="aipp")
    try:
        lowered = ops.convert.to_onnx(ir.Model(graph, ir_version=10), ir.DataType.FLOAT)
    except AscError as error:
        reason = error.problems[0].what.partition(": ")[2]
        raise invalid(reason or "the virtual NPU cannot carry them out") from error
    raw = ir.to_proto(lowered).SerializeToString()
    return onnxruntime.InferenceSession(raw, ort.options(1), providers=["CPUExecutionProvider"])
