"""Every built-in kind through its life: made small, read, made again, changed, changed late, deleted; then made in
full, so that every default and every field's form is seen; then made wrong."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    MERGE,
    TABLE,
    Sequence,
    Step,
    delete,
    get,
    patch,
    post,
    put,
    rv,
    sequence,
)

Obj = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind with examples. The metadata's name is filled in; `wrong` are specs that must be refused."""

    name: str
    path: str
    kind: str
    api_version: str
    small: Obj
    full: Obj
    change: Obj
    wrong: tuple[Obj, ...] = ()
    named: str = "one"
    full_named: str = "full"


def _core(plural: str) -> str:
    return f"/api/v1/namespaces/{{{{ns}}}}/{plural}"


def _group(group: str, plural: str) -> str:
    return f"/apis/{group}/namespaces/{{{{ns}}}}/{plural}"


CONTAINER: Obj = {"name": "main", "image": "example/image"}
TEMPLATE: Obj = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
SELECTOR: Obj = {"matchLabels": {"app": "x"}}
JOB_TEMPLATE: Obj = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}

FULL_CONTAINER: Obj = {
    "name": "main",
    "image": "example/image:2",
    "command": ["run"],
    "args": ["--all"],
    "workingDir": "/srv",
    "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP", "hostPort": 5353}],
    "env": [
        {"name": "PLAIN", "value": "a"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "FROM", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
    "resources": {"requests": {"cpu": "0.5", "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "2048Mi"}},
    "volumeMounts": [{"name": "work", "mountPath": "/work", "readOnly": True}, {"name": "cfg", "mountPath": "/cfg"}],
    "livenessProbe": {"httpGet": {"path": "/live", "port": 80}},
    "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 3},
    "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
    "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
    "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    "imagePullPolicy": "IfNotPresent",
    "stdin": True,
    "tty": True,
}

FULL_POD: Obj = {
    "containers": [FULL_CONTAINER, {"name": "second", "image": "example/second:latest"}],
    "initContainers": [{"name": "init", "image": "example/init:1"}],
    "volumes": [
        {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "cfg", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        {"name": "sec", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "pvc"}},
        {"name": "down", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "c"}},
                    {"secret": {"name": "s"}},
                    {"serviceAccountToken": {"path": "token"}},
                ]
            },
        },
    ],
    "restartPolicy": "OnFailure",
    "terminationGracePeriodSeconds": 5,
    "activeDeadlineSeconds": 100,
    "dnsPolicy": "Default",
    "nodeSelector": {"disk": "ssd"},
    "serviceAccountName": "robot",
    "automountServiceAccountToken": False,
    "securityContext": {
        "fsGroup": 1,
        "runAsNonRoot": True,
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
    },
    "hostname": "h",
    "subdomain": "s",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    },
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 10}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ],
    "hostAliases": [{"ip": "10.1.1.1", "hostnames": ["a"]}],
    "schedulerName": "koord-scheduler",
    "imagePullSecrets": [{"name": "pull"}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "enableServiceLinks": False,
    "setHostnameAsFQDN": True,
}

