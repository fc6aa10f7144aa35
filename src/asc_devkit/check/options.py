"""What one check was asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class CheckOptions:
    """``model`` None means the embedded example. ``threshold`` is the least cosine of every output (fp16 default 0.999,
    the usual acceptance line of model conversion). ``samples`` bounds how many inputs are run.
    ``atc_flags``: further options of the conversion, ATC's name -> text."""

    model: Path | None
    output: Path = Path("asc_out")
    soc: str = "Ascend310P3"
    input_shape: str = ""
    insert_op_conf: Path | None = None
    precision_mode: str = "force_fp16"
    data: Path | None = None
    labels: Path | None = None
    threshold: float = 0.999
    host_ops: bool = False
    samples: int = 512
    seed: int = 0
    threads: int = 0
    atc_flags: Mapping[str, str] = field(default_factory=dict)
