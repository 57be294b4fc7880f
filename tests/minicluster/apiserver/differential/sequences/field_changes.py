"""Objects of every kind that are changed in a field that must not change, or to something wrong."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.kinds import KINDS
from tests.minicluster.apiserver.differential.steps import Sequence, get, patch, sequence

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}


def _changed(plural: str, *patches: dict[str, Any]) -> Sequence:
    kind = KINDS[plural]
    of_status = [
        patch(f"{kind.one}/status", {"status": {"conditions": [{"type": "x"}]}}),
        patch(f"{kind.one}/status", {"status": {"replicas": -1, "observedGeneration": -1}}),
    ]
    steps = [patch(kind.one, each) for each in patches] + (of_status if kind.has_status else [])
    return sequence(f"{plural}-changed", kind.create(), steps, get(kind.one))


def _spec(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


SEQUENCES = [
    _changed(
        "deployments",
        _spec(replicas=-1),
        _spec(selector={"matchLabels": {"a": "b"}}),
        _spec(strategy={"type": "Recreate"}),
        _spec(strategy={"type": "Recreate", "rollingUpdate": None}),
        _spec(paused=True),
    ),
    _changed(
        "daemonsets",
        _spec(selector={"matchLabels": {"a": "b"}}),
        _spec(updateStrategy={"type": "OnDelete", "rollingUpdate": None}),
        _spec(minReadySeconds=3),
    ),
    _changed(
        "statefulsets",
        _spec(serviceName="other"),
        _spec(selector={"matchLabels": {"a": "b"}}),
        _spec(podManagementPolicy="Parallel"),
        _spec(volumeClaimTemplates=[]),
        _spec(
            replicas=3,
            minReadySeconds=1,
            ordinals={"start": 2},
            persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
        ),
        _spec(revisionHistoryLimit=3),
        _spec(updateStrategy={"type": "OnDelete", "rollingUpdate": None}),
    ),
    _changed(
        "replicasets",
        _spec(selector={"matchLabels": {"a": "b"}}),
        _spec(replicas=-3),
        _spec(replicas=2, minReadySeconds=4),
    ),
    _changed(
        "jobs",
        _spec(completions=3),
        _spec(parallelism=3),
        _spec(selector={"matchLabels": {"a": "b"}}),
        _spec(template={"metadata": {"labels": {"q": "r"}}}),
        _spec(suspend=True),
        _spec(template={"spec": {"nodeSelector": {"a": "b"}}}),
        _spec(completionMode="Indexed"),
        _spec(backoffLimit=1, activeDeadlineSeconds=5),
        _spec(podFailurePolicy={"rules": []}),
        _spec(managedBy="e.com/x"),
        _spec(ttlSecondsAfterFinished=3),
    ),
    _changed(
        "cronjobs",
        _spec(schedule="x"),
        _spec(schedule="1 * * * *", suspend=True),
        _spec(jobTemplate={"spec": {"completions": 4}}),
        _spec(timeZone="UTC"),
    ),
    _changed(
        "persistentvolumeclaims",
        _spec(accessModes=["ReadOnlyMany"]),
        _spec(resources={"requests": {"storage": "2Gi"}}),
        _spec(resources={"requests": {"storage": "512Mi"}}),
        _spec(volumeName="v"),
        _spec(volumeName="w"),
        _spec(storageClassName="s"),
        _spec(volumeMode="Block"),
        _spec(selector={"matchLabels": {"a": "b"}}),
        {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "z"}}},
    ),
    _changed(
        "persistentvolumes",
        _spec(hostPath={"path": "/y"}),
        _spec(capacity={"storage": "2Gi"}),
        _spec(accessModes=["ReadWriteMany"]),
        _spec(persistentVolumeReclaimPolicy="Delete"),
        _spec(volumeMode="Block"),
        _spec(
            nodeAffinity={
                "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
            }
        ),
        _spec(storageClassName="x"),
        _spec(claimRef={"namespace": "n", "name": "c"}),
    ),
    _changed(
        "storageclasses",
        {"provisioner": "x"},
        {"parameters": {"a": "b"}},
        {"reclaimPolicy": "Retain"},
        {"volumeBindingMode": "WaitForFirstConsumer"},
        {"allowVolumeExpansion": True},
        {"mountOptions": ["x"]},
    ),
    _changed("priorityclasses", {"value": 5}, {"description": "d"}, {"preemptionPolicy": "Never"}),
    _changed(
        "runtimeclasses",
        {"handler": "x"},
        {"overhead": {"podFixed": {"cpu": "1"}}},
        {"scheduling": {"nodeSelector": {"a": "b"}}},
    ),
    _changed(
        "csidrivers",
        _spec(attachRequired=False),
        _spec(fsGroupPolicy="None"),
        _spec(volumeLifecycleModes=["Ephemeral"]),
        _spec(storageCapacity=True, podInfoOnMount=True, requiresRepublish=True),
    ),
    _changed(
        "csinodes",
        _spec(drivers=[{"name": "d", "nodeID": "n"}]),
        _spec(drivers=[{"name": "d", "nodeID": "m"}]),
        _spec(drivers=[{"name": "d", "nodeID": "n", "topologyKeys": ["a"]}]),
        _spec(drivers=[]),
    ),
    _changed(
        "volumeattachments", _spec(attacher="x.com"), _spec(nodeName="m"), {"metadata": {"annotations": {"a": "b"}}}
    ),
    _changed(
        "csistoragecapacities",
        {"storageClassName": "x"},
        {"nodeTopology": {"matchLabels": {"a": "b"}}},
        {"capacity": "5Gi"},
    ),
    _changed("rolebindings", {"roleRef": {"name": "edit"}}, {"subjects": [{"kind": "User", "name": "u"}]}),
    _changed(
        "configmaps",
        {"data": {"a b": "c"}},
        {"binaryData": {"x": "!!"}},
        {"data": {"a": "b"}, "binaryData": {"a": "Yg=="}},
        {"immutable": True},
        {"data": {"z": "y"}},
        {"immutable": False},
    ),
    _changed(
        "secrets",
        {"type": "Other"},
        {"data": {"a b": "Yg=="}},
        {"stringData": {"s": "t"}},
        {"immutable": True},
        {"stringData": {"u": "v"}},
    ),
    _changed(
        "services",
        _spec(type="NodePort"),
        _spec(type="LoadBalancer", externalTrafficPolicy="Local"),
        _spec(type="ClusterIP"),
        _spec(type="ExternalName"),
        _spec(clusterIP="None"),
        _spec(sessionAffinity="ClientIP"),
        _spec(ports=[]),
        _spec(ports=[{"port": 1}, {"port": 2}]),
        _spec(ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]),
        _spec(ports=[{"port": 0}]),
        _spec(selector={"a b": "c"}),
        _spec(externalIPs=["x", "127.0.0.1"]),
        _spec(loadBalancerSourceRanges=["x"]),
        _spec(internalTrafficPolicy="Odd"),
        _spec(trafficDistribution="Odd"),
        _spec(publishNotReadyAddresses=True),
    ),
    _changed(
        "nodes",
        {"spec": {"podCIDR": "10.1.0.0/24"}},
        {"spec": {"podCIDR": "10.2.0.0/24"}},
        {"spec": {"providerID": "a"}},
        {"spec": {"providerID": "b"}},
        {"spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute"}]}},
        {"status": {"phase": "x"}},
    ),
    _changed(
        "leases",
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5}},
        {"spec": {"leaseTransitions": -1}},
        {"spec": {"leaseTransitions": 3}},
    ),
    _changed(
        "serviceaccounts",
        {"secrets": [{"name": "a"}]},
        {"automountServiceAccountToken": False},
        {"imagePullSecrets": [{"name": ""}]},
    ),
    _changed(
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}},
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    ),
    _changed(
        "resourcequotas",
        {"spec": {"hard": {"pods": "-1"}}},
        {"spec": {"hard": {"pods": "5"}}},
        {"spec": {"scopes": ["BestEffort"]}},
    ),
]
