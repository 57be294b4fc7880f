from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kubernetes.heartbeat import conditions, is_ready
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import decode
from koord_minicluster.hollow.log_lines import LogSource
from koord_minicluster.hollow.machine import Machine, own_node
from koord_minicluster.kubelet.node_status import node_object


def machine(index: int = 0) -> Machine:
    return Machine(index, "hollow", 32_000, 128 * 1024**3, 110)


def registered(index: int = 0) -> Node:
    import msgspec

    body = node_object(own_node(machine(index), "1"), 1e9, kubelet_port=1234)
    return decode(Node, msgspec.json.encode(body))


def test_a_node_registers_ready_with_its_size_zone_and_endpoint() -> None:
    node = registered(4)
    assert node.metadata.name == "hollow-0005"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone-b"
    assert node.metadata.labels["kubernetes.io/hostname"] == "hollow-0005"
    assert is_ready(node)
    assert node.status.allocatable == {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "200Gi"}
    assert node.status.daemon_endpoints.kubelet_endpoint.port == 1234
    assert node.status.address("InternalIP") == "127.0.0.1"


def test_a_heartbeat_keeps_the_time_since_when_a_condition_holds() -> None:
    node = registered()
    beat = {str(c["type"]): c for c in conditions(node, 1e9 + 300)}["Ready"]
    assert beat["lastTransitionTime"] == "2001-09-09T01:46:40Z"
    assert beat["lastHeartbeatTime"] == "2001-09-09T01:51:40Z"


@given(first=st.integers(0, 16383), second=st.integers(0, 16383))
def test_nodes_have_pod_networks_of_their_own(first: int, second: int) -> None:
    networks = [ipaddress.ip_network(machine(index).pod_cidr) for index in (first, second)]
    assert networks[0].overlaps(networks[1]) is (first == second)


@given(index=st.integers(0, 16383), count=st.integers(1, 60))
def test_pods_get_addresses_of_their_nodes_network_one_each(index: int, count: int) -> None:
    node, used, last = machine(index), set[str](), 0
    for _ in range(count):
        ip, last = node.free_ip(used, last)
        used.add(ip)
    assert len(used) == count
    assert all(ipaddress.ip_address(ip) in ipaddress.ip_network(node.pod_cidr) for ip in used)


def test_a_node_whose_addresses_are_all_in_use_says_so() -> None:
    every = {str(ip) for ip in ipaddress.ip_network(machine().pod_cidr)}
    with pytest.raises(ValueError, match="hollow-0001"):
        machine().free_ip(every, 0)


def test_a_log_grows_and_a_tail_of_it_is_its_end() -> None:
    source = LogSource("u", "app", 1000.0)
    early, late = list(source.lines(1010.0)), list(source.lines(1100.0))
    assert late[: len(early)] == early
    assert list(source.lines(1100.0, tail=3)) == late[-3:]
    assert list(source.lines(1100.0, since_s=1090.0)) == [
        line for number, line in enumerate(late) if source.time_s(number) >= 1090.0
    ]
    assert list(source.lines(999.0)) == []


def test_a_log_ends_with_its_container_and_has_times_when_asked() -> None:
    source = LogSource("u", "app", 1000.0, until_s=1004.0)
    assert len(list(source.lines(5000.0))) == 3
    assert next(source.lines(5000.0, timestamps=True)).startswith("1970-01-01T00:16:40.000000000Z ")
