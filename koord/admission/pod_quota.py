"""Pods and their quotas: which quota may take a pod, and whether it has room for it when the pod is created.

The scheduler counts what pods use; what is asked for counts from admission on where that is wanted. A quota's object
says how much its pods request (child-request). A new pod must fit below the quota's admission limit, or its max. A
quota that lists namespaces takes pods of those, and of its own: otherwise any tenant could use it up by a label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koord.admission.quota_topology import BUILT_IN, QuotaTopology, namespaces_of
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.api.machinery.faults import BadInput, Fault
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.api.text.quantity import ResourceList, render

LABEL: Final = f"metadata.labels[{names.LABEL_QUOTA_NAME}]"
PREEMPTIBLE: Final = f"metadata.labels[{names.LABEL_QUOTA_PREEMPTIBLE}]"

COUNTED: Final = frozenset(
    {
        *(f"{prefix}{key}" for key in ("cpu", "memory", "ephemeral-storage") for prefix in ("", "requests.")),
        names.RESOURCE_BATCH_CPU,
        names.RESOURCE_BATCH_MEMORY,
        names.RESOURCE_MID_CPU,
        names.RESOURCE_MID_MEMORY,
        names.RESOURCE_GPU,
        names.RESOURCE_NVIDIA_GPU,
        names.RESOURCE_GPU_SHARED,
        names.RESOURCE_GPU_MEMORY_RATIO,
    }
)
"""A quota whose max has none of these counts no requests at admission."""


def faults(
    pod: Pod, old: Pod | None, namespace: str, quotas: QuotaTopology, *, default: bool, parents_take_pods: bool
) -> Iterator[Fault]:
    if old is not None:
        was, is_now = (version.metadata.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) for version in (old, pod))
        if was != is_now:
            yield Fault(PREEMPTIBLE, f"must stay {'absent' if was is None else was}")
    name = quota_name(pod, namespace, quotas, default=default)
    quota = quotas.get(name)
    before = "" if old is None else quota_name(old, namespace, quotas, default=default)
    if quota is None or name in BUILT_IN or before == name:
        return
    if not parents_take_pods and protocol.IS_PARENT.read(quota.metadata):
        yield Fault(LABEL, f"quota {name} is the parent of others and takes no pods itself: name a quota below it")
    listed = namespaces_of(quota)
    if listed and namespace not in (*listed, quota.metadata.namespace):
        key = names.ANNOTATION_QUOTA_NAMESPACES
        yield Fault(
            LABEL,
            f"quota {name} takes pods of the namespaces {', '.join(listed)} alone, as its annotation {key} says: "
            f"have {namespace} added there, or name another quota",
        )


def quota_name(pod: Pod, namespace: str, quotas: QuotaTopology, *, default: bool) -> str:
    """The quota that a pod is in; empty where it is in none."""
    return quotas.name_for(pod.metadata.labels.get(names.LABEL_QUOTA_NAME, ""), namespace, default=default)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Whether a quota has room for a new pod."""

    fault: str = ""
    child_request: Mapping[str, int] | None = None
    "The requests with the pod; None if nothing must be counted."


def evaluated(
    pod: Pod, quota: ElasticQuota, requested: Mapping[str, int] | None = None, *, overhead: bool = True
) -> Evaluated:
    """`requested`: what the quota's pods request, where that is known better than its object says it."""
    most = amounts(quota.spec.max, capped=True)
    if COUNTED.isdisjoint(most):
        return Evaluated()
    asked = {key: n for key, n in pod_requests(pod, overhead=overhead, capped=True).items() if n and key in most}
    if not asked:
        return Evaluated()
    limit = _read(protocol.ADMISSION.read, quota) or most
    before = dict(requested) if requested is not None else _read(protocol.CHILD_REQUEST.read, quota)
    after = {**before, **{key: before.get(key, 0) + amount for key, amount in asked.items()}}
    over = [key for key in asked if key in limit and after[key] > limit[key]]
    if not over:
        return Evaluated(child_request=after)
    excess = ", ".join(
        f"{word}: {','.join(f'{key}={render(key, listed.get(key, 0))}' for key in sorted(over))}"
        for word, listed in (("requested", asked), ("used", before), ("limited", limit))
    )
    return Evaluated(f"exceeded quota: {quota.metadata.key}, {excess}")


def _read(read: object, quota: ElasticQuota) -> dict[str, int]:
    try:
        amounts_read: ResourceList = read(quota.metadata)  # type: ignore[operator]  # the `read` of an annotation
        return amounts(amounts_read, capped=True)
    except BadInput:
        return {}
