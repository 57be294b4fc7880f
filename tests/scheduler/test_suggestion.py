"""What is suggested for pods that fit nowhere: only what is true, and the first of it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from koord.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.api.machinery.codec import convert
from tests.scheduler.core.build import Fed, deleting, node, pod

NAME = "kubernetes.io/hostname"


def claim(name: str, *, volume: str = "", phase: str = "Bound", owner: str = "", **spec: Any) -> PersistentVolumeClaim:
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
        ]
    given = {"volumeName": volume, "storageClassName": "disks", "accessModes": ["ReadWriteOnce"], **spec}
    return convert(PersistentVolumeClaim, {"metadata": metadata, "spec": given, "status": {"phase": phase}})


def volume(name: str, on: str) -> PersistentVolume:
    term = {"matchExpressions": [{"key": NAME, "operator": "In", "values": [on]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return convert(PersistentVolume, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}})


def uses(*claims: str) -> list[dict[str, Any]]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def cluster(*storage: PersistentVolume | PersistentVolumeClaim | StorageClass) -> Fed:
    """Two nodes; the first is full."""
    fed = Fed()
    for name in ("n1", "n2"):
        fed.put(node(name, labels={NAME: name}))
    fed.put(pod("full", cpu="4", on="n1", priority=1000))
    for thing in storage:
        fed.feed.cluster.put_storage(thing)
    return fed


def test_pods_of_other_namespaces_are_counted_and_not_named() -> None:
    fed = Fed()
    fed.put(node("n1"))
    for theirs in (pod("a", on="n1"), pod("b", on="n1")):
        fed.put(replace(theirs, metadata=replace(theirs.metadata, namespace="lab")))
    fed.put(pod("low", cpu="1", on="n1"), pod("high", cpu="4", priority=100))
    message = fed.nowhere().message
    assert "message: shop/low and 2 pods of other namespaces must be gone from n1 first}" in message
    assert "lab/" not in message


def test_a_victim_that_is_gone_is_not_waited_for() -> None:
    fed, low, other = Fed(), pod("low", cpu="2", on="n1"), pod("other", cpu="2", on="n1")
    fed.put(node("n1"), low, other, pod("high", cpu="4", priority=100))
    assert "shop/low, shop/other must" in fed.nowhere().message.replace(" and ", ", ")
    fed.delete(low)
    fed.put(deleting(other))
    fed.feed.queue.activate(["shop/high"], fed.clock.monotonic())
    message = fed.nowhere().message
    assert "message: shop/other must be gone from n1 first}" in message
    assert "shop/low" not in message


def test_pods_that_are_going_for_it_are_waited_for() -> None:
    fed, low = Fed(), pod("low", cpu="3", on="n1")
    fed.put(node("n1"), low, pod("high", cpu="3", priority=100))
    first = "Suggestion: {type: WaitingVictimReleased, message: shop/low must be gone from n1 first}"
    assert fed.nowhere().message.endswith(f"Insufficient cpu. {first}")
    fed.put(deleting(low))
    fed.feed.queue.activate(["shop/high"], fed.clock.monotonic())
    again = fed.nowhere()
    assert "not eligible due to a terminating pod" in again.message
    assert again.message.endswith(first)


def test_a_claim_that_keeps_a_pod_off_nodes_that_would_take_it_is_in_the_way() -> None:
    fed = cluster(volume("v1", "n1"), claim("data", volume="v1"))
    fed.put(pod("db", volumes=uses("data")))
    assert fed.nowhere().message.endswith(
        "Suggestion: {type: DeleteConflictPVC, message: shop/data is bound to v1, and keeps it off n2, "
        "where it would fit} It would fit on n1 with 1 more cpu there."
    )


def test_of_several_claims_the_one_that_is_in_the_way_is_named() -> None:
    fed = cluster(volume("v1", "n1"), volume("v2", "n2"), claim("data", volume="v1"), claim("logs", volume="v2"))
    fed.put(pod("db", volumes=uses("logs", "data")))
    assert "message: shop/data is bound to v1" in fed.nowhere().message


def test_no_claim_is_in_the_way_where_the_pod_fits_nowhere_without_it() -> None:
    fed = cluster(volume("v1", "n1"), claim("data", volume="v1"))
    fed.put(pod("db", cpu="100", volumes=uses("data")))
    assert "Suggestion" not in fed.nowhere().message


def test_a_pod_whose_own_claim_is_in_the_way_is_to_be_made_anew() -> None:
    fed = cluster(volume("v1", "n1"), claim("db-data", volume="v1", owner="db-uid"))
    fed.put(pod("db", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]))
    assert "Suggestion: {type: EvictWorkloadSelf, message: shop/db-data is bound to v1" in fed.nowhere().message


def test_a_lost_volume_and_a_name_that_another_has_taken_are_conflicts() -> None:
    fed = cluster(claim("data", volume="v1", phase="Lost"), claim("web-data", volume="v2"))
    fed.put(pod("db", volumes=uses("data")))
    assert "{type: DeleteConflictPVC, message: the volume of shop/data, v1, is lost}" in fed.nowhere().message
    fed.put(pod("web", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]))
    assert "{type: DeleteConflictPVC, message: shop/web-data has the name of the claim" in fed.nowhere().message


def test_a_pod_for_a_node_that_is_gone_is_to_be_made_anew_if_somebody_makes_it() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    only = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    fed = cluster()
    fed.put(pod("mine", affinity=only))
    assert "Suggestion" not in fed.nowhere().message
    fed.put(pod("daemon", affinity=only, metadata={"ownerReferences": [owner]}))
    told = "{type: EvictWorkloadSelf, message: it may only run on gone, which is not there}"
    assert told in fed.nowhere().message
    fed.put(node("gone", cpu="1"), pod("full2", on="gone"))
    fed.put(pod("daemon2", affinity=only, metadata={"ownerReferences": [owner]}))
    while (found := fed.nowhere()).ask.key != "shop/daemon2":
        pass
    assert "EvictWorkloadSelf" not in found.message
