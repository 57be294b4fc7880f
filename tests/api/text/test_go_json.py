"""Field names are matched as Go's encoding/json documents it: exactly, else regardless of case."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.protocol.annotations import cpu
from koord.api.text.go_json import fold_names


class Leaf(Struct):
    max_cpus: int | None = field(name="maxCPUs", default=None)


class Tree(Struct):
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = EMPTY


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"leaf": {"maxCpus": 1}}, {"leaf": {"maxCPUs": 1}}),
        ({"LEAF": {"MAXCPUS": 1}}, {"leaf": {"maxCPUs": 1}}),
        ({"leaves": [{"maxcpus": 1}, None]}, {"leaves": [{"maxCPUs": 1}, None]}),
        ({"byname": {"Keep Me": {"maxcpus": 1}}}, {"byName": {"Keep Me": {"maxCPUs": 1}}}),
        ({"leaf": {"maxCPUs": 1, "maxcpus": 2}}, {"leaf": {"maxCPUs": 1}}),
        ({"leaf": {"maxcpus": 2, "maxCPUs": 1}}, {"leaf": {"maxCPUs": 1}}),
        ({"leaf": {"minCPUs": 1}}, {"leaf": {"minCPUs": 1}}),
        ({"leaf": None}, {"leaf": None}),
        ([1], [1]),
        ({"leaf": 3, "leaves": "x"}, {"leaf": 3, "leaves": "x"}),
    ],
)
def test_names_are_matched_regardless_of_case(written: object, read: object) -> None:
    assert fold_names(Tree, written) == read


def test_a_node_reservation_in_another_case_still_reserves() -> None:
    node = ObjectMeta(annotations={cpu.NODE_RESERVATION.key: '{"reservedCpus":"0-3","ApplyPolicy":"ReservedCPUsOnly"}'})
    assert cpu.NODE_RESERVATION.read(node).cores == 4
    assert not cpu.NODE_RESERVATION.read(node).trims_allocatable


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["leaf", "Leaf", "leaves", "byName", "maxCPUs", "maxcpus", "x"]), inner)
    ),
    max_leaves=10,
)


@given(json_values)
def test_proper_names_stay_and_any_data_is_taken(data: object) -> None:
    once = fold_names(Tree, data)
    assert fold_names(Tree, once) == once
