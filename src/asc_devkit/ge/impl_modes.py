"""Implementation modes of operators: names, and the bits that stand for them in ``_op_impl_mode_enum`` of an ``.om``.

Source: attribute documentation of MatMulV3 in the public operator prototypes (``opImplMode``), and the ATC manual's page
of --op_precision_mode for the words.
"""

from __future__ import annotations

from typing import Final

DEFAULT: Final = 0x1
HIGH_PERFORMANCE: Final = "high_performance"
HIGH_PRECISION: Final = "high_precision"
SUPER_PERFORMANCE: Final = "super_performance"
OUT_OF_BOUND_INDEX: Final = "support_out_of_bound_index"
FLOAT_32: Final = "enable_float_32_execution"
HI_FLOAT_32: Final = "enable_hi_float_32_execution"
KEEP_FP16: Final = "keep_fp16"

BITS: Final[dict[str, int]] = {
    HIGH_PERFORMANCE: 0x2,
    HIGH_PRECISION: 0x4,
    SUPER_PERFORMANCE: 0x8,
    OUT_OF_BOUND_INDEX: 0x10,
    FLOAT_32: 0x20,
    HI_FLOAT_32: 0x40,
    KEEP_FP16: 0x80,
}

#: Operators whose kernels have an fp16 and an fp32 form of their inner steps (``npu.kernels`` holds the fp16 forms).
TWO_FORMS: Final = frozenset(
    {"SoftmaxV2", "LogSoftmaxV2", "Sigmoid", "Tanh", "Gelu", "GeluV2", "FastGelu", "Erf", "Swish", "LayerNormV3", "Pow",
     "Softplus", "Mish", "Rsqrt", "RealDiv", "HardSwish", "AvgPoolV2"}
)  # fmt: skip
#: One instruction computes all of it: both forms would give the same number, so the mode is only stored.
ONE_INSTRUCTION: Final = frozenset({"Exp", "Log", "Sqrt", "Reciprocal"})


def name_of(bits: int) -> str | None:
    """The mode whose bit is set (the lowest one), None for the default."""
    return next((name for name, bit in BITS.items() if bits & bit), None)
