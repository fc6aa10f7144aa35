"""Writing an `.om`: builds the ModelDef, then streams header, partitions and weights into a temporary file."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import IO, Any, Final

import numpy as np
import onnx_ir as ir

from asc_devkit import __version__, files, ops
from asc_devkit.errors import AscError, Problem
from asc_devkit.ge import dtypes
from asc_devkit.ge.desc import DESC, GE_DOMAIN, ORIGIN_TENSOR, Engine, TensorDesc
from asc_devkit.ge.formats import PLAIN, Format
from asc_devkit.ge.layout import to_storage
from asc_devkit.ge.proto import ge_ir_pb2 as pb
from asc_devkit.ge.proto import task_pb2
from asc_devkit.om import attr_compression, container, inout, mbatch
from asc_devkit.om.container import Part
from asc_devkit.om.encode import ENGINE_ATTR, OPSETS, Encoder, MemoryLayout, Weight, value_bytes

BASE_ADDRESS: Final = 0x80000000
_KERNELS: Final = {  # kernel types of the runtime: 2 for the AI cores, 6 for the AI CPU
    Engine.CUBE.value: 2,
    Engine.VECTOR.value: 2,
    Engine.AICPU.value: 6,
}
MAX_PARTITION: Final = (1 << 32) - 1
_L: Final = pb.AttrDef.ListValue


@dataclass(frozen=True)
class ModelInfo:
    """What the file says about itself."""

    name: str
    soc_version: str
    atc_cmdline: str = ""
    precision_mode: str = "force_fp16"
    overflow_mode: str = "saturate"
    framework: int = 5
    attr_compression: bool = False


def write(path: str | PathLike[str], model: ir.Model, info: ModelInfo, memory: MemoryLayout | None = None) -> None:
    """Write ``model`` (GE graph) as an offline model, atomically; weights are converted and written one at a time.

    Raises ``AscError`` (E13023) when the model definition passes 4 GiB, and for types Ascend files cannot hold.
    """
    memory = memory or MemoryLayout()
    encoder = Encoder(memory)
    name = info.name.encode("utf-8", "replace").decode()
    root = encoder.root(model.graph, name)
    definition = pb.ModelDef(name=name, version=1, custom_version="")
    definition.graph.extend(encoder.graphs)
    tasks = _tasks(_executed(root, encoder), memory, encoder.pool).SerializeToString(deterministic=True)
    _attributes(definition, info, memory, encoder, len(tasks))
    opsets = {"": ops.CANONICAL_OPSET, **model.graph.opset_imports}
    listed = sorted(f"{domain or 'ai.onnx'}:{version}" for domain, version in opsets.items() if domain != GE_DOMAIN)
    definition.attr[OPSETS].list.s.extend(text.encode() for text in listed)
    definition.attr[OPSETS].list.val_type = _L.VT_LIST_STRING
    if info.attr_compression:
        attr_compression.compress(definition)
    described = inout.encode(_in_out(model.graph))
    body = definition.SerializeToString(deterministic=True)
    for part, size in (("MODEL_DEF", len(body)), ("TASK_INFO", len(tasks))):
        if size > MAX_PARTITION:
            raise AscError(
                Problem("E13023", f"Partition {part} has {size} bytes, more than 4 GiB.", seed_class="EE3001")
            )
    sizes = [
        (Part.MODEL_INOUT_INFO, len(described)),
        (Part.MODEL_DEF, len(body)),
        (Part.WEIGHTS_DATA, encoder.pool),
        (Part.TASK_INFO, len(tasks)),
    ]
    table = container.table_bytes([(int(kind), size) for kind, size in sizes])
    payload = len(table) + sum(size for _, size in sizes)
    with files.atomic_writer(path) as handle:
        handle.write(container.header_bytes(name, payload))
        handle.write(table)
        handle.write(described)
        handle.write(body)
        for weight in encoder.weights:
            _write_weight(handle, weight)
        handle.write(tasks)


def _write_weight(handle: IO[bytes], weight: Weight) -> None:
    tensor = weight.value.const_value
    assert tensor is not None
    array = np.asarray(tensor.numpy())
    desc = weight.value.meta.get(DESC)
    if isinstance(desc, TensorDesc) and desc.format not in PLAIN:
        array = to_storage(array, desc.format, desc.origin_format, desc.groups)
    if tensor.dtype == ir.DataType.INT4:
        flat = np.asarray(array).astype(np.int8).ravel() & 0xF
        flat = np.append(flat, np.zeros(flat.size % 2, np.int8))
        array = (flat[::2] | flat[1::2] << 4).astype(np.uint8)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    if len(data) != weight.size:
        raise AscError(
            Problem("E13014", f"Constant {weight.value.name} has {len(data)} bytes instead of {weight.size}.")
        )
    handle.write(data)
    handle.write(bytes(-weight.size % 512))


def _attributes(
    definition: pb.ModelDef, info: ModelInfo, memory: MemoryLayout, encoder: Encoder, task_bytes: int
) -> None:
    attrs: Any = definition.attr
    for name, text in (
        ("soc_version", info.soc_version),
        ("arch_type", ""),
        ("target_type", "MINI"),
        ("atc_version", f"asc-devkit {__version__}"),
        ("opp_version", f"asc-devkit {__version__}"),
        ("atc_cmdline", info.atc_cmdline),
        ("asc_precision_mode", info.precision_mode),
        ("asc_overflow_mode", info.overflow_mode),
    ):
        attrs[name].s = text.encode("utf-8", "surrogateescape")
    for name, number in (
        ("framework_type", info.framework),
        ("memory_size", memory.memory_size),
        ("weight_size", encoder.pool),
        ("zero_copy_memory_size", 0),
        ("stream_num", 1),
        ("event_num", 0),
        ("label_num", 0),
        ("task_gen_base_addr", BASE_ADDRESS),
        ("task_gen_weight_addr", BASE_ADDRESS + memory.memory_size),
    ):
        attrs[name].i = number
    attrs["om_info_list"].list.i.extend([encoder.pool, 0, 0, task_bytes, 0])
    attrs["om_info_list"].list.val_type = _L.VT_LIST_INT
    root = encoder.graphs[0]
    names = [text.encode() for text in root.output]
    attrs["attr_model_out_nodes_name"].list.s.extend(names)
    attrs["attr_model_out_nodes_name"].list.val_type = _L.VT_LIST_STRING


def _executed(root: pb.GraphDef, encoder: Encoder) -> list[pb.GraphDef]:
    """The root graph and those of the gears."""
    gears = {name for op in root.op if op.type == "Case" and mbatch.COUNT in op.attr for name in op.subgraph_name}
    return [root, *(graph for graph in encoder.graphs if graph.name in gears)]


def _tasks(graphs: list[pb.GraphDef], memory: MemoryLayout, weight_size: int) -> task_pb2.ModelTaskDef:
    """One task description per device operator. Kernels are not compiled: no binary, no arguments, no block number."""
    made = task_pb2.ModelTaskDef(
        version="1",
        memory_size=memory.memory_size,
        weight_size=weight_size,
        stream_num=1,
        base_addr=BASE_ADDRESS,
        weight_addr=BASE_ADDRESS + memory.memory_size,
        batch_num=1,
    )
    for op in (op for graph in graphs for op in graph.op):
        kernel = _KERNELS.get(op.attr[ENGINE_ATTR].s.decode() if ENGINE_ATTR in op.attr else "")
        if kernel is None:
            continue
        task = made.task.add(id=len(made.task), type=0, stream_id=0)
        inputs = [f"{{i_instance{i}*}}" for i, text in enumerate(op.input) if text]
        outputs = [f"{{o_instance{i}*}}" for i in range(len(op.output_desc))]
        context = task.kernel.context
        context.kernel_type = kernel
        context.op_index = op.id
        context.args_format = "".join(inputs + outputs)
        context.args_count = len(inputs) + len(outputs)
    return made


def _in_out(graph: ir.Graph) -> inout.InOut:
    inputs = tuple(_info(value, value.name or "") for value in graph.inputs)
    outputs = []
    chooser = mbatch.case(graph)
    named = graph.outputs if chooser is None else mbatch.branches(chooser)[0].outputs
    for result, value in zip(graph.outputs, named, strict=True):
        producer = value.producer()
        op = producer.name if producer is not None else value.name
        name = value.meta.get(ORIGIN_TENSOR, value.name) if producer is None else value.name
        outputs.append(_info(result, f"{op}:{value.index() or 0}:{name}"))
    if chooser is None:
        return inout.InOut(inputs=inputs, outputs=tuple(outputs))
    gears = mbatch.gears(chooser)
    return inout.InOut(
        inputs=inputs,
        outputs=tuple(outputs),
        batch_gears=tuple(row[0] for row in gears.values if row) if gears.kind == mbatch.BATCH else (),
        image_gears=gears.values if gears.kind == mbatch.IMAGE else (),
        dim_gears=gears.values if gears.kind == mbatch.DIMS else (),
        user_order=gears.order,
    )


def _info(value: ir.Value, name: str) -> inout.TensorInfo:
    desc = value.meta.get(DESC)
    fmt = desc.format if isinstance(desc, TensorDesc) else "ND"
    shape = () if value.shape is None else tuple(d if isinstance(d, int) else -1 for d in value.shape)
    row = dtypes.find(value.type.dtype) if isinstance(value.type, ir.TensorType) else None
    kind = dtypes.UNDEFINED_ACL if row is None else row.acl
    return inout.TensorInfo(name, _picture(value) or shape, kind, int(Format[fmt]), value_bytes(value), shape)


def _picture(value: ir.Value) -> tuple[int, ...] | None:
    """NHWC dimensions of the picture an input with AIPP holds, as the first list of dimensions tells them; the second
    (``dims_v2``) describes the bytes. None for other values."""
    for node, _ in value.uses():
        static = len(node.inputs) == 1  # dynamic AIPP learns the size of its pictures at run time
        if node.op_type == "Aipp" and node.domain == GE_DOMAIN and static and node.outputs[0].shape is not None:
            dims = tuple(d if isinstance(d, int) else -1 for d in node.outputs[0].shape)
            height, width = (node.attributes[f"src_image_size_{axis}"].as_int() for axis in "hw")
            return dims[0], height, width, dims[1]
    return None
