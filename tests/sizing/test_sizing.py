"""Keys and error rate become the bits and hashes that the format's table promises."""

import math
from collections.abc import Callable
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import strategies as st
from naive import step_of

from mmbloom import sizing
from mmbloom.sizing import (
    BestPractice,
    FilterParams,
    Layout,
    best_practice,
    best_practice_table,
    capacity_of,
    estimate_count,
    false_positive_rate,
    plan,
)

# Error rate, standard bits per key, blocked bits per key, its k and blocks a key.
TABLE = [
    (0.1, 4.79, 4.83, 3, 1),
    (0.01, 9.59, 9.90, 6, 1),
    (0.001, 14.38, 15.49, 9, 1),
    (0.0001, 19.17, 19.86, 12, 2),
    (1e-6, 28.76, 31.18, 18, 2),
    (1e-9, 43.13, 47.0, 27, 3),
    (1e-18, 86.27, 94.83, 56, 8),
]
LAYOUTS = get_args(Layout)


def rate_of(params: FilterParams) -> float:
    """Rate that is to be expected of a planned filter at its capacity."""
    return params.rate_with(params.capacity)


def rate_of_blocked(num_keys: int, num_bits: int, num_hashes: int, blocks: int) -> float:
    """Rate of that many keys in the blocked layout."""
    return false_positive_rate(num_keys, num_bits, num_hashes, blocks_per_key=blocks)


@pytest.mark.parametrize(("rate", "standard", "blocked", "num_hashes", "blocks"), TABLE)
def test_table_of_the_format(
    rate: float, standard: float, blocked: float, num_hashes: int, blocks: int
) -> None:
    """Bits per key, k and b are those of the table; blocked ones are within 10 % of the others."""
    n = 10**9
    if rate > 1e-12:  # beyond, double hashing needs more
        assert round(plan(n, rate, layout="standard").bits_per_key, 2) == standard
    params = plan(n, rate)
    assert (round(params.bits_per_key, 2), params.num_hashes) == (blocked, num_hashes)
    assert params.blocks_per_key == blocks
    assert blocked <= 1.1 * standard


@pytest.mark.parametrize(("rate", "gigabytes"), [(0.01, 1.24), (1e-6, 3.90), (1e-9, 5.88)])
def test_sizes_of_a_billion_keys(rate: float, gigabytes: float) -> None:
    assert round(plan(10**9, rate).num_bytes / 1e9, 2) == gigabytes


@pytest.mark.parametrize(("rate", "num_hashes"), [(0.1, 3), (0.01, 7), (0.001, 10), (1e-6, 20)])
def test_standard_hashes(rate: float, num_hashes: int) -> None:
    """The standard layout has the textbook's k = -log2 p, rounded."""
    assert plan(10**6, rate, layout="standard").num_hashes == num_hashes


def test_a_billion_keys() -> None:
    """10^9 keys at 1 % fit in 1.24 GB."""
    assert round(plan(10**9, 0.01).num_bytes / 1e9, 2) == 1.24
    assert plan(10**9) == plan(10**9, 0.01, layout="blocked", seed=0)


@pytest.mark.parametrize("capacity", [1, 2, 50, 51, 52, 1000, 12_345, 10**6, 10**9])
@pytest.mark.parametrize("rate", [0.999, 0.5, 0.1, 0.01, 0.0001, 1e-6, 1e-9])
def test_blocked_size_is_the_smallest(capacity: int, rate: float) -> None:
    """The planned size is good enough; one block or page less is not, whatever the k."""
    params = plan(capacity, rate)
    blocks = params.blocks_per_key
    assert rate_of(params) <= rate
    smaller = params.num_bits - step_of("blocked", blocks)
    for num_hashes in range(blocks, 65, blocks):
        assert not smaller or rate_of_blocked(capacity, smaller, num_hashes, blocks) > rate


