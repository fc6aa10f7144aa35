"""PyTorch programs as ONNX models, through ``torch.onnx`` (extra ``[torch]``). Entries: ``to_onnx``, ``module_to_onnx``."""

from asc_devkit.frontends.torch.archive import is_exported_program
from asc_devkit.frontends.torch.export import module_to_onnx, to_onnx

__all__ = ["is_exported_program", "module_to_onnx", "to_onnx"]
