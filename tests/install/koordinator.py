"""Koordinator on a cluster, as its charts of v1.4 and v1.8 leave it: what an API server has of it, in short.

Kinds have a few fields of each shape. KOORD_PEER_CRDS names a folder with the whole definitions, a folder for each
version, to be used instead: `v1.4.1/*.yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from koord.api.text.yaml import load_all

WHOLE: Final = os.environ.get("KOORD_PEER_CRDS", "")
NAMESPACE: Final = "koordinator-system"
"""Koordinator's, with its configuration and leases."""


@dataclass(frozen=True)
class Kind:
    """One of its kinds: versions, of which the last is stored."""

    kind: str
    plural: str
    group: str
    fields: dict[str, Any]
    namespaced: bool = False
    has_status: bool = True
    versions: tuple[str, ...] = ("v1alpha1",)
    short_names: tuple[str, ...] = ()
    has_spec: bool = True

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def definition(self) -> dict[str, Any]:
        version = {
            "served": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {**ROOT, **self.fields}}},
            **({"subresources": {"status": {}}} if self.has_status else {}),
        }
        metadata: dict[str, Any] = {"name": self.name}
        if self.group.endswith("k8s.io"):
            metadata["annotations"] = {"api-approved.kubernetes.io": "https://example.org/approved"}
        last = self.versions[-1]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": {"kind": self.kind, "plural": self.plural, "shortNames": list(self.short_names)},
                "versions": [{**version, "name": each, "storage": each == last} for each in self.versions],
            },
        }


def obj(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT: Final[dict[str, Any]] = {"type": "string"}
NUMBER: Final[dict[str, Any]] = {"type": "integer", "format": "int64"}
YES: Final[dict[str, Any]] = {"type": "boolean"}
ANYTHING: Final[dict[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}
TEXTS: Final[dict[str, Any]] = {"type": "object", "additionalProperties": TEXT}
AMOUNT: Final[dict[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
AMOUNTS: Final[dict[str, Any]] = {"type": "object", "additionalProperties": AMOUNT}
ROOT: Final[dict[str, Any]] = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}}

SCHEDULING: Final = "scheduling.koordinator.sh"
SLO: Final = "slo.koordinator.sh"
SIGS: Final = "scheduling.sigs.k8s.io"

_USED: Final = obj(resources=AMOUNTS)
_THRESHOLDS: Final = obj(
    enable=YES, cpuSuppressThresholdPercent=NUMBER, memoryEvictThresholdPercent=NUMBER, memoryEvictLowerPercent=NUMBER
)


def kinds(version: str) -> tuple[Kind, ...]:
    """Of v1.4 or v1.8."""
    new = version != "v1.4"
    topology: dict[str, Any] = {
        "topologyPolicies": many(TEXT),
        "zones": many(
            obj(
                name=TEXT,
                type=TEXT,
                parent=TEXT,
                costs=many(obj(name=TEXT, value=NUMBER)),
                attributes=many(obj(name=TEXT, value=TEXT)),
                resources=many(obj(name=TEXT, capacity=AMOUNT, allocatable=AMOUNT, available=AMOUNT)),
            )
        ),
    }
    if new:
        topology["attributes"] = many(obj(name=TEXT, value=TEXT))
    return (
        Kind(
            "ClusterColocationProfile",
            "clustercolocationprofiles",
            "config.koordinator.sh",
            {
                "spec": obj(
                    selector=obj(matchLabels=TEXTS),
                    labels=TEXTS,
                    annotations=TEXTS,
                    qosClass=TEXT,
                    priorityClassName=TEXT,
                    probability=AMOUNT,
                    patch=ANYTHING,
                    **({"labelSuffixes": TEXTS, "annotationKeysMapping": TEXTS} if new else {}),
                ),
                "status": obj(),
            },
        ),
        Kind(
            "NodeSLO",
            "nodeslos",
            SLO,
            {
                "spec": obj(
                    resourceUsedThresholdWithBE=_THRESHOLDS,
                    cpuBurstStrategy=obj(policy=TEXT, cpuBurstPercent=NUMBER),
                    extensions=ANYTHING,
                ),
                "status": obj(),
            },
        ),
        Kind(
            "NodeMetric",
            "nodemetrics",
            SLO,
            {
                "spec": obj(metricCollectPolicy=obj(reportIntervalSeconds=NUMBER)),
                "status": obj(
                    updateTime=TEXT,
                    nodeMetric=obj(nodeUsage=_USED, systemUsage=_USED),
                    podsMetric=many(obj(name=TEXT, namespace=TEXT, podUsage=_USED)),
                ),
            },
        ),
        Kind(
            "Reservation",
            "reservations",
            SCHEDULING,
            {
                "spec": obj(
                    template=ANYTHING,
                    owners=many(obj(labelSelector=obj(matchLabels=TEXTS), object=obj(name=TEXT, namespace=TEXT))),
                    ttl=TEXT,
                    allocateOnce=YES,
                ),
                "status": obj(phase=TEXT, nodeName=TEXT, allocatable=AMOUNTS, allocated=AMOUNTS),
            },
        ),
        Kind(
            "PodMigrationJob",
            "podmigrationjobs",
            SCHEDULING,
            {
                "spec": obj(podRef=obj(name=TEXT, namespace=TEXT, uid=TEXT), mode=TEXT, ttl=TEXT, paused=YES),
                "status": obj(phase=TEXT, reason=TEXT, message=TEXT),
            },
            short_names=("pmj",),
        ),
        Kind(
            "Device",
            "devices",
            SCHEDULING,
            {"spec": obj(devices=many(obj(type=TEXT, id=TEXT, minor=NUMBER, health=YES, resources=AMOUNTS)))},
            has_status=False,
        ),
        Kind(
            "ElasticQuota",
            "elasticquotas",
            SIGS,
            {"spec": obj(min=AMOUNTS, max=AMOUNTS), "status": obj(used=AMOUNTS)},
            namespaced=True,
            has_status=False,
            short_names=() if new else ("eq", "eqs"),
        ),
        Kind(
            "PodGroup",
            "podgroups",
            SIGS,
            {
                "spec": obj(minMember=NUMBER, minResources=AMOUNTS, scheduleTimeoutSeconds=NUMBER),
                "status": obj(phase=TEXT, scheduled=NUMBER, running=NUMBER),
            },
            namespaced=True,
            has_status=False,
            short_names=() if new else ("pg", "pgs"),
        ),
        Kind(
            "ElasticQuotaProfile",
            "elasticquotaprofiles",
            "quota.koordinator.sh",
            {"spec": obj(quotaName=TEXT, quotaLabels=TEXTS, nodeSelector=obj(matchLabels=TEXTS)), "status": obj()},
            namespaced=True,
            has_status=False,
            short_names=("eqp",),
        ),
        Kind(
            "NodeResourceTopology",
            "noderesourcetopologies",
            "topology.node.k8s.io",
            topology,
            has_status=False,
            versions=("v1alpha1", "v1alpha2") if new else ("v1alpha1",),
            short_names=("node-res-topo",),
            has_spec=False,
        ),
    )


def definitions(version: str) -> Sequence[dict[str, Any]]:
    """Its kinds; the whole ones where a folder has them."""
    if WHOLE:
        (folder,) = Path(WHOLE).glob(f"{version}*")
        found = [each for path in sorted(folder.glob("*.yaml")) for each in load_all(path.read_text(), str(path))]
        return [each for each in found if isinstance(each, dict)]
    return [each.definition() for each in kinds(version)]
