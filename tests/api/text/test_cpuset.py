"""CPU lists are Linux' (cpuset(7), "List format"); the cases are those its manual and Kubernetes name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.text.cpuset import CPU_LIMIT, NO_CPUS, CPUSet

cpus = st.frozensets(st.integers(0, 600), max_size=40)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-3,7\n", {0, 1, 2, 3, 7}),
        ("0-4,9", {0, 1, 2, 3, 4, 9}),
        ("0-2,7,12-14", {0, 1, 2, 7, 12, 13, 14}),
        ("7,0-3,2-5", {0, 1, 2, 3, 4, 5, 7}),
        ("5-5", {5}),
    ],
)
def test_a_linux_cpu_list_is_read(text: str, members: set[int]) -> None:
    assert set(CPUSet.parse(text)) == members


@pytest.mark.parametrize(
    "text", ["a", "1,", ",1", "1--2", "-1", "1-", "-", "3-1", "1 2", "1, 2", "0x1", "+1", "1.5", "²", "0-3:2/4"]
)
def test_what_is_not_a_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        CPUSet.parse(text)


@pytest.mark.parametrize("text", ["0-4000000000", str(CPU_LIMIT), "9" * 100_000])
def test_a_cpu_beyond_any_machine_is_refused_without_work(text: str) -> None:
    with pytest.raises(ValueError, match="not between"):
        CPUSet.parse(text)


@pytest.mark.parametrize(
    ("members", "text"), [((), ""), ((3,), "3"), ((1, 0), "0-1"), ((0, 1, 2, 3, 7), "0-3,7"), ((9, 1, 5), "1,5,9")]
)
def test_the_printed_form_is_ascending_with_the_longest_ranges(members: tuple[int, ...], text: str) -> None:
    assert str(CPUSet(members)) == text


@given(cpus)
def test_parse_reverses_print(members: frozenset[int]) -> None:
    made = CPUSet(members)
    assert CPUSet.parse(str(made)) == made
    assert list(made) == sorted(members)
    assert len(made) == len(members)


@given(cpus, cpus)
def test_operations_are_those_of_sets(a: frozenset[int], b: frozenset[int]) -> None:
    x, y = CPUSet(a), CPUSet(b)
    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert set(x - y) == a - b
    assert set(x ^ y) == a ^ b
    assert (x <= y) == (a <= b)
    assert (x >= y) == (a >= b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert (x == y) == (a == b)
    assert (hash(x) == hash(y)) or a != b
    assert bool(x) == bool(a)
    assert all(cpu in x for cpu in a)


@given(st.text(max_size=30))
def test_any_text_gives_a_set_or_a_value_error(text: str) -> None:
    try:
        made = CPUSet.parse(text)
    except ValueError:
        return
    assert CPUSet.parse(str(made)) == made


def test_a_set_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        NO_CPUS.mask = 1
    assert -1 not in NO_CPUS
    assert "0" not in CPUSet([0])


def test_a_negative_cpu_or_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU -1"):
        CPUSet([-1])
    with pytest.raises(ValueError, match="mask"):
        CPUSet.from_mask(-1)
