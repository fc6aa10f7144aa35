"""The verdict: five questions, five answers, and what to do next, each drawn from the report's figures."""

from __future__ import annotations

from typing import Any


def build(report: dict[str, Any]) -> dict[str, Any]:
    """Verdict of a report whose sections are filled in; absent sections are answered as unknown."""
    answers = {
        "converts": _converts(report),
        "accurate": _accurate(report),
        "fast": _fast(report),
        "fits": _fits(report),
    }
    failed = [name for name, answer in answers.items() if answer["ok"] is False]
    if "converts" in failed:
        summary = "The model does not convert."
    elif failed:
        summary = "The model converts, but: " + "; ".join(answers[name]["text"] for name in failed)
    else:
        summary = "The model converts, stays accurate and fits."
    return {"passed": not failed, "summary": summary, **answers, "next": advice(report)}


def _converts(report: dict[str, Any]) -> dict[str, Any]:
    problems = report.get("problems") or []
    if problems:
        kinds = len(problems)
        return {"ok": False, "text": f"No: {kinds} problem{'s' * (kinds > 1)}; the first: {problems[0]['what']}"}
    counts = report["conversion"]["counts"]
    text = (
        f"Yes: {counts['original']} operators become {counts['compiled']} "
        f"({counts['fused_groups']} fused groups, {counts['casts']} Cast and {counts['trans_data']} TransData added)."
    )
    hosts = report["conversion"].get("host_operators", 0)
    if hosts:
        text += f" {hosts} operators run on the host."
    return {"ok": True, "text": text}


