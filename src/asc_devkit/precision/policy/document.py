"""The page on standards, rendered from their data."""

from __future__ import annotations

from asc_devkit.precision.policy.criteria import KINDS
from asc_devkit.precision.policy.presets import presets

_INTRODUCTION = """# Standards and thresholds

Generated from `precision/policy/data/presets.json` (`make docs`). Choose one with `--standard`; single numbers are
changed with `--atol`, `--rtol`, `--error-rate-threshold`, or per operator with `--overrides` (see [Accuracy in
CI](accuracy_in_ci.md)). Each standard is tested just inside and just outside its limits
(`tests/precision/test_presets.py`).

`any` is the literal rule of some articles: an element fails when its absolute *or* its relative error is too large.
Most elements of a healthy float16 matrix product fail it, because small results have large relative errors.
`op_validate` uses it by default as those articles do, and warns when it fails alone, where `combined` and `cann-eco`
pass.

Elements that are NaN or infinite on one side only fail under every rule, unless the table says otherwise.
"""


def page() -> str:
    """Markdown."""
    lines = [_INTRODUCTION]
    for found in presets().values():
        integers = "compared exactly" if found.integers == "exact" else "judged by the rule"
        lines += [f"## {found.id}", "", f"{found.what}. Integers are {integers}. Source: {found.source}.", ""]
        lines += ["| element types | operators | rule | numbers |", "|---|---|---|---|"]
        for rule in found.rules:
            numbers = ", ".join(f"{k} {_number(v)}" for k, v in rule.parameters.items())
            operators = sorted(rule.op_types)
            shown = ", ".join(operators[:8]) + (f", ... ({len(operators)})" if len(operators) > 8 else "")
            lines.append(f"| {', '.join(sorted(rule.dtypes)) or 'all'} | {shown or 'all'} | {rule.kind} | {numbers} |")
        lines.append("")
    lines += ["## The rules", ""]
    for kind in KINDS.values():
        lines.append(
            f"- **{kind.kind}**: {' '.join((kind.__doc__ or '').split())}".replace("``", "`").replace("|", "\\|")
        )
    return "\n".join(lines) + "\n"


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return "; ".join(f"below {limit:g}: more than {share:.2%}" for limit, share in value)
    return str(value)
