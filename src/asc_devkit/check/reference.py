"""The original model in fp32 under ONNX Runtime, with chosen intermediate tensors exposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from asc_devkit.check import plugged

Array = np.ndarray[Any, Any]


class Reference:
    """Runs the user's file as it is. ``tensors`` are names that exist in its main graph.

    ``prepare``: what to do, by input, with data that only the compiled model takes as they are (pictures for AIPP).
    """

    def __init__(
        self, path: Path, threads: int = 0, prepare: Mapping[str, Callable[[Array], Array]] | None = None
    ) -> None:
        self.path, self.threads, self.prepare = path, threads, prepare or {}
        self.proto = onnx.load(path, load_external_data=False)
        graph = self.proto.graph
        initial = {t.name for t in graph.initializer}
        self.inputs = [v.name for v in graph.input if v.name not in initial]
        self.outputs = [v.name for v in graph.output]
        self.available = {name for node in graph.node for name in node.output if name}
        self.custom = plugged.has_custom(graph.node)
        if self.custom:
            self.available &= plugged.tensors(path)

    def session(self, tensors: Sequence[str]) -> Any:
        """A session that also returns ``tensors``. Custom operators that ONNX Runtime lacks are run by their plugins."""
        if not self.custom:
            return self._plain(tensors)
        try:
            return self._plain(tensors)
        except Exception:  # ONNX Runtime's exceptions have no common base
            return plugged.PluggedSession(self.path, tensors, self.threads)

    def _plain(self, tensors: Sequence[str]) -> ort.InferenceSession:
        model = onnx.ModelProto()
        model.CopyFrom(self.proto)
        have = set(self.outputs)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors if name not in have)
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 4
        folder = str(self.path.resolve().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, session: Any, feeds: dict[str, Array], tensors: Sequence[str]) -> dict[str, Array]:
        """Values of ``tensors`` for one batch."""
        wanted = [self.prepare[name](feeds[name]) if name in self.prepare else feeds[name] for name in self.inputs]
        found = session.run(list(tensors), dict(zip(self.inputs, wanted, strict=True)))
        return {name: np.asarray(value) for name, value in zip(tensors, found, strict=True)}
