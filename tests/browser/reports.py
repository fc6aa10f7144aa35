"""Reports that no quick check gives: a model that is refused, names that attack the page, 50,000 operators."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">{{7*7}}"


def refused(report: dict[str, Any]) -> dict[str, Any]:
    """``report`` as it would be had the model been refused, with names that try to run code."""
    made = {
        k: copy.deepcopy(report[k]) for k in ("schema", "tool", "created", "model", "soc", "options", "environment")
    }
    made["model"]["name"] = HOSTILE
    problem = {
        "code": "EE2001",
        "what": f"{HOSTILE} has no counterpart in CANN.",
        "cause": HOSTILE,
        "fix": "Replace it.",
        "nodes": [HOSTILE] * 12,
        "seed_class": "EE2001",
    }
    made["problems"] = [problem] * 3
    made["conversion"] = {"counts": {}, "warnings": [HOSTILE], "log": HOSTILE}
    no, unknown = {"ok": False, "text": f"No: {HOSTILE}"}, {"ok": None, "text": "Not measured."}
    made["verdict"] = {
        "passed": False,
        "summary": "The model does not convert.",
        "converts": no,
        "accurate": unknown,
        "fast": unknown,
        "fits": unknown,
        "next": [{"text": HOSTILE, "command": HOSTILE}],
    }
    return made


def large(report: dict[str, Any], count: int) -> dict[str, Any]:
    """``report`` with ``count`` operators, layers and steps, made of the ones it has; operator ``i`` is called op_i."""
    made = copy.deepcopy(report)
    timed, layers = made["performance"]["operators"], made["accuracy"]["layers"]
    described = {d["name"]: d for d in made["conversion"]["operators"]}
    operators, facts, start = [], [], 0.0
    for i in range(count):
        like = timed[i % len(timed)]
        time = like["us"] * (1 + i / count)
        operators.append({**like, "name": f"op_{i}", "us": time, "start_us": start})
        facts.append({**described.get(like["name"], {}), "name": f"op_{i}"})
        start += time
    made["performance"] |= {"operators": operators, "total_us": start, "lo80": start * 0.8, "hi80": start * 2}
    made["conversion"]["operators"] = facts
    made["accuracy"]["layers"] = [
        {**layers[i % len(layers)], "index": i, "name": f"op_{i}", "tensor": f"t_{i}"} for i in range(count)
    ]
    memory = made["memory"]
    memory["steps"] = [f"op_{i}" for i in range(count)]
    memory["live_bytes"] = [(memory["live_bytes"] or [1])[i % len(memory["live_bytes"])] for i in range(count)]
    return made
