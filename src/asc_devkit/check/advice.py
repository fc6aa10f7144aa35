"""What to do next: concrete steps drawn from the report's figures, most useful first, with a command where one exists."""

from __future__ import annotations

import shlex
from typing import Any, Final

from asc_devkit.report import text

MOST: Final = 8
LAUNCH_SHARE: Final = 0.4  # beyond this, small kernels dominate
MOVE_SHARE: Final = 0.1  # conversions between types and formats worth a word
TOP_SHARE: Final = 0.15  # one operator worth a look of its own
_FP32_MODE: Final = "allow_fp32_to_fp16"  # vector operators keep fp32
_UNSUPPORTED: Final = "E16002"  # no engine takes the operator

Step = dict[str, str]


def advice(report: dict[str, Any]) -> list[Step]:
    """At most ``MOST`` steps; each has a ``text`` and a ``command``, which may be empty."""
    if report.get("problems"):
        return _after_failure(report)[:MOST]
    return [*_accuracy(report), *_speed(report), *_conversion(report)][:MOST]


def command(report: dict[str, Any], *extra: str) -> str:
    """The check's own command line with other options, safe to paste into a shell."""
    words = ["asc", "check", str(report["model"]["path"] or ""), "--soc", report["soc"]["name"]]
    options = report["options"]
    if options["input_shape"]:
        words += ["--input-shape", options["input_shape"]]
    if options["host_ops"] and "--host-ops" not in extra:
        words.append("--host-ops")
    if options["precision_mode"] != "force_fp16" and "--precision-mode" not in extra:
        words += ["--precision-mode", options["precision_mode"]]
    for name, value in options.get("atc", {}).items():
        if not (name == "precision_mode_v2" and "--precision-mode" in words + list(extra)):
            words.append(f"--{name.replace('_', '-')}={value}")
    return shlex.join(words + list(extra))


def _step(sentence: str, line: str = "") -> Step:
    return {"text": sentence, "command": line}


def _after_failure(report: dict[str, Any]) -> list[Step]:
    problems = report["problems"]
    remedies = dict.fromkeys(p["fix"] for p in problems if p["fix"])
    steps = [_step(_sentence(fix)) for fix in remedies]
    unsupported = [p for p in problems if p["code"] == _UNSUPPORTED]
    if unsupported and not report["options"]["host_ops"]:
        sentence = "See how the rest of the model does while the host runs these operators."
        steps.append(_step(sentence, command(report, "--host-ops")))
    return steps


def _sentence(fix: str) -> str:
    start = fix[:1].upper() + fix[1:]
    return start if start.endswith((".", "!", "?")) else f"{start}."


def _accuracy(report: dict[str, Any]) -> list[Step]:
    found = report.get("accuracy")
    if not found or found.get("error"):
        return []
    steps = []
    if not found["passed"]:
        steps.append(_repair(report, found))
    if str(found["source"]).startswith("random"):
        sentence = "These figures come from random inputs: measure on real ones, with labels if there are any."
        steps.append(_step(sentence, command(report) + " --data DIR --labels FILE"))
    return steps


def _repair(report: dict[str, Any], found: dict[str, Any]) -> Step:
    saturated = next((r for r in found["layers"] if r["saturated"]), None)
    place = next((r for r in found["layers"] if r["name"] == found["first_divergence"]), None)
    keep = command(report, "--precision-mode", _FP32_MODE)
    if report["options"]["precision_mode"] == _FP32_MODE:
        keep = command(report, "--precision-mode", "must_keep_origin_dtype")
    if saturated is not None:
        return _step(
            f"{saturated['name']} ({saturated['type']}) exceeds the fp16 range in {saturated['saturated']} elements: "
            "scale its input down, or keep more operators in fp32.",
            keep,
        )
    if place is not None:
        return _step(
            f"Look at {place['name']} ({place['type']}): its inputs are right within {text.small(place['inherited_error'])}, "
            f"its output only within {text.small(place['relative_euclidean'])}. Keep more operators in fp32 to see whether "
            "precision is the cause.",
            keep,
        )
    return _step("Keep more operators in fp32 and see whether the error goes away.", keep)


def _speed(report: dict[str, Any]) -> list[Step]:
    found = report.get("performance")
    total = found["total_us"] if found else 0
    if not found or not total:
        return []
    steps = []
    operators = found["operators"]
    slow = [o for o in operators if o["bound_by"] == "aicpu"]
    if slow:
        kinds = ", ".join(sorted({o["type"] for o in slow}))
        share = sum(o["us"] for o in slow) / total
        steps.append(_step(f"{len(slow)} operators run on the slow AI CPU ({share:.0%} of the time): replace {kinds}."))
    launch = found["bound_by"].get("launch", 0)
    if launch > LAUNCH_SHARE:
        steps.append(
            _step(
                f"{launch:.0%} of the time is starting kernels that have little to do: a larger batch is nearly free, and "
                "fewer, larger operators are what makes it faster."
            )
        )
    moves = sum(o["us"] for o in operators if o["type"] in ("TransData", "Cast")) / total
    if moves > MOVE_SHARE:
        steps.append(
            _step(
                f"Conversions between formats and types (TransData, Cast) take {moves:.0%} of the time: feed float inputs as "
                "fp16 (atc --input_fp16_nodes) and avoid transposes and reshapes between convolutions or matrix products."
            )
        )
    top = max(operators, key=lambda o: float(o["us"]))
    if top["us"] / total > TOP_SHARE and top["bound_by"] != "launch":
        bound = "the AI CPU" if top["bound_by"] == "aicpu" else top["bound_by"]
        steps.append(
            _step(
                f"{top['name']} ({top['type']}) alone takes {top['us'] / total:.0%} of the time, bound by {bound}: look "
                "there first."
            )
        )
    return steps


def _conversion(report: dict[str, Any]) -> list[Step]:
    steps = []
    hosts = report["conversion"].get("host_operators", 0)
    if hosts:
        steps.append(
            _step(
                f"{hosts} operator{'s stay' if hosts > 1 else ' stays'} on the host: the vendor's ATC would refuse this model."
            )
        )
    om = report["conversion"].get("om")
    if om and (report.get("accuracy") or {}).get("passed"):
        steps.append(_step("Run the converted model on the virtual NPU.", shlex.join(["asc", "run", om])))
    return steps
