"""What lies in L2 while the graph runs: least recently used values leave, dirty ones go back to memory."""

from __future__ import annotations

from collections import OrderedDict

import onnx_ir as ir


class L2:
    """Keeps whole values; ``capacity`` in bytes is the share of L2 that survives streaming operands."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.used = 0.0
        self.held: OrderedDict[ir.Value, tuple[float, bool]] = OrderedDict()

    def read(self, value: ir.Value, size: float, whole: float) -> tuple[bool, float]:
        """(hit, dirty bytes pushed out). A value read in full stays if it fits; a partly read one is not kept."""
        if value in self.held:
            self.held.move_to_end(value)
            return True, 0.0
        if size < whole or whole > self.capacity / 2:
            return False, 0.0
        return False, self._insert(value, whole, dirty=False)

    def write(self, value: ir.Value, size: float) -> float:
        """Bytes that must go to memory because of this write."""
        if size > self.capacity:
            return size
        return self._insert(value, size, dirty=True)

    def alias(self, value: ir.Value, source: ir.Value) -> None:
        """``value`` is the same memory as ``source``."""
        if source in self.held:
            size, dirty = self.held.pop(source)
            self.held[value] = (size, dirty)

    def _insert(self, value: ir.Value, size: float, dirty: bool) -> float:
        pushed = 0.0
        while self.held and self.used + size > self.capacity:
            _, (old, was_dirty) = self.held.popitem(last=False)
            self.used -= old
            pushed += old if was_dirty else 0.0
        self.held[value] = (size, dirty)
        self.used += size
        return pushed
