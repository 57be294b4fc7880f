"""Services, storage, events, roles, webhooks, quotas: right and wrong."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.builtin.case import Case, Obj

C = {"name": "c", "image": "nginx"}


def service(meta: Obj | None = None, **spec: Any) -> Obj:
    ports = {"ports": [{"port": 80}]}
    whole = {key: value for key, value in {**ports, **spec}.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta or {}, "spec": whole}


def claim(**spec: Any) -> Obj:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    kept = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": kept}


def volume(**spec: Any) -> Obj:
    whole = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}, **spec}
    kept = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "spec": kept}


def event(**rest: Any) -> Obj:
    about = {"kind": "Pod", "name": "p", "namespace": "cases"}
    return {"apiVersion": "v1", "kind": "Event", "involvedObject": about, "reason": "R", "message": "m", **rest}


def new_event(**rest: Any) -> Obj:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "cases"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/x",
        "reportingInstance": "i",
        "action": "Did",
        "reason": "R",
        "type": "Normal",
        **rest,
    }


def storage(kind: str, **rest: Any) -> Obj:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, **rest}


def rbac(kind: str, meta: Obj | None = None, **rest: Any) -> Obj:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta or {}, **rest}


def hook(**rest: Any) -> Obj:
    whole = {
        "name": "a.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x.example/y"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        **rest,
    }
    return {key: value for key, value in whole.items() if value is not None}


def webhooks(kind: str, *hooks: Obj) -> Obj:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "webhooks": list(hooks),
    }


ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}

CORE = [
    Case("a minimal one", service()),
    Case("headless", service(clusterIP="None", selector={"a": "b"})),
    Case("headless without selector", service(clusterIP="None", ports=None)),
    Case("node port", service(type="NodePort", ports=[{"port": 80, "targetPort": "web", "nodePort": 30080}])),
    Case("load balancer", service(type="LoadBalancer")),
    Case("external name", service(type="ExternalName", externalName="example.com", ports=None)),
    Case("session affinity", service(sessionAffinity="ClientIP")),
    Case("no ports", service(ports=None)),
    Case("bad ports", service(ports=[{"port": 0}, {"port": 70000, "name": "A", "protocol": "tcp", "targetPort": "-"}])),
    Case(
        "ports repeated",
        service(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}, {"port": 81, "name": "b"}]),
    ),
    Case("odd type", service(type="Odd", sessionAffinity="Odd")),
    Case("external name missing", service(type="ExternalName")),
    Case("node port on cluster ip", service(ports=[{"port": 80, "nodePort": 30081}])),
    Case("headless node port", service(type="NodePort", clusterIP="None")),
    Case("bad name", service({"name": "1a"})),
    Case("bad cluster ip", service(clusterIP="x")),
    Case("bad selector", service(selector={"a b": "c d"})),
    Case("port changes", service(), {"spec": {"ports": [{"port": 81, "protocol": "TCP", "targetPort": 81}]}}),
    Case("cluster ip is kept", service(), {"spec": {"clusterIP": None, "clusterIPs": None, "selector": {"a": "b"}}}),
    Case(
        "a minimal one",
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}],
        },
    ),
    Case(
        "bad",
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "subsets": [{"ports": [{"port": 0}, {"port": 1}]}, {"addresses": [{"ip": "x"}]}],
        },
    ),
    Case("a minimal one", claim()),
    Case(
        "a class and a source",
        claim(storageClassName="fast", dataSource={"kind": "PersistentVolumeClaim", "name": "x"}),
    ),
    Case("nothing", claim(accessModes=None, resources=None)),
    Case(
        "bad",
        claim(
            accessModes=["Odd", "ReadWriteOncePod", "ReadWriteMany"],
            resources={"requests": {"storage": "-1"}},
            volumeMode="Odd",
            storageClassName="A_b",
            dataSource={},
        ),
    ),
    Case("size changes unbound", claim(), {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    Case(
        "size grows bound",
        claim(),
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        before={"status": {"phase": "Bound"}},
    ),
    Case("volume is bound", claim(), {"spec": {"volumeName": "v"}}),
    Case("mode changes", claim(), {"spec": {"volumeMode": "Block"}}),
    Case("status", claim(), {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}, "status"),
    Case("a minimal one", volume()),
    Case("csi", volume(hostPath=None, csi={"driver": "d.example.com", "volumeHandle": "h"})),
    Case(
        "bad",
        volume(
            accessModes=["Odd"],
            capacity={"cpu": 1},
            hostPath={"path": "/a/.."},
            persistentVolumeReclaimPolicy="Odd",
            volumeMode="Odd",
        ),
    ),
    Case("nothing", volume(accessModes=None, capacity=None, hostPath=None)),
    Case("two sources", volume(nfs={"server": "s", "path": "/p"})),
    Case("source changes", volume(), {"spec": {"hostPath": {"path": "/y"}}}),
    Case("status", volume(), {"status": {"phase": "Released"}}, "status"),
    Case("a minimal one", event()),
    Case("of another namespace", event(involvedObject={"kind": "Pod", "name": "p", "namespace": "other"})),
    Case("of no namespace", event(involvedObject={"kind": "Node", "name": "n"})),
    Case("with a time and nothing else", event(eventTime="2026-01-01T00:00:00.000000Z", reason="")),
    Case("counted", event(count=1), {"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}),
    Case("a minimal new one", new_event()),
    Case("a bad new one", new_event(type="Odd", eventTime=None, deprecatedCount=3, series={"count": 1})),
    Case("a new one without a reporter", new_event(reportingController="", reportingInstance="", action="")),
    Case("a new one changes", new_event(), {"note": "x", "reason": "Other"}),
    Case(
        "a minimal one",
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}},
        },
    ),
    Case("bad", {"apiVersion": "v1", "kind": "PodTemplate", "template": {"spec": {"containers": [{"name": "A"}]}}}),
    Case(
        "a minimal one",
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}}},
        },
    ),
    Case(
        "bad",
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "spec": {
                "replicas": -1,
                "selector": {"x": "y"},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C], "restartPolicy": "Never"}},
            },
        },
    ),
    Case(
        "a minimal one",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "1"},
                        "min": {"memory": "1Gi"},
                        "defaultRequest": {"cpu": "100m"},
                    }
                ]
            },
        },
    ),
    Case(
        "a minimal one",
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "10", "requests.cpu": "1000m"}}},
    ),
    Case(
        "negative", {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "-1", "services": "1.5"}}}
    ),
]

GROUPS = [
    Case("a minimal one", storage("StorageClass", provisioner="example.com/x")),
    Case("nothing", storage("StorageClass", provisioner="")),
    Case("bad", storage("StorageClass", provisioner="a b", reclaimPolicy="Odd", volumeBindingMode="Odd")),
    Case(
        "changes",
        storage("StorageClass", provisioner="x"),
        {
            "provisioner": "y",
            "parameters": {"a": "b"},
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ),
    Case("expansion", storage("StorageClass", provisioner="x"), {"allowVolumeExpansion": True}),
    Case("a minimal one", storage("CSIDriver", spec={})),
    Case(
        "bad",
        storage(
            "CSIDriver",
            spec={
                "fsGroupPolicy": "Odd",
                "volumeLifecycleModes": ["Odd"],
                "tokenRequests": [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}],
            },
        ),
    ),
    Case(
        "changes",
        storage("CSIDriver", spec={}),
        {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}},
    ),
    Case("a minimal one", storage("CSINode", spec={"drivers": [{"name": "d.example.com", "nodeID": "n"}]})),
    Case(
        "bad",
        storage(
            "CSINode",
            spec={
                "drivers": [
                    {"name": "d", "nodeID": "", "allocatable": {"count": -1}},
                    {"name": "d", "nodeID": "x", "topologyKeys": ["a b"]},
                ]
            },
        ),
    ),
    Case(
        "changes",
        storage("CSINode", spec={"drivers": [{"name": "d", "nodeID": "n"}]}),
        {"spec": {"drivers": [{"name": "d", "nodeID": "m"}]}},
    ),
    Case("a minimal one", storage("CSIStorageCapacity", storageClassName="x", capacity="1024Mi")),
    Case(
        "bad",
        storage("CSIStorageCapacity", storageClassName="", capacity="-1", nodeTopology={"matchLabels": {"a b": ""}}),
    ),
    Case(
        "a minimal one",
        storage(
            "VolumeAttachment",
            spec={"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        ),
    ),
    Case("bad", storage("VolumeAttachment", spec={"attacher": "", "nodeName": "N", "source": {}})),
    Case(
        "changes",
        storage("VolumeAttachment", spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}),
        {"spec": {"nodeName": "m"}},
    ),
    Case("a minimal one", rbac("Role", rules=[RULE])),
    Case("bad", rbac("Role", rules=[{}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}])),
    Case("bad name", rbac("Role", {"name": "a%b"})),
    Case("name with colons", rbac("Role", {"name": "system:x:Y"}, rules=[])),
    Case("a minimal one", rbac("ClusterRole", rules=[RULE, {"verbs": ["get"], "nonResourceURLs": ["/x"]}])),
    Case("bad aggregation", rbac("ClusterRole", aggregationRule={}, rules=[{"verbs": []}])),
    Case(
        "a minimal one",
        rbac(
            "RoleBinding",
            roleRef=ROLE_REF,
            subjects=[{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        ),
    ),
    Case(
        "bad",
        rbac(
            "RoleBinding",
            roleRef={"kind": "Odd", "apiGroup": "x"},
            subjects=[
                {"kind": "Odd"},
                {"kind": "User", "apiGroup": "x", "name": "u"},
                {"kind": "ServiceAccount", "name": "A", "apiGroup": "x"},
            ],
        ),
    ),
    Case("role changes", rbac("RoleBinding", roleRef=ROLE_REF), {"roleRef": {"name": "edit"}}),
    Case(
        "a minimal one",
        rbac(
            "ClusterRoleBinding",
            roleRef={"kind": "ClusterRole", "name": "view"},
            subjects=[{"kind": "Group", "name": "g"}],
        ),
    ),
    Case(
        "bad",
        rbac(
            "ClusterRoleBinding",
            roleRef={**ROLE_REF, "kind": "Role"},
            subjects=[{"kind": "ServiceAccount", "name": "s"}],
        ),
    ),
    Case("a minimal one", webhooks("Mutating", hook())),
    Case("empty", webhooks("Mutating")),
    Case("a service", webhooks("Mutating", hook(clientConfig={"service": {"name": "s", "namespace": "n"}}))),
    Case(
        "bad",
        webhooks(
            "Mutating",
            hook(
                name="short",
                sideEffects="Some",
                admissionReviewVersions=["v9"],
                timeoutSeconds=60,
                failurePolicy="Odd",
                matchPolicy="Odd",
                reinvocationPolicy="Odd",
                clientConfig={"url": "http://u@/x?y#z"},
                rules=[
                    {
                        "operations": ["*", "CREATE"],
                        "apiGroups": [],
                        "apiVersions": ["*", "v1"],
                        "resources": ["*/*", "pods"],
                        "scope": "Odd",
                    }
                ],
            ),
        ),
    ),
    Case(
        "nothing given",
        webhooks(
            "Mutating",
            {"name": "a.b.c", "clientConfig": {}, "sideEffects": None, "admissionReviewVersions": []},
            hook(),
            hook(),
        ),
    ),
    Case(
        "bad service",
        webhooks("Mutating", hook(clientConfig={"service": {"name": "", "namespace": "", "port": 0, "path": "x//Y"}})),
    ),
    Case("changes", webhooks("Mutating", hook()), {"webhooks": [hook(timeoutSeconds=5)]}),
    Case("labels change", webhooks("Mutating", hook()), {"metadata": {"labels": {"a": "b"}}}),
    Case("a minimal one", webhooks("Validating", hook())),
    Case(
        "bad",
        webhooks(
            "Validating",
            hook(
                name="A",
                sideEffects=None,
                namespaceSelector={"matchLabels": {"a b": ""}},
                matchConditions=[{"name": "a b", "expression": ""}],
            ),
        ),
    ),
]
