"""The workloads that a pod belongs to, by its owner: what users name when they mean "the pods of that Deployment"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from koord.api.kubernetes.meta import ObjectMeta, OwnerReference

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"
_OF_CRON_JOB: Final = re.compile(r"(.+)-[0-9]{8,}")


class Workload(NamedTuple):
    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind.lower()}/{self.name}"


def workloads_of(meta: ObjectMeta, namespace: str = "") -> tuple[Workload, ...]:
    """The owner, and the owner's owner where names tell it: a Deployment's ReplicaSet, a CronJob's Job.

    `namespace`: of a pod that does not say it yet.
    """
    owner = meta.controller
    return () if owner is None else owners(owner, meta.labels, meta.namespace or namespace)


def owners(owner: OwnerReference, labels: Mapping[str, str], namespace: str) -> tuple[Workload, ...]:
    workloads = [Workload(namespace, owner.kind, owner.name)]
    suffix = f"-{labels.get(TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        workloads.append(Workload(namespace, "Deployment", owner.name.removesuffix(suffix)))
    elif owner.kind == "Job" and (match := _OF_CRON_JOB.fullmatch(owner.name)):
        workloads.append(Workload(namespace, "CronJob", match[1]))
    return tuple(workloads)
