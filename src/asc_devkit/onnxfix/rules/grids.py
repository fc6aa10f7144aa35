"""Sampling grids of fixed size: base points (constant) times the affine matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from asc_devkit.frontends.onnx.upgrade.edit import Edit, Refusal

MOST_POINTS = 1 << 24


def affine_grid(e: Edit) -> None:
    """theta (N, d, d + 1) and the size (N, C, [D,] H, W) -> grid (N, [D,] H, W, d); source: ONNX AffineGrid-20."""
    size = e.const(1)
    if size is None or size.size not in (4, 5) or (size < 1).any():
        raise Refusal("its size is known at run time only")
    batch, spatial = int(size[0]), [int(n) for n in size[2:]]
    if np.prod(spatial, dtype=np.int64) > MOST_POINTS:
        raise Refusal(f"its grid has more than {MOST_POINTS} points")
    aligned = bool(e.attr("align_corners", 0))
    axes = [_positions(n, aligned) for n in spatial]
    mesh = np.meshgrid(*axes, indexing="ij")[::-1]  # x first
    points = np.stack([*mesh, np.ones(spatial)], -1).reshape(1, -1, len(spatial) + 1)
    kind = (e.dtype(0) or ir.DataType.FLOAT).numpy()
    turned = e.before("Transpose", [e.input(0)], {"perm": [0, 2, 1]})
    flat = e.before("MatMul", [points.astype(kind), turned])
    e.rename("Reshape", [flat, np.array([batch, *spatial, len(spatial)], np.int64)])


def _positions(count: int, aligned: bool) -> np.ndarray[Any, Any]:
    """Centres of pixels from -1 to 1; with ``aligned`` the outer ones lie on the borders."""
    if aligned:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1


RULES = {"AffineGrid": affine_grid}
