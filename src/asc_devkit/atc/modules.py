"""``convert_module``: a PyTorch module in memory to `.om`. The Python API behind ``asc_devkit.convert_module``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asc_devkit.atc.options import from_flags, table
from asc_devkit.atc.pipeline import Result, compile
from asc_devkit.errors import AscError, Problem


def convert_module(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    output: str | Path,
    soc_version: str = "Ascend310P3",
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    opset_version: int | None = None,
    **atc_options: str,
) -> Result:
    """Export ``module`` (``nn.Module``, exported program or TorchScript) and convert it.

    Writes ``output`` + ``.onnx`` and ``output`` + ``.om``. ``example_inputs``: positional tensors, or tensors by argument
    name. ``dynamic_shapes``: as for ``torch.export``; give ``input_shape`` then. ``atc_options``: options of `atc` by name,
    e.g. ``precision_mode="must_keep_origin_dtype"``. Needs the extra ``[torch]``. Raises ``AscError``.
    """
    from asc_devkit.frontends import torch

    target = Path(output)
    unknown = [name for name in atc_options if name not in table() or name in ("model", "framework", "output")]
    if unknown:
        raise AscError(
            Problem("E10013", f"convert_module takes no option {', '.join(unknown)}.", fix="See `atc --help`.")
        )
    flags = {
        "model": f"{target}.onnx", "framework": "5", "output": str(target), "soc_version": soc_version, **atc_options,
    }  # fmt: skip
    options = from_flags(flags, command_line=f"convert_module {type(module).__name__}")
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.module_to_onnx(
        module,
        example_inputs,
        Path(f"{target}.onnx"),
        input_names=input_names,
        output_names=output_names,
        dynamic_shapes=dynamic_shapes,
        opset_version=opset_version,
    )
    return compile(options)
