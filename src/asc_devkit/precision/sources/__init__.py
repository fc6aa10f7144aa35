"""Tensors of any origin as ``TensorRef``: where the elements lie, read in pieces. Used by the compare engine.

``open_file`` reads one file (which may hold several tensors), ``scan`` a folder or file of any known layout.
"""

from asc_devkit.precision.sources.files import SUFFIXES, open_file
from asc_devkit.precision.sources.folders import Collection, scan
from asc_devkit.precision.sources.tensor import TensorRef

__all__ = ["SUFFIXES", "Collection", "TensorRef", "open_file", "scan"]
