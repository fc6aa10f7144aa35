"""Import name of the lower interface that ais_bench stands on; the work is done in ``asc_devkit.compat.ais_bench``."""

from asc_devkit.compat.ais_bench import model, tensors

InferenceSession = model.InferenceSession
session_options = model.SessionOptions
Tensor = tensors.Tensor
tensor_desc = tensors.TensorDesc
dtype = tensors.DataType

__all__ = ["InferenceSession", "Tensor", "dtype", "session_options", "tensor_desc"]
