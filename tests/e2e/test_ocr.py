"""OCR recognition on rendered text loses no more than 0.1 point of character accuracy in fp16."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from PIL import Image, ImageDraw, ImageFont

from asc_devkit import npu
from tests.e2e.converted import convert
from tests.models import model_path

WORDS = [
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "Ascend", "kernel", "tensor", "matrix", "2024"),
    *("1987", "Hello", "World", "OCR", "test", "Price", "35.90", "total", "120", "Model", "layer", "input", "output"),
    *("stream", "Event"),
]


def _texts(count: int) -> list[str]:
    rng = random.Random(0)
    made = []
    for _ in range(count):
        text = rng.choice(WORDS)
        while len(text) < 12 and rng.random() < 0.7:
            text += " " + rng.choice(WORDS)
        made.append(text)
    return made


def _render(text: str) -> np.ndarray[Any, Any]:
    font = ImageFont.load_default(36)
    width = int(font.getlength(text)) + 16
    image = Image.new("RGB", (width, 48), "white")
    ImageDraw.Draw(image).text((8, 2), text, fill="black", font=font)
    if width > 320:
        image = image.resize((320, 48))
    pixels = np.asarray(image).astype(np.float32) / 127.5 - 1
    canvas = np.zeros((1, 3, 48, 320), np.float32)
    canvas[0, :, :, : pixels.shape[1]] = pixels.transpose(2, 0, 1)[::-1]
    return canvas


def _decode(scores: np.ndarray[Any, Any], characters: list[str]) -> str:
    text, last = "", 0
    for index in scores.argmax(-1):
        if index != last and index != 0:
            text += characters[index]
        last = index
    return text.strip()


def _distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def test_character_accuracy_of_rendered_text_survives_fp16() -> None:
    path = model_path("ppocr_rec")
    meta = {item.key: item.value for item in onnx.load(path).metadata_props}
    characters = ["blank", *meta["character"].splitlines(), " "]
    original = ort.InferenceSession(str(path))
    converted = npu.load(convert("ppocr_rec", "Ascend310P3").om_path)
    wrong = {"fp32": 0, "fp16": 0}
    total = 0
    for text in _texts(150):
        feed = {"x": _render(text)}
        total += len(text)
        wrong["fp32"] += _distance(text, _decode(original.run(None, feed)[0][0], characters))
        (scores,) = converted.run(feed).values()
        wrong["fp16"] += _distance(text, _decode(scores[0], characters))
    accuracy = {name: 100 * (1 - count / total) for name, count in wrong.items()}
    print(f"character accuracy over {total}: fp32 {accuracy['fp32']:.2f} %, fp16 {accuracy['fp16']:.2f} %")
    assert accuracy["fp32"] >= 99.5
    assert accuracy["fp16"] >= accuracy["fp32"] - 0.1
