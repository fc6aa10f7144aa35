"""Offline models as input: an .om is rebuilt as ONNX and converted again, for another chip, precision or batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from asc_devkit import om
from asc_devkit.frontends.source import READERS
from asc_devkit.om.to_onnx import rebuild

if TYPE_CHECKING:
    import onnx


def read(path: Path) -> tuple[onnx.ModelProto, list[str]]:
    """The model of an offline file, and what it rests on. Raises ``AscError``."""
    made = rebuild(om.read(path))
    notes = [f"{path.name} was compiled already: weights have the precision it was compiled with."]
    if made.guesses:
        nodes = ", ".join(dict.fromkeys(guess.node for guess in made.guesses[:5]))
        notes.append(
            f"{len(made.guesses)} facts that fused kernels hide are guesses ({nodes}, ...); see `asc om to-onnx`."
        )
    return made.proto(), notes


READERS[".om"] = READERS[".om2"] = read
