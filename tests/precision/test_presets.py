"""Every preset just inside and just outside its limits, found in exact arithmetic; elementwise limits by one ULP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asc_devkit.precision.accumulate import Accumulator
from asc_devkit.precision.policy import Policy, presets
from asc_devkit.precision.policy.presets import INTEGERS

Array = np.ndarray[Any, Any]
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
TYPES |= {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}


def level(policy: Policy, golden: Array, actual: Array, op_type: str = "") -> str:
    """The verdict of a policy, as the engine reaches it."""
    rule = policy.criterion(actual.dtype.name, op_type)
    sums = Accumulator(shape=golden.shape, kl=True, criteria=[rule])
    sums.add(golden, actual)
    return rule.verdict(sums.result()).level


def beyond(value: Any, dtype: Any) -> Any:
    """The next number of the type away from zero (its bits plus one)."""
    array = np.array([value], dtype)
    return (array.view(f"u{array.itemsize}") + 1).view(dtype)[0]


def borders(dtype: Any, limit: Callable[[Fraction], Fraction]) -> Iterator[tuple[Any, Any, Any]]:
    """(golden, last value within the limit, first one outside) for several magnitudes, by bisection over the type's bits."""
    for start in (2.0**-6, 0.40625, 1.0, 3.25, 7.5):
        golden = np.array([start], dtype)
        exact = Fraction(float(golden[0]))
        unsigned = f"u{golden.itemsize}"
        low = int(golden.view(unsigned)[0])
        high = int(np.array([float(ml_dtypes.finfo(dtype).max)], dtype).view(unsigned)[0])

        def value(bits: int, unsigned: str = unsigned) -> Any:
            return np.array([bits], unsigned).view(dtype)[0]

        if Fraction(float(value(high))) - exact <= limit(exact):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            inside = Fraction(float(value(middle))) - exact <= limit(exact)
            low, high = (middle, high) if inside else (low, middle)
        yield golden[0], value(low), value(high)


def elementwise(name: str) -> list[tuple[str, str]]:
    return [(name, dtype) for dtype in ("float16", "bfloat16", "float32")]


def limit_of(name: str, dtype: str) -> Callable[[Fraction], Fraction]:
    """The tolerance of the documents, as a function of the expected value."""
    table: dict[str, Any] = {
        "combined": {"*": ("1e-3", "1e-3")},
        "seed002": {"*": ("1e-3", "1e-3")},
        "polygraphy": {"*": ("1e-5", "1e-5")},
        "torch": {"float16": ("1e-5", "1e-3"), "bfloat16": ("1e-5", "1.6e-2"), "float32": ("1e-5", "1.3e-6")},
    }
    if name in table:
        atol, rtol = (Fraction(x) for x in table[name].get(dtype) or table[name]["*"])
        return lambda a: atol + rtol * a
    if name in ("any", "seed003"):
        return lambda a: min(Fraction("1e-3"), Fraction("1e-2") * a)
    rtol, small, atol = {
        "float16": ("1e-3", "1e-3", "1e-5"),
        "bfloat16": ("4e-3", "1e-3", "1e-5"),
        "float32": ("1e-6", "1e-6", "1e-9"),
    }[dtype]
    return lambda a: Fraction(atol) if a < Fraction(small) else Fraction(rtol) * a


ELEMENTWISE = ["combined", "seed002", "polygraphy", "torch", "any", "seed003", "abs-threshold"]


@pytest.mark.parametrize("name,dtype", [pair for name in ELEMENTWISE for pair in elementwise(name)])
def test_elementwise_limits_to_the_last_place(name: str, dtype: str) -> None:
    seen = 0
    for golden, inside, outside in borders(TYPES[dtype], limit_of(name, dtype)):
        for sign in (1, -1):
            a, b, c = (np.array([float(v) * sign], TYPES[dtype]) for v in (golden, inside, outside))
            gap, edge = (
                abs(Fraction(float(outside)) - Fraction(float(golden))),
                limit_of(name, dtype)(Fraction(float(golden))),
            )
            assert level(Policy(name), a, b) == "pass", (golden, inside)
            if float(gap / edge - 1) > 2**-22:  # closer than the float32 arithmetic of the rules tells apart
                assert level(Policy(name), a, c) == "error", (golden, outside)
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_absolute_limit_of_small_values(dtype: str) -> None:
    golden = np.array([{"float32": 2.0**-24}.get(dtype, 2.0**-12)], TYPES[dtype])
    allowed = 1e-9 if dtype == "float32" else 1e-5
    inside, outside = ((golden.astype(np.float64) + allowed * k).astype(TYPES[dtype]) for k in (0.9, 1.3))
    assert level(Policy("abs-threshold"), golden, inside) == "pass"
    assert level(Policy("abs-threshold"), golden, outside) == "error"


