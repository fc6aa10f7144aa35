"""`atc --mode=1|3|6` and the refusals of the other modes. Mode 0 is ``pipeline.compile``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asc_devkit import files
from asc_devkit.errors import AscError, Problem

_REFUSED = {
    "5": "Dump text of the vendor's compiler (ge_proto_*.txt) is not read yet; `asc om json` reads .om files.",
    "7": "The .om2 container is not written yet; use mode 0.",
    "30": ".exeom files are for Ascend035 only and are not written.",
}


def run_mode(mode: str, flags: Mapping[str, str]) -> str:
    """Carry out a mode other than 0 and return what belongs on stdout. Raises ``AscError``."""
    if mode in _REFUSED:
        raise AscError(
            Problem(
                "E10001",
                f"Value [{mode}] for parameter [mode] is invalid. Reason: it is not supported here.",
                cause="The mode belongs to a part that is not built.",
                fix=_REFUSED[mode],
                nodes=("--mode",),
                seed_class="EE1001",
            )
        )
    if mode == "1":
        return _to_json(flags)
    if mode == "3":
        return _pre_check(flags)
    if mode == "6":
        return model_info(_needed(flags, "om", mode))
    raise AscError(
        Problem(
            "E10001",
            f"Value [{mode}] for parameter [mode] is invalid. Reason: it must be one of 0, 1, 3, 5, 6, 7, 30.",
            nodes=("--mode",),
            seed_class="EE1001",
        )
    )


def _needed(flags: Mapping[str, str], name: str, mode: str) -> str:
    if not flags.get(name):
        raise AscError(
            Problem(
                "E10007",
                f"[--{name}] is required when [--mode] is {mode}.",
                fix=f"Add --{name}=FILE.",
                nodes=(f"--{name}",),
                seed_class="EE1001",
            )
        )
    return flags[name]


def _to_json(flags: Mapping[str, str]) -> str:
    from asc_devkit import om

    target = Path(_needed(flags, "json", "1"))
    source = flags.get("om") or flags.get("model")
    if not source:
        _needed(flags, "om", "1")
    assert source is not None
    if source.endswith(".onnx"):
        import onnx
        from google.protobuf import json_format

        from asc_devkit.frontends.onnx import load

        load(source)
        text = json_format.MessageToJson(onnx.load(source, load_external_data=False), indent=2)
    else:
        text = om.to_json(om.read(source))
    files.write_text(target, text + "\n")
    return f"JSON written to {target}\n"


def _pre_check(flags: Mapping[str, str]) -> str:
    """Parse, optimise and map the model, then write the report: ok, or every operator that is to blame."""
    import json
    import tempfile

    from asc_devkit.atc.options import from_flags
    from asc_devkit.atc.pipeline import compile as convert
    from asc_devkit.om.mbatch import largest

    report = Path(flags.get("check_report", "check_result.json"))
    with tempfile.TemporaryDirectory() as scratch:
        wanted = {k: v for k, v in flags.items() if k != "mode"}
        wanted["output"] = str(Path(scratch) / "checked")
        wanted.setdefault("soc_version", "Ascend310P3")
        result = convert(from_flags(wanted))
        gear = largest(result.model)  # gears differ in shapes only
        graph = result.model.graph if gear is None else gear[1].graph
        rows = [{"name": n.name, "type": n.op_type, "result": "success"} for n in graph]
    files.write_text(report, json.dumps({"op": rows, "result": "success"}, indent=4) + "\n")
    return f"Every operator can be converted; the report is {report}\n"


def model_info(path: str) -> str:
    """The text of `--mode=6`: versions, sizes, inputs and outputs of an ``.om``."""
    from asc_devkit import om

    model = om.read(path)
    attrs: Mapping[str, Any] = model.attrs
    lines = ["============ Display Model Info start ============", f"# {path}"]
    for title, key in (
        ("Original Atc command line", "atc_cmdline"),
        ("system info", "atc_version"),
        ("soc version", "soc_version"),
        ("framework type", "framework_type"),
        ("memory size", "memory_size"),
        ("weight size", "weight_size"),
        ("stream num", "stream_num"),
        ("event num", "event_num"),
    ):
        if key in attrs:
            lines.append(f"{title}: {attrs[key]}")
    for kind, tensors in (("input", model.inputs), ("output", model.outputs)):
        for index, item in enumerate(tensors):
            shape = ",".join(map(str, item.shape))
            lines.append(f"{kind} {index}: name {item.name}, dtype {item.dtype}, shape [{shape}], {item.size} bytes")
    for index, gear in enumerate(model.gears):
        lines.append(f"gear {index}: " + "; ".join(f"{name} [{','.join(map(str, s))}]" for name, s in gear.items()))
    lines.append("============ Display Model Info end   ============")
    return "\n".join(lines) + "\n"