def _accurate(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("accuracy")
    if not found:
        return {"ok": None, "text": "Not measured."}
    if found.get("error"):
        return {"ok": None, "text": f"Not measured: {found['error']}"}
    worst = next((o for o in found["outputs"] if o["name"] == found["worst_output"]), None)
    if worst is None:
        return {"ok": None, "text": "The model has no outputs to compare."}
    text = f"cosine {worst['cosine']:.6f} at the worst output ({worst['name']}), {found['threshold']} needed"
    if found.get("task"):
        task = found["task"]
        text += (
            f"; {task['metric']} {100 * task['before']:.2f} % before, {100 * task['after']:.2f} % after "
            f"({task['changed']} of {task['samples']} answers changed)"
        )
    if found["passed"]:
        return {"ok": True, "text": f"Yes: {text}."}
    where = next((r for r in found["layers"] if r["name"] == found["first_divergence"]), None)
    if where is not None:
        text += f". It breaks at {where['name']} ({where['type']}), where the error is {where['kind']}"
    return {"ok": False, "text": f"No: {text}."}


def _fast(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("performance")
    if not found:
        return {"ok": None, "text": "Not estimated."}
    shares = ", ".join(f"{100 * share:.0f} % {name}" for name, share in list(found["bound_by"].items())[:3])
    text = (
        f"{_ms(found['total_us'])} estimated ({_ms(found['lo80'])} to {_ms(found['hi80'])} with 80 % confidence), "
        f"time bound by: {shares}."
    )
    return {"ok": True, "text": text}


def _ms(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} us"


def _fits(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("memory")
    if not found:
        return {"ok": None, "text": "Not planned."}
    need = f"{found['total_bytes'] / 2**20:.1f} MiB needed"
    if found["capacity_bytes"] is None:
        return {"ok": None, "text": f"{need}; the chip's memory size is not public." + _boards(found)}
    have = found["capacity_bytes"]
    share = 100 * found["total_bytes"] / have
    ok = found["total_bytes"] <= have
    return {"ok": ok, "text": f"{'Yes' if ok else 'No'}: {need} of {have / 2**30:.0f} GiB ({share:.1f} %)."}


def _boards(memory: dict[str, Any]) -> str:
    """What boards with such chips offer, where that is known."""
    known = memory.get("boards") or []
    if not known:
        return ""
    listed = ", ".join(f"{b['name']} has {b['bytes_per_chip'] / 2**30:.0f} GiB per chip" for b in known)
    fits = all(memory["total_bytes"] <= b["bytes_per_chip"] for b in known)
    return f" {listed}: it {'would' if fits else 'would not'} fit."


def advice(report: dict[str, Any]) -> list[dict[str, str]]:
    """Concrete next steps, most useful first. Each has a ``text`` and, where one exists, a ``command``."""
    steps: list[dict[str, str]] = []
    for problem in report.get("problems") or []:
        steps.append({"text": f"{problem['what']} {problem['fix']}".strip(), "command": ""})
    if steps:
        return steps[:20]
    steps += _accuracy_steps(report)
    steps += _speed_steps(report)
    steps += _other_steps(report)
    return steps


def _command(report: dict[str, Any], extra: str) -> str:
    model = report["model"]["path"] or ""
    shape = report["options"]["input_shape"]
    shape_text = f' --input-shape "{shape}"' if shape else ""
    return f"asc check {model} --soc {report['soc']['name']}{shape_text} {extra}".replace("  ", " ")


def _accuracy_steps(report: dict[str, Any]) -> list[dict[str, str]]:
    found = report.get("accuracy")
    if not found or found.get("error"):
        return []
    steps = []
    if found["source"].startswith("random"):
        text = "Accuracy was measured on random inputs: measure it on real ones."
        steps.append({"text": text, "command": _command(report, "--data DIR --labels FILE")})
    if not found["passed"]:
        saturated = [r for r in found["layers"] if r["saturated"]]
        if saturated:
            row = saturated[0]
            steps.append(
                {
                    "text": f"{row['name']} ({row['type']}) exceeds the fp16 range in {row['saturated']} elements: scale its "
                    "input down or keep it in fp32.",
                    "command": _command(report, "--precision-mode allow_fp32_to_fp16"),
                }
            )
        else:
            steps.append(
                {
                    "text": "Keep the vector operators in fp32 and see whether the error goes away.",
                    "command": _command(report, "--precision-mode allow_fp32_to_fp16"),
                }
            )
    return steps


def _speed_steps(report: dict[str, Any]) -> list[dict[str, str]]:
    found = report.get("performance")
    if not found:
        return []
    steps = []
    shares = found["bound_by"]
    operators = found["operators"]
    total = sum(o["us"] for o in operators) or 1.0
    if shares.get("launch", 0) > 0.4:
        steps.append(
            {
                "text": f"{100 * shares['launch']:.0f} % of the time is launching small kernels: a larger batch costs little.",
                "command": "",
            }
        )
    moves = sum(o["us"] for o in operators if o["type"] in ("TransData", "Cast"))
    if moves / total > 0.1:
        steps.append(
            {
                "text": f"Format and type conversions take {100 * moves / total:.0f} % of the time: feed fp16 inputs and "
                "avoid transposes between convolutions.",
                "command": "",
            }
        )
    cpu = [o for o in operators if o["bound_by"] in ("AI CPU", "aicpu")]
    if cpu:
        kinds = ", ".join(sorted({o["type"] for o in cpu}))
        steps.append({"text": f"{len(cpu)} operators run on the slow AI CPU: replace {kinds}.", "command": ""})
    top = max(operators, key=lambda o: o["us"], default=None)
    if top is not None and top["us"] / total > 0.15:
        steps.append(
            {
                "text": f"{top['name']} ({top['type']}) alone takes {100 * top['us'] / total:.0f} % of the time, "
                f"bound by {top['bound_by']}: look there first.",
                "command": "",
            }
        )
    return steps


def _other_steps(report: dict[str, Any]) -> list[dict[str, str]]:
    steps = []
    hosts = report["conversion"].get("host_operators", 0)
    if hosts:
        steps.append(
            {"text": f"{hosts} operators stay on the host: the vendor's ATC would refuse this model.", "command": ""}
        )
    om = report["conversion"].get("om")
    if om and report.get("accuracy") and report["accuracy"].get("passed"):
        steps.append(
            {"text": "Run the converted model on the virtual NPU from your own code.", "command": f"asc run {om}"}
        )
    return steps
