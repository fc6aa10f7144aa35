"""The one place that makes ONNX Runtime sessions: everything that could change a result is pinned and recorded here."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from pathlib import Path
from typing import Final

import onnxruntime as ort

#: Optimisers that would merge or reorder across rounding points in ways the rewriting cannot see.
DISABLED: Final = ("CommonSubexpressionElimination",)
_NO_KERNEL: Final = re.compile(r"Could not find an implementation for (\S+)\(\d+\) node with name '([^']*)'")
_PREFIX: Final = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : )?(Load model from \S+ failed:)?(This is an invalid model\. )?"
)
_FATAL_ONLY: Final = 4  # errors arrive as exceptions


def default_threads() -> int:
    """CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def options(threads: int) -> ort.SessionOptions:
    """Sequential execution on ``threads`` threads, nothing logged."""
    made = ort.SessionOptions()
    made.intra_op_num_threads = threads
    made.inter_op_num_threads = 1
    made.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    made.log_severity_level = _FATAL_ONLY
    return made


def optimise(source: Path, target: Path, weights: str) -> None:
    """Let ONNX Runtime optimise ``source`` for this CPU and save graph and weights (``weights``, beside ``target``).

    Raises onnxruntime's ``NotImplemented`` when a node has no kernel (see ``missing_kernel``).
    """
    made = options(1)
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    made.optimized_model_filepath = str(target)
    made.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights)
    made.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "256")
    made.add_session_config_entry("session.disable_prepacking", "1")  # packed copies are of no use here
    ort.InferenceSession(str(source), made, providers=["CPUExecutionProvider"], disabled_optimizers=list(DISABLED))


def load(path: Path, threads: int) -> ort.InferenceSession:
    """A session that runs the saved graph exactly as it stands."""
    made = options(threads)
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), made, providers=["CPUExecutionProvider"])


def accepts(path: Path) -> bool:
    """False when ONNX Runtime refuses the graph: it lacks a kernel or an element type, or what a kernel needs."""
    try:
        load(path, 1)
    except Exception:
        return False
    return True


def missing_kernel(error: Exception) -> tuple[str, str] | None:
    """(operator type, node name) that ONNX Runtime cannot run, if that is what ``error`` says."""
    found = _NO_KERNEL.search(str(error))
    return (found[1], found[2]) if found else None


def reason(error: Exception) -> str:
    """What ONNX Runtime says, without its codes and the path of the file."""
    text = _PREFIX.sub("", str(error)).strip() or type(error).__name__
    return text[:1000]


@functools.lru_cache(maxsize=1)
def cpu() -> str:
    """Name of the CPU and a digest of its features: optimised graphs are only valid on the same kind."""
    name, flags = platform.processor() or platform.machine(), ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, text = line.partition(":")
            if key.strip() == "model name":
                name = text.strip()
            elif key.strip() in ("flags", "Features"):
                flags = text.strip()
                break
    except OSError:
        flags = platform.version()
    return f"{name} [{hashlib.blake2b(flags.encode(), digest_size=4).hexdigest()}]"


def version() -> str:
    """Version of ONNX Runtime."""
    return str(ort.__version__)