ECOSYSTEM = {"float16": -10, "bfloat16": -7, "float32": -13, "float8_e4m3fn": -3, "float8_e5m2": -2}


@pytest.mark.parametrize("dtype", ECOSYSTEM)
def test_ecosystem_mean_and_largest_relative_error(dtype: str) -> None:
    threshold = 2.0 ** ECOSYSTEM[dtype]
    golden = np.full(1000, 4.0, np.float64)
    for share, wanted in ((0.97, "pass"), (1.03, "error")):
        rule = Policy("cann-eco").criterion(dtype)
        sums = Accumulator(criteria=[rule], target=dtype)
        sums.add(golden, golden * (1 + threshold * share))
        assert rule.verdict(sums.result()).level == wanted
        rule = Policy("cann-eco").criterion(dtype)
        sums = Accumulator(criteria=[rule], target=dtype)
        one = golden.copy()
        one[7] *= 1 + 10 * threshold * share
        sums.add(golden, one)
        assert rule.verdict(sums.result()).level == wanted


@pytest.mark.parametrize("wrong,wanted", [(2, "pass"), (3, "error")])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_ecosystem_errors_among_small_and_cancelled_values(dtype: str, wrong: int, wanted: str) -> None:
    """Small values: |golden| below threshold/2, error above 2^-16 (2^-30). Cancelled: both below 2^-5 (2^-3, 2^-8)."""
    small, allowed, cancelled = {"float16": (-11, -16, -5), "bfloat16": (-8, -16, -3), "float32": (-14, -30, -8)}[dtype]
    for base, error in ((2.0 ** (small - 1), 2.0**allowed * 1.1), (2.0 ** (cancelled - 1), 2.0 ** (cancelled - 2))):
        golden = np.full(5000, base, np.float64)
        actual = golden.copy()
        actual[:wrong] += error
        rule = Policy("cann-eco").criterion(dtype)
        sums = Accumulator(criteria=[rule], target=dtype)
        sums.add(golden, actual)
        assert rule.verdict(sums.result()).level == wanted
    exact = np.full(5000, 2.0 ** (small - 1), np.float64)
    rule = Policy("cann-eco").criterion(dtype)
    sums = Accumulator(criteria=[rule], target=dtype)
    sums.add(exact, exact + 2.0**allowed)  # at the limit, not above it
    assert rule.verdict(sums.result()).level == "pass"


def test_ecosystem_infinities_count_as_the_largest_number() -> None:
    golden = np.full(100, 65504.0, np.float16)
    actual = golden.copy()
    actual[3] = np.inf
    assert level(Policy("cann-eco"), golden, actual) == "pass"
    actual[3] = np.nan
    assert level(Policy("cann-eco"), golden, actual) == "error"
    golden[4], actual[3], actual[4] = np.inf, 65504.0, -np.inf
    assert level(Policy("cann-eco"), golden, actual) == "error"


@pytest.mark.parametrize(
    "name,dtype,size,count,limit",
    [
        ("dual-1000", "float32", 10_000, 10, 1e-3),
        ("dual-1000", "float16", 10_000, 10, 1e-3),
        ("precheck", "float16", 10_000, 100, 1e-2),
        ("precheck", "float32", 10_000, 10, 1e-3),
    ],
)
def test_shares_of_relative_errors(name: str, dtype: str, size: int, count: int, limit: float) -> None:
    """More than the share must be below the limit: one less than ``count`` wrong elements pass, ``count`` do not."""
    golden = np.full(size, 8.0, TYPES[dtype])
    for wrong, wanted in ((count - 1, "pass"), (count, "error")):
        actual = golden.copy()
        actual[:wrong] = beyond_by(golden[0], limit * 1.5, TYPES[dtype])
        found = level(Policy(name), golden, actual)
        assert found == wanted or (wanted == "pass" and found == "warning"), (wrong, found)


def beyond_by(value: Any, share: float, dtype: Any) -> Any:
    """The first number of the type above ``value * (1 + share)``."""
    wide = float(value) * (1 + share)
    found = np.array([wide], dtype)[0]
    return found if float(found) > wide else beyond(found, dtype)


