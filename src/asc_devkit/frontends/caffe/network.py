"""From the prototxt message to the list of layers that exist when the net is used: phases, old layer forms, inputs.

Called by ``load``. Rules of phases, stages and levels follow Caffe's documentation of ``NetStateRule``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from asc_devkit.frontends.caffe.text import Message, TextError

# Layer types whose old enum name (``layers { type: X }``) is not simply the new one in capitals.
_OLD_NAMES: Final = {
    "ABSVAL": "AbsVal", "ACCURACY": "Accuracy", "ARGMAX": "ArgMax", "BNLL": "BNLL", "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss", "CONVOLUTION": "Convolution", "DATA": "Data", "DECONVOLUTION": "Deconvolution",
    "DROPOUT": "Dropout", "DUMMY_DATA": "DummyData", "ELTWISE": "Eltwise", "EUCLIDEAN_LOSS": "EuclideanLoss", "EXP": "Exp",
    "FLATTEN": "Flatten", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output", "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col", "IMAGE_DATA": "ImageData", "INFOGAIN_LOSS": "InfogainLoss", "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN", "MEMORY_DATA": "MemoryData", "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss", "MVN": "MVN",
    "POOLING": "Pooling", "POWER": "Power", "RELU": "ReLU", "SIGMOID": "Sigmoid",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss", "SILENCE": "Silence", "SLICE": "Slice", "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPLIT": "Split", "TANH": "TanH", "THRESHOLD": "Threshold",
    "WINDOW_DATA": "WindowData",
}  # fmt: skip

# Layers that bring data in; their tops become inputs of the model.
DATA_LAYERS: Final = frozenset(
    {
        "Data", "ImageData", "MemoryData", "HDF5Data", "WindowData", "DummyData", "AnnotatedData", "VideoData",
        "ImageSegData", "DenseImageData",
    }
)  # fmt: skip
# Layers that only measure or train; dropped with everything that only they need.
TRAINING_LAYERS: Final = frozenset(
    {
        "Accuracy", "SoftmaxWithLoss", "EuclideanLoss", "HingeLoss", "InfogainLoss", "ContrastiveLoss",
        "MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "MultiBoxLoss", "SmoothL1Loss", "DetectionEvaluate",
        "HDF5Output", "Silence", "SegAccuracy",
    }
)  # fmt: skip


@dataclass
class Layer:
    """One layer of the net as it is run. ``old``: written in the form before 2014 (``layers``)."""

    name: str
    type: str
    bottoms: list[str]
    tops: list[str]
    message: Message
    old: bool = False


@dataclass
class Network:
    """Layers in order, model inputs with their shape (empty = not stated), and remarks for the user."""

    name: str
    inputs: dict[str, tuple[int, ...]]
    layers: list[Layer]
    warnings: list[str] = field(default_factory=list)


def network(root: Message) -> Network:
    """The net in its TEST phase. Raises ``TextError`` where the text is no net."""
    old, new = root.messages("layers"), root.messages("layer")
    if old and new:
        raise TextError("both `layer` and the old `layers` are used", old[0].line)
    if not old and not new and not root.texts("input"):
        raise TextError("there is no layer in it", 1)
    state = root.message("state")
    net = Network(root.text("name"), _declared_inputs(root), [])
    if old:
        net.warnings.append("the prototxt uses the old field `layers`, which the vendor's tool refuses (E11021)")
    for message in old or new:
        layer = _layer(message, bool(old))
        if _included(message, state):
            net.layers.append(layer)
    _take_inputs(net)
    _drop_training(net)
    return net


def _layer(message: Message, old: bool) -> Layer:
    if old and message.messages("layer"):
        raise TextError(
            "the prototxt has the form of 2013 (`layers { layer {`); upgrade it with Caffe's tools", message.line
        )
    name = message.text("name")
    if old:
        word = message.enum("type", tuple(_OLD_NAMES), "NONE")
        kind = _OLD_NAMES.get(word, word)
    else:
        kind = message.text("type")
    if not kind:
        raise TextError(f"layer {name!r} has no type", message.line)
    return Layer(name or kind, kind, message.texts("bottom"), message.texts("top"), message, old)


def _included(message: Message, state: Message) -> bool:
    if message.enum("phase", ("TRAIN", "TEST"), "TEST") == "TRAIN":
        return False
    include, exclude = message.messages("include"), message.messages("exclude")
    if include and exclude:
        raise TextError("a layer has both `include` and `exclude` rules", message.line)
    if include:
        return any(_meets(rule, state) for rule in include)
    return not any(_meets(rule, state) for rule in exclude)


def _meets(rule: Message, state: Message) -> bool:
    level, stages = state.integer("level"), set(state.texts("stage"))
    if "phase" in rule and rule.enum("phase", ("TRAIN", "TEST"), "TEST") != "TEST":
        return False
    if "min_level" in rule and level < rule.integer("min_level"):
        return False
    if "max_level" in rule and level > rule.integer("max_level"):
        return False
    return stages >= set(rule.texts("stage")) and not stages & set(rule.texts("not_stage"))


def _declared_inputs(root: Message) -> dict[str, tuple[int, ...]]:
    names = root.texts("input")
    shapes = [tuple(shape.integers("dim")) for shape in root.messages("input_shape")]
    dims = root.integers("input_dim")
    if dims and len(dims) != 4 * len(names):
        raise TextError(
            f"input_dim must give 4 numbers per input, {len(dims)} are given for {len(names)} input(s)", root.line
        )
    if shapes and len(shapes) != len(names):
        raise TextError(f"{len(shapes)} input_shape for {len(names)} input(s)", root.line)
    if dims:
        shapes = [tuple(dims[i : i + 4]) for i in range(0, len(dims), 4)]
    return dict(zip(names, shapes or [()] * len(names), strict=True))


def _take_inputs(net: Network) -> None:
    kept = []
    for layer in net.layers:
        if layer.type == "Input":
            shapes = [tuple(s.integers("dim")) for s in layer.message.message("input_param").messages("shape")]
            if len(shapes) not in (1, len(layer.tops)):
                raise TextError(
                    f"layer {layer.name!r} has {len(layer.tops)} tops and {len(shapes)} shapes", layer.message.line
                )
            shapes = shapes * len(layer.tops) if len(shapes) == 1 else shapes
            net.inputs.update(zip(layer.tops, shapes, strict=True))
        elif layer.type in DATA_LAYERS and not layer.bottoms:
            for top in layer.tops:
                net.inputs[top] = ()
            net.warnings.append(f"the data layer {layer.name!r} is replaced by model inputs: {', '.join(layer.tops)}")
        else:
            kept.append(layer)
    net.layers = kept


def _drop_training(net: Network) -> None:
    """Drop loss, accuracy and the like, and the inputs (labels) and layers that only they use."""
    dropped = [layer for layer in net.layers if layer.type in TRAINING_LAYERS]
    if not dropped:
        return
    net.layers = [layer for layer in net.layers if layer.type not in TRAINING_LAYERS]
    used = {bottom for layer in net.layers for bottom in layer.bottoms}
    labels = {b for layer in dropped for b in layer.bottoms if b in net.inputs and b not in used}
    for name in labels:
        net.inputs.pop(name)
    loud = [layer.name for layer in dropped if layer.type != "Silence"]
    if loud:
        net.warnings.append(f"layers that only measure or train are left out: {', '.join(loud[:8])}")
