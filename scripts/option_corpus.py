"""Runs every `atc` command line of a checkout through the parser: `python scripts/option_corpus.py CHECKOUT`.

Commands come from the ACL_PyTorch tree, if the checkout has one: README code blocks, shell and Python scripts;
continuation lines are joined and variables replaced by a value of the same file or one that fits the option. Nothing is
converted. A refusal counts as genuine only when scripts/option_corpus_mistakes.json, reviewed by hand, explains it; any
other is a wrong refusal, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asc_devkit.atc.command_line import parse
from asc_devkit.atc.option_rules import check
from asc_devkit.atc.options import from_flags, table
from asc_devkit.errors import AscError, Problem
from asc_devkit.frontends.shapes import parse_input_shape, parse_shape_range

MISTAKES = Path(__file__).with_name("option_corpus_mistakes.json")
SUFFIXES = (".md", ".sh", ".py", ".txt", ".rst")
# `atc` as a command: at the start of a line or after something a shell allows there, followed by an option
COMMAND = re.compile(r"""(?:^|[\s`'"($;&|/>])atc(?=\s+-)""")
VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}|\$(\w+)|\$\(([^)]*)\)|<([\w ]+)>|\{(\w*)\}")
ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"']?([\w./:-]+)[\"']?\s*$", re.M)
LOOP = re.compile(r"\bfor\s+(\w+)\s+in\s+([\w.-]+)")
NUMBERS = ("input_shape", "dynamic_dims", "dynamic_batch_size", "dynamic_image_size", "input_shape_range")
DEFAULTS = {"framework": "5", "mode": "0", "log": "error"}


@dataclass(frozen=True)
class Found:
    """One command line: where it stands, its words after `atc`, and what the parser says."""

    place: str
    words: tuple[str, ...]
    problems: tuple[Problem, ...]


def commands(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text after `atc`) of every command in a page or shell script, continuation lines joined."""
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        start, line = index, lines[index].rstrip()
        while line.endswith("\\"):
            index += 1
            line = line[:-1] + " " + (lines[index].strip() if index < len(lines) else "")
        index += 1
        if match := COMMAND.search(line):
            yield start + 1, line[match.end() :]


def python_commands(text: str) -> Iterator[tuple[int, str]]:
    """The same for the strings of a Python script, whose adjacent pieces Python joins."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := COMMAND.search(node.value)):
            yield node.lineno, node.value[match.end() :]


def words(command: str, known: dict[str, str]) -> tuple[str, ...]:
    """The words a shell would hand to `atc`: up to the end of the command, without redirections, variables replaced."""
    command = command.split("```")[0]
    command = re.sub(r"\{([\w ]+)\}", lambda m: "{" + m[1].replace(" ", "_") + "}", command)  # {batch size} of a page
    command = re.sub(r"\s\d?&?>>?&?\s*[^\s;|&]+", " ", command)  # redirections
    quote = command.find("`")
    lexer = shlex.shlex(command if quote < 0 else command[:quote], posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set(";&|"):
                break
            found.append(word)
    except ValueError:  # no closing quotation: a shell would wait for the rest of the file
        found = command.split()
    return tuple(_replaced(word, option, known) for word, option in zip(found, _options(found), strict=True))


def _options(found: list[str]) -> list[str]:
    """The option each word belongs to."""
    names, last = [], ""
    for word in found:
        if word.startswith("-"):
            last = word.lstrip("-").partition("=")[0].replace("-", "_")
        names.append(last)
    return names


def _replaced(word: str, option: str, known: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = next((group for group in match.groups() if group), "")
        if known.get(name):
            return known[name]
        if option in DEFAULTS:
            return DEFAULTS[option]
        if option == "soc_version":
            before = word[: match.start()]
            return "310P3" if before.endswith("Ascend") else "Ascend310P3"
        return "1" if option in NUMBERS else name.replace(" ", "_") or "x"

    return VARIABLE.sub(value, word)


def read(root: Path) -> list[Found]:
    """Every command below ``root``, in the order of the files' names."""
    found: list[Found] = []
    for path in sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES and p.is_file()):
        text = path.read_text(encoding="utf-8", errors="replace")
        known = {**dict(LOOP.findall(text)), **dict(ASSIGNMENT.findall(text))} if path.suffix == ".sh" else {}
        for number, command in (python_commands if path.suffix == ".py" else commands)(text):
            given = words(command, known)
            found.append(Found(f"{path.relative_to(root)}:{number}", given, judged(given)))
    return found


def judged(given: tuple[str, ...]) -> tuple[Problem, ...]:
    """What the parser says to a command: problems of its spelling, of the rules, and of the shapes it gives."""
    problems: list[Problem] = []
    try:
        flags = parse(given)
    except AscError as error:
        return error.problems
    if flags.get("help"):
        return ()
    problems += check(flags, table())
    readers = {
        "input_shape": parse_input_shape,
        "input_fp16_nchw": parse_input_shape,
        "input_shape_range": parse_shape_range,
    }
    for name, reader in readers.items():
        try:
            if flags.get(name):
                reader(flags[name])
        except AscError as error:
            problems += error.problems
    if not problems and flags.get("mode", "0") == "0" and not flags.get("singleop"):
        from_flags(flags)
    return tuple(problems)


def explained(problem: Problem, mistakes: list[dict[str, str]]) -> str:
    """The reviewed reason why ``problem`` is a mistake of the command, empty when there is none."""
    for row in mistakes:
        if row["code"] == problem.code and re.fullmatch(row["what"], problem.what, re.S):
            return row["reason"]
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "checkout", type=Path, help="checkout that holds ACL_PyTorch, or any folder of scripts and pages"
    )
    parser.add_argument("--list", action="store_true", help="print every refused command")
    given = parser.parse_args()
    root = given.checkout / "ACL_PyTorch" if (given.checkout / "ACL_PyTorch").is_dir() else given.checkout
    mistakes = json.loads(MISTAKES.read_text(encoding="utf-8"))["mistakes"]
    found = read(root)
    read_only = [item for item in found if item.problems and all(p.code == "E10055" for p in item.problems)]
    refused = [item for item in found if item.problems and item not in read_only]
    wrong = [item for item in refused if not all(explained(p, mistakes) for p in item.problems)]
    reasons = Counter(
        explained(p, mistakes) or f"NOT EXPLAINED: {p.code} {p.what}" for i in refused for p in i.problems
    )
    print(f"{len(found)} command lines in {len({item.place.rsplit(':', 1)[0] for item in found})} files")
    print(f"  parsed                      {len(found) - len(refused)}")
    print(f"    of these shape ranges     {len(read_only)} (read; the conversion asks for gears instead)")
    print(f"  refused, genuine mistake    {len(refused) - len(wrong)}")
    print(f"  wrongly refused             {len(wrong)}")
    for reason, count in reasons.most_common():
        print(f"    {count:3}  {reason}")
    for item in refused if given.list else wrong:
        print(f"\n{item.place}\n  atc {shlex.join(item.words)}")
        for problem in item.problems:
            print(f"  {problem.code}: {problem.what}\n    {problem.fix}")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
