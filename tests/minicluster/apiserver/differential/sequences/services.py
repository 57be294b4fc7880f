"""Services: addresses and node ports, asked for and given, taken and free again."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import CORE, delete, get, patch, post, saving, sequence

S = f"{CORE}/services"


def _service(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def _ports(*ports: tuple[int, str]) -> dict[str, Any]:
    """A service of type NodePort with these ports of the nodes, each with its protocol."""
    listed = [
        {"port": 80 + i, "nodePort": number, "name": f"p{i}"} | ({"protocol": protocol} if protocol else {})
        for i, (number, protocol) in enumerate(ports)
    ]
    return {"type": "NodePort", "ports": listed}


SEQUENCES = (
    sequence(
        "service-addresses",
        saving(post(S, _service("a")), ip="spec.clusterIP"),
        post(S, _service("b", clusterIP="{{ip}}")),
        post(S, _service("b", clusterIP="{{ip}}", clusterIPs=["{{ip}}"])),
        delete(S + "/a"),
        post(S, _service("b", clusterIP="{{ip}}")),
        post(S, _service("c", type="ExternalName", externalName="x.y")),
        patch(S + "/c", {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "{{ip}}"}}),
        patch(
            S + "/b", {"spec": {"type": "ExternalName", "externalName": "x.y", "clusterIP": None, "clusterIPs": None}}
        ),
        patch(S + "/c", {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "{{ip}}"}}),
        post(S + "?dryRun=All", _service("d", clusterIP="{{ip}}")),
        post(S + "?dryRun=All", _service("d")),
    ),
    sequence(
        "service-ports",
        post(S, _service("a", **_ports((31234, "")))),
        post(S, _service("b", **_ports((31234, "")))),
        post(S, _service("c", **_ports((31234, "UDP")))),
        post(S, _service("d", **_ports((31235, ""), (31235, "UDP")))),
        post(S, _service("e", **_ports((31236, ""), (31236, "")))),
        post(S, _service("f", **_ports((29999, "")))),
        post(S, _service("f", **_ports((31237, ""), (31234, "")))),
        post(S, _service("g", **_ports((31237, "")))),
        saving(post(S, _service("n", type="NodePort")), np="spec.ports.0.nodePort"),
        patch(S + "/n", {"spec": {"ports": [{"port": 80, "nodePort": 31234}]}}),
        patch(S + "/n", {"spec": {"ports": [{"port": 80, "nodePort": 31240}]}}),
        patch(S + "/n", {"spec": {"ports": [{"port": 80, "nodePort": 31241}, {"name": "x", "port": 81}]}}),
        patch(S + "/n", {"spec": {"ports": [{"port": 80, "nodePort": 31241, "name": "y"}, {"name": "x", "port": 81}]}}),
        patch(S + "/n", {"spec": {"type": "ClusterIP"}}),
        get(S + "/n"),
        post(S, _service("h", **_ports((31241, "")))),
        post(S, _service("lb", type="LoadBalancer", healthCheckNodePort=31500, externalTrafficPolicy="Local")),
        post(S, _service("lb2", type="LoadBalancer", healthCheckNodePort=31500, externalTrafficPolicy="Local")),
        post(S, _service("lb3", type="LoadBalancer", externalTrafficPolicy="Local")),
        delete(S + "/lb"),
        post(S, _service("lb4", type="NodePort", ports=[{"port": 1, "nodePort": 31500}])),
        post(S, _service("two", **_ports((31234, ""), (31237, "")))),
        post(S + "?dryRun=All", _service("two", **_ports((31234, ""), (31237, "")))),
    ),
    sequence(
        "service-names",
        saving(post(S, _service("a")), ip="spec.clusterIP"),
        delete(S + "/a"),
        post(S, {**_service("x"), "metadata": {"name": "a/b"}}),
        post(S, {**_service("x", clusterIP="None"), "metadata": {"name": "a/b"}}),
        post(S, {**_service("x", clusterIP="{{ip}}"), "metadata": {"name": "a%b"}}),
    ),
)
