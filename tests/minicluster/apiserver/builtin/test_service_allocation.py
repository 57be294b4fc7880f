"""Services have addresses and ports of their own, also while writes are under way."""

from __future__ import annotations

from typing import Any

from koord_minicluster.apiserver.builtin.service_allocation import ServiceAllocator


def _service(uid: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": uid}, "spec": {"type": "ClusterIP", "ports": [{"port": 1}], **spec}}


def test_two_writes_at_once_get_different_addresses() -> None:
    allocator = ServiceAllocator()
    services = [_service(f"u{i}") for i in range(300)]
    assert all(not allocator.begin(service, None, False) for service in services)
    assert len({service["spec"]["clusterIP"] for service in services}) == 300


def test_what_a_refused_write_asked_for_is_free_again() -> None:
    allocator = ServiceAllocator()
    assert not allocator.begin(_service("a", clusterIP="10.96.0.7"), None, False)
    refused = allocator.begin(_service("b", clusterIP="10.96.0.7"), None, False)
    assert [cause.field for cause in refused] == ["spec.clusterIPs"]
    allocator.end("b")
    allocator.end("a")
    assert not allocator.begin(_service("c", clusterIP="10.96.0.7"), None, False)


def test_node_ports_are_given_once() -> None:
    allocator = ServiceAllocator()
    services = [_service(f"u{i}", type="NodePort") for i in range(200)]
    assert all(not allocator.begin(service, None, False) for service in services)
    assert len({service["spec"]["ports"][0]["nodePort"] for service in services}) == 200