KINDS = (
    Kind(
        "configmap", _core("configmaps"), "ConfigMap", "v1",
        {}, {"data": {"a": "1"}, "binaryData": {"b": "AAEC"}, "immutable": True}, {"data": {"k": "v"}},
        ({"data": {"bad key": "x"}}, {"data": {"a": "1"}, "binaryData": {"a": "AAEC"}}, {"data": {"a": 1}},
         {"binaryData": {"a": "not base64!"}}),
    ),
    Kind(
        "secret", _core("secrets"), "Secret", "v1",
        {}, {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}, "stringData": {"extra": "text"}},
        {"stringData": {"k": "v"}},
        ({"data": {"a": "not base64!"}}, {"type": "kubernetes.io/tls"}, {"data": {"a/b": "AAEC"}},
         {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "AAEC"}},
         {"type": "kubernetes.io/basic-auth"}, {"type": "kubernetes.io/service-account-token"}),
    ),
    Kind(
        "pod", _core("pods"), "Pod", "v1",
        {"spec": {"containers": [CONTAINER]}}, {"spec": FULL_POD}, {"spec": {"activeDeadlineSeconds": 30}},
        (
            {}, {"spec": {}}, {"spec": {"containers": [{}]}}, {"spec": {"containers": [CONTAINER, CONTAINER]}},
            {"spec": {"containers": [CONTAINER], "restartPolicy": "Sometimes"}},
            {"spec": {"containers": [{"name": "A_b", "image": " x", "imagePullPolicy": "Often"}]}},
            {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}},
            {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "-1"}}}]}},
            {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "much"}}}]}},
            {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1"}, "limits": {"example.com/gpu": "0.5"}}}]}},
            {"spec": {"containers": [{**CONTAINER, "resources": {"limits": {"gpus": "1"}}}]}},
            {"spec": {"containers": [{**CONTAINER, "ports": [{"containerPort": 0}, {"containerPort": 70000, "name": "UP"}]}]}},
            {"spec": {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": ""}]}]}},
            {"spec": {"containers": [{**CONTAINER, "env": [{"name": "1=2"}, {"name": "a", "value": "b", "valueFrom": {}}]}]}},
            {"spec": {"containers": [{**CONTAINER, "livenessProbe": {"periodSeconds": -1}}]}},
            {"spec": {"containers": [{**CONTAINER, "livenessProbe": {"successThreshold": 2, "tcpSocket": {"port": 80}}}]}},
            {"spec": {"containers": [CONTAINER], "volumes": [{"name": "v"}, {"name": "v", "emptyDir": {}}]}},
            {"spec": {"containers": [CONTAINER], "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}},
            {"spec": {"containers": [CONTAINER], "tolerations": [{"operator": "Exists", "value": "v"}, {"effect": "X"}]}},
            {"spec": {"containers": [CONTAINER], "nodeSelector": {"a b": "c d"}}},
            {"spec": {"containers": [CONTAINER], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}},
            {"spec": {"containers": [CONTAINER], "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}}},
            {"spec": {"containers": [CONTAINER], "topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Maybe"}]}},
            {"spec": {"containers": [CONTAINER], "dnsPolicy": "None"}},
            {"spec": {"containers": [CONTAINER], "hostNetwork": True, "hostUsers": False}},
            {"spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": -5, "activeDeadlineSeconds": 0}},
            {"spec": {"containers": [CONTAINER], "securityContext": {"runAsUser": -1, "supplementalGroups": [-1]}}},
            {"spec": {"containers": [CONTAINER], "schedulingGates": [{"name": "g"}, {"name": "g"}], "nodeName": "n"}},
            {"spec": {"containers": [CONTAINER], "initContainers": [{**CONTAINER, "livenessProbe": {}}]}},
            {"spec": {"containers": [CONTAINER], "ephemeralContainers": [CONTAINER]}},
            {"spec": {"containers": [CONTAINER], "hostAliases": [{"ip": "x", "hostnames": ["A b"]}]}},
            {"spec": {"containers": [CONTAINER], "priorityClassName": "no-such-class"}},
            {"spec": {"containers": [CONTAINER], "priority": 5}},
            {"spec": {"containers": "none"}}, {"spec": {"containers": [{"name": 5}]}}, {"spec": []},
        ),
    ),
    Kind(
        "service", _core("services"), "Service", "v1",
        {"spec": {"ports": [{"port": 80}]}},
        {"spec": {"type": "NodePort", "selector": {"app": "x"}, "sessionAffinity": "ClientIP",
                  "ports": [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 53, "protocol": "UDP", "targetPort": 5353}]}},
        {"spec": {"selector": {"app": "y"}}},
        ({}, {"spec": {}}, {"spec": {"ports": [{"port": 0}]}}, {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
         {"spec": {"type": "Other", "ports": [{"port": 80}]}}, {"spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 80}]}},
         {"spec": {"type": "ExternalName"}}),
    ),
    Kind(
        "headless-service", _core("services"), "Service", "v1",
        {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
        {"spec": {"type": "ExternalName", "externalName": "example.com"}}, {"spec": {"publishNotReadyAddresses": True}},
    ),
    Kind(
        "serviceaccount", _core("serviceaccounts"), "ServiceAccount", "v1",
        {}, {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": False},
        {"automountServiceAccountToken": True},
    ),
    Kind(
        "endpoints", _core("endpoints"), "Endpoints", "v1",
        {}, {"subsets": [{"addresses": [{"ip": "10.1.2.3", "nodeName": "n"}], "ports": [{"port": 80}]}]},
        {"subsets": [{"addresses": [{"ip": "10.1.2.4"}], "ports": [{"port": 81, "name": "x"}]}]},
        ({"subsets": [{}]}, {"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0}]}]}),
    ),
    Kind(
        "limitrange", _core("limitranges"), "LimitRange", "v1",
        {"spec": {"limits": []}},
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}},
        ({"spec": {"limits": [{"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}}]}},),
    ),
    Kind(
        "resourcequota", _core("resourcequotas"), "ResourceQuota", "v1",
        {"spec": {}}, {"spec": {"hard": {"requests.cpu": "10", "count/widgets.example.com": "10"}, "scopes": ["NotTerminating"]}},
        {"spec": {"hard": {"persistentvolumeclaims": "5"}}},
        ({"spec": {"hard": {"pods": "-1"}}}, {"spec": {"scopes": ["Nope"]}}, {"spec": {"hard": {"pods": "1.5"}}}, {"spec": {"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]}}),
    ),
    Kind(
        "replicationcontroller", _core("replicationcontrollers"), "ReplicationController", "v1",
        {"spec": {"template": TEMPLATE}}, {"spec": {"replicas": 3, "selector": {"app": "x"}, "template": TEMPLATE, "minReadySeconds": 3}},
        {"spec": {"replicas": 2}}, ({}, {"spec": {"replicas": -1, "template": TEMPLATE}}),
    ),
    Kind(
        "podtemplate", _core("podtemplates"), "PodTemplate", "v1",
        {"template": TEMPLATE}, {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {**FULL_POD, "schedulingGates": []}}},
        {"template": {"metadata": {"labels": {"b": "c"}}}}, ({},),
    ),
    Kind(
        "persistentvolumeclaim", _core("persistentvolumeclaims"), "PersistentVolumeClaim", "v1",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
                  "storageClassName": "", "volumeName": "v", "volumeMode": "Block", "selector": {"matchLabels": {"a": "b"}}}},
        {"metadata": {"annotations": {"a": "b"}}},
        ({"spec": {}}, {"spec": {"accessModes": ["Nope"], "resources": {"requests": {"storage": "0"}}}}),
    ),
    Kind(
        "persistentvolume", "/api/v1/persistentvolumes", "PersistentVolume", "v1",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}},
        {"spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "csi": {"driver": "d.example.com", "volumeHandle": "h"},
                  "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast", "mountOptions": ["ro"]}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        ({"spec": {}}, {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "node", "/api/v1/nodes", "Node", "v1",
        {}, {"spec": {"podCIDR": "10.2.0.0/24", "providerID": "x://y", "unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule", "value": "v"}]},
             "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "3500m"},
                        "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}],
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "nodeInfo": {"kubeletVersion": "v1.35.0"}}},
        {"spec": {"unschedulable": True}},
        ({"spec": {"taints": [{"key": "a", "effect": "Nope"}, {"key": "", "effect": "NoSchedule"}]}},
         {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}},
         {"spec": {"podCIDR": "x"}}, {"spec": {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}}),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "namespace", "/api/v1/namespaces", "Namespace", "v1",
        {}, {"spec": {"finalizers": ["kubernetes", "example.com/f"]}}, {"metadata": {"annotations": {"a": "b"}}},
        ({"spec": {"finalizers": ["nope nope"]}},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "event", _core("events"), "Event", "v1",
        {"involvedObject": {"namespace": "{{ns}}"}},
        {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "{{ns}}", "uid": "u"}, "reason": "R", "message": "m", "type": "Warning",
         "source": {"component": "c", "host": "h"}, "count": 3, "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:00:00Z"},
        {"count": 2}, ({}, {"involvedObject": {"namespace": "other"}}, {"involvedObject": {"namespace": "{{ns}}"}, "type": "Odd", "count": -1}),
    ),
    Kind(
        "events-k8s-io", _group("events.k8s.io/v1", "events"), "Event", "events.k8s.io/v1",
        {"eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "a.example.com/c", "reportingInstance": "i", "action": "A",
         "reason": "R", "type": "Normal", "regarding": {"namespace": "{{ns}}"}},
        {"eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "a.example.com/c", "reportingInstance": "i", "action": "A",
         "reason": "R", "type": "Warning", "regarding": {"namespace": "{{ns}}", "kind": "Pod", "name": "p"}, "note": "n",
         "series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}},
        {"metadata": {"labels": {"c": "d"}}}, ({}, {"eventTime": "2020-01-01T00:00:00.000000Z", "type": "Odd"}),
    ),
    Kind(
        "deployment", _group("apps/v1", "deployments"), "Deployment", "apps/v1",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {"spec": {"replicas": 0, "paused": True, "minReadySeconds": 3, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 30,
                  "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}},
                  "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}, "template": TEMPLATE}},
        {"spec": {"replicas": 4}},
        ({}, {"spec": {"selector": SELECTOR}}, {"spec": {"selector": {}, "template": TEMPLATE}},
         {"spec": {"selector": {"matchLabels": {"app": "y"}}, "template": TEMPLATE}},
         {"spec": {"replicas": -1, "selector": SELECTOR, "template": TEMPLATE}},
         {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}},
         {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}},
         {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"rollingUpdate": {"maxSurge": "x%", "maxUnavailable": "200%"}}}},
         {"spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}},
         {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Near"}]}, "template": TEMPLATE}}),
    ),
    Kind(
        "replicaset", _group("apps/v1", "replicasets"), "ReplicaSet", "apps/v1",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}}, {"spec": {"replicas": 3, "minReadySeconds": 1, "selector": SELECTOR, "template": TEMPLATE}},
        {"spec": {"replicas": 2}}, ({}, {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}),
    ),
    Kind(
        "statefulset", _group("apps/v1", "statefulsets"), "StatefulSet", "apps/v1",
        {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}},
        {"spec": {"serviceName": "s", "replicas": 2, "podManagementPolicy": "Parallel", "selector": SELECTOR, "template": TEMPLATE,
                  "updateStrategy": {"type": "OnDelete"}, "ordinals": {"start": 1},
                  "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                  "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}},
        {"spec": {"replicas": 3}},
        ({}, {"spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE, "podManagementPolicy": "Odd", "updateStrategy": {"type": "Odd"}}}),
    ),
    Kind(
        "daemonset", _group("apps/v1", "daemonsets"), "DaemonSet", "apps/v1",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}, "minReadySeconds": 5}},
        {"spec": {"minReadySeconds": 2}},
        ({}, {"spec": {"selector": SELECTOR, "template": TEMPLATE, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}}}),
    ),
    Kind(
        "controllerrevision", _group("apps/v1", "controllerrevisions"), "ControllerRevision", "apps/v1",
        # No white space in data: the real server keeps its bytes, and a patch, which takes the space out, changes them.
        {"revision": 1, "data": {}}, {"revision": 7, "data": {"spec": {"template": {"x": [1, 2]}}}}, {"revision": 2},
        ({}, {"revision": -1, "data": {}}),
    ),
    Kind(
        "job", _group("batch/v1", "jobs"), "Job", "batch/v1",
        {"spec": {"template": JOB_TEMPLATE}},
        {"spec": {"parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimit": 1, "activeDeadlineSeconds": 60,
                  "ttlSecondsAfterFinished": 10, "suspend": True, "template": JOB_TEMPLATE,
                  "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}}},
        {"spec": {"parallelism": 3}},
        ({}, {"spec": {"template": TEMPLATE}}, {"spec": {"template": JOB_TEMPLATE, "parallelism": -1, "completions": -1}},
         {"spec": {"template": JOB_TEMPLATE, "completionMode": "Indexed"}},
         {"spec": {"template": JOB_TEMPLATE, "selector": {"matchLabels": {"a": "b"}}}}),
    ),
    Kind(
        "cronjob", _group("batch/v1", "cronjobs"), "CronJob", "batch/v1",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
        {"spec": {"schedule": "@hourly", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", "suspend": True, "startingDeadlineSeconds": 10,
                  "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 2, "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": JOB_TEMPLATE}}}},
        {"spec": {"suspend": True}},
        ({}, {"spec": {"schedule": "now", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}},
         {"spec": {"schedule": "* * * * *", "concurrencyPolicy": "Odd", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}}),
    ),
    Kind(
        "poddisruptionbudget", _group("policy/v1", "poddisruptionbudgets"), "PodDisruptionBudget", "policy/v1",
        {}, {"spec": {"minAvailable": "50%", "selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}, {"spec": {"maxUnavailable": 1}},
        ({"spec": {"minAvailable": 1, "maxUnavailable": 1}}, {"spec": {"minAvailable": "x"}}, {"spec": {"minAvailable": -1}},
         {"spec": {"maxUnavailable": "150%"}}, {"spec": {"minAvailable": 1.5}}),
    ),
    Kind(
        "lease", _group("coordination.k8s.io/v1", "leases"), "Lease", "coordination.k8s.io/v1",
        {}, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.123456Z", "leaseTransitions": 2}},
        {"spec": {"holderIdentity": "you"}},
        ({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}, {"spec": {"renewTime": "yesterday"}}, {"spec": {"leaseDurationSeconds": "15"}}),
    ),
    Kind(
        "role", _group("rbac.authorization.k8s.io/v1", "roles"), "Role", "rbac.authorization.k8s.io/v1",
        {}, {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]},
        {"rules": [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]},
        ({"rules": [{}]}, {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}, {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
    ),
    Kind(
        "rolebinding", _group("rbac.authorization.k8s.io/v1", "rolebindings"), "RoleBinding", "rbac.authorization.k8s.io/v1",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}},
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
         "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount", "name": "s", "namespace": "{{ns}}"}]},
        {"subjects": [{"kind": "User", "name": "w", "apiGroup": "rbac.authorization.k8s.io"}]},
        ({}, {"roleRef": {"kind": "Thing", "name": "r", "apiGroup": "x"}},
         {"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}, {"kind": "Odd", "name": ""}]}),
    ),
    Kind(
        "clusterrole", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole", "rbac.authorization.k8s.io/v1",
        {}, {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}},
        {"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]},
        ({"rules": [{"nonResourceURLs": ["/x"], "resources": ["y"], "verbs": ["get"]}]},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "clusterrolebinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "ClusterRoleBinding", "rbac.authorization.k8s.io/v1",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}},
        {"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "somebody"}]},
        {"subjects": [{"kind": "Group", "name": "gg", "apiGroup": "rbac.authorization.k8s.io"}]},
        ({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "priorityclass", "/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", "scheduling.k8s.io/v1",
        {"value": 7}, {"value": 1000000, "preemptionPolicy": "Never", "description": "d"}, {"description": "changed"},
        ({"value": 2000000000}, {"value": 1, "preemptionPolicy": "Odd"}, {"value": "7"}),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "storageclass", "/apis/storage.k8s.io/v1/storageclasses", "StorageClass", "storage.k8s.io/v1",
        {"provisioner": "example.com/p"},
        {"provisioner": "example.com/p", "parameters": {"a": "b"}, "reclaimPolicy": "Retain", "allowVolumeExpansion": True, "volumeBindingMode": "WaitForFirstConsumer", "mountOptions": ["x"]},
        {"allowVolumeExpansion": True}, ({}, {"provisioner": "p", "reclaimPolicy": "Odd", "volumeBindingMode": "Odd"}),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "csinode", "/apis/storage.k8s.io/v1/csinodes", "CSINode", "storage.k8s.io/v1",
        {"spec": {"drivers": []}}, {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]}},
        {"metadata": {"annotations": {"a": "b"}}}, ({"spec": {"drivers": [{"name": "", "nodeID": ""}]}},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "csidriver", "/apis/storage.k8s.io/v1/csidrivers", "CSIDriver", "storage.k8s.io/v1",
        {"spec": {}}, {"spec": {"attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "File"}},
        {"spec": {"requiresRepublish": True}}, ({"spec": {"volumeLifecycleModes": ["Odd"]}},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "volumeattachment", "/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", "storage.k8s.io/v1",
        {"spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}},
        {"spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}},
        {"metadata": {"annotations": {"a": "b"}}}, ({"spec": {}},),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "csistoragecapacity", _group("storage.k8s.io/v1", "csistoragecapacities"), "CSIStorageCapacity", "storage.k8s.io/v1",
        {"storageClassName": "fast"}, {"storageClassName": "fast", "capacity": "1Gi", "maximumVolumeSize": "2Gi", "nodeTopology": {"matchLabels": {"a": "b"}}},
        {"capacity": "3Gi"}, ({},),
    ),
    Kind(
        "validatingwebhookconfiguration", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1",
        {}, {"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                           "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "failurePolicy": "Ignore",
                           "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["nothing"], "operations": ["CREATE"]}]}]},
        {"metadata": {"annotations": {"a": "b"}}},
        ({"webhooks": [{}]}, {"webhooks": [{"name": "x", "sideEffects": "Some", "admissionReviewVersions": ["v9"], "clientConfig": {"url": "http://x"}, "timeoutSeconds": 60,
                                           "rules": [{"apiGroups": [], "apiVersions": [], "resources": [], "operations": ["EAT"]}]}]},
         {"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"},
                        "matchConditions": [{"name": "m", "expression": "1 +"}]}]}),
        "{{seq}}-one", "{{seq}}-full",
    ),
    Kind(
        "mutatingwebhookconfiguration", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1",
        {}, {"webhooks": [{"name": "a.example.com", "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1", "v1beta1"],
                           "clientConfig": {"url": "https://127.0.0.1:1/x"}, "failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded", "matchPolicy": "Exact",
                           "namespaceSelector": {"matchLabels": {"nothing": "here"}}, "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                           "matchConditions": [{"name": "m", "expression": "request.name == 'x'"}],
                           "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["nothing/status"], "operations": ["*"], "scope": "Namespaced"}]}]},
        {"metadata": {"annotations": {"a": "b"}}},
        ({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {}}]},),
        "{{seq}}-one", "{{seq}}-full",
    ),
)  # fmt: skip


def _life(kind: Kind) -> Sequence:
    def made(name: str, fields: Obj) -> Obj:
        metadata = {"name": name, **fields.get("metadata", {})}
        return {"apiVersion": kind.api_version, "kind": kind.kind, **fields, "metadata": metadata}

    one, small = f"{kind.path}/{kind.named}", made(kind.named, kind.small)
    # A pod keeps running after a delete until its kubelet has ended it; that is another sequence's subject.
    now = "?gracePeriodSeconds=0"
    steps: list[Step] = [
        rv(post(kind.path, small), "first"),
        get(one),
        get(f"{kind.path}?fieldSelector=metadata.name%3D{kind.named}"),
        get(one, TABLE),
        post(kind.path, small),
        patch(one, {"metadata": {"labels": {"a": "b"}}}),
        patch(one, kind.change, MERGE),
        put(one, made(kind.named, {**kind.small, "metadata": {"resourceVersion": "{{first}}"}})),
        put(one, made(kind.named, kind.small)),
        delete(one + now),
        get(one),
        delete(one + now),
        post(kind.path, made(kind.full_named, {"metadata": {"labels": {"full": "yes"}}, **kind.full})),
        get(f"{kind.path}/{kind.full_named}", TABLE),
        delete(f"{kind.path}/{kind.full_named}{now}"),
    ]
    return sequence(f"life-{kind.name}", steps)


def _wrong(kind: Kind) -> list[Sequence]:
    if not kind.wrong:
        return []
    steps = [
        post(kind.path, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": kind.named}, **fields})
        for fields in kind.wrong
    ]
    return [sequence(f"wrong-{kind.name}", steps)]


SEQUENCES = [made for kind in KINDS for made in (_life(kind), *_wrong(kind))]
