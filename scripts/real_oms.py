#!/usr/bin/env python3
"""What works on offline models that the vendor's ATC compiled: python scripts/real_oms.py PATH [--onnx PATH]

PATH is a checkout (or folder) with .om files; --onnx one with the .onnx files they may come from (default: PATH too).
Nothing of either belongs in this repository. Public ones to try, as of 2026:
HelloChang1/Nanotrack_Atlas200I_Inference (3, CANN 8.0), fairysli/Nanotrack_Atlas (3, CANN 5.1); their sources are
NanoTrack/models/nanotrackv3 of HonglinChu/SiamTrackers.

Columns: weights that equal an initializer of the best fitting ONNX file bit for bit in fp16 (of all float weights with
more than one element), facts that execution guesses, cosine of each output against that ONNX file in ONNX Runtime
(measured, random inputs, seed 0), and of the ONNX model rebuilt from the OM.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from asc_devkit import npu, om
from asc_devkit.errors import AscError
from asc_devkit.om.extract import extract
from asc_devkit.om.show import summary
from asc_devkit.om.to_onnx import rebuild
from asc_devkit.precision import compare

Array = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--onnx", type=Path, help="where the ONNX sources are")
    options = parser.parse_args()
    sources = {path: _initializers(path) for path in sorted((options.onnx or options.path).rglob("*.onnx"))}
    print("| model | CANN | shown | decompressed | weights equal | runs | guesses | cosine to source | rebuilt ONNX |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in sorted(options.path.rglob("*.om")):
        print("| " + " | ".join(_row(path, sources)) + " |", flush=True)


def _row(path: Path, sources: dict[Path, dict[bytes, str]]) -> list[str]:
    try:
        file = om.read(path)
        facts = summary(file)
    except AscError as error:
        return [path.name, "", str(error)[:80], *[""] * 6]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.om"
        file.rewrite(plain, compressed=False)
        same = om.read(plain).model_def == file.model_def and len(om.read(plain).weights) == len(file.weights)
        rows = extract(path, Path(folder) / "weights")
        weights = [np.load(Path(folder) / "weights" / r["file"]) for r in rows if r["dtype"] in ("FLOAT", "FLOAT16")]
    keys = [_key(w) for w in weights if w.size > 1]
    best = max(sources, key=lambda s: sum(k in sources[s] for k in keys), default=None)
    equal = 0 if best is None else sum(k in sources[best] for k in keys)
    head = [path.name, str(facts["attributes"].get("atc_version", "")), "yes", "yes" if same else "differs"]
    head.append(f"{equal} of {len(keys)}" + (f" ({best.name})" if best is not None and equal else ""))
    try:
        session = npu.load(file, cache=False)
        rng = np.random.default_rng(0)
        feeds = {t.name: rng.standard_normal(t.shape).astype(t.dtype) for t in session.fixed_inputs()}
        outputs = list(session.run(feeds).values())
        made = rebuild(file)
        again = _run(made.proto().SerializeToString(), feeds)
    except AscError as error:
        return [*head, str(error)[:80], "", "", ""]
    cosines, rebuilt = "", ", ".join(f"{_cosine(a, b):.7f}" for a, b in zip(again, outputs, strict=True))
    if best is not None and equal:
        wanted = _run(best, feeds)
        cosines = (
            "other shapes"
            if wanted is None
            else ", ".join(f"{_cosine(a, b):.7f}" for a, b in zip(outputs, wanted, strict=True))
        )
    return [*head, "yes", str(len(made.guesses)), cosines, rebuilt]


def _initializers(path: Path) -> dict[bytes, str]:
    """Weights of an ONNX file by content, also transposed, as the compiler may store matrices."""
    found: dict[bytes, str] = {}
    for tensor in onnx.load(path).graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            found[_key(array)] = tensor.name
    return found


def _key(array: Array) -> bytes:
    half = np.ascontiguousarray(array.astype(np.float16))
    return repr(half.shape).encode() + half.tobytes()


def _run(model: Any, feeds: dict[str, Array]) -> Any:
    """Outputs in ONNX Runtime; None when the inputs do not fit."""
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    session = ort.InferenceSession(model, quiet, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    if len(inputs) != len(feeds):
        return None
    try:
        return session.run(None, dict(zip((i.name for i in inputs), feeds.values(), strict=True)))
    except Exception:
        return None


def _cosine(a: Array, b: Array) -> float:
    return float(compare(np.asarray(a, np.float32), np.asarray(b, np.float32)).cosine)


if __name__ == "__main__":
    main()
