"""Two checkpoints side by side: distance and cosine of every weight. Needs neither torch nor the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asc_devkit.precision.accumulate import BLOCK, Accumulator
from asc_devkit.precision.sources import scan


@dataclass(frozen=True)
class Similarity:
    """One weight: L2 distance, cosine, relative distance, number of elements, shape; ``note`` where it could not be
    compared."""

    name: str
    l2: float | None
    cosine: float | None
    relative: float | None
    numel: int
    shape: tuple[int, ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"l2": self.l2, "cos": self.cosine, "relative": self.relative, "numel": self.numel, "shape": list(self.shape),
                **({"note": self.note} if self.note else {})}  # fmt: skip


def compare(first: Path, second: Path) -> list[Similarity]:
    """All weights of both checkpoints (.pt, .safetensors, folders of them) by name. Raises ``AscError``."""
    left, right = scan(first).tensors, scan(second).tensors
    rows = []
    for name in dict.fromkeys([*left, *right]):
        a, b = left.get(name), right.get(name)
        if a is None or b is None:
            only = a or b
            assert only is not None
            rows.append(
                Similarity(
                    name, None, None, None, only.size, only.shape, f"only in the {'second' if a is None else 'first'}"
                )
            )
        elif a.shape != b.shape:
            rows.append(Similarity(name, None, None, None, b.size, b.shape, f"the first has the shape {list(a.shape)}"))
        else:
            sums = Accumulator()
            for x, y in zip(a.blocks(BLOCK), b.blocks(BLOCK), strict=True):
                sums.add_flat(x, y)
            m = sums.result()
            rows.append(Similarity(name, m.rmse * m.count**0.5, m.cosine, m.relative_euclidean, a.size, a.shape))
    return rows
