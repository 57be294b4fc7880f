"""Whom a pod has beside it on its node: no pod that it keeps apart from, no other user of its port, no closed door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import Manifest, key_of, label, meta, node_of, uid_of
from koord_chaos.invariants.moment import Moment

CLOSED: Final = ("NoSchedule", "NoExecute")


def _untolerated_taints(moment: Moment) -> Iterator[str]:
    for pod in moment.new_pods:
        node = moment.nodes.get(node_of(pod), {})
        for taint in node.get("spec", {}).get("taints") or ():
            if taint["effect"] in CLOSED and not any(
                _tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations") or ()
            ):
                yield f"{key_of(pod)} does not tolerate the taint {taint['key']} of {node_of(pod)}"


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def _unwanted_neighbours(moment: Moment) -> Iterator[str]:
    """A pod that was bound respects what it says itself, and what those that were there say."""
    for pod in moment.new_pods:
        for other in moment.bound:
            if uid_of(other) == uid_of(pod):
                continue
            for one, two in ((pod, other), (other, pod)):
                for term in _apart(one):
                    domain = _domain(moment, one, term)
                    if domain and domain == _domain(moment, two, term) and _is_meant(term, one, two):
                        yield f"{key_of(one)} must not share {term['topologyKey']}={domain} with {key_of(two)}"


def _apart(pod: Manifest) -> list[Mapping[str, Any]]:
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _domain(moment: Moment, pod: Manifest, term: Mapping[str, Any]) -> str:
    node = moment.nodes.get(node_of(pod))
    return "" if node is None else label(node, term["topologyKey"])


def _is_meant(term: Mapping[str, Any], pod: Manifest, other: Manifest) -> bool:
    """Whether the term of a pod selects the other one: by labels, in its own namespace."""
    selected = (term.get("labelSelector") or {}).get("matchLabels") or {}
    return meta(pod).get("namespace") == meta(other).get("namespace") and all(
        label(other, name) == value for name, value in selected.items()
    )


def _shared_ports(moment: Moment) -> Iterator[str]:
    for pod in moment.new_pods:
        for other in moment.on[node_of(pod)]:
            if uid_of(other) != uid_of(pod) and (ports := sorted(_ports(pod) & _ports(other))):
                yield f"port {ports[0][1]} of {node_of(pod)} belongs to {key_of(other)} and to {key_of(pod)}"


def _ports(pod: Manifest) -> set[tuple[str, int]]:
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


NEIGHBOURS: Final[tuple[Invariant[Moment], ...]] = (
    Invariant("node-taints", "A pod is bound only to a node whose taints it tolerates.", _untolerated_taints),
    Invariant(
        "anti-affinity",
        "A pod that requires to be apart from others shares no node, zone or other domain with them.",
        _unwanted_neighbours,
    ),
    Invariant("host-ports", "A port of a node belongs to one pod.", _shared_ports),
)
