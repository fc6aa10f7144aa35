"""Gears: the few shapes a model is compiled for, from ``--dynamic_batch_size``, ``--dynamic_image_size``,
``--dynamic_dims`` (values of the open axes, or whole shapes) and ``--dynamic_shape``. Called by ``atc.pipeline``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from asc_devkit.atc.options import Options
from asc_devkit.errors import AscError, Problem
from asc_devkit.om.mbatch import BATCH, DIMS, IMAGE, Gears

MIN_GEARS, MAX_GEARS, MAX_GEARS_950 = 2, 100, 256
Shape = tuple[int, ...]
Gear = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The gears as the model stores them, and the shape of every input for each of them."""

    gears: Gears
    shapes: tuple[dict[str, Shape], ...]

    def variants(self, options: Options) -> list[Options]:
        """Options of one static conversion per gear."""
        return [
            replace(
                options,
                input_shape=";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items()),
                debug_dir=None if options.debug_dir is None else options.debug_dir / f"gear_{i}",
            )
            for i, shapes in enumerate(self.shapes)
        ]

    @property
    def text(self) -> str:
        """All gears for people, one per line."""
        return "\n".join(
            f"gear {i}: " + "; ".join(f"{n} {list(s)}" for n, s in shapes.items())
            for i, shapes in enumerate(self.shapes)
        )


def plan(options: Options, declared: Mapping[str, Shape]) -> Plan | None:
    """The gears that ``options`` ask for, None if they ask for none.

    ``declared``: the model's input shapes, -1 where open. Raises ``AscError`` with every broken rule.
    """
    from asc_devkit.frontends.shapes import parse_input_shape

    name = next((n for n in ("batch_size", "image_size", "dims", "shape") if getattr(options, f"dynamic_{n}")), "")
    if not name:
        return None
    problems: list[Problem] = []
    base = dict(declared)
    if options.input_shape:
        try:
            base.update(parse_input_shape(options.input_shape))
        except AscError as error:
            problems += error.problems
    limit = MAX_GEARS_950 if options.soc_version.startswith("Ascend950") else MAX_GEARS
    made: Plan | None
    if name == "shape":
        made = _shapes(options.dynamic_shape, base, limit, problems)
    else:
        text = getattr(options, f"dynamic_{name}")
        rows = _rows(f"dynamic_{name}", text, problems)
        _count(rows, limit, problems)
        made = None if problems else _PLANNERS[name](rows, base, options, problems)
    if problems or made is None:
        raise AscError(problems)
    return made


def _rows(option: str, text: str, problems: list[Problem]) -> list[Gear]:
    parts = text.split("," if option == "dynamic_batch_size" else ";")
    rows: list[Gear] = []
    for part in filter(None, (p.strip().strip("[]()") for p in parts)):
        fields = [f.strip() for f in part.split(",")]
        wrong = [f for f in fields if not re.fullmatch(r"[+-]?\d{1,18}", f)]
        if wrong or (option == "dynamic_image_size" and len(fields) != 2):
            reason = f"{wrong[0]!r} is not a whole number" if wrong else f"{part} is not a height and a width"
            code = "E10020" if option == "dynamic_image_size" else "E10001"
            problems.append(
                _problem(code, f"Value [{text[:200]}] for parameter [{option}] is invalid. Reason: {reason}.", option)
            )
            continue
        rows.append(tuple(map(int, fields)))
    return rows


def _count(rows: list[Gear], limit: int, problems: list[Problem]) -> None:
    if len(rows) < MIN_GEARS:
        problems.append(_problem("E10035", f"{len(rows)} gears are given, at least {MIN_GEARS} are needed."))
    if len(rows) > limit:
        problems.append(_problem("E10036", f"{len(rows)} gears are given, at most {limit} are possible."))
    lengths = sorted({len(r) for r in rows})
    if len(lengths) > 1:
        problems.append(_problem("E10037", f"The gears have different numbers of dimensions: {lengths}."))
    if wrong := sorted({d for row in rows for d in row if d < 1 or d > 2**31 - 1}):
        problems.append(_problem("E10038", f"Dimension {', '.join(map(str, wrong[:5]))} of a gear is not possible."))
    if twice := sorted({r for r in rows if rows.count(r) > 1}):
        problems.append(
            _problem("E10039", f"Gears are given twice: {'; '.join(','.join(map(str, r)) for r in twice)}.")
        )


def _open(base: Mapping[str, Shape]) -> dict[str, list[int]]:
    found = {name: [axis for axis, d in enumerate(shape) if d == -1] for name, shape in base.items()}
    return {name: axes for name, axes in found.items() if axes}


def _batch(rows: list[Gear], base: Mapping[str, Shape], options: Options, problems: list[Problem]) -> Plan | None:
    found = _open(base)
    for name, axes in found.items():
        if axes != [0]:
            problems.append(
                _problem(
                    "E10018",
                    f"Input {name} {list(base[name])}: only the first axis may be -1 with --dynamic_batch_size.",
                    name,
                )
            )
    if not found:
        problems.append(
            _problem("E10031", "--dynamic_batch_size is given, but no input has -1 as its first dimension.")
        )
    return None if problems else _filled(BATCH, rows, base, {name: [(0, 0)] for name in found})


