"""What ``perf.estimate`` returns: one ``OpTime`` per operator in execution order, the timeline and the totals."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpTime:
    """Predicted time of one operator (or fused group) in microseconds on the device.

    ``lo80``/``hi80`` hold 80 % of the measured times on comparable rows. ``bound_by`` is ``cube``, ``vector``,
    ``memory`` (HBM or DDR), ``l2``, ``launch``, ``aicpu``, ``host`` or ``none``. ``basis`` says where the number comes
    from. ``cube_us``, ``vector_us`` and ``mte_us`` are busy times of the pipes, which overlap; ``launch_us`` is the
    part of ``us`` that any kernel of this width needs to start. ``bytes_read``/``bytes_written`` are what the kernel
    touches of its operands, wherever they lie; ``flops`` counts a multiply-add as two.
    """

    name: str
    type: str
    us: float
    lo80: float
    hi80: float
    bound_by: str
    basis: str
    engine: str
    block_dim: int = 0
    cube_us: float = 0.0
    vector_us: float = 0.0
    mte_us: float = 0.0
    launch_us: float = 0.0
    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    cost: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """One operator on the device's time axis, microseconds from the start of the run."""

    name: str
    type: str
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Estimate:
    """Times of all operators of a model on one chip.

    ``borrowed`` maps each chip figure that no public source gives to the chip it was taken from; intervals are wider
    then. ``gap_us`` is the pause between two tasks on the timeline.
    """

    soc: str
    ops: tuple[OpTime, ...]
    timeline: tuple[Span, ...]
    gap_us: float
    borrowed: dict[str, str]

    @property
    def total_us(self) -> float:
        """Device time of one run: operators and the gaps between them."""
        return self.timeline[-1].end_us if self.timeline else 0.0

    @property
    def total_interval_us(self) -> tuple[float, float]:
        """80 % interval of ``total_us``: errors within a cost class are taken as fully correlated (one wrong
        coefficient moves all of them), errors of different classes as independent."""
        low: dict[str, float] = defaultdict(float)
        high: dict[str, float] = defaultdict(float)
        for op in self.ops:
            low[op.cost] += op.us - op.lo80
            high[op.cost] += op.hi80 - op.us
        total = self.total_us
        down = sum(x * x for x in low.values()) ** 0.5
        up = sum(x * x for x in high.values()) ** 0.5
        return max(total - down, 0.0), total + up

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON reports."""
        low, high = self.total_interval_us
        return {
            "soc": self.soc,
            "basis": "estimated",
            "total_us": self.total_us,
            "lo80": low,
            "hi80": high,
            "gap_us": self.gap_us,
            "borrowed": dict(self.borrowed),
            "ops": [asdict(op) for op in self.ops],
            "timeline": [asdict(span) for span in self.timeline],
        }
