"""``to_onnx``: a prototxt and its caffemodel in, an ONNX model with the same names out, or one error that says it all."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.caffe.emit import Graph, LayerError, Site, Value
from asc_devkit.frontends.caffe.network import Layer, Network, network
from asc_devkit.frontends.caffe.text import MAX_BYTES, Message, TextError, parse
from asc_devkit.frontends.caffe.weights import MAX_BYTES as MAX_WEIGHTS
from asc_devkit.frontends.caffe.weights import Weights, read
from asc_devkit.frontends.wire_format import WireFault

_WEIGHTED: Final = frozenset({"Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution", "InnerProduct",
                              "BatchNorm", "BN", "PReLU", "Embed", "LSTM", "RNN", "Normalize"})  # fmt: skip
# Fields of parameter messages that matter only while training, or that name an implementation.
_FOR_TRAINING: Final = frozenset({"weight_filler", "bias_filler", "filler", "scale_filler", "slope_filler", "engine",
                                  "moving_average_fraction", "momentum", "num_axes", "axis"})  # fmt: skip


def to_onnx(
    text: bytes | mmap,
    weights: bytes | mmap,
    name: str,
    shapes: Mapping[str, Sequence[int]] | None = None,
    out_nodes: Sequence[str] | None = None,
) -> tuple[onnx.ModelProto, list[str]]:
    """Convert; ``shapes`` replaces or supplies input shapes. Returns the model and remarks for the user.

    ``out_nodes``: only what these blobs and layers (``layer:0``) need has to be convertible.

    ``text`` and ``weights`` are file contents, ``name`` the prototxt's for messages. Raises ``AscError``
    with every unsupported layer type, or else every layer that cannot be converted.
    """
    from asc_devkit.frontends.caffe.layers import HANDLERS

    net = _network(text, name)
    if out_nodes:
        _prune(net, out_nodes)
    stored = _weights(weights)
    unknown = [layer for layer in net.layers if layer.type not in HANDLERS]
    if unknown:
        raise AscError(_unsupported(unknown, list(HANDLERS)))
    bare = [layer for layer in net.layers if layer.type in _WEIGHTED and layer.name not in stored.layers]
    if bare:
        raise AscError([_without_weights(layer, list(stored.layers)) for layer in bare])
    graph, blobs = Graph(), _inputs(net, shapes or {})
    graph.inputs = list(blobs.values())
    problems: list[Problem] = []
    warnings = list(net.warnings)
    lost: set[str] = set()  # blobs of layers that failed: what depends on them is not judged
    versions: dict[str, list[tuple[str, Value]]] = {top: [("", value)] for top, value in blobs.items()}
    used: set[str] = set()
    for layer in net.layers:
        used.update(b for b in layer.bottoms if b not in layer.tops)
        if lost & set(layer.bottoms):
            lost.update(layer.tops)
            continue
        try:
            values = _build(layer, graph, blobs, stored, warnings)
        except (LayerError, TextError) as error:
            what = error.what if isinstance(error, TextError) else str(error)
            line = error.line if isinstance(error, TextError) else layer.message.line
            problems.append(_refused(layer, what, f"{name}, line {line}"))
            lost.update(layer.tops)
            continue
        for top, value in zip(layer.tops, values, strict=True):
            used.discard(top)
            versions.setdefault(top, []).append((layer.name, value))
            blobs[top] = value
    if problems:
        raise AscError(problems)
    for top, history in versions.items():  # the last version keeps the blob's name, inputs keep theirs
        plain = 0 if top in net.inputs else len(history) - 1
        for place, (layer_name, value) in enumerate(history):
            value.name = top if place == plain else f"{top}/{layer_name}"
    graph.outputs = [value for top, value in blobs.items() if top not in used and value not in graph.inputs]
    if not graph.outputs:
        raise AscError(_problem("E11022", "the net has no output: every blob is used by another layer", "", ()))
    return graph.proto(net.name or Path(name).stem), warnings


def input_shapes(text: bytes | mmap, name: str) -> dict[str, tuple[int, ...]]:
    """Input names and shapes as the prototxt states them (empty where it does not). Raises ``AscError``."""
    return dict(_network(text, name).inputs)


def _network(text: bytes | mmap, name: str) -> Network:
    try:
        if len(text) > MAX_BYTES:
            raise TextError(f"it is larger than {MAX_BYTES >> 20} MiB", 1)
        return network(parse(bytes(text).decode("utf-8-sig")))
    except UnicodeDecodeError:
        what, line = "it is no text file", 1
        fix = "give the .prototxt with --model and the .caffemodel with --weight"
    except TextError as error:
        what, line, fix = (
            error.what,
            error.line,
            "correct the line; `layer { name: ... type: ... }` is the form expected",
        )
    raise AscError(
        _problem(
            "E11032", f"{name!r} cannot be read as a Caffe prototxt: {what} (line {line})", fix, (f"{name}:{line}",)
        )
    )


def _prune(net: Network, out_nodes: Sequence[str]) -> None:
    """Leave only the layers that the named blobs and layers need; names that do not exist are judged later."""
    layers = {text.strip().rpartition(":")[0] for text in out_nodes}
    needed = {text.strip() for text in out_nodes}
    kept = []
    for layer in reversed(net.layers):
        if layer.name in layers or needed & set(layer.tops):
            kept.append(layer)
            needed = (needed - set(layer.tops)) | set(layer.bottoms)
    if kept:
        net.layers = kept[::-1]
        net.inputs = {name: shape for name, shape in net.inputs.items() if name in needed}


def _weights(data: bytes | mmap) -> Weights:
    cause, fix = "the file is damaged or no caffemodel", "fetch the file again and compare its size"
    try:
        if len(data) <= MAX_WEIGHTS:
            stored = read(data)
            if stored.count:
                return stored
            what = "there is no layer in it"
        else:
            what, cause, fix = "it is larger than 2 GiB", "", "convert the net to ONNX with external data"
    except WireFault as error:
        what = f"{error.what} (at byte {error.offset} of {len(data)})"
        cause = "an interrupted download or copy" if error.truncated else cause
    raise AscError(
        _problem("E11032", f"the --weight file cannot be read as a caffemodel: {what}", fix, ("--weight",), cause)
    )


def _inputs(net: Network, shapes: Mapping[str, Sequence[int]]) -> dict[str, Value]:
    problems = []
    blobs: dict[str, Value] = {}
    for name, declared in net.inputs.items():
        shape = tuple(shapes.get(name, declared))
        if not shape or any(d == -1 for d in shape):
            fix = f'give it with --input_shape="{name}:1,3,224,224" (the sizes of your net)'
            problems.append(_problem("E10001", f"the input {name!r} has no fixed shape: {list(shape)}", fix, (name,)))
        elif any(d <= 0 for d in shape) or np.prod([float(d) for d in shape]) > 2**31:
            problems.append(
                _problem(
                    "E11027",
                    f"the input {name!r} has the shape {list(shape)}",
                    "correct the prototxt or --input_shape",
                    (name,),
                )
            )
        blobs[name] = Value(shape, name)
    if not blobs:
        problems.append(_problem("E11022", "the net has no input", "add an Input layer", ()))
    if problems:
        raise AscError(problems)
    return blobs


def _build(layer: Layer, graph: Graph, blobs: dict[str, Value], stored: Weights, warnings: list[str]) -> list[Value]:
    from asc_devkit.frontends.caffe.layers import HANDLERS

    missing = [b for b in layer.bottoms if b not in blobs]
    if missing:
        near = difflib.get_close_matches(missing[0], list(blobs), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise LayerError(f"its bottom {missing[0]!r} is no top of a layer before it{hint}")
    clash = [t for t in layer.tops if t in blobs and t not in layer.bottoms]
    if clash or len(set(layer.tops)) != len(layer.tops):
        raise LayerError(f"its top {(clash or layer.tops)[0]!r} is produced twice")
    if not layer.tops:
        raise LayerError("it has no top")
    arrays = [blob.astype(np.float32) for blob in stored.layers.get(layer.name, [])]
    site = Site(layer, graph, [blobs[b] for b in layer.bottoms], arrays)
    start = len(graph.nodes)
    results = HANDLERS[layer.type](site)
    if len(results) != len(layer.tops):
        raise LayerError(f"it has {len(layer.tops)} tops, {len(results)} are expected")
    warnings += site.warnings
    for message in site.params:
        warnings += _unread(layer, message)
    return site.finish(results, start)


def _unread(layer: Layer, message: Message) -> list[str]:
    found = []
    for field in message.unread():
        if field not in _FOR_TRAINING:
            near = difflib.get_close_matches(field, [a for a in message.asked if a not in message.fields], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            found.append(f"layer {layer.name!r}: the field {field!r} is not known and has no effect{hint}")
    return found


def _unsupported(layers: list[Layer], known: list[str]) -> list[Problem]:
    by_type: dict[str, list[str]] = {}
    for layer in layers:
        by_type.setdefault(layer.type, []).append(layer.name)
    problems = []
    for kind, names in by_type.items():
        near = difflib.get_close_matches(kind, known, 1, 0.75)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        problems.append(
            Problem(
                "E11009",
                f"ATC unsupported op type: {kind}. No Caffe parser exists for the type of {len(names)} layer(s){hint}",
                "The type belongs to a fork of Caffe, or is misspelt.",
                "Express it with supported layers (docs/front_ends.md), or cut the net before it with --out_nodes.",
                tuple(f"{name} ({kind})" for name in names),
                "EE2004",
            )
        )
    return problems


def _without_weights(layer: Layer, known: list[str]) -> Problem:
    near = difflib.get_close_matches(layer.name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    what = f"layer {layer.name!r} ({layer.type}): the caffemodel holds no weights for it{hint}"
    return _problem(
        "E11029",
        what,
        "give the caffemodel that was trained with this prototxt: weights go by layer name",
        (layer.name,),
    )


def _refused(layer: Layer, what: str, where: str) -> Problem:
    return _problem(
        "E14001", f"layer {layer.name!r} ({layer.type}): {what}", f"correct the layer in {where}", (layer.name,)
    )


def _problem(code: str, what: str, fix: str, nodes: tuple[Any, ...], cause: str = "") -> Problem:
    return Problem(code, what, cause, fix, tuple(str(n)[:300] for n in nodes), "EE1001")
