"""Objects of every kind that are wrong in one field when they are made."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.kinds import KINDS
from tests.minicluster.apiserver.differential.steps import (
    TABLE,
    Sequence,
    Step,
    delete,
    each,
    get,
    patch,
    post,
    sequence,
)

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}
VOLUMES = KINDS["persistentvolumes"]
SLICES, CLASSES, ENDPOINTS = KINDS["endpointslices"], KINDS["volumeattributesclasses"], KINDS["endpoints"]


def _bad(plural: str, *parts: dict[str, Any]) -> Sequence:
    kind = KINDS[plural]
    return sequence(f"{plural}-bad", [post(f"{kind.path}?dryRun=All", kind.made(**part)) for part in parts])


def _spec(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def _slice(**parts: Any) -> Step:
    return SLICES.create(metadata={"name": "", "generateName": "e-"}, **parts)


def _endpoint(**parts: Any) -> dict[str, Any]:
    return {"endpoints": [{"addresses": ["10.1.1.1"], **parts}]}


SEQUENCES = [
    _bad(
        "deployments",
        _spec(replicas=-1),
        _spec(minReadySeconds=-1, revisionHistoryLimit=-1, progressDeadlineSeconds=-1),
        _spec(progressDeadlineSeconds=5, minReadySeconds=5),
        _spec(strategy={"type": "Odd"}),
        _spec(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        _spec(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        _spec(strategy={"rollingUpdate": {"maxSurge": "-1%", "maxUnavailable": "101%"}}),
        _spec(strategy={"rollingUpdate": {"maxSurge": "x", "maxUnavailable": -1}}),
        _spec(selector={}),
        _spec(selector=None),
        _spec(selector={"matchExpressions": [{"key": "a", "operator": "Odd"}, {"key": "b", "operator": "In"}]}),
        _spec(template={}),
        _spec(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}),
        _spec(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "activeDeadlineSeconds": 5}}),
        _spec(template=None),
        {"spec": None},
        {"spec": {}},
    ),
    _bad(
        "daemonsets",
        _spec(minReadySeconds=-1, revisionHistoryLimit=-1),
        _spec(updateStrategy={"type": "Odd"}),
        _spec(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
        _spec(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
        _spec(updateStrategy={"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": 0}}),
        _spec(selector=None),
        _spec(selector={}),
        _spec(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}),
    ),
    _bad(
        "replicasets",
        _spec(replicas=-1, minReadySeconds=-1),
        _spec(selector=None),
        _spec(selector={}),
        _spec(template=None),
        _spec(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "activeDeadlineSeconds": 5}}),
    ),
    _bad(
        "statefulsets",
        _spec(replicas=-1, minReadySeconds=-1, revisionHistoryLimit=-1),
        _spec(podManagementPolicy="Odd"),
        _spec(updateStrategy={"type": "Odd"}),
        _spec(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1, "maxUnavailable": 0}}),
        _spec(serviceName="A_"),
        _spec(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Odd", "whenScaled": ""}),
        _spec(ordinals={"start": -1}),
        _spec(volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {}}]),
        _spec(
            volumeClaimTemplates=[
                {
                    "metadata": {"name": "A_"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
                }
            ]
        ),
        _spec(selector={}, template={"spec": TEMPLATE["spec"]}),
        _spec(template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}),
    ),
    _bad(
        "replicationcontrollers",
        _spec(replicas=-1, minReadySeconds=-1),
        _spec(selector={"b": "c"}),
        _spec(template=None),
        _spec(template={"metadata": {}, "spec": TEMPLATE["spec"]}),
    ),
    _bad(
        "jobs",
        _spec(parallelism=-1, completions=-1, backoffLimit=-1, activeDeadlineSeconds=-1, ttlSecondsAfterFinished=-1),
        _spec(completionMode="Odd"),
        _spec(completionMode="Indexed"),
        _spec(completionMode="Indexed", completions=200000, parallelism=200000),
        _spec(backoffLimitPerIndex=1),
        _spec(completionMode="Indexed", completions=2, backoffLimitPerIndex=-1, maxFailedIndexes=5),
        _spec(maxFailedIndexes=1),
        _spec(podReplacementPolicy="Odd"),
        _spec(podFailurePolicy={"rules": [{"action": "Odd"}]}),
        _spec(
            podFailurePolicy={
                "rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "Odd", "values": []}},
                    {"action": "FailIndex", "onPodConditions": [{"type": "", "status": "Odd"}]},
                    {
                        "action": "Ignore",
                        "onExitCodes": {"operator": "In", "values": [0, 1, 1], "containerName": "nope"},
                        "onPodConditions": [{"type": "a", "status": "True"}],
                    },
                ]
            }
        ),
        _spec(successPolicy={"rules": []}),
        _spec(
            completionMode="Indexed",
            completions=3,
            successPolicy={"rules": [{"succeededIndexes": "5-x", "succeededCount": 9}, {}]},
        ),
        _spec(managedBy="x"),
        _spec(managedBy="e.com/x"),
        _spec(suspend=True, selector={"matchLabels": {"a": "b"}}),
        _spec(template={"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}),
        _spec(template={"spec": TEMPLATE["spec"]}),
        _spec(completions=0),
    ),
    _bad(
        "cronjobs",
        *[
            _spec(schedule=s)
            for s in (
                "",
                "x",
                "* * * *",
                "60 * * * *",
                "@daily",
                "@every 1h",
                "*/0 * * * *",
                "TZ=UTC * * * * *",
                "CRON_TZ=UTC 0 0 * * *",
                "0 0 31 2 *",
                "1-5/2 * * * *",
                "* * * * 8",
            )
        ],
        _spec(timeZone=""),
        _spec(timeZone="Odd/Zone"),
        _spec(timeZone="Local"),
        _spec(timeZone="Europe/Berlin"),
        _spec(concurrencyPolicy="Odd"),
        _spec(startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1),
        _spec(jobTemplate={}),
        _spec(jobTemplate={"spec": {"template": {"spec": TEMPLATE["spec"]}}}),
        _spec(
            jobTemplate={
                "spec": {
                    "manualSelector": True,
                    "selector": {},
                    "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
                }
            }
        ),
        {"metadata": {"name": "x" * 60}},
    ),
    _bad(
        "persistentvolumeclaims",
        _spec(accessModes=["Odd"]),
        _spec(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        _spec(accessModes=[]),
        _spec(resources={"requests": {"storage": "0"}}),
        _spec(resources={"requests": {"storage": "-1"}, "limits": {"storage": "1"}}),
        _spec(resources={}),
        _spec(volumeMode="Odd"),
        _spec(storageClassName="A_"),
        _spec(storageClassName=""),
        _spec(selector={"matchLabels": {"a b": "c"}}),
        _spec(dataSource={"kind": "", "name": ""}),
        _spec(dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}),
        _spec(dataSourceRef={"kind": "Pod", "name": "p"}),
        _spec(dataSourceRef={"apiGroup": "e.com", "kind": "X", "name": "p", "namespace": "other"}),
        _spec(volumeAttributesClassName="A_"),
        _spec(volumeName="A_"),
    ),
    _bad(
        "persistentvolumes",
        _spec(hostPath=None),
        _spec(nfs={"server": "s", "path": "/x"}),
        _spec(capacity=None),
        _spec(capacity={"storage": "-1"}),
        _spec(capacity={"cpu": "1"}),
        _spec(accessModes=[]),
        _spec(accessModes=["Odd"]),
        _spec(persistentVolumeReclaimPolicy="Odd"),
        _spec(persistentVolumeReclaimPolicy="Recycle"),
        _spec(persistentVolumeReclaimPolicy="Recycle", hostPath={"path": "/"}),
        _spec(volumeMode="Odd"),
        _spec(nodeAffinity={}),
        _spec(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        _spec(hostPath=None, local={"path": "/x"}),
        _spec(
            hostPath=None,
            local={"path": ""},
            nodeAffinity={
                "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
            },
        ),
        _spec(hostPath=None, csi={"driver": "", "volumeHandle": ""}),
        _spec(hostPath=None, csi={"driver": "d", "volumeHandle": "h", "controllerPublishSecretRef": {"name": ""}}),
        _spec(mountOptions=["a b"]),
        _spec(storageClassName="A_"),
        _spec(claimRef={"name": "x"}),
        _spec(hostPath=None, iscsi={"targetPortal": "", "iqn": "x", "lun": 300}),
        _spec(hostPath=None, fc={}),
        _spec(hostPath=None, rbd={}),
        _spec(hostPath=None, glusterfs={"endpoints": "", "path": ""}),
        _spec(hostPath=None, azureFile={"secretName": "", "shareName": ""}),
        _spec(hostPath=None, cephfs={}),
        _spec(hostPath=None, flexVolume={"driver": ""}),
        _spec(volumeAttributesClassName=""),
    ),
    _bad(
        "poddisruptionbudgets",
        *[
            {"spec": s}
            for s in (
                {"minAvailable": "x"},
                {"minAvailable": -1},
                {"maxUnavailable": "101%"},
                {"minAvailable": 1, "maxUnavailable": 1},
                {"selector": {"matchLabels": {"a b": "c"}}},
                {"unhealthyPodEvictionPolicy": "Odd"},
                {},
            )
        ],
    ),
    _bad(
        "nodes",
        {"spec": {"podCIDR": "x"}},
        {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
        {
            "spec": {
                "taints": [
                    {"key": "", "effect": ""},
                    {"key": "a", "effect": "Odd"},
                    {"key": "a b", "effect": "NoSchedule"},
                    {"key": "a", "value": "-", "effect": "NoSchedule"},
                ]
            }
        },
        {
            "spec": {
                "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}]
            }
        },
        {"spec": {"externalID": "x", "providerID": "p", "unschedulable": True, "configSource": {}}},
        {"status": {"capacity": {"cpu": "-1"}}},
        {"metadata": {"name": "{{seq}}-n", "annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods": "x"}}},
    ),
    _bad(
        "leases",
        *[
            {"spec": s}
            for s in (
                {"leaseDurationSeconds": 0},
                {"leaseDurationSeconds": -1, "leaseTransitions": -1},
                {"renewTime": "x"},
                {"strategy": "Odd"},
                {"preferredHolder": "x"},
                {"holderIdentity": ""},
                {"acquireTime": "2026-01-01T00:00:00Z"},
                {"acquireTime": "2026-01-01T00:00:00.123456Z", "holderIdentity": "a", "leaseDurationSeconds": 5},
            )
        ],
    ),
    _bad(
        "priorityclasses",
        {"value": 2000000000},
        {"value": 1000000001},
        {"value": -2147483648},
        {"preemptionPolicy": "Odd"},
        {"metadata": {"name": "system-x"}},
        {"description": "x", "globalDefault": False},
        {"value": None},
    ),
    _bad(
        "runtimeclasses",
        {"handler": ""},
        {"handler": "A_"},
        {"overhead": {"podFixed": {"cpu": "-1"}}},
        {"overhead": {"podFixed": {"odd": "1"}}},
        {"scheduling": {"nodeSelector": {"a b": "c"}, "tolerations": [{"operator": "Odd"}]}},
        {"scheduling": {"tolerations": [{"key": "a"}, {"key": "a"}]}},
    ),
    _bad(
        "storageclasses",
        {"provisioner": ""},
        {"provisioner": "a b"},
        {"reclaimPolicy": "Odd"},
        {"volumeBindingMode": "Odd"},
        {"parameters": {"": "x"}},
        {"allowedTopologies": [{}]},
        {
            "allowedTopologies": [
                {
                    "matchLabelExpressions": [
                        {"key": "a", "values": []},
                        {"key": "a", "values": ["x", "x"]},
                        {"key": "b c", "values": ["y"]},
                    ]
                }
            ]
        },
        {"mountOptions": ["a"]},
        {"allowVolumeExpansion": None},
    ),
    _bad(
        "csidrivers",
        *[
            {"spec": s}
            for s in (
                {"fsGroupPolicy": "Odd"},
                {"volumeLifecycleModes": ["Odd"]},
                {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]},
                {"tokenRequests": [{"audience": "a", "expirationSeconds": 5}]},
                {"nodeAllocatableUpdatePeriodSeconds": 1},
                {"attachRequired": False, "seLinuxMount": True},
            )
        ],
        {"metadata": {"name": "A_"}},
        {"metadata": {"name": "x" * 64}},
    ),
    _bad(
        "csinodes",
        *[
            {"spec": {"drivers": d}}
            for d in (
                [{"name": "", "nodeID": ""}],
                [{"name": "d", "nodeID": "x" * 200}],
                [{"name": "d", "nodeID": "n", "topologyKeys": ["", "a b", "k", "k"]}],
                [{"name": "d", "nodeID": "n"}, {"name": "d", "nodeID": "n"}],
                [{"name": "d", "nodeID": "n", "allocatable": {"count": -1}}],
            )
        ],
    ),
    _bad(
        "csistoragecapacities",
        {"storageClassName": ""},
        {"storageClassName": "A_"},
        {"capacity": "-1"},
        {"maximumVolumeSize": "-1"},
        {"nodeTopology": {"matchLabels": {"a b": "c"}}},
        {"capacity": "1Gi", "maximumVolumeSize": "1Mi"},
    ),
    _bad(
        "volumeattachments",
        *[
            {"spec": s}
            for s in each(
                {"attacher": ""},
                {"attacher": "a b"},
                {"nodeName": "A_"},
                {"source": {}},
                {"source": {"persistentVolumeName": ""}},
                {"source": {"persistentVolumeName": "v", "inlineVolumeSpec": {}}},
                {
                    "source": {
                        "persistentVolumeName": None,
                        "inlineVolumeSpec": {
                            "accessModes": ["ReadWriteOnce"],
                            "capacity": {"storage": "1"},
                            "hostPath": {"path": "/x"},
                        },
                    }
                },
            )
        ],
    ),
    _bad(
        "roles",
        *[
            {"rules": [r]}
            for r in (
                {},
                {"verbs": ["get"]},
                {"verbs": ["get"], "apiGroups": [""]},
                {"verbs": ["get"], "nonResourceURLs": ["/x"]},
                {"verbs": [], "apiGroups": [""], "resources": ["pods"]},
            )
        ],
    ),
    _bad(
        "clusterroles",
        *[
            {"rules": [r]}
            for r in (
                {},
                {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]},
                {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            )
        ],
        {"aggregationRule": {}},
        {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}},
    ),
    _bad(
        "rolebindings",
        {"roleRef": {}},
        {"roleRef": {"kind": "Odd", "name": "x", "apiGroup": "y"}},
        {"roleRef": {"kind": "Role", "name": "a/b"}},
        {"subjects": [{}]},
        {
            "subjects": [
                {"kind": "User"},
                {"kind": "Group", "name": "g", "apiGroup": "x"},
                {"kind": "ServiceAccount", "name": "A_", "namespace": ""},
                {"kind": "ServiceAccount", "name": "a", "apiGroup": "x"},
                {"kind": "Odd", "name": "o"},
            ]
        },
    ),
    _bad(
        "clusterrolebindings",
        {"roleRef": {"kind": "Role", "name": "x"}},
        {"subjects": [{"kind": "ServiceAccount", "name": "a"}]},
    ),
    _bad(
        "mutatingwebhookconfigurations",
        *[
            {"webhooks": [{**KINDS["mutatingwebhookconfigurations"].least["webhooks"][0], **w}]}
            for w in each(
                {"name": ""},
                {"name": "a"},
                {"name": "A.b.c"},
                {"sideEffects": "Some"},
                {"sideEffects": None},
                {"admissionReviewVersions": []},
                {"admissionReviewVersions": ["v2"]},
                {"admissionReviewVersions": ["v1", "v1", "A_"]},
                {"failurePolicy": "Odd"},
                {"matchPolicy": "Odd"},
                {"timeoutSeconds": 0},
                {"timeoutSeconds": 31},
                {"reinvocationPolicy": "Odd"},
                {"clientConfig": {}},
                {"clientConfig": {"url": "http://x"}},
                {"clientConfig": {"url": "https://u:p@x/?q#f"}},
                {"clientConfig": {"url": "https://x", "service": {"name": "a", "namespace": "b"}}},
                {"clientConfig": {"service": {}}},
                {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "//x", "port": 0}}},
                {"rules": [{}]},
                {
                    "rules": [
                        {
                            "operations": ["ODD"],
                            "apiGroups": ["*", "a"],
                            "apiVersions": [""],
                            "resources": ["*", "pods"],
                            "scope": "Odd",
                        }
                    ]
                },
                {
                    "rules": [
                        {
                            "operations": ["*", "CREATE"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["*/*", "pods/status"],
                        }
                    ]
                },
                {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
                {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            )
        ],
    ),
    sequence(
        "slice-faults",
        _slice(addressType=""),
        _slice(addressType="Odd"),
        _slice(addressType="FQDN", endpoints=[{"addresses": ["a", "a.b", "a_b.c", "", "A.b", "x.y."]}]),
        _slice(endpoints=[{"addresses": []}]),
        _slice(endpoints=[{}]),
        _slice(
            endpoints=[{"addresses": ["fd00::1", "x", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "010.1.1.1"]}]
        ),
        _slice(addressType="IPv6", endpoints=[{"addresses": ["fd00::1", "10.1.1.1", "::1", "fe80::1"]}]),
        _slice(
            **_endpoint(
                nodeName="A_",
                hostname="a.b",
                hints={
                    "forZones": [{"name": "a"}, {"name": "a"}, {"name": "-"}],
                    "forNodes": [{"name": "X"}, {"name": "X"}],
                },
            )
        ),
        _slice(**_endpoint(deprecatedTopology={"a": "b"})),
        _slice(
            **_endpoint(
                conditions={"ready": True, "serving": None, "terminating": False},
                zone="z",
                targetRef={"kind": "Pod", "name": "p"},
            )
        ),
        _slice(**_endpoint(hints={"forZones": [{"name": str(i)} for i in range(9)]})),
        _slice(ports=[{}]),
        _slice(
            ports=[
                {"name": "A", "port": 0, "protocol": "Odd", "appProtocol": "x y"},
                {"name": "b", "port": 70000},
                {"name": "b"},
            ]
        ),
        _slice(ports=[{"port": 80}, {"port": 81}]),
        SLICES.create(),
        patch(SLICES.one, {"addressType": "IPv6"}),
        patch(SLICES.one, {"endpoints": [{"addresses": ["10.1.1.2"]}]}),
        patch(SLICES.one, {"endpoints": [{"addresses": ["bad"]}]}),
        patch(SLICES.one, {"ports": [{"port": 1}]}),
        patch(SLICES.one, {"metadata": {"labels": {"a": "b"}}}),
        patch(SLICES.one, {"metadata": {"annotations": {"a": "b"}}}),
        get(SLICES.one, TABLE),
        delete(SLICES.one),
    ),
    sequence(
        "attributes-class-faults",
        CLASSES.create(driverName=""),
        CLASSES.create(driverName="a b"),
        CLASSES.create(parameters={"": "x"}),
        CLASSES.create(parameters=None),
        CLASSES.create(parameters={str(i): "" for i in range(513)}),
        CLASSES.create(),
        patch(CLASSES.one, {"driverName": "x.com"}),
        patch(CLASSES.one, {"parameters": {"q": "r"}}),
        get(CLASSES.one, TABLE),
        delete(CLASSES.one),
        get(CLASSES.one),
        patch(CLASSES.one, {"metadata": {"finalizers": None}}),
    ),
    sequence(
        "endpoints-faults",
        *[
            ENDPOINTS.create(metadata={"name": "x"}, subsets=s)
            for s in each(
                [{}],
                [{"addresses": [{"ip": "x"}]}],
                [
                    {
                        "addresses": [{"ip": "127.0.0.1"}, {"ip": "10.0.0.1", "hostname": "A_", "nodeName": "n"}],
                        "ports": [{"port": 0}],
                    }
                ],
                [
                    {
                        "addresses": [{"ip": "10.0.0.1"}],
                        "ports": [
                            {"port": 1},
                            {"port": 2, "name": "A"},
                            {"port": 3, "name": "b", "protocol": "Odd", "appProtocol": "x y"},
                        ],
                    }
                ],
                [
                    {
                        "addresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}],
                        "notReadyAddresses": [{"ip": "10.0.0.3"}],
                        "ports": [{"port": 2, "name": "b"}, {"port": 1, "name": "a"}],
                    }
                ],
            )
        ],
        get(ENDPOINTS.path + "/x"),
        patch(ENDPOINTS.path + "/x", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}]}),
        get(ENDPOINTS.path + "/x", TABLE),
    ),
    sequence(
        "volume-warnings",
        [
            post(f"{VOLUMES.path}?dryRun=All", VOLUMES.made(spec={"hostPath": None, **s}))
            for s in each(
                {"cephfs": {"monitors": ["a"]}},
                {"photonPersistentDisk": {"pdID": "a"}},
                {
                    "scaleIO": {
                        "gateway": "g",
                        "system": "s",
                        "volumeName": "v",
                        "secretRef": {"name": "s", "namespace": "n"},
                    }
                },
                {"storageos": {"volumeName": "a"}},
                {"glusterfs": {"endpoints": "e", "path": "p"}},
                {"rbd": {"monitors": ["a"], "image": "i"}},
            )
        ],
        post(
            f"{VOLUMES.path}?dryRun=All",
            VOLUMES.made(metadata={"annotations": {"volume.beta.kubernetes.io/mount-options": "x"}}),
        ),
        post(
            f"{VOLUMES.path}?dryRun=All",
            VOLUMES.made(metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "y"}}),
        ),
    ),
]
