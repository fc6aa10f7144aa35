"""The settings of a collection: the vendor's ``config.json``, checked as a whole."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from asc_devkit.errors import AscError, Problem

TASKS: Final = ("statistics", "tensor", "overflow_check", "structure")
LEVELS: Final = ("L0", "L1", "mix", "debug")
DATA_MODES: Final = ("all", "forward", "backward", "input", "output")
SUMMARIES: Final = ("statistics", "md5")
FORMATS: Final = ("pt", "container")
MAX_CONFIG: Final = 1 << 20
_TOP: Final = frozenset(
    [
        "task",
        "dump_path",
        "rank",
        "step",
        "level",
        "seed",
        "enable_dataloader",
        "async_dump",
        "precision",
        "is_deterministic",
        *TASKS,
    ]
)
_SECTION: Final = frozenset(
    ["scope", "list", "tensor_list", "data_mode", "summary_mode", "backward_input", "file_format", "overflow_nums", "device",
     "stat_cal_mode", "error_type"]
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """``steps``, ``ranks``: numbers to collect (empty: all). ``scope``: first and last name; ``names``: parts of names
    (empty: all).

    ``overflow_nums``: the collection ends after so many overflows (-1: never).
    """

    dump_path: Path = Path("dump")
    task: str = "statistics"
    level: str = "L1"
    steps: frozenset[int] = frozenset()
    ranks: frozenset[int] = frozenset()
    scope: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    data_mode: frozenset[str] = frozenset({"all"})
    summary: str = "statistics"
    file_format: str = "pt"
    overflow_nums: int = 1
    notes: tuple[str, ...] = field(default=(), compare=False)

    def wants(self, direction: str, side: str) -> bool:
        """Whether tensors of this direction (forward, backward) and side (input, output) are collected."""
        if "all" in self.data_mode:
            return True
        directions, sides = self.data_mode & {"forward", "backward"}, self.data_mode & {"input", "output"}
        return (not directions or direction in directions) and (not sides or side in sides)


def load(path: Path) -> dict[str, Any]:
    """The object in a config.json. Raises ``AscError`` (ASC5201)."""
    try:
        if path.stat().st_size > MAX_CONFIG:
            raise ValueError("it is absurdly large")
        facts = json.loads(path.read_bytes())
        if not isinstance(facts, dict):
            raise ValueError("it should be an object")
    except (OSError, ValueError, RecursionError) as error:
        raise AscError(Problem("ASC5201", f"{path} is no configuration: {error}."[:300], nodes=(str(path),))) from error
    return facts


def config(facts: dict[str, Any], **given: Any) -> Config:
    """Settings from the content of a config.json; ``given`` (arguments of the debugger that are not None) come first.

    Raises ``AscError`` (ASC5202) naming everything that is wrong.
    """
    problems: list[Problem] = []
    facts = {**facts, **{key: value for key, value in given.items() if value is not None}}
    notes = [f"{name!r} is not known and has no effect{_near(name, _TOP)}" for name in facts if name not in _TOP]
    task = _choice(facts, "task", TASKS, "statistics", problems)
    level = _choice(facts, "level", LEVELS, "L1", problems)
    section = facts.get(task, {})
    if not isinstance(section, dict):
        problems.append(_wrong(task, "it should be an object"))
        section = {}
    notes += [f"{task}.{name} has no effect here{_near(name, _SECTION)}" for name in section if name not in _SECTION]
    modes = section.get("data_mode", ["all"])
    if not isinstance(modes, list) or not modes or not all(mode in DATA_MODES for mode in modes):
        problems.append(_wrong(f"{task}.data_mode", f"a list of {', '.join(DATA_MODES)} is wanted"))
        modes = ["all"]
    nums = section.get("overflow_nums", 1)
    if type(nums) is not int or nums == 0 or nums < -1:
        problems.append(_wrong(f"{task}.overflow_nums", "-1 or a number from 1 on is wanted"))
        nums = 1
    made = Config(
        dump_path=Path(str(facts.get("dump_path") or "dump")),
        task=task,
        level=level,
        steps=_numbers(facts, "step", problems),
        ranks=_numbers(facts, "rank", problems),
        scope=_texts(section, "scope", problems),
        names=_texts(section, "list", problems),
        data_mode=frozenset(modes),
        summary=_choice(section, "summary_mode", SUMMARIES, "statistics", problems),
        file_format=_choice(section, "file_format", (*FORMATS, "npy"), "pt", problems).replace("npy", "pt"),
        overflow_nums=nums,
        notes=tuple(notes),
    )
    if len(made.scope) not in (0, 2):
        problems.append(_wrong(f"{task}.scope", "a first and a last name are wanted"))
    if problems:
        raise AscError(problems)
    return made


def _choice(facts: dict[str, Any], name: str, choices: tuple[str, ...], default: str, problems: list[Problem]) -> str:
    value = facts.get(name, default)
    if value in choices:
        return str(value)
    problems.append(_wrong(name, f"{value!r} is none of {', '.join(choices)}{_near(str(value), choices)}"))
    return default


def _numbers(facts: dict[str, Any], name: str, problems: list[Problem]) -> frozenset[int]:
    """Numbers and ranges ("3-5") of a list."""
    found: set[int] = set()
    value = facts.get(name, [])
    for part in value if isinstance(value, list) else [value]:
        first, _, last = str(part).partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or int(last or first) - int(first) > 1_000_000:
            problems.append(_wrong(name, f"{part!r} is neither a number nor a range such as 3-5"))
            continue
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _texts(section: dict[str, Any], name: str, problems: list[Problem]) -> tuple[str, ...]:
    value = section.get(name, [])
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    problems.append(_wrong(name, "a list of names is wanted"))
    return ()


def _wrong(name: str, why: str) -> Problem:
    return Problem("ASC5202", f"The setting {name} cannot be used: {why}.", fix="See docs/training.md.", nodes=(name,))


def _near(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
