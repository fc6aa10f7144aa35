"""The toolkit as an ``onnx.backend``: every model is converted to an ``.om`` and run on the virtual NPU.

Stands above ``atc`` and ``npu``; used by ONNX's conformance suite and by anyone whose tools speak ``onnx.backend``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from asc_devkit import atc, npu
from asc_devkit.atc.options import Options

SOC_VERSION: Final = "Ascend910B2"
#: Newest opset whose operators this toolkit and the installed onnx both know.
OPSET: Final = onnx.defs.onnx_opset_version()


class VirtualNpuRep(BackendRep):
    """A model made ready. Conversion waits for the first run when a shape is open: the inputs given then fix it."""

    def __init__(self, model: onnx.ModelProto, **settings: Any) -> None:
        self.model, self.settings = model, settings
        weights = {t.name for t in model.graph.initializer}
        weights.update(t.values.name for t in model.graph.sparse_initializer)
        self.inputs = [value for value in model.graph.input if value.name not in weights]
        self.open = [value.name for value in self.inputs if _is_open(value)]
        self.sessions: dict[tuple[tuple[int, ...], ...], npu.Session] = {}
        if not self.open:
            self._session({})

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order. ``inputs``: values in the model's order, by name, or one array."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            inputs = {value.name: item for value, item in zip(self.inputs, inputs, strict=False)}
        return tuple(self._session(inputs).run(inputs).values())

    def _session(self, inputs: Mapping[str, Any]) -> npu.Session:
        shapes = {name: np.shape(inputs[name]) for name in self.open if name in inputs}
        key = tuple(shapes.values())
        if key not in self.sessions:
            self.sessions[key] = _compile(self.model, shapes, self.settings)
        return self.sessions[key]


class VirtualNpuBackend(Backend):
    """``onnx.backend.base.Backend`` on the chain model -> ``.om`` -> virtual NPU, in the model's own float types.

    Keyword arguments of ``prepare``, ``run_model`` and ``run_node`` go to ``atc.Options`` (for example
    ``precision_mode="force_fp16"``, ``soc_version="Ascend310P3"``). Raises ``AscError`` for what cannot be converted.
    """

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> VirtualNpuRep:
        """Convert and load ``model``."""
        return VirtualNpuRep(model, **kwargs)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Outputs of one run of ``model``."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Outputs of a single node, its inputs given as arrays. ``opset_version``: the node's opset."""
        opset = int(kwargs.pop("opset_version", OPSET))
        names = list(dict.fromkeys(name for name in node.input if name))
        entries = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, map(np.asarray, inputs), strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", entries, results)
        return cls.run_model(
            helper.make_model_gen_version(graph, opset_imports=[_opset(node, opset)]), inputs, **kwargs
        )

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The virtual NPU computes on the CPU."""
        return device.partition(":")[0] in ("CPU", "NPU")


def _opset(node: onnx.NodeProto, version: int) -> onnx.OperatorSetIdProto:
    return helper.make_opsetid(node.domain, version)


def _is_open(value: onnx.ValueInfoProto) -> bool:
    """A tensor whose shape the model leaves to its inputs; 0 may mean an empty tensor or any size."""
    if not value.type.HasField("tensor_type"):
        return False
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or not all(
        dim.HasField("dim_value") and dim.dim_value > 0 for dim in tensor.shape.dim
    )


def _compile(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], settings: Mapping[str, Any]) -> npu.Session:
    with tempfile.TemporaryDirectory(prefix="asc-backend-") as name:
        source = Path(name, "model.onnx")
        source.write_bytes(model.SerializeToString())
        options = Options(
            **{
                "model": source,
                "output": Path(name, "model"),
                "soc_version": SOC_VERSION,
                "precision_mode": "must_keep_origin_dtype",
                "host_ops": True,
                "allow_empty": True,
                "input_shape": ";".join(f"{n}:{','.join(map(str, shape))}" for n, shape in shapes.items()),
                "export_compile_stat": False,
                "check_report": Path(name, "check_result.json"),
                **settings,
            }
        )
        return npu.load(atc.compile(options).om_path, threads=1, cache=False)
