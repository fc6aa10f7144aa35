"""What the fuzzer runs on each damaged file. A target returns a word for the statistics, or raises.

``AscError`` is a proper refusal. Anything else is a failure, and so is a result that differs from ONNX Runtime's on the
same damaged model (``Wrong``), where that accepts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import REAL_MODELS

Arrays = Mapping[str, np.ndarray[Any, Any]]
Target = Callable[[Path, Path, str], str]
CHIP = "Ascend910B2"


class Wrong(Exception):
    """The result is not that of the original."""


def load_onnx(path: Path, folder: Path, origin: str) -> str:
    """The front end alone, with every weight read once."""
    from asc_devkit.frontends.onnx import load

    form = load(path)
    for value in form.model.graph.initializers.values():
        assert value.const_value is not None and value.const_value.shape is not None
        value.const_value.tobytes()
    for node in form.model.graph.all_nodes():
        assert node.name and node.version is None
    return "loaded"


def optimise(path: Path, folder: Path, origin: str) -> str:
    """Front end, inference and passes; the optimised graph must compute what the damaged model computes."""
    import onnx_ir as ir

    from asc_devkit import passes
    from asc_devkit.frontends.onnx import load
    from asc_devkit.ops.infer import infer

    form = load(path, _shapes(origin))
    infer(form.model)
    passes.optimise(form.model, passes.PassContext(switches=passes.Switches.load("", ""), soc=CHIP))
    feeds = _feeds(
        [
            (
                v.name or "",
                tuple(v.shape.numpy()) if v.shape is not None and v.shape.is_static() else None,
                v.dtype.numpy() if v.dtype is not None and v.dtype != ir.DataType.STRING else None,
            )
            for v in form.model.graph.inputs
        ]
    )
    expected = _judge(path, feeds) if feeds is not None else None
    if expected is None or feeds is None:
        return "unjudged"
    names = {v.name for v in form.model.graph.inputs}
    data = ir.serde.serialize_model(form.model).SerializeToString()
    _compare(_ort(data, {k: v for k, v in feeds.items() if k in names}), expected, 1e-3)
    return "equal"


def compile_om(path: Path, folder: Path, origin: str) -> str:
    """Convert for fp16, which touches every stage, and read the ``.om`` back."""
    _compile(path, folder, origin, "force_fp16")
    return "converted" if read_om(folder / "out.om", folder, origin) == "read" else "unread"


def convert(path: Path, folder: Path, origin: str) -> str:
    """The whole way: convert, load the ``.om``, run it in fp32, compare with the damaged model."""
    from asc_devkit import npu

    _compile(path, folder, origin, "must_keep_origin_dtype")
    session = npu.load(folder / "out.om", cache=False, threads=1)
    feeds = _feeds([(t.name, t.shape, t.dtype) for t in session.inputs])
    if feeds is None:
        return "unfed"
    got = session.run(feeds)
    expected = _judge(path, feeds)
    if expected is None:
        return "unjudged"
    _compare(list(got.values()), expected, 1e-2)
    return "equal"


def _compile(path: Path, folder: Path, origin: str, precision_mode: str) -> None:
    """Convert to ``out.om``. A refused conversion must leave no file behind."""
    from asc_devkit import atc
    from asc_devkit.atc.options import from_flags
    from asc_devkit.errors import AscError

    (folder / "out.om").unlink(missing_ok=True)
    flags = {
        "model": str(path), "framework": "5", "output": str(folder / "out"), "soc_version": CHIP,
        "precision_mode": precision_mode, "check_report": str(folder / "check_result.json"),
    }  # fmt: skip
    shapes = ";".join(f"{k}:{','.join(map(str, v))}" for k, v in (_shapes(origin) or {}).items())
    if shapes:
        flags["input_shape"] = shapes
    try:
        atc.compile(from_flags(flags))
    except AscError:
        left = [p.name for p in folder.iterdir() if p.suffix == ".om" or p.name.startswith(".")]
        if left:
            raise Wrong(f"a refused conversion left {left}") from None
        raise


def read_om(path: Path, folder: Path, origin: str) -> str:
    """Everything that can be read from an ``.om`` without running it."""
    from asc_devkit import om
    from asc_devkit.om import show

    file = om.read(path)
    graph = file.to_ir().graph
    for value in graph.initializers.values():
        assert value.const_value is not None
        value.const_value.numpy()
    assert file.inputs is not None and file.task_def is not None
    show.to_json(file)
    show.summary(file)
    return "read"


def run_om(path: Path, folder: Path, origin: str) -> str:
    """Load the damaged ``.om`` on the virtual NPU and run it once."""
    from asc_devkit import npu

    session = npu.load(path, cache=False, threads=1)
    feeds = _feeds([(t.name, t.shape, t.dtype) for t in session.inputs])
    if feeds is None:
        return "loaded"
    session.run(feeds)
    return "run"


TARGETS: dict[str, Target] = {f.__name__: f for f in (load_onnx, optimise, compile_om, convert, read_om, run_om)}
DEFAULT = {"onnx": "convert", "om": "run_om"}


def _shapes(origin: str) -> dict[str, tuple[int, ...]] | None:
    for model in REAL_MODELS.values():
        if origin.endswith(model.file):
            return model.shapes
    return None


def _feeds(inputs: Sequence[tuple[str, Any, Any]]) -> dict[str, np.ndarray[Any, Any]] | None:
    """Small positive numbers for inputs (name, shape, dtype); None if one is too large or has no array type."""
    rng = np.random.default_rng(3)
    feeds = {}
    for name, shape, dtype in inputs:
        if shape is None or None in shape or dtype is None or np.prod(shape, dtype=float) > 1e7:
            return None
        feeds[name] = (rng.random(tuple(int(d) for d in shape)) * 3).astype(dtype)
    return feeds


def _ort(model: bytes | str, feeds: Arrays) -> list[Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(ort.InferenceSession(model, options).run(None, dict(feeds)))


def _judge(path: Path, feeds: Arrays) -> list[Any] | None:
    """ONNX Runtime's outputs for the damaged model itself; None when it refuses the model or NaNs are involved.

    (Once a NaN is in the graph, even the runtime's own kernels disagree about what Relu and Clip make of it.)
    """
    from asc_devkit.frontends.onnx import load

    for value in load(path).model.graph.initializers.values():
        array = value.const_value.numpy() if value.const_value is not None else np.zeros(0)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return None
    try:
        outputs = _ort(str(path), feeds)
    except Exception:  # its refusals have no common type
        return None
    finite = all(np.isfinite(o).all() for o in outputs if isinstance(o, np.ndarray) and o.dtype.kind in "fc")
    return outputs if finite else None


def _compare(got: list[Any], expected: list[Any], tolerance: float) -> None:
    if len(got) != len(expected):
        raise Wrong(f"{len(got)} outputs instead of {len(expected)}")
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Wrong(f"output {index} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}")
        with np.errstate(all="ignore"):
            near = np.isclose(a.astype(np.complex128), b.astype(np.complex128), tolerance, tolerance, equal_nan=True)
        if not near.all():
            raise Wrong(f"output {index} differs in {int((~near).sum())} of {near.size} elements")
