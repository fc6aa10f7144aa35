"""The verdict: four questions and their answers, each drawn from the report's figures; ``advice`` says what comes next."""

from __future__ import annotations

from typing import Any, Final

from asc_devkit.check.advice import advice
from asc_devkit.report import text

_MEMORY_FAILURE: Final = "EE3"
_NAMES: Final = {"l2": "L2", "aicpu": "AI CPU", "memory": "memory traffic", "launch": "kernel launches"}


def build(report: dict[str, Any]) -> dict[str, Any]:
    """Verdict of a report whose sections are filled in; absent sections are answered as unknown (``ok`` None)."""
    answers = {
        "converts": _converts(report),
        "accurate": _accurate(report),
        "fast": _fast(report),
        "fits": _fits(report),
    }
    passed = all(answer["ok"] is not False for answer in answers.values())
    return {"passed": passed, "summary": _summary(report, answers), **answers, "next": advice(report)}


def _summary(report: dict[str, Any], answers: dict[str, dict[str, Any]]) -> str:
    if answers["converts"]["ok"] is False:
        if answers["fits"]["ok"] is False:
            return f"The model does not fit {report['soc']['name']}."
        return "The model does not convert."
    found = report.get("accuracy") or {}
    inputs = " on random inputs" if str(found.get("source", "")).startswith("random") else ""
    accurate = {
        True: f"stays accurate{inputs}",
        False: f"loses its accuracy{inputs}",
        None: "could not be compared with the original",
    }[answers["accurate"]["ok"]]
    link = "but" if answers["accurate"]["ok"] is False else "and"
    if answers["fits"]["ok"] is True and link == "and":
        return f"The model converts, {accurate} and fits in memory."
    return f"The model converts {link} {accurate}."


def _converts(report: dict[str, Any]) -> dict[str, Any]:
    problems = report.get("problems") or []
    if problems:
        count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        kinds = "; ".join(dict.fromkeys(p["what"].split(". ")[0].rstrip(".") for p in problems))
        return {"ok": False, "text": f"No: {count}: {kinds}."}
    counts = report["conversion"]["counts"]
    sentence = (
        f"Yes: {counts['original']} operators become {counts['compiled']} "
        f"({counts['fused_groups']} fused groups, {counts['casts']} Cast and {counts['trans_data']} TransData added)."
    )
    hosts = report["conversion"].get("host_operators", 0)
    if hosts:
        sentence += f" {hosts} operator{'s run' if hosts > 1 else ' runs'} on the host."
    return {"ok": True, "text": sentence}


def _accurate(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("accuracy")
    if not found:
        return {"ok": None, "text": "Not measured."}
    if found.get("error"):
        return {"ok": None, "text": f"Not measured: {found['error']}"}
    worst = next((o for o in found["outputs"] if o["name"] == found["worst_output"]), None)
    if worst is None:
        return {"ok": None, "text": "The model has no outputs to compare."}
    where = "" if len(found["outputs"]) == 1 else f" at the worst of {len(found['outputs'])} outputs ({worst['name']})"
    sentence = f"cosine {text.cosine(worst['cosine'])}{where}, {found['threshold']} needed"
    if worst["nan_actual"] > worst["nan_expected"]:
        sentence += f"; {worst['nan_actual']} elements became NaN"
    task = found.get("task")
    if task:
        sentence += (
            f"; {task['metric']} {text.percent(task['before'])} before, {text.percent(task['after'])} after "
            f"({task['changed']} of {task['samples']} answers changed)"
        )
    if found["passed"]:
        return {"ok": True, "text": f"Yes: {sentence}."}
    place = next((r for r in found["layers"] if r["name"] == found["first_divergence"]), None)
    if place is not None:
        sentence += f". It breaks at {place['name']} ({place['type']})"
    elif worst["cosine"] >= found["threshold"] and worst["nan_actual"] <= worst["nan_expected"]:
        sentence += (
            f". The direction is right but the size is not: relative error {text.small(worst['relative_euclidean'])}"
        )
    else:
        sentence += ". No single layer breaks it: the error grows along the graph"
    return {"ok": False, "text": f"No: {sentence}."}


def _fast(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("performance")
    if not found:
        return {"ok": None, "text": "Not estimated."}
    shares = ", ".join(
        f"{100 * share:.0f} % {_NAMES.get(name, name)}" for name, share in list(found["bound_by"].items())[:3]
    )
    time = text.microseconds
    return {
        "ok": True,
        "text": f"{time(found['total_us'])} for one run ({time(found['lo80'])} to {time(found['hi80'])} with 80 % "
        f"confidence), bound by {shares or 'nothing'}.",
    }


def _fits(report: dict[str, Any]) -> dict[str, Any]:
    found = report.get("memory")
    if not found:
        failure = next((p for p in report.get("problems") or [] if p["seed_class"].startswith(_MEMORY_FAILURE)), None)
        return {"ok": False, "text": f"No: {failure['what']}"} if failure else {"ok": None, "text": "Not planned."}
    need = f"{text.size(found['total_bytes'])} needed"
    have = found["capacity_bytes"]
    if have is None:
        return {"ok": None, "text": f"{need}; the chip's memory size is not public." + _boards(found)}
    share = f"{100 * found['total_bytes'] / have:.1f} %"
    ok = found["total_bytes"] <= have
    return {"ok": ok, "text": f"{'Yes' if ok else 'No'}: {need} of {text.size(have)} ({share})."}


def _boards(memory: dict[str, Any]) -> str:
    """What boards with such chips offer, where that is known."""
    known = memory.get("boards") or []
    if not known:
        return ""
    listed = ", ".join(f"{b['name']} has {text.size(b['bytes_per_chip'])} per chip" for b in known)
    fits = all(memory["total_bytes"] <= b["bytes_per_chip"] for b in known)
    return f" {listed}: it {'would' if fits else 'would not'} fit."
