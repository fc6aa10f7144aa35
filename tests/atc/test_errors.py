"""Every code the toolkit can raise is registered, under the class it is raised with, and can be looked up."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from asc_devkit.atc import errors
from asc_devkit.cli.main import cli
from asc_devkit.errors import AscError, Problem

SOURCES = Path(__file__).resolve().parents[2] / "src" / "asc_devkit"
CODE = re.compile(r"(?:ASC|E[A-Z]?|W)\d{4,5}")
FIELDS = ("code", "what", "cause", "fix", "nodes", "seed_class")


def _problems() -> Iterator[tuple[str, dict[str, ast.expr]]]:
    """Place and arguments of every ``Problem(...)`` in the sources."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                given = dict(zip(FIELDS, node.args, strict=False))
                given |= {k.arg: k.value for k in node.keywords if k.arg}
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", given


def _texts(node: ast.expr) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def test_every_code_given_to_a_problem_is_registered() -> None:
    unknown, seen = [], 0
    for place, given in _problems():
        for code in filter(CODE.fullmatch, _texts(given["code"])):
            seen += 1
            if errors.lookup(code) is None:
                unknown.append(f"{place}: {code}")
    assert not unknown
    assert seen > 50  # the walk found the sources


def test_every_code_in_a_table_of_the_sources_is_registered() -> None:
    """Codes that reach a problem through a variable stand as texts somewhere; EE classes are no codes."""
    unknown = [
        f"{path.relative_to(SOURCES)}: {text}"
        for path in sorted(SOURCES.rglob("*.py"))
        for text in _texts(ast.parse(path.read_text(encoding="utf-8")))  # type: ignore[arg-type]
        if re.fullmatch(r"(?:ASC|E|EZ)\d{4,5}", text) and errors.lookup(text) is None
    ]
    assert not unknown


def test_problems_carry_the_class_their_code_is_registered_with() -> None:
    wrong = []
    for place, given in _problems():
        code, seed = given["code"], given.get("seed_class")
        if seed is None or not (isinstance(code, ast.Constant) and isinstance(seed, ast.Constant) and seed.value):
            continue
        name, raised = str(code.value), str(seed.value)
        entry = errors.lookup(name)
        assert re.fullmatch(r"EE[123]\d{3}", raised), f"{place}: {raised}"
        if entry is None or entry.seed_class[:3] != raised[:3]:
            wrong.append(f"{place}: {name} raised as {raised}")
    assert not wrong


def test_the_registry_holds_the_codes_users_meet_most() -> None:
    """Named in public threads and by the vendor's own analyser."""
    codes = (
        "E19010",
        "E16002",
        "E20001",
        "E40021",
        "EZ3002",
        "EZ3003",
        "E89999",
        "E19999",
        "E10001",
        "E10016",
        "E40020",
    )
    for code in (*codes, "EZ0501", "EZ9010"):
        assert errors.lookup(code) is not None, code


def test_entries_are_complete_and_unique() -> None:
    entries = errors.registry()
    texts = [(SOURCES / "atc" / "data" / name).read_text(encoding="utf-8") for name in errors.FILES]
    assert len(entries) == sum(text.count('"code": "') for text in texts)
    for entry in entries.values():
        assert CODE.fullmatch(entry.code)
        assert re.fullmatch(r"(EE[123]\d{3})?", entry.seed_class), entry.code
        assert entry.message and entry.cause and entry.solution and entry.source, entry.code
        assert entry.listed in ("code", "group")
        placeholders = set(re.findall(r"\{(\w+)\}", entry.message))
        assert placeholders <= set(entry.arguments), entry.code


def test_every_code_of_the_vendor_has_a_seed_class_of_its_own() -> None:
    entries = errors.registry().values()
    classes = [entry.seed_class for entry in entries if entry.seed_class and entry.source != "asc-devkit"]
    assert len(set(classes)) == len(classes)


def test_all_122_codes_of_the_registry_of_ge_are_described_one_by_one() -> None:
    """Counts by group as registered in the public GE sources of August 2026."""
    codes = [entry.code for entry in errors.registry().values() if entry.source == errors.GE]
    groups = Counter(code[:3] for code in codes)
    assert (
        groups == {"E10": 64, "E11": 23, "E12": 4, "E13": 21, "E14": 2, "E16": 4, "E19": 1, "W11": 3}
        and len(codes) == 122
    )
    assert all(errors.registry()[code].listed == "code" for code in codes)


def test_a_problem_is_shown_with_the_class_and_the_advice_of_its_code() -> None:
    shown = errors.described(Problem("E10034", "x", seed_class="EE1001"))
    assert shown["seed_class"] == "EE1034"
    assert "--input_fp16_nodes" in shown["cause"] and shown["fix"]
    assert errors.described(Problem("E10034", "x", "because", "do this"))["fix"] == "do this"


def test_explain_prints_one_code_and_searches_by_words() -> None:
    runner = CliRunner()
    one = runner.invoke(cli, ["explain", "e10016"])
    assert one.exit_code == 0
    assert one.output.startswith("E10016 (EE1016): Node [{opname}]")
    assert "Arguments: opname, parameter" in one.output
    found = runner.invoke(cli, ["explain", "caffe", "weight"])
    assert found.exit_code == 0
    assert "E10008" in found.output


def test_explaining_an_unknown_code_names_near_ones() -> None:
    outcome = CliRunner().invoke(cli, ["explain", "E1O016"])
    assert isinstance(outcome.exception, AscError)
    assert "E10016" in outcome.exception.problems[0].fix
