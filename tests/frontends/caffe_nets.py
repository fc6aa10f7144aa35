"""Caffe files made for tests (own protobuf writer), and the two ways they are run: by us and by OpenCV's Caffe importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from asc_devkit.frontends import caffe

Array = np.ndarray[Any, Any]
Weights = Mapping[str, Sequence[Array]]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def caffemodel(weights: Weights, old: bool = False, four_dims: bool = False) -> bytes:
    """A caffemodel holding ``weights`` by layer name; ``old``: as V1 layers; ``four_dims``: num/channels/height/width."""
    parts = [field(1, b"net")]
    for name, blobs in weights.items():
        body = field(4 if old else 1, name.encode())
        for blob in blobs:
            if four_dims:
                dims = (*[1] * (4 - blob.ndim), *blob.shape)
                shape = b"".join(varint(i << 3) + varint(d) for i, d in enumerate(dims, 1))
            else:
                shape = field(7, field(1, b"".join(varint(d) for d in blob.shape)))
            body += field(6 if old else 7, shape + field(5, blob.astype("<f4").tobytes()))
        parts.append(field(2 if old else 100, body))
    return b"".join(parts)


def inputs_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Input layers for the shapes."""
    return "".join(
        f'layer {{ name: "{n}" type: "Input" top: "{n}" input_param {{ shape {{ {" ".join(f"dim: {d}" for d in s)} }} }} }}\n'
        for n, s in shapes.items()
    )


def converted(
    text: str, weights: Weights, shapes: Mapping[str, Sequence[int]] | None = None, **kinds: bool
) -> tuple[onnx.ModelProto, list[str]]:
    """The checked ONNX model and the remarks."""
    model, warnings = caffe.to_onnx(text.encode(), caffemodel(weights, **kinds), "net.prototxt", shapes)
    onnx.checker.check_model(model, full_check=True)
    return model, warnings


def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs under ONNX Runtime; also checks that the shapes worked out by the importer are the true ones."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    results = dict(zip(names, session.run(None, dict(feeds)), strict=True))
    for out in session.get_outputs():
        assert tuple(out.shape) == results[out.name].shape
    return results


def opencv(folder: Path, text: str, weights: Weights, feeds: Mapping[str, Array]) -> list[Array]:
    """What OpenCV's Caffe importer computes for the net's outputs."""
    import cv2

    (folder / "net.prototxt").write_text(text)
    (folder / "net.caffemodel").write_bytes(caffemodel(weights))
    net = cv2.dnn.readNetFromCaffe(str(folder / "net.prototxt"), str(folder / "net.caffemodel"))
    for name, value in feeds.items():
        net.setInput(value, name)
    return [np.asarray(v) for v in net.forward(net.getUnconnectedOutLayersNames())]
