"""Losses that appear in exported training graphs."""

from __future__ import annotations

from asc_devkit.ops.catalogue import Cost, Mix
from asc_devkit.ops.declare import Attr, rename

rename("SoftmaxCrossEntropyLoss", inputs="scores labels weights", outputs="loss log_prop", cost=Cost.SOFTMAX,
       mix=Mix.BLACK, attrs=[Attr("ignore_index", "int"), Attr("reduction", "str", "mean")])  # fmt: skip
