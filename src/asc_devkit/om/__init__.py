"""The offline-model container: ``write``, ``read`` and what one can learn from a file."""

from asc_devkit.om.archive import write as write_archive
from asc_devkit.om.encode import MemoryLayout
from asc_devkit.om.mbatch import Gears
from asc_devkit.om.reader import OmFile, parse, read
from asc_devkit.om.show import to_json
from asc_devkit.om.writer import ModelInfo, write

__all__ = ["Gears", "MemoryLayout", "ModelInfo", "OmFile", "parse", "read", "to_json", "write", "write_archive"]