@pytest.mark.parametrize("capacity", [50_000, 10**7])
@pytest.mark.parametrize("rate", [0.01, 3e-4, 1e-6, 1e-9])
def test_fewest_blocks_a_key(capacity: int, rate: float) -> None:
    """One block a key less would take more than 10 % above the textbook's size, whatever the k."""
    params = plan(capacity, rate)
    most = int(1.1 * -capacity * math.log(rate) / math.log(2) ** 2)
    assert params.num_bits <= most
    for blocks in range(1, params.blocks_per_key):
        step = step_of("blocked", blocks)
        for num_hashes in range(blocks, 65, blocks):
            assert rate_of_blocked(capacity, most // step * step, num_hashes, blocks) > rate


# Keys, rate, blocks a key, bits: too small for whole pages within 10 % of the textbook's size.
SMALL = [
    (100, 1e-6, 1, 4096),
    (1000, 1e-6, 2, 32768),
    (1000, 1e-7, 1, 49_664),
    (10, 1e-18, 1, 6656),
]


@pytest.mark.parametrize(("capacity", "rate", "blocks", "num_bits"), SMALL)
def test_small_filters(capacity: int, rate: float, blocks: int, num_bits: int) -> None:
    """Where pages are too coarse the smallest array is planned, with the fewest blocks a key."""
    params = plan(capacity, rate)
    assert (params.blocks_per_key, params.num_bits) == (blocks, num_bits)
    assert num_bits > 1.1 * -capacity * math.log(rate) / math.log(2) ** 2
    for more in range(1, 9):
        step = step_of("blocked", more)
        smaller = (num_bits - (more >= blocks)) // step * step
        for num_hashes in range(more, 65, more):
            assert not smaller or rate_of_blocked(capacity, smaller, num_hashes, more) > rate


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01, 0.0001, 1e-6])
def test_smallest_number_of_hashes(rate: float) -> None:
    """Of several k that do with the smallest size, the least work is planned."""
    params = plan(1000, rate)
    blocks = params.blocks_per_key
    for num_hashes in range(blocks, params.num_hashes, blocks):
        assert rate_of_blocked(1000, params.num_bits, num_hashes, blocks) > rate


@pytest.mark.parametrize(
    ("capacity", "rate"),
    [
        *((100, 0.5), (200, 0.1), (1000, 0.1), (1000, 0.01), (12_345, 0.01), (12_345, 1e-4)),
        *((10**6, 1e-6), (10**9, 0.01), (10**9, 1e-6), (10**9, 1e-9)),
    ],
)
def test_standard_formula(capacity: int, rate: float) -> None:
    """Standard: m = ceil(-n ln p / (ln 2)^2) rounded up to 64, k = max(1, round(m/n ln 2))."""
    params = plan(capacity, rate, layout="standard")
    ideal = -capacity * math.log(rate) / math.log(2) ** 2
    assert ideal <= params.num_bits < ideal + 65
    assert params.num_bits % 64 == 0
    hashes = params.num_bits / capacity * math.log(2)
    assert params.num_hashes == min(64, max(1, round(hashes)))


@pytest.mark.parametrize(
    ("capacity", "rate"), [(100, 1e-6), (1000, 1e-9), (12_345, 1e-6), (10**6, 1e-9), (10**9, 1e-12)]
)
def test_more_bits_where_double_hashing_needs_them(capacity: int, rate: float) -> None:
    """The rate with what is added is just kept: by an odd number of words, and by no less."""
    params = plan(capacity, rate, layout="standard")
    assert rate_of(params) <= rate
    assert params.num_bits // 64 % 2
    less = params.num_bits - 128
    assert false_positive_rate(capacity, less, params.num_hashes, layout="standard") > rate
    assert params.num_bits > 1.05 * -capacity * math.log(rate) / math.log(2) ** 2


@pytest.mark.parametrize(("capacity", "rate"), [(64, 0.5), (567, 1e-3), (1139, 1e-3), (105, 0.01)])
def test_no_power_of_two(capacity: int, rate: float) -> None:
    """Where the textbook's size is one, there is a word more: or many positions are shared."""
    ideal = -capacity * math.log(rate) / math.log(2) ** 2
    textbook = 64 * math.ceil(ideal / 64)
    assert textbook & textbook - 1 == 0
    assert plan(capacity, rate, layout="standard").num_bits == textbook + 64


@pytest.mark.parametrize("rate", [0.5, 0.01, 1e-6])
def test_few_keys_are_planned_as_64(rate: float) -> None:
    """The formulas are of many keys, and the fewest of them are few bytes."""
    many = plan(64, rate, layout="standard")
    for capacity in (1, 2, 30, 63):
        few = plan(capacity, rate, layout="standard")
        assert (few.num_bits, few.num_hashes) == (many.num_bits, many.num_hashes)
        assert few.capacity == capacity
    assert plan(65, rate, layout="standard").num_bits > many.num_bits - 64


@pytest.mark.parametrize(("capacity", "rate"), [(1, 1e-15), (1000, 1e-15), (10**6, 1e-12)])
def test_too_few_sets_of_positions(capacity: int, rate: float) -> None:
    """Where only many times the bits would do, the other layout is advised, and it can."""
    with pytest.raises(ValueError, match=rf"{capacity} keys .* 16 times .* use the blocked layout"):
        plan(capacity, rate, layout="standard")
    assert rate_of(plan(capacity, rate)) <= rate


