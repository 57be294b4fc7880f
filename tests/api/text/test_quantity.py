from __future__ import annotations

import contextlib
import json
from decimal import ROUND_UP, Context, Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.faults import Invalid, check
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text import quantity
from koord.api.text.quantity import QuantityError, ResourceList, canonical, from_milli, from_value, milli, value

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("quantities.json").read_text())
ACCEPTED = [row for row in RECORDED["parse"] if row["ok"]]
REFUSED = [row["in"] for row in RECORDED["parse"] if not row["ok"]]
WIDE = Context(prec=400)

# The server takes these as zero. It never sends them, and who writes them made a mistake.
NO_DIGITS = {"E", "e3", "m", "Ki", "+", "-", ".", "-.", "+k"}


def exact(parsed: quantity.Parsed) -> Decimal:
    return WIDE.scaleb(Decimal(parsed.mantissa), parsed.exponent)


def rounded_away(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_UP, WIDE))


def fits(number: Decimal) -> bool:
    return quantity.INT64_MIN <= number <= quantity.INT64_MAX


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_server_refuses_is_refused_and_told_what_is_valid(text: str) -> None:
    with pytest.raises(QuantityError, match="Ki Mi Gi"):
        quantity.parse(text)


@pytest.mark.parametrize("text", sorted(NO_DIGITS))
def test_a_quantity_without_digits_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(text)


@pytest.mark.parametrize("row", [row for row in ACCEPTED if row["in"] not in NO_DIGITS], ids=lambda row: str(row["in"]))
def test_a_quantity_is_what_the_server_takes_it_for(row: dict[str, Any]) -> None:
    parsed = quantity.parse(row["in"])
    if row["exact"] is not None:
        assert exact(parsed) == Decimal(row["exact"])
    for function, scale, recorded in ((value, 0, row["value"]), (milli, 3, row["milli"])):
        expected = rounded_away(WIDE.scaleb(exact(parsed), scale))
        if not fits(Decimal(expected)):
            with pytest.raises(QuantityError, match="too large"):
                function(row["in"])
            continue
        assert function(row["in"]) == expected
        # Go documents rounding away from zero, but breaks it (even the sign) for negatives that need big decimals.
        assert expected == recorded or expected < 0


# Go forgets the suffix where it would be above E, so that 1000E prints as 1.
BEYOND_EXA = {"1000E", "1000000P"}


@pytest.mark.parametrize(
    "row", [row for row in ACCEPTED if row["in"] not in NO_DIGITS | BEYOND_EXA], ids=lambda row: str(row["in"])
)
def test_the_canonical_form_is_the_servers(row: dict[str, Any]) -> None:
    assert canonical(row["in"]) == row["canonical"]


def test_what_is_above_exa_keeps_its_amount_when_printed() -> None:
    assert canonical("1000E") == "1000E"
    assert canonical("1500000P") == "1500E"


@pytest.mark.parametrize(("number", "thousandths", "decimal", "binary"), RECORDED["print"])
def test_integers_print_as_the_server_prints_them(number: int, thousandths: str, decimal: str, binary: str) -> None:
    assert from_milli(number) == thousandths
    assert from_value(number) == decimal
    assert from_value(number, binary=True) == binary


@pytest.mark.parametrize(
    ("number", "same_as"), [(5, "5"), (1.5, "1.5"), (1e3, "1000"), (1e20, "100000000000000000000"), (1e21, "1e21")]
)
def test_a_json_number_is_the_quantity_it_is_written_as(number: float, same_as: str) -> None:
    assert quantity.parse(number) == quantity.parse(same_as)


@pytest.mark.parametrize("number", [True, False, float("nan"), float("inf")])
def test_booleans_and_what_is_no_number_are_refused_even_after_an_equal_integer(number: float) -> None:
    assert value(1) == 1
    assert value(0) == 0
    with pytest.raises(QuantityError):
        value(number)


@pytest.mark.parametrize("text", ["1e99999999999", "1e-2147483648", "1" * 5000, "1e" + "9" * 400])
def test_absurd_sizes_are_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(text)


def test_the_smallest_amount_is_one_nano() -> None:
    assert canonical("1e-2000000000") == "1e-9"
    assert canonical("0.0000000001") == "1n"
    assert milli("1n") == 1