def test_precheck_looks_at_cosine_first_and_forgives_small_absolute_errors() -> None:
    golden = np.full(1000, 1e-4, np.float32)
    assert level(Policy("precheck"), golden, golden * 3) == "pass"  # all errors below 0.001
    turned = golden * np.where(np.arange(1000) % 100 == 0, -1, 1).astype(np.float32)
    assert level(Policy("precheck"), golden, turned) == "error"  # cosine 0.98


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ulp_share_of_half_types(dtype: str) -> None:
    golden = np.full(10_000, 1.5, TYPES[dtype])
    one = beyond(golden[0], TYPES[dtype])
    two = beyond(one, TYPES[dtype])
    all_off = np.full_like(golden, one)
    assert level(Policy("ulp"), golden, all_off) == "pass"
    for wrong, wanted in ((9, "pass"), (10, "error")):
        actual = golden.copy()
        actual[:wrong] = two
        assert level(Policy("ulp"), golden, actual) == wanted


def test_ulp_mean_and_share_of_float32() -> None:
    golden = np.full(100, 1.5, np.float32)
    unit = np.float32(2.0**-23)
    assert level(Policy("ulp"), golden, golden + 63 * unit) == "pass"
    assert level(Policy("ulp"), golden, golden + 64 * unit) == "error"
    for wrong, wanted in ((4, "pass"), (5, "error")):  # mean far above 64, few elements above 32
        actual = golden.copy()
        actual[:wrong] += 10_000 * unit
        assert level(Policy("ulp"), golden, actual) == wanted


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "bool"])
def test_binary_wants_every_bit(dtype: str) -> None:
    golden = np.ones(64, dtype)
    assert level(Policy("binary"), golden, golden.copy()) == "pass"
    actual = golden.copy()
    actual[5] = {"float16": np.nextafter(np.float16(1), np.float16(2)), "float32": np.nextafter(np.float32(1), np.float32(2)),
                 "int32": 2, "bool": False}[dtype]  # fmt: skip
    assert level(Policy("binary"), golden, actual) == "error"


def test_quant_allows_one_step() -> None:
    golden = np.array([0, 5, -128, 127], np.int8)
    assert level(Policy("quant"), golden, golden + np.array([1, -1, 1, -1], np.int8)) == "pass"
    assert level(Policy("quant"), golden, golden + np.array([0, 2, 0, 0], np.int8)) == "error"


def test_dropout_compares_shares_of_zeros() -> None:
    golden = np.ones(1000, np.float32)
    for zeros, wanted in ((99, "pass"), (101, "error")):
        actual = golden * 2
        actual[:zeros] = 0
        assert level(Policy("dropout"), golden, actual) == wanted
    short = np.ones(99, np.float32)
    assert level(Policy("dropout"), short, np.zeros_like(short)) == "pass"


WIDE = {"cosine": -1.0, "relative_euclidean": 1e9, "kl": 1e9, "rmse": 1e9, "mean_rel": 1e9}


@pytest.mark.parametrize("metric", WIDE)
def test_whole_network_limits_one_by_one(metric: str) -> None:
    """Limits of the vendor's network comparison: cosine 0.99, distance 0.05, divergence 0.005, RMSE 1, mean relative 1."""
    policy = Policy("net", {k: v for k, v in WIDE.items() if k != metric})
    golden = np.zeros(2000, np.float64)
    golden[::2] = 1.0
    across = np.zeros(2000)
    across[1::2] = 1.0  # at right angles to golden, of the same length
    rng = np.random.default_rng(0)
    spread = rng.uniform(1, 2, 4000)

    def made(share: float) -> tuple[Array, Array]:
        if metric == "cosine":
            angle = math.acos(0.99) * share
            return golden, golden * math.cos(angle) + across * math.sin(angle)
        if metric == "relative_euclidean":
            return spread, spread * (1 + 0.05 * share)
        if metric == "rmse":
            return spread, spread + 1.0 * share
        if metric == "mean_rel":
            return spread, spread * (1 + 1.0 * share)
        return _divergent(spread, 0.005 * share)

    assert level(policy, *made(0.99)) == "pass"
    assert level(policy, *made(1.01)) == "error"


