"""The reservation that holds room for a pod's replacement, made from the pod as the API has it.

It requests the same as the pod, on any other node. It is for the next pod of the pod's controller; for a pending pod,
it is for the pod itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.descheduler.held_room import CREATED_BY, reservation_name

ORDER: Final = "scheduling.koordinator.sh/reservation-order"
Plain = Mapping[str, Any]


def reservation_for(
    job: PodMigrationJob, pod: Plain, ttl: str, now_s: float, *, claims: bool = True, closed: Sequence[str] = ()
) -> dict[str, Any]:
    """The object to create. `claims`: whether it asks for the pod's volumes, too. `closed`: nodes that would not take
    the pod's replacement. What the job's own template says comes first."""
    given: Plain = job.spec.reservation_options.template if job.spec.reservation_options is not None else {}
    given_spec: Plain = given.get("spec") or {}
    head: Plain = given.get("metadata") or {}
    template = given_spec.get("template") or _template(pod, claims)
    node = pod["spec"].get("nodeName", "")
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {
            **head,
            "name": reservation_name(job),
            # It is deleted with its job.
            "ownerReferences": [job_as_owner(job)],
            "labels": {**head.get("labels", {}), **CREATED_BY, ORDER: str(int(now_s * 1000))},
        },
        "spec": {
            "ttl": ttl,
            **given_spec,
            "template": elsewhere(template, [*([node] if node else ()), *(name for name in closed if name != node)]),
            "owners": given_spec.get("owners") or [_owner(pod)],
            "allocateOnce": True,
        },
    }


def job_as_owner(job: PodMigrationJob) -> dict[str, str]:
    kind, meta = POD_MIGRATION_JOBS, job.metadata
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta.name, "uid": meta.uid}


def _template(pod: Plain, claims: bool) -> dict[str, Any]:
    meta = pod["metadata"]
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    if not claims:
        volumes = [volume for volume in spec.get("volumes") or () if "persistentVolumeClaim" not in volume]
        spec["volumes"] = volumes
    kept = {key: meta[key] for key in ("namespace", "labels", "annotations") if meta.get(key)}
    return {"metadata": kept, "spec": spec}


def elsewhere(template: Plain, nodes: Sequence[str]) -> dict[str, Any]:
    """A pod template that goes to any node but some, whatever else it asks for: they are out in every term."""
    spec = {**template.get("spec", {})}
    spec.pop("nodeName", None)
    # A field takes one value, and all of them must hold.
    if out := [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]:
        affinity = {**(spec.get("affinity") or {})}
        of_nodes = {**(affinity.get("nodeAffinity") or {})}
        required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        terms = required.get("nodeSelectorTerms") or [{}]
        of_nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{**term, "matchFields": [*(term.get("matchFields") or ()), *out]} for term in terms]
        }
        spec["affinity"] = {**affinity, "nodeAffinity": of_nodes}
    return {**template, "spec": spec}


def _owner(pod: Plain) -> dict[str, Any]:
    meta = pod["metadata"]
    controller = next((owner for owner in meta.get("ownerReferences") or () if owner.get("controller")), None)
    waits = not pod["spec"].get("nodeName")
    if waits or controller is None:
        return {"object": {key: meta[key] for key in ("namespace", "name", "uid") if key in meta}}
    return {"controller": {**controller, "namespace": meta.get("namespace", "")}}