@hypothesis.given(
    st.integers(1, 10**8), st.floats(-15, -0.0005).map(lambda e: 10**e), st.sampled_from(LAYOUTS)
)
def test_plan_keeps_its_promise(capacity: int, rate: float, layout: Layout) -> None:
    """Every plan has the rate asked for at capacity: exactly so when blocked, else within 5 %."""
    try:
        params = plan(capacity, rate, layout=layout)
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:  # where 16 times the textbook's bits, and a MiB, have too few sets of positions
        keys = max(capacity, 64)
        most = max(16 * -keys * math.log(rate) / math.log(2) ** 2, 2**23)
        assert layout == "standard"
        assert 1.5 * keys / most**2 > rate
        return
    assert rate_of(params) <= rate * (1 if layout == "blocked" else 1.05)
    assert (params.capacity, params.error_rate, params.layout) == (capacity, rate, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rate", [1e-20, 1e-25, 1e-300])
def test_rate_out_of_reach_is_refused_not_missed(layout: Layout, rate: float) -> None:
    """A rate that k = 64 cannot reach is a ValueError or a larger filter, never a worse one."""
    try:
        params = plan(1000, rate, layout=layout)
    except ValueError:
        return
    assert rate_of(params) <= rate * 1.05


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rate", [0.999, 0.01, 1e-12])
def test_one_key(layout: Layout, rate: float) -> None:
    """A filter for a single key can be planned at any rate."""
    assert rate_of(plan(1, rate, layout=layout)) <= rate


def test_a_trillion_keys() -> None:
    """10^12 keys fit into the standard layout at 50 %, and are refused where they do not fit."""
    assert plan(10**12, 0.5, layout="standard").num_bits == 1_442_695_040_896
    with pytest.raises(ValueError, match="need more than 8796093022208 bits; use fewer keys"):
        plan(10**12, 0.01)
    # More than 2^31 blocks: several a key, in whole pages.
    assert (large := plan(10**11, 1e-4)).num_bits > 2**40
    assert large.blocks_per_key == 2
    with pytest.raises(ValueError, match=r"num_bits is \d+, expected a multiple of 64 .* 8796093"):
        plan(10**12, 0.01, layout="standard")


def test_smallest_filters() -> None:
    """No plan goes below one block, or one word in the standard layout."""
    assert plan(1, 0.999).num_bits == 512
    assert plan(1, 0.999, layout="standard").num_bits == 64


CAPACITIES, RATES = "capacity is .*, expected ", "^error_rate is .*, expected "
WRONG: list[tuple[dict[str, Any], Any, str]] = [
    *(
        ({"capacity": value}, TypeError, rf"{CAPACITIES}an int; write 1_000_000_000 or int\(1e9\)")
        for value in (1e9, "5", None, True, 1.0)
    ),
    *(({"capacity": n}, ValueError, rf"{CAPACITIES}1 to 2\*\*64 - 1") for n in (0, -1, 2**64)),
    *(
        ({"error_rate": value}, TypeError, f"{RATES}a number; write 0.01 or 1e-")
        for value in ("0.1", b"0.1", None, [0.1])
    ),
    *(
        ({"error_rate": value, "layout": layout}, ValueError, f"{RATES}between 0 and 1")
        for value in (0, 1, 0.0, 1.0, -0.1, 1.5, math.nan, math.inf)
        for layout in LAYOUTS
    ),
    *(
        ({"seed": seed, "hash": name}, ValueError, rf"expected 0 to 2\*\*{bits} - 1 for {name}")
        for name, bits in (("murmur3", 32), ("siphash", 128))
        for seed in (-1, 2**bits)
    ),
    *(({"seed": seed}, (TypeError, ValueError), "seed is ") for seed in (1.5, "1")),
    ({"hash": "md5"}, ValueError, "hash is 'md5', expected 'siphash' or 'murmur3'"),
]


@pytest.mark.parametrize(("wrong", "error", "said"), WRONG, ids=str)
def test_wrong_parameters(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    """What cannot be planned is an error that says what to write, or names the range."""
    with pytest.raises(error, match=said):
        plan(**{"capacity": 1000, **wrong})
    if error is ValueError and "error_rate" in wrong:
        with pytest.raises(error, match=said):
            capacity_of(5120, 7, **wrong)
        with pytest.raises(error, match=said):
            best_practice(wrong["error_rate"])


def test_largest_capacity_of_parameters() -> None:
    """Parameters take a capacity of 64 bits, and none above."""
    assert FilterParams(2**64 - 1, 0.01, "blocked", 512, 7).capacity == 2**64 - 1
    for capacity in (2**64, 0, -1):
        with pytest.raises(ValueError, match=rf"capacity is {capacity}, expected 1 to 2\*\*64 - 1"):
            FilterParams(capacity, 0.01, "blocked", 512, 7)


def test_no_secret_is_shown() -> None:
    """Neither the repr of the parameters nor a seed spelled for people has the key."""
    secret = 0x0123456789ABCDEF_0123456789ABCDEF
    params = plan(1000, seed=secret)
    assert params.seed == secret
    assert params.key_hash.spelled_seed == "secret (fingerprint 6274629d)"
    assert "seed" not in repr(params)
    assert plan(1000, seed=7, hash="murmur3").key_hash.spelled_seed == "7"


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (plan, [1000]),
        (capacity_of, [5120, 7]),
        (false_positive_rate, [0, 5120, 7]),
        (estimate_count, [100, 5120, 7]),
    ],
)
def test_unknown_layout(function: Callable[..., object], numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="layout is 'other', expected 'blocked' or 'standard'"):
        function(*numbers, layout="other")