def _divergent(golden: Array, wanted: float) -> tuple[Array, Array]:
    """An actual tensor whose divergence from golden is ``wanted``, by bisection on a distortion."""
    low, high = 0.0, 1.0
    p = golden - golden.min()

    def divergence(t: float) -> float:
        q = p ** (1 + t)
        keep = p > 0
        return float(np.sum(p[keep] / p.sum() * np.log((p[keep] / p.sum()) / (q[keep] / q.sum()))))

    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(middle) < wanted else (low, middle)
    return golden, p ** (1 + low)


@pytest.mark.parametrize("dtype,count,far", [("float16", 10, 0.1), ("float32", 1, 0.01)])
def test_msopst_share_and_ceiling(dtype: str, count: int, far: float) -> None:
    """At most ``count`` of 10,000 elements beyond the tolerance, none beyond the ceiling."""
    golden = np.full(10_000, 4.0, TYPES[dtype])
    tolerance = 1e-3 if dtype == "float16" else 1e-4
    for wrong, wanted in ((count, "pass"), (count + 1, "error")):
        actual = golden.copy()
        actual[:wrong] = beyond_by(4.0, tolerance, TYPES[dtype])
        assert level(Policy("msopst"), golden, actual) == wanted
    for share, wanted in ((0.9, "pass"), (1.1, "error")):
        actual = golden.copy()
        actual[0] = 4.0 * (1 + far * share)
        assert level(Policy("msopst"), golden, actual) == wanted


@pytest.mark.parametrize("dtype,count", [("float16", 10), ("float32", 1)])
def test_ascendc_samples_allow_a_share_below_their_rate(dtype: str, count: int) -> None:
    golden = np.full(10_000, 1.0, TYPES[dtype])
    for wrong, wanted in ((count - 1, "pass"), (count, "error")):
        actual = golden.copy()
        actual[:wrong] = 1.25
        assert level(Policy("ascendc-sample"), golden, actual) == wanted


@pytest.mark.parametrize(
    "op_type,golden,actual,wanted",
    [
        ("Transpose", 1.0, 1.0009765625, "error"),  # movement: exact
        ("Add", 1.0, 1.0009765625, "pass"),  # elementwise: 1e-3 relative
        ("Add", 1.0, 1.001953125, "error"),
        ("MatMulV2", 1.0, 1.0009765625, "pass"),  # one ULP
        ("MatMulV2", 1.0, 1.001953125, "error"),
        ("SoftmaxV2", 1.0, 1.0, "pass"),
        ("SoftmaxV2", 1.0, 1.001953125, "error"),  # mean relative error 2^-9
    ],
)
def test_standard_chooses_by_operator_class(op_type: str, golden: float, actual: float, wanted: str) -> None:
    a, b = np.full(64, golden, np.float16), np.full(64, actual, np.float16)
    assert level(Policy("standard"), a, b, op_type) == wanted


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_isa_counts_units_by_instruction(dtype: str) -> None:
    golden = np.full(64, 1.5, TYPES[dtype])
    one = beyond(golden[0], TYPES[dtype])
    for op_type, units, wanted in (("Add", 0, "pass"), ("Add", 1, "error"), ("Exp", 1, "pass"), ("Exp", 2, "error")):
        actual = golden.copy()
        actual[3] = {0: golden[0], 1: one, 2: beyond(one, TYPES[dtype])}[units]
        assert level(Policy("isa"), golden, actual, op_type) == wanted


def test_integers_are_exact_unless_a_standard_says_otherwise() -> None:
    golden = np.array([1000, 2000], np.int32)
    for name, found in presets().items():
        apart = level(Policy(name), golden, golden + 1)
        assert apart == ("error" if found.integers == "exact" else apart), name
    by_rule = {"combined", "any", "seed002", "seed003", "quant", "net", "dropout", "msopst", "polygraphy"}
    assert {n for n, p in presets().items() if p.integers == "rule"} >= by_rule
    assert {np.dtype(n).name for n in INTEGERS} == INTEGERS


def test_no_preset_is_left_out_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in presets() if f'"{name}"' not in text] == []


def test_overrides_by_operator_and_type(tmp_path: Any) -> None:
    path = tmp_path / "o.json"
    path.write_text('{"conv1": {"standard": "combined", "atol": 1}, "Add": {"standard": "binary"}}')
    policy = Policy("cann-eco", {}, Policy.load_overrides(path))
    assert [policy.criterion("float16", t, n).kind for t, n in (("Conv2D", "conv1"), ("Add", "a"), ("Mul", "m"))] == [
        "combined",
        "binary",
        "cann-eco",
    ]
