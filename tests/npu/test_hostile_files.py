"""Graphs that contradict themselves give a clear error or run; never a traceback."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asc_devkit import npu, om
from asc_devkit.errors import AscError
from asc_devkit.npu.tensor_files import random_inputs

NUMBERS = (0, -1, 1, 2, 7, 1 << 31, 1 << 40, 1 << 62)


def _mutate(ops: list[Any], rnd: random.Random) -> None:
    """Change a type, a shape, an element type, an edge or an attribute of one operator."""
    op = rnd.choice(ops)
    kind = rnd.randrange(6)
    if kind == 0:
        op.type = rnd.choice(ops).type
    elif kind == 1 and op.output_desc and op.output_desc[0].shape.dim:
        dims = op.output_desc[0].shape.dim
        dims[rnd.randrange(len(dims))] = rnd.choice(NUMBERS)
    elif kind == 2 and op.output_desc:
        op.output_desc[0].dtype = rnd.randrange(1, 16)
    elif kind == 3 and op.input:
        op.input[rnd.randrange(len(op.input))] = rnd.choice([text for other in ops for text in other.input])
    elif kind == 4 and op.attr:
        attribute = op.attr[rnd.choice(sorted(op.attr))]
        if attribute.WhichOneof("value") == "i":
            attribute.i = rnd.choice(NUMBERS)
        elif attribute.list.i:
            attribute.list.i[0] = rnd.choice(NUMBERS)
    elif kind == 5 and op.attr:
        del op.attr[rnd.choice(sorted(op.attr))]


@pytest.mark.provokes("ASC4001")
def test_mutated_graphs_never_end_in_a_traceback(real_om: Callable[..., Path], tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for key in ("gru_decoder", "ppocr_cls"):
        rnd = random.Random(key)
        for _ in range(60):
            file = om.read(real_om(key))
            ops = [op for graph in file.raw_model_def.graph for op in graph.op]
            for _ in range(rnd.choice((1, 1, 2))):
                _mutate(ops, rnd)
            path = tmp_path / "m.om"
            path.write_bytes(file.to_bytes())
            try:
                session = npu.load(path, threads=1, cache=False)
                session.run_with_values(random_inputs(session.inputs))
            except AscError as error:
                seen[error.problems[0].code] += 1
                assert error.problems[0].what
            else:
                seen["ran"] += 1
    assert seen["ran"] > 10
    assert len(seen) > 2
