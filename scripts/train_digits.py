"""Train the embedded example: a small CNN on scikit-learn's handwritten digits, written as ONNX with a held-out split.

Run with the `train` extra installed: `python scripts/train_digits.py`. Seeds are fixed and one thread is used, so the same
torch version gives the same files. Prints the held-out accuracy and fails below 98 %.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

TARGET = Path(__file__).resolve().parent.parent / "src" / "asc_devkit" / "check" / "example"
SEED = 20
EPOCHS = 60
BATCH = 64
HELD_OUT = 360
OPSET = 17
SOURCE = "scikit-learn's digits: UCI Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak), CC BY 4.0"


class DigitsNet(nn.Module):
    """A convolution, a residual block, pooling, a second convolution and a classifier: what small vision models have."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv_norm(1, 16)
        self.left = _conv_norm(16, 16)
        self.right = _conv_norm(16, 16)
        self.wide = _conv_norm(16, 32)
        self.classify = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Scores before the softmax, float32 (N, 10), of images float32 (N, 1, 8, 8) in 0..1."""
        x = torch.relu(self.stem(image))
        x = torch.relu(x + self.right(torch.relu(self.left(x))))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.wide(x))
        x = nn.functional.avg_pool2d(x, 2)
        return self.classify(x.flatten(1))


def _conv_norm(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.BatchNorm2d(channels_out))


def train(images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> DigitsNet:
    """Fit with AdamW and a one-cycle rate; images move by up to one pixel, which is all the augmentation 8x8 bears."""
    net = DigitsNet()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-2, total_steps=steps)
    for _ in range(EPOCHS):
        for picked in torch.randperm(len(x)).split(BATCH):
            down, right = torch.randint(-1, 2, (2,)).tolist()
            moved = torch.roll(x[picked], (down, right), (2, 3))
            loss = nn.functional.cross_entropy(net(moved), y[picked], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return net.eval()


class _Writer:
    """Collects ONNX nodes and initializers from trained layers."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, name: str, inputs: list[str], **attributes: Any) -> str:
        """Append a node called ``name``; returns the name of its output."""
        output = f"{name}_output_0"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def conv_norm(self, path: str, layers: nn.Sequential, x: str) -> str:
        """Conv and BatchNormalization as they were trained: folding them is the converter's work, not ours."""
        conv, norm = layers
        x = self.add("Conv", f"/{path}/Conv", [x, *self._tensors(path, conv, "weight", "bias")], pads=[1, 1, 1, 1])
        facts = self._tensors(f"{path}.norm", norm, "weight", "bias", "running_mean", "running_var")
        return self.add("BatchNormalization", f"/{path}/BatchNormalization", [x, *facts], epsilon=norm.eps)

    def linear(self, path: str, layer: nn.Linear, x: str) -> str:
        return self.add("Gemm", f"/{path}/Gemm", [x, *self._tensors(path, layer, "weight", "bias")], transB=1)

    def _tensors(self, path: str, layer: nn.Module, *names: str) -> list[str]:
        for name in names:
            array = getattr(layer, name).detach().numpy()
            self.weights.append(numpy_helper.from_array(array, f"{path}.{name}"))
        return [f"{path}.{name}" for name in names]


def to_onnx(net: DigitsNet) -> onnx.ModelProto:
    """The trained network with its softmax, batch axis open."""
    w = _Writer()
    x = w.add("Relu", "/stem/Relu", [w.conv_norm("stem", net.stem, "image")])
    y = w.add("Relu", "/left/Relu", [w.conv_norm("left", net.left, x)])
    x = w.add("Add", "/residual/Add", [x, w.conv_norm("right", net.right, y)])
    x = w.add("Relu", "/residual/Relu", [x])
    x = w.add("MaxPool", "/MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = w.add("Relu", "/wide/Relu", [w.conv_norm("wide", net.wide, x)])
    x = w.add("AveragePool", "/AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = w.linear("classify", net.classify, w.add("Flatten", "/Flatten", [x], axis=1))
    w.nodes.append(helper.make_node("Softmax", [x], ["probabilities"], name="/Softmax", axis=-1))
    graph = helper.make_graph(
        w.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        w.weights,
        doc_string=f"Handwritten digits. Data: {SOURCE}.",
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="train_digits.py")
    model.ir_version = 8  # of the opset's time, so that old readers open it
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, check and write digits.onnx and held_out.npz."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=HELD_OUT, random_state=SEED, stratify=labels
    )
    net = train(x_train, y_train)
    model = to_onnx(net)
    with torch.no_grad():
        predicted = net(torch.from_numpy(x_test)).argmax(1).numpy()
    accuracy = float((predicted == y_test).mean())
    if accuracy < 0.98:
        raise SystemExit(f"held-out accuracy {accuracy:.4f} is below 0.98; nothing written")
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.savez_compressed(TARGET / "held_out.npz", image=x_test, labels=y_test)
    size = (TARGET / "digits.onnx").stat().st_size
    print(f"held-out accuracy {accuracy:.4f} on {len(y_test)} images; digits.onnx {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
