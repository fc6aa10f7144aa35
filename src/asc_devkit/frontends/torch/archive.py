"""The ``.pt2`` archive checked before PyTorch reads it: PyTorch would unpickle parts of it and evaluate text in others.

``safe_copy`` returns an archive that holds tensors and a graph of known operators and nothing else. Layout (PyTorch 2.8 and
later): a zip with ``archive_format``, ``models/*.json``, ``data/weights``, ``data/constants``, ``data/sample_inputs``.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from asc_devkit.errors import AscError, Problem

MAX_BYTES: Final = (1 << 31) - 1
MAX_JSON_BYTES: Final = 256 << 20
MAX_FILES: Final = 200_000
MAX_DEPTH: Final = 60
SPREAD_ELEMENTS: Final = 1 << 24  # a tensor may have this many elements more than bytes (expanded ones)

_TARGET: Final = re.compile(
    r"torch\.ops\.(aten|prims|torchvision|quantized_decomposed)\.\w+\.\w+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_(float|int|ite|max|min|not|sum|sqrt)"
)
_FORBIDDEN: Final = re.compile(r"\.(from_file|_print|_debug_\w+)\.")
# What formulas of sizes may consist of: PyTorch evaluates them as Python.
_FUNCTIONS: Final = frozenset(
    {
        "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "PythonMod", "FloorDiv", "CeilDiv", "CleanDiv",
        "IntTrueDiv", "FloatTrueDiv", "Max", "Min", "Abs", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality",
        "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not", "PowByNatural", "FloatPow",
        "ToFloat", "TruncToInt", "TruncToFloat", "CeilToInt", "FloorToInt", "RoundToInt", "Where",
    }
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z]{1,3}\d{1,9}|oo|int_oo|true|false")
_EXPRESSION_NODES: Final = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
_MAX_EXPRESSION: Final = 4096
_MAX_EXPONENT: Final = 64


def is_exported_program(path: Path) -> bool:
    """Whether the file is a ``.pt2`` archive with an exported program, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:MAX_FILES]
            return any(n.endswith("/archive_format") or n == "archive_format" for n in names)
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, RuntimeError):
        return False


def safe_copy(path: Path) -> io.BytesIO:
    """A copy of the archive without pickles, native code and texts that would be evaluated.

    Raises ``AscError`` for archives that need any of them, and for damaged or oversized ones.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _copied(archive, path)
    except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise AscError(
            _problem(path, f"the archive cannot be read: {error}", "fetch or export the file again")
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AscError(_problem(path, "its description is damaged", "fetch or export the file again")) from error


def _copied(archive: zipfile.ZipFile, path: Path) -> io.BytesIO:
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)
    if len(infos) > MAX_FILES or total > MAX_BYTES:
        fix = "export it to ONNX in Python: torch.onnx.export(program, f='m.onnx', external_data=True)"
        raise AscError(_problem(path, f"it unpacks to {total} bytes in {len(infos)} files, too much", fix))
    sizes = {info.filename: info.file_size for info in infos}
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as out:
        for info in infos:
            inner = info.filename.partition("/")[2]
            if inner.startswith("data/aotinductor/"):
                fix = "save the program with torch.export.save, without AOTInductor"
                raise AscError(_problem(path, "it holds compiled code, not a program", fix))
            data = _read(archive, info)
            if inner.startswith("models/") and inner.endswith(".json"):
                data = _program(data, path)
            elif inner.startswith("data/sample_inputs/"):
                data = b""  # a pickle that the conversion does not need
            elif inner.endswith("_config.json"):
                _check_payloads(data, info.filename.rpartition("/")[0], sizes, path)
            elif inner.startswith("data/") and inner.endswith(".pt"):
                raise AscError(_pickled(path))
            elif inner.startswith("extra/"):
                continue
            out.writestr(info.filename, data)
    copy.seek(0)
    return copy


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One member; never more than the size that was counted."""
    with archive.open(info) as stream:
        data = stream.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename[:100]} has another size than announced")
    return data


def _json(data: bytes, path: Path) -> Any:
    if len(data) > MAX_JSON_BYTES:
        raise AscError(_problem(path, "its description is larger than 256 MiB", "convert a smaller program"))
    return json.loads(data)


def _check_payloads(data: bytes, folder: str, sizes: dict[str, int], path: Path) -> None:
    for entry in _json(data, path)["config"].values():
        name = str(entry["path_name"])
        if (
            entry.get("use_pickle")
            or name.startswith(("custom_obj", "opaque_obj"))
            or not re.fullmatch(r"[\w.-]+", name)
        ):
            raise AscError(_pickled(path))
        count = 1
        for size in (entry.get("tensor_meta") or {}).get("sizes", ()):
            count *= int(size["as_int"])
        if count > sizes.get(f"{folder}/{name}", 0) + SPREAD_ELEMENTS:
            raise AscError(
                _problem(path, f"a tensor of {count} elements has too few bytes", "export the program again")
            )


def _program(data: bytes, path: Path) -> bytes:
    """The program's JSON with every name of a function and every formula checked, and what is not needed left out."""
    program = _json(data, path)
    program["guards_code"] = []
    wrong = []
    for entry in _dicts(program, 0):
        target = entry.get("target")
        if isinstance(target, str) and "inputs" in entry:
            entry["metadata"] = {}
            if not _TARGET.fullmatch(target) or _FORBIDDEN.search(target):
                wrong.append(target)
        for key in ("expr_str", "as_expr"):
            if isinstance(entry.get(key), str) and not _is_formula(entry[key]):
                wrong.append(entry[key])
        if any(isinstance(entry.get(key), str) and "__enum__" in entry[key] for key in ("in_spec", "out_spec")):
            wrong.append("__enum__")
    for symbol in program.get("range_constraints") or {}:
        if not _is_formula(symbol):
            wrong.append(symbol)
    if wrong:
        shown = ", ".join(repr(w[:80]) for w in dict.fromkeys(wrong))[:600]
        fix = "convert it in Python with asc_devkit.convert_module if you trust it"
        raise AscError(_problem(path, f"it uses functions that are not PyTorch's own operators: {shown}", fix))
    return json.dumps(program).encode()


def _is_formula(text: str) -> bool:
    """Whether the text is arithmetic on sizes and nothing else."""
    if len(text) > _MAX_EXPRESSION:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return all(_is_arithmetic(node, id(node) in called) for node in ast.walk(tree))


def _is_arithmetic(node: ast.AST, called: bool) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _FUNCTIONS if called else bool(_NAME.fullmatch(node.id))
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return bool(_NAME.fullmatch(node.value))
        return isinstance(node.value, (bool, int, float)) and abs(node.value) < 1 << 64
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
        return (
            isinstance(node.right, ast.Constant)
            and isinstance(node.right.value, int)
            and node.right.value <= _MAX_EXPONENT
        )
    return isinstance(node, _EXPRESSION_NODES) and not called


def _dicts(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                yield from _dicts(item, depth + 1)


def _pickled(path: Path) -> Problem:
    what = "parts of it are Python pickles, which run code when they are read"
    return _problem(path, what, "save it again with torch.export.save (PyTorch 2.8 or later), with plain tensors only")


def _problem(path: Path, what: str, fix: str) -> Problem:
    return Problem(
        "E10041", f"{str(path)!r} cannot be read as a PyTorch program: {what}", "", fix, (str(path)[:300],), "EE1001"
    )
