"""The virtual NPU: executes the graph of an OM on the CPU with the device's numerics.

``load(path) -> Session``, ``Session.run(inputs)``; see ``docs/virtual_npu.md``.
"""

from asc_devkit.npu.aipp_params import AippParameters, PictureParameters
from asc_devkit.npu.feeds import Tensor
from asc_devkit.npu.loading import load
from asc_devkit.npu.lower import Output
from asc_devkit.npu.session import Session

__all__ = ["AippParameters", "Output", "PictureParameters", "Session", "Tensor", "load"]
