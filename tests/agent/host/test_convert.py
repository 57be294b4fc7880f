"""Milli-cores to what the kernel takes, with the specification's figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.convert import quota_of_milli, shares_of_milli, shares_of_weight, weight_of_shares


@pytest.mark.parametrize(("milli", "shares"), [(1700, 1740), (1, 2), (300_000, 262_144), (0, 2), (-5, 2), (1792, 1835)])
def test_shares(milli: int, shares: int) -> None:
    assert shares_of_milli(milli) == shares


@pytest.mark.parametrize(("shares", "weight"), [(1740, 67), (2, 1), (262_144, 10_000), (1792, 69)])
def test_weights(shares: int, weight: int) -> None:
    assert weight_of_shares(shares) == weight


def test_a_weight_read_back_is_near_the_shares_written() -> None:
    assert shares_of_weight(67) == 1732


@pytest.mark.parametrize(("milli", "quota"), [(7, 1000), (2350, 235_000), (0, -1), (-1, -1)])
def test_quotas(milli: int, quota: int) -> None:
    assert quota_of_milli(milli) == quota


@pytest.mark.parametrize("shares", [1, 262_145])
def test_shares_out_of_range_are_refused(shares: int) -> None:
    with pytest.raises(ValueError, match="2 to 262144"):
        weight_of_shares(shares)


@pytest.mark.parametrize("weight", [0, 10_001])
def test_weights_out_of_range_are_refused(weight: int) -> None:
    with pytest.raises(ValueError, match="1 to 10000"):
        shares_of_weight(weight)


@given(st.integers(1, 10_000))
def test_a_weight_survives_the_way_over_shares_but_for_one(weight: int) -> None:
    assert weight - 1 <= weight_of_shares(shares_of_weight(weight)) <= weight