GOOD: dict[str, Any] = {
    "capacity": 10,
    "error_rate": 0.1,
    "layout": "blocked",
    "num_bits": 1024,
    "num_hashes": 3,
    "seed": 5,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity": 0},
        {"error_rate": 1.0},
        {"layout": "round"},
        {"num_bits": 0},
        {"num_bits": 64},  # less than a block
        {"num_bits": 513},
        {"num_bits": 2**40 + 512},
        {"num_bits": 100, "layout": "standard"},
        {"num_bits": 2**43 + 64, "layout": "standard"},
        {"num_hashes": 0},
        {"num_hashes": 65},
        {"blocks_per_key": 0},
        {"blocks_per_key": 9, "num_bits": 32768, "num_hashes": 9},
        {"blocks_per_key": 2, "layout": "standard", "num_hashes": 4},
        {"num_bits": 32768 + 512, "blocks_per_key": 3},
        {"num_hashes": 3, "num_bits": 32768, "blocks_per_key": 2},
        {"seed": -1},
    ],
    ids=str,
)
def test_params_out_of_range(wrong: dict[str, Any]) -> None:
    """FilterParams refuses what the format cannot hold, naming the field."""
    field = next(iter(wrong))
    with pytest.raises(ValueError, match=f"{field} is .*, expected"):
        FilterParams(**{**GOOD, **wrong})


def test_params_at_the_edges() -> None:
    """The largest and the smallest filters of the format are allowed, in both layouts."""
    for layout, blocks, smallest, largest in (
        ("blocked", 1, 512, 2**40),
        ("blocked", 2, 32768, 2**43),
        ("blocked", 8, 32768, 2**43),
        ("standard", 1, 64, 2**43),
    ):
        for num_bits in (smallest, largest):
            for num_hashes in (blocks, 64):
                edge = {"layout": layout, "num_bits": num_bits, "num_hashes": num_hashes}
                params = FilterParams(**{**GOOD, **edge, "blocks_per_key": blocks})
                assert params.num_bytes == num_bits // 8
                assert params.bits_per_key == num_bits / 10


def test_best_practice_rows() -> None:
    """Each row has the k that no other k beats, and the rate of the textbook formula."""
    rows = best_practice_table(40)
    assert [row.bits_per_key for row in rows] == list(range(1, 41))
    for bits, num_hashes, rate in rows:
        rates = {k: (1 - math.exp(-k / bits)) ** k for k in range(1, 65)}
        assert rate == pytest.approx(min(rates.values()), rel=1e-12)
        assert rates[num_hashes] == pytest.approx(rate, rel=1e-12)


def test_best_practice_known_values() -> None:
    """The classic table's rows: 8 bits and 5 or 6 hashes 2.15 %, 10 and 7 0.82 %."""
    table = {row.bits_per_key: row for row in best_practice_table()}
    assert len(table) == 32
    assert (table[8].num_hashes, round(table[8].error_rate, 4)) == (6, 0.0216)
    assert (table[10].num_hashes, round(table[10].error_rate, 5)) == (7, 0.00819)


@pytest.mark.parametrize("rate", [0.9, 0.5, 0.1, 0.01, 0.001, 1e-6, 1e-19])
def test_best_practice_is_the_fewest_bits(rate: float) -> None:
    """The row for a rate is good enough, and the row with one bit less is not."""
    row = best_practice(rate)
    assert row.error_rate <= rate
    table = best_practice_table(row.bits_per_key)
    assert row == table[-1]
    assert all(fewer.error_rate > rate for fewer in table[:-1])


def test_best_practice_out_of_reach() -> None:
    """A rate below what 64 hashes can do is a ValueError with the lowest there is."""
    with pytest.raises(ValueError, match=r"error_rate is 1e-30, expected at least \d\.\de-20"):
        best_practice(1e-30)


def test_public_names() -> None:
    """The public page of sizes exports what it says, rows included."""
    assert set(sizing.__all__) <= set(dir(sizing))
    assert isinstance(best_practice(0.5), BestPractice)