@pytest.mark.parametrize(
    ("resource", "text", "number", "printed"),
    [
        ("cpu", "1.5", 1500, "1500m"),
        ("cpu", "2", 2000, "2"),
        ("cpu", "0.1m", 1, "1m"),
        ("memory", "1.5Gi", 1610612736, "1536Mi"),
        ("memory", "1000", 1000, "1k"),
        ("ephemeral-storage", "4096", 4096, "4Ki"),
        ("hugepages-2Mi", "4194304", 4194304, "4Mi"),
        ("kubernetes.io/batch-cpu", "4000", 4000, "4k"),
        ("kubernetes.io/batch-memory", "2Gi", 2147483648, "2Gi"),
        ("koordinator.sh/gpu-memory", "16Gi", 17179869184, "16Gi"),
        ("koordinator.sh/gpu-memory-ratio", "100", 100, "100"),
        ("pods", "110", 110, "110"),
        ("nvidia.com/gpu", "8", 8, "8"),
    ],
)
def test_a_resource_has_its_unit_and_its_format(resource: str, text: str, number: int, printed: str) -> None:
    assert quantity.amount(resource, text) == number
    assert quantity.render(resource, number) == printed


class _Limits(Struct):
    limits: ResourceList = EMPTY


def test_a_field_takes_strings_and_numbers_and_reports_every_wrong_one() -> None:
    assert check(_Limits, {"limits": {"cpu": "1500m", "memory": 5, "x": 0.5}}, "limits").limits["memory"] == 5
    with pytest.raises(Invalid) as refused:
        check(_Limits, {"limits": {"cpu": "1 core", "memory": True, "pods": "ten"}}, "limits")
    assert [fault.path for fault in refused.value.faults] == ["limits.cpu", "limits.memory", "limits.pods"]
    assert msgspec.json.decode(b'{"limits":{"cpu":0.5}}', type=_Limits).limits == {"cpu": 0.5}


SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+6"]
numbers = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-(10**6), 10**6, places=4).map(lambda number: f"{number:f}"),
    st.from_regex(r"[+-]?(\.[0-9]{1,12}|[0-9]{1,12}\.?[0-9]{0,12})", fullmatch=True),
)
quantities = st.builds(str.__add__, numbers, st.sampled_from(SUFFIXES))


@given(quantities)
def test_printing_keeps_the_amount_and_printing_again_changes_nothing(text: str) -> None:
    printed = canonical(text)
    assert exact(quantity.parse(printed)) == exact(quantity.parse(text))
    assert canonical(printed) == printed


@given(quantities, quantities)
def test_integers_keep_the_order_of_quantities(one: str, other: str) -> None:
    small, large = sorted((one, other), key=lambda text: exact(quantity.parse(text)))
    for function in (value, milli):
        try:
            assert function(small) <= function(large)
        except QuantityError:
            assert not all(fits(exact(quantity.parse(text)) * 1000) for text in (small, large))


@given(quantities)
def test_milli_and_value_round_away_from_zero(text: str) -> None:
    amount = exact(quantity.parse(text))
    for function, scale in ((value, 0), (milli, 3)):
        expected = rounded_away(WIDE.scaleb(amount, scale))
        if fits(Decimal(expected)):
            assert function(text) == expected
        else:
            with pytest.raises(QuantityError):
                function(text)


@given(st.integers(quantity.INT64_MIN, quantity.INT64_MAX))
def test_a_rendered_amount_reads_back(number: int) -> None:
    for resource in ("cpu", "memory", "pods"):
        # -2**63 in binary form is capped by the server to -(2**63 - 1), hence prints as a plain number that reads back.
        assert quantity.amount(resource, quantity.render(resource, number)) in (number, number + (number == -(2**63)))


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_named_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        canonical(text)


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        ("1", "500m", "1500m"),
        ("500m", "500m", "1"),
        ("1Gi", "512Mi", "1536Mi"),
        ("1Gi", "1", "1073741825"),
        ("0", "1Ki", "1Ki"),
        ("1k", "24", "1024"),
        ("1", "-1", "0"),
    ],
)
def test_sums_are_exact_and_keep_the_first_format(one: str, other: str, total: str) -> None:
    assert quantity.plus(one, other) == total
    assert quantity.milli(quantity.minus(total, other)) == quantity.milli(one)


@pytest.mark.parametrize(
    "text", ["1e3000000", "1e2147483647", "9" * 1001, "1e1000", "0.5e1001", "1" + "0" * 999 + "Ki"]
)
def test_what_has_more_digits_than_can_be_added_at_once_is_refused(text: str) -> None:
    if text.endswith("Ki"):
        # A binary suffix is capped instead, as the server does.
        assert canonical(text) == str(quantity.INT64_MAX)
        return
    with pytest.raises(QuantityError):
        quantity.parse(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 1000, "1e-3000000", "9" * 1000 + "." + "9" * 9])
def test_the_largest_quantities_add_up_to_what_can_be_read_again(text: str) -> None:
    total = text
    for _ in range(12):
        total = quantity.plus(total, total)
        assert quantity.compare(quantity.minus(total, "1n"), total) <= 0
    assert canonical(total) == total
    assert quantity.compare(total, "1e1") in (-1, 1)
