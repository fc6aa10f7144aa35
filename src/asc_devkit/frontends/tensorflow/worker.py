"""The process that imports TensorFlow: reads ``request.json`` in the folder given, writes ``model.onnx`` and ``answer.json``.

Started by ``convert`` as ``python -m asc_devkit.frontends.tensorflow.worker FOLDER``; says nothing on its streams that matters.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

OPSET = 18  # the newest that tf2onnx writes


class _Unsupported(logging.Handler):
    """Collects the operators that tf2onnx names in its log."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        match = re.search(r"Tensorflow op \[(.*): (\w+)\] is not supported", record.getMessage())
        if match:
            self.found.setdefault(match[2], []).append(match[1])


def main(folder: Path) -> None:
    """Convert as asked."""
    request = json.loads((folder / "request.json").read_text())
    unsupported = _Unsupported()
    answer: dict[str, Any] = {}
    try:
        _convert(request, folder / "model.onnx", unsupported)
    except Exception as error:  # the parent turns it into a sentence
        answer = {"error": f"{type(error).__name__}: {error}"}
    if unsupported.found:
        answer["unsupported"] = unsupported.found
    (folder / "answer.json").write_text(json.dumps(answer))


def _convert(request: dict[str, Any], target: Path, unsupported: logging.Handler) -> None:
    import onnx
    import tensorflow as tf
    import tf2onnx

    for name in ("tf2onnx", "tf2onnx.tfonnx"):
        logging.getLogger(name).addHandler(unsupported)
    graph_def = tf.compat.v1.GraphDef()
    graph_def.ParseFromString(Path(request["graph"]).read_bytes())
    _rewrite(tf, graph_def)
    model, _ = tf2onnx.convert.from_graph_def(
        graph_def,
        input_names=request["inputs"],
        output_names=_outputs(tf, graph_def, request["outputs"]),
        opset=OPSET,
        shape_override=request["shapes"] or None,
    )
    for graph in (model.graph,):
        _rename(graph, {name: name.removesuffix(":0") for name in request["inputs"]})
    model.producer_name = "TensorFlow"
    onnx.save(model, str(target))


def _rewrite(tf: Any, graph_def: Any) -> None:
    """Operators that tf2onnx lacks and simpler ones express: erfc(x) = 1 - erf(x), in the graph and its functions."""
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in [node for node in nodes if node.op == "Erfc"]:
            inside = nodes is not graph_def.node
            erf, one = nodes.add(), nodes.add()
            erf.name, erf.op = f"{node.name}/erf", "Erf"
            erf.input.append(node.input[0])
            erf.attr["T"].CopyFrom(node.attr["T"])
            one.name, one.op = f"{node.name}/one", "Const"
            kind = tf.as_dtype(node.attr["T"].type)
            one.attr["dtype"].type = node.attr["T"].type
            one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0, kind))
            node.op = "Sub"
            node.input[:] = [f"{one.name}:output:0", f"{erf.name}:y:0"] if inside else [one.name, erf.name]


def _outputs(tf: Any, graph_def: Any, wanted: list[str]) -> list[str]:
    """``node:index`` as given; every output of a node named without index."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    names = []
    for text in wanted:
        if text.rpartition(":")[1]:
            names.append(text)
        else:
            names += [output.name for output in graph.get_operation_by_name(text).outputs]
    return names


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename values in the graph and in the bodies of its nodes."""
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _rename(body, names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
