"""AIPP: picture preprocessing compiled into the model (--insert_op_conf).

``load`` reads the configuration file, ``insert`` puts an ``Aipp`` operator behind each input it names, ``in_floats`` does
the same preprocessing in floating point, as the original model's program would.
"""

from asc_devkit.atc.aipp.config import Aipp, DynamicAipp
from asc_devkit.atc.aipp.floats import in_floats
from asc_devkit.atc.aipp.insert import insert, of_graph
from asc_devkit.atc.aipp.reading import load

__all__ = ["Aipp", "DynamicAipp", "in_floats", "insert", "load", "of_graph"]