def _image(rows: list[Gear], base: Mapping[str, Shape], options: Options, problems: list[Problem]) -> Plan | None:
    if options.input_format not in ("NCHW", "NHWC"):
        problems.append(
            _problem(
                "E10001", f"--dynamic_image_size needs --input_format=NCHW, not {options.input_format}.", "input_format"
            )
        )
    where = [1, 2] if options.input_format == "NHWC" else [2, 3]
    found = _open(base)
    for name, axes in found.items():
        if axes != where or len(base[name]) != 4:
            problems.append(
                _problem(
                    "E10019",
                    f"Input {name} {list(base[name])}: --dynamic_image_size wants -1 for height and width only.",
                    name,
                )
            )
    if not found:
        problems.append(_no_open_axes("dynamic_image_size"))
    return None if problems else _filled(IMAGE, rows, base, {n: list(zip(where, (0, 1), strict=True)) for n in found})


def _dims(rows: list[Gear], base: Mapping[str, Shape], options: Options, problems: list[Problem]) -> Plan | None:
    found = _open(base)
    slots = [(name, axis) for name, axes in found.items() for axis in axes]
    length = len(rows[0])
    if slots and length == len(slots):
        places: dict[str, list[tuple[int, int]]] = {}
        for position, (name, axis) in enumerate(slots):
            places.setdefault(name, []).append((axis, position))
        return _filled(DIMS, rows, base, places)
    whole = [n for n in (found or base) if len(base[n]) == length]
    if len(whole) == 1 and len(found or base) == 1:
        return _whole({whole[0]: rows}, base)
    if not slots:
        problems.append(_no_open_axes("dynamic_dims"))
    else:
        problems.append(
            _problem(
                "E10045" if length < len(slots) else "E10046",
                f"--input_shape leaves {len(slots)} axes open ({', '.join(f'{n} axis {a}' for n, a in slots[:8])}), "
                f"the gears of --dynamic_dims have {length} dimensions.",
            )
        )
    return None


def _shapes(text: str, base: Mapping[str, Shape], limit: int, problems: list[Problem]) -> Plan | None:
    given: dict[str, list[Gear]] = {}
    name = ""
    for part in filter(None, (p.strip() for p in text.split(";"))):
        found = re.fullmatch(r"(?:(.+):)?\s*\[([^\]]*)\]", part)
        if found is not None and found[1]:
            name = found[1].strip()
        rows = _rows("dynamic_shape", found[2], problems) if found is not None and name else []
        if not rows:
            problems.append(
                _problem(
                    "E10001",
                    f"Value [{part[:200]}] for parameter [dynamic_shape] is invalid. Reason: it is not name:[1,3,..].",
                    "dynamic_shape",
                )
            )
        else:
            given.setdefault(name, []).append(rows[0])
    for known in given:
        if known not in base:
            problems.append(
                _problem("E10016", f"--dynamic_shape names {known!r}; the inputs are {', '.join(base)}.", known)
            )
    counts = {len(rows) for rows in given.values() if len(rows) > 1}
    if len(counts) > 1:
        problems.append(
            _problem("E10037", f"--dynamic_shape gives inputs different numbers of shapes: {sorted(counts)}.")
        )
    total = max(counts, default=1)
    if not problems:
        given = {n: rows * (total if len(rows) == 1 else 1) for n, rows in given.items()}
        for rows in given.values():
            if len({len(r) for r in rows}) > 1:
                problems.append(_problem("E10037", "The shapes of an input have different numbers of dimensions."))
        _count([tuple(d for rows in given.values() for d in rows[i]) for i in range(total)], limit, problems)
    return None if problems else _whole(given, base)


def _whole(given: Mapping[str, list[Gear]], base: Mapping[str, Shape]) -> Plan:
    """Gears from whole shapes: the axes that differ are the open ones."""
    count = len(next(iter(given.values())))
    axes = [(n, a) for n, rows in given.items() for a in range(len(rows[0])) if len({row[a] for row in rows}) > 1]
    values = tuple(tuple(given[n][i][a] for n, a in axes) for i in range(count))
    shapes = tuple({**base, **{n: rows[i] for n, rows in given.items()}} for i in range(count))
    return Plan(Gears(DIMS, tuple(dict.fromkeys(n for n, _ in axes)), values), shapes)


def _filled(
    kind: int, rows: list[Gear], base: Mapping[str, Shape], places: Mapping[str, list[tuple[int, int]]]
) -> Plan:
    """``places``: (axis, position in the gear) of each input's open axes."""
    shapes = []
    for row in rows:
        made = dict(base)
        for name, pairs in places.items():
            dims = list(base[name])
            for axis, position in pairs:
                dims[axis] = row[position]
            made[name] = tuple(dims)
        shapes.append(made)
    return Plan(Gears(kind, tuple(places), tuple(rows)), tuple(shapes))


_PLANNERS = {"batch_size": _batch, "image_size": _image, "dims": _dims}


def _no_open_axes(option: str) -> Problem:
    return _problem("E10040", f"--{option} is given, but --input_shape leaves no axis open.", option)


def _problem(code: str, what: str, node: str = "") -> Problem:
    return Problem(
        code,
        what,
        cause="Gears set the axes that --input_shape leaves open with -1.",
        fix='For example --input_shape="images:-1,3,224,224" --dynamic_batch_size="1,4", or '
        '--input_shape="images:1,3,-1,-1" --dynamic_dims="320,320;640,640".',
        nodes=(node,) if node else (),
        seed_class="EE1001",
    )
