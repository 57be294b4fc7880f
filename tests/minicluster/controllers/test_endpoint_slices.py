"""EndpointSlices of a Service: which pods, at which ports, in which condition, in which slice."""

from __future__ import annotations

from typing import Any

from koord.api.kinds import ENDPOINT_SLICES, PODS, SERVICES
from koord.api.kubernetes.core import Pod, Service
from koord.api.kubernetes.discovery import EndpointSlice
from koord.api.machinery.codec import convert
from koord_minicluster.controllers.actions import Action, Create, Delete, Patch
from koord_minicluster.controllers.endpoint_slices import MOST, decide

HTTP = {"name": "http", "port": 80, "targetPort": "web"}


def service(*ports: dict[str, Any], **spec: Any) -> Service:
    spec = {"selector": {"app": "web"}, "ports": list(ports), "clusterIP": "10.0.0.1", **spec}
    metadata = {"name": "web", "namespace": "shop", "uid": "s", "labels": {"team": "a"}}
    return convert(SERVICES.type, {"metadata": metadata, "spec": spec})


def pod(number: int, port: int = 8080, ready: bool = True, **meta: Any) -> Pod:
    metadata = {"name": f"web-{number:03}", "namespace": "shop", "uid": f"p{number}", "labels": {"app": "web"}, **meta}
    container = {"name": "c", "ports": [{"name": "web", "containerPort": port}]}
    status = {
        "phase": "Running",
        "podIP": f"10.1.{number // 250}.{number % 250 + 1}",
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    spec = {"containers": [container], "nodeName": "n1"}
    return convert(PODS.type, {"metadata": metadata, "spec": spec, "status": status})


def carried_out(actions: list[Action], slices: list[EndpointSlice]) -> list[EndpointSlice]:
    """The slices after the actions, as an API server would have them."""
    known: dict[str, Any] = {slice_.metadata.name: ENDPOINT_SLICES.manifest(slice_) for slice_ in slices}
    for action in actions:
        if isinstance(action, Create):
            name = f"web-{len(known)}"
            known[name] = {**action.body, "metadata": {**action.body["metadata"], "name": name, "uid": name}}
        elif isinstance(action, Patch):
            known[action.name] = {**known[action.name], "endpoints": action.body["endpoints"]}
        elif isinstance(action, Delete):
            del known[action.name]
    return [convert(ENDPOINT_SLICES.type, each) for each in known.values()]


def settled(given: Service, pods: list[Pod], slices: list[EndpointSlice] | None = None) -> list[EndpointSlice]:
    after = carried_out(decide(given, pods, {"n1": "east"}, slices or []), slices or [])
    assert not decide(given, pods, {"n1": "east"}, after), "a second look finds nothing to do"
    return after


def test_a_slice_has_addresses_ports_and_owner_of_the_service() -> None:
    (endpoint_slice,) = settled(service(HTTP), [pod(1)])
    assert endpoint_slice.address_type == "IPv4"
    assert [(port.name, port.port, port.protocol) for port in endpoint_slice.ports] == [("http", 8080, "TCP")]
    (endpoint,) = endpoint_slice.endpoints
    assert (endpoint.addresses, endpoint.node_name, endpoint.zone) == (("10.1.0.2",), "n1", "east")
    assert endpoint.target_ref is not None
    assert (endpoint.target_ref.kind, endpoint.target_ref.name) == ("Pod", "web-001")
    labels = endpoint_slice.metadata.labels
    assert labels["kubernetes.io/service-name"] == "web"
    assert labels["team"] == "a"
    assert endpoint_slice.metadata.controller is not None
    assert (endpoint_slice.metadata.controller.kind, endpoint_slice.metadata.controller.uid) == ("Service", "s")


def test_conditions_tell_ready_serving_and_terminating_apart() -> None:
    gone: dict[str, Any] = {"deletionTimestamp": "2026-11-15T04:00:00Z"}
    pods = [pod(1), pod(2, ready=False), pod(3, **gone), pod(4, ready=False, **gone)]
    (endpoint_slice,) = settled(service(HTTP), pods)
    told = [
        (endpoint.conditions.ready, endpoint.conditions.serving, endpoint.conditions.terminating)
        for endpoint in endpoint_slice.endpoints
    ]
    assert told == [(True, True, False), (False, False, False), (False, True, True), (False, False, True)]
    (published,) = settled(service(HTTP, publishNotReadyAddresses=True), pods)
    assert [endpoint.conditions.ready for endpoint in published.endpoints] == [True] * 4


def test_a_named_port_has_the_number_that_each_pod_gives_it() -> None:
    slices = settled(service(HTTP, {"name": "raw", "port": 9, "targetPort": 99}), [pod(1), pod(2, port=8081), pod(3)])
    found = {tuple(port.port for port in slice_.ports): len(slice_.endpoints) for slice_ in slices}
    assert found == {(8080, 99): 2, (8081, 99): 1}


def test_a_headless_service_says_so_and_needs_no_ports() -> None:
    (endpoint_slice,) = settled(service(clusterIP="None"), [pod(1)])
    assert "service.kubernetes.io/headless" in endpoint_slice.metadata.labels
    assert endpoint_slice.ports == ()
    assert len(endpoint_slice.endpoints) == 1


def test_pods_of_others_without_address_or_at_their_end_are_no_endpoints() -> None:
    other = pod(1, labels={"app": "db"})
    ended = convert(PODS.type, {**PODS.manifest(pod(2)), "status": {"phase": "Succeeded", "podIP": "10.1.0.9"}})
    pending = convert(PODS.type, {**PODS.manifest(pod(3)), "status": {}})
    (endpoint_slice,) = settled(service(HTTP), [other, ended, pending])
    assert endpoint_slice.endpoints == ()


def test_services_without_selector_or_with_an_external_name_are_left_alone() -> None:
    foreign = convert(ENDPOINT_SLICES.type, {"metadata": {"name": "mine", "namespace": "shop"}, "addressType": "IPv4"})
    assert not decide(service(HTTP, selector={}), [pod(1)], {}, [foreign])
    assert not decide(service(HTTP, type="ExternalName"), [pod(1)], {}, [])
    assert not any(isinstance(action, Patch | Delete) for action in decide(service(HTTP), [pod(1)], {}, [foreign])), (
        "a slice of another controller stays"
    )


def test_slices_hold_a_hundred_and_a_change_of_one_pod_writes_one_slice() -> None:
    pods = [pod(i) for i in range(2 * MOST + 5)]
    slices = settled(service(HTTP), pods)
    assert sorted(len(slice_.endpoints) for slice_ in slices) == [5, MOST, MOST]
    without = [each for each in pods if each.metadata.name != "web-042"]
    actions = decide(service(HTTP), without, {"n1": "east"}, slices)
    assert [type(action) for action in actions] == [Patch]
    after = settled(service(HTTP), [*without, pod(900)], carried_out(actions, slices))
    assert sum(len(endpoint_slice.endpoints) for endpoint_slice in after) == len(pods)
    assert len(after) == 3, "room in a slice is filled first"


def test_slices_that_are_empty_or_of_ports_that_are_gone_go_but_one() -> None:
    slices = settled(service(HTTP), [pod(i) for i in range(MOST + 1)])
    (left,) = settled(service(HTTP), [], slices)
    assert left.endpoints == ()
    (moved,) = settled(service({"port": 81}), [pod(1)], slices)
    assert [port.port for port in moved.ports] == [81]
