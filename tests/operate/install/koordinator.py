"""Koordinator on a cluster, as its charts of v1.4 and v1.8 leave it: what an API server has of it, in short.

Kinds have a few fields of each shape. KOORD_PEER_CRDS names a folder with the whole definitions, a folder for each
version, to be used instead: `v1.4.1/*.yaml`.
"""

from __future__ import annotations

import json
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
    """One of its kinds: versions, the last is stored."""

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
                    allocateOnce={**YES, "default": True},
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
    return [kind.definition() for kind in kinds(version)]


def meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    labels = {"koord-app": name}
    container = {"name": name, "image": f"example.org/{name}:1", "command": [f"/{name}"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": meta(name, NAMESPACE, labels=labels),
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, NAMESPACE), "data": data}


SCHEDULER_CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/{version}
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceName: koord-scheduler
  resourceNamespace: koordinator-system
profiles:
- schedulerName: koord-scheduler
  plugins:
    queueSort:
      disabled: [{{name: "*"}}]
      enabled: [{{name: {sort}}}]
    filter:
      enabled: [{{name: LoadAwareScheduling}}]
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/{version}
      kind: LoadAwareSchedulingArgs
      filterExpiredNodeMetrics: false
      usageThresholds: {{cpu: 65, memory: 95}}
"""
DESCHEDULER_CONFIG: Final = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
leaderElection:
  resourceLock: leases
  resourceName: koord-descheduler
  resourceNamespace: koordinator-system
deschedulingInterval: 10s
profiles:
- name: koord-descheduler
  plugins:
    deschedule: {disabled: [{name: "*"}]}
    evict: {disabled: [{name: "*"}], enabled: [{name: MigrationController}]}
  pluginConfig:
  - name: MigrationController
    args: {apiVersion: descheduler/v1alpha2, kind: MigrationControllerArgs, evictionPolicy: Eviction}
"""


def scheduler_config(version: str) -> str:
    old = version == "v1.4"
    return SCHEDULER_CONFIG.format(version="v1beta2" if old else "v1", sort="Coscheduling" if old else "PrioritySort")


def webhook(name: str, path: str, **more: Any) -> dict[str, Any]:
    service = {"namespace": NAMESPACE, "name": "koordinator-webhook-service", "path": path}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "name": f"{name}.koordinator.sh",
        "clientConfig": {"service": service, "caBundle": "Cg=="},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "timeoutSeconds": 30,
        **more,
    }


def templated(name: str, *webhooks: dict[str, Any]) -> dict[str, Any]:
    """With the annotation that makes its manager register webhooks."""
    found = meta(name)
    return {**found, "annotations": {**found.get("annotations", {}), "template": json.dumps(webhooks)}}


def components(version: str) -> list[dict[str, Any]]:
    """Its workloads, and what belongs to them."""
    group = "admissionregistration.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(NAMESPACE)},
        *(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": meta(f"koord-{band}"),
                "value": value,
                "preemptionPolicy": "PreemptLowerPriority",
            }
            for band, value in (("prod", 9000), ("mid", 7000), ("batch", 5000), ("free", 3000))
        ),
        config_map(
            "slo-controller-config",
            **{
                "colocation-config": '{"enable": true}',
                "resource-threshold-config": '{"clusterStrategy": {"enable": true}}',
            },
        ),
        config_map("koord-scheduler-config", **{"koord-scheduler-config": scheduler_config(version)}),
        config_map("koord-descheduler-config", **{"koord-descheduler-config": DESCHEDULER_CONFIG}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta("koordinator-webhook-certs", NAMESPACE)},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta("koordinator-webhook-service", NAMESPACE),
            "spec": {"ports": [{"port": 443, "targetPort": 9876}], "selector": {"koord-app": "koord-manager"}},
        },
        {
            "apiVersion": group,
            "kind": "MutatingWebhookConfiguration",
            "metadata": templated("koordinator-mutating-webhook-configuration", webhook("mpod-create", "/mutate-pod")),
            "webhooks": [webhook("mpod-create", "/mutate-pod")],
        },
        {
            "apiVersion": group,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": templated("koordinator-validating-webhook-configuration", webhook("vpod", "/validate-pod")),
            "webhooks": [webhook("vpod", "/validate-pod")],
        },
        workload("Deployment", "koord-manager", replicas=2),
        workload("Deployment", "koord-scheduler", replicas=2),
        workload("Deployment", "koord-descheduler", replicas=3),
        workload("DaemonSet", "koordlet", updateStrategy={"rollingUpdate": {"maxUnavailable": "20%"}}),
    ]


def users(version: str) -> list[dict[str, Any]]:
    """Objects of its kinds, with fields that only some versions have, and some that have no fixed shape."""
    new = version != "v1.4"
    profile: dict[str, Any] = {
        "selector": {"matchLabels": {"team": "night"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "labels": {"given": "yes"},
        "patch": {"spec": {"terminationGracePeriodSeconds": 7}},
    }
    if new:
        profile["annotationKeysMapping"] = {"a": "b"}
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}
    zone = {
        "name": "node-0",
        "type": "Node",
        "resources": [{"name": "cpu", "capacity": "8", "allocatable": 8, "available": "6"}],
    }

    def made(group: str, kind: str, name: str, namespace: str = "", version: str = "v1alpha1", **rest: Any) -> Any:
        return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": meta(name, namespace), **rest}

    thresholds = {"enable": True, "cpuSuppressThresholdPercent": 60}
    return [
        made("config.koordinator.sh", "ClusterColocationProfile", "night", spec=profile),
        made(
            SCHEDULING,
            "Reservation",
            "kept",
            spec={"template": template, "owners": [{"object": {"name": "p", "namespace": "default"}}], "ttl": "1h"},
        ),
        made(SIGS, "ElasticQuota", "team-a", "default", spec={"min": {"cpu": 4}, "max": {"cpu": "8"}}),
        made(SIGS, "PodGroup", "job", "default", spec={"minMember": 3, "scheduleTimeoutSeconds": 60}),
        made(
            SLO,
            "NodeSLO",
            "n1",
            spec={"resourceUsedThresholdWithBE": thresholds, "extensions": {"theirs": {"deep": [1, {"a": "b"}]}}},
        ),
        made(
            "topology.node.k8s.io",
            "NodeResourceTopology",
            "n1",
            topologyPolicies=["SingleNUMANodePodLevel"],
            zones=[zone],
        ),
    ]
