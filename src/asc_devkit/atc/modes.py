"""`atc --mode=1|3|5|6`: looking into files and checking a model. Modes 0 and 7 are ``pipeline.compile``; 30 is refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from asc_devkit import files
from asc_devkit.atc import option_rules
from asc_devkit.errors import AscError, Problem

MAX_DUMP_BYTES: Final = 512 << 20  # a graph as text, without weights


def run_mode(mode: str, flags: Mapping[str, str]) -> str:
    """Carry out a mode that converts nothing and return what belongs on stdout. Raises ``AscError``."""
    from asc_devkit.atc.options import table

    if mode == "30":
        raise AscError(
            Problem(
                "E10055",
                "--mode=30 is not supported: .exeom files are for Ascend035 only.",
                cause="They hold the tasks of one small chip, which is not modelled here.",
                fix="Use --mode=0 and another chip.",
                nodes=("--mode",),
                seed_class="EE1055",
            )
        )
    if problems := option_rules.check(flags, table()):
        raise AscError(problems)
    return {"1": _to_json, "3": _pre_check, "5": _dump_to_json, "6": _info}[mode](flags)


def _info(flags: Mapping[str, str]) -> str:
    return model_info(flags["om"])


def _to_json(flags: Mapping[str, str]) -> str:
    """An ``.om``, or an original model (with ``--framework``, or called ``.onnx``), as JSON."""
    from asc_devkit import om

    source = flags.get("om") or flags["model"]
    if flags.get("framework") or source.endswith(".onnx"):
        text = _original(source, flags)
    else:
        text = om.to_json(om.read(source))
    return _written(Path(flags["json"]), text)


def _original(source: str, flags: Mapping[str, str]) -> str:
    """The model as the front end reads it, in ONNX's own JSON; ``--dump_mode=1`` adds the shapes of all tensors."""
    import onnx
    from google.protobuf import json_format

    from asc_devkit.frontends.source import Source

    opened = Source(Path(source), flags.get("framework", "5"), Path(flags["weight"]) if flags.get("weight") else None)
    if opened.is_onnx:
        opened.load(host_ops=True, allow_empty=True)  # the checks of a hostile file
        model = onnx.load(source, load_external_data=False)
    else:
        model, _ = opened.to_onnx()
    if flags.get("dump_mode") == "1":
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return json_format.MessageToJson(model, indent=2)


def _dump_to_json(flags: Mapping[str, str]) -> str:
    """A graph that the vendor's compiler dumped as text (``ge_proto_*.txt``) as JSON, in the form of ``--mode=1``."""
    from google.protobuf import json_format, text_format

    from asc_devkit.ge.proto import ge_ir_pb2

    path = Path(flags["om"])
    try:
        if path.stat().st_size > MAX_DUMP_BYTES:
            raise AscError(_no_dump(path, f"it has more than {MAX_DUMP_BYTES >> 20} MiB"))
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        what = f"Cannot open {path}: {error.strerror or error}."
        raise AscError(Problem("E13001", what, fix="Check the path.", nodes=("--om",), seed_class="EE1001")) from error
    except UnicodeDecodeError as error:
        raise AscError(_no_dump(path, "it is no text")) from error
    try:
        model = text_format.Parse(text, ge_ir_pb2.ModelDef())
    except (text_format.ParseError, ValueError, RecursionError) as error:
        raise AscError(_no_dump(path, str(error).splitlines()[0][:200])) from error
    if not model.graph:
        raise AscError(_no_dump(path, "it holds no graph"))
    return _written(
        Path(flags["json"]),
        json_format.MessageToJson(model, indent=2, preserving_proto_field_name=True, sort_keys=True),
    )


def _no_dump(path: Path, reason: str) -> Problem:
    return Problem(
        "E10001",
        f"Value [{path}] for parameter [om] is invalid. Reason: it is no dumped graph: {reason}.",
        cause="--mode=5 reads the text form of a graph that the vendor's compiler dumps with DUMP_GE_GRAPH.",
        fix="Give a ge_proto_*.txt; ge_onnx_*.pbtxt opens in netron, and --mode=1 turns an .om into JSON.",
        nodes=("--om",),
        seed_class="EE1001",
    )


def _written(target: Path, text: str) -> str:
    files.write_text(target, text + "\n")
    return f"JSON written to {target}\n"


def _pre_check(flags: Mapping[str, str]) -> str:
    """Parse, optimise and map the model, then write the report: ok, or every operator that is to blame."""
    from asc_devkit.atc.options import from_flags, table
    from asc_devkit.atc.pipeline import compile as convert
    from asc_devkit.om.mbatch import largest

    report = Path(flags.get("check_report") or table()["check_report"].default)
    with tempfile.TemporaryDirectory() as scratch:
        result = convert(from_flags({**flags, "mode": "0", "output": str(Path(scratch) / "checked")}))
        gear = largest(result.model)  # gears differ in shapes only
        graph = result.model.graph if gear is None else gear[1].graph
        rows = [{"name": n.name, "type": n.op_type, "result": "success"} for n in graph]
    files.write_text(report, json.dumps({"op": rows, "result": "success"}, indent=4) + "\n")
    return f"Every operator can be converted; the report is {report}\n"


def model_info(path: str) -> str:
    """The text of ``--mode=6``, line for line as the vendor's: command line, versions, resources, sizes of the parts."""
    from asc_devkit import om
    from asc_devkit.om.container import Part

    model = om.read(path)
    attrs: Mapping[str, Any] = model.attrs

    def shown(*names: str, unit: str = "") -> str:
        return ", ".join(f"{name}[{attrs.get(name, '')}{unit}]" for name in names)

    parts = {
        "modeldef_size": Part.MODEL_DEF,
        "weight_data_size": Part.WEIGHTS_DATA,
        "tbe_kernels_size": Part.TBE_KERNELS,
        "cust_aicpu_kernel_store_size": Part.CUST_AICPU_KERNELS,
        "task_info_size": Part.TASK_INFO,
        "so_store_size": Part.SO_BINS,
    }
    sizes = ", ".join(f"{name}[{len(model.part(kind))} B]" for name, kind in parts.items())
    lines = [
        "============ Display Model Info start ============",
        f"Original Atc command line: {attrs.get('atc_cmdline', '')}",
        f"system   info: {shown('atc_version', 'soc_version', 'framework_type')}.",
        f"resource info: {shown('memory_size', 'weight_size', unit=' B')}, {shown('stream_num', 'event_num')}.",
        f"om       info: {sizes}.",
        "============ Display Model Info end   ============",
    ]
    return "\n".join(lines) + "\n"
