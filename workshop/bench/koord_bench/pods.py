"""Pods as a real API server sends them: about 6 KB of JSON each, managedFields included.

`pod_json(i)` is the same bytes for the same `i`, and differs from others where pods of a cluster differ (names, UIDs,
addresses, owners, nodes, sizes, times), so that nothing is cheaper here than in life for equal strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

_TEAMS = ("checkout", "search", "ads", "media", "risk", "maps", "feed", "core")
_CPU = ("250m", "500m", "1", "2", "4")
_MEMORY = ("512Mi", "1Gi", "2Gi", "4Gi", "8Gi")
PODS_PER_APP = 20
_PODS_PER_NODE = 30


def pod_json(i: int) -> bytes:
    """The `i`-th pod, as compact JSON."""
    return json.dumps(pod(i), separators=(",", ":")).encode()


def pod_list_json(start: int, stop: int, resource_version: int = 1_000_000) -> bytes:
    """A PodList of the pods from `start` to before `stop`."""
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[' % resource_version
    return head + b",".join(pod_json(i) for i in range(start, stop)) + b"]}"


def pod(i: int) -> dict[str, Any]:
    """The `i`-th pod, as plain data: a service with a side-car. The pods of an app have one template, and every third
    app is a batch job."""
    app_number = i // PODS_PER_APP
    batch = app_number % 3 == 0
    team = _TEAMS[app_number % len(_TEAMS)]
    app = f"{team}-{'worker' if batch else 'api'}-{app_number}"
    replica_set = f"{app}-{_hex('rs', app_number, 9)}"
    created, started = _time(i), _time(i + 4)
    metadata: dict[str, Any] = {
        "name": f"{replica_set}-{_hex('pod', i, 5)}",
        "generateName": f"{replica_set}-",
        "namespace": team,
        "uid": _uid("pod", i),
        "resourceVersion": str(20_000_000 + i * 7),
        "generation": 1,
        "creationTimestamp": created,
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/part-of": team,
            "app.kubernetes.io/version": f"v1.{app_number % 40}.{app_number % 7}",
            "koordinator.sh/qosClass": "BE" if batch else "LS",
            "pod-template-hash": _hex("rs", app_number, 9),
        },
        "annotations": {
            "prometheus.io/port": "9090",
            "prometheus.io/scrape": "true",
            "scheduling.koordinator.sh/resource-status": '{"cpuset":"","numaNodeResources":[{"node":0}]}',
            "kubectl.kubernetes.io/restartedAt": _time(app_number),
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": replica_set,
                "uid": _uid("rs", app_number),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": _managed_fields(created, started),
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": _spec(i, app, team, batch),
        "status": _status(i, created, started),
    }


def replicas(numbers: range, node_of: Callable[[int], str]) -> Iterator[bytes]:
    """Pods of one template, as compact JSON without managedFields. What differs in them is written into one text, which
    is ten times as fast as to make each."""
    first = pod(numbers.start)
    del first["metadata"]["managedFields"]
    text = json.dumps(first, separators=(",", ":")).encode()
    texts_of_first = _own_texts(numbers.start, first["spec"]["nodeName"])
    for i in numbers:
        replica = text
        for before, after in zip(texts_of_first, _own_texts(i, node_of(i)), strict=True):
            replica = replica.replace(before, after)
        yield replica


def _own_texts(i: int, node: str) -> tuple[bytes, ...]:
    """Name, UID, node and times of a pod."""
    texts = (f'-{_hex("pod", i, 5)}"', _uid("pod", i), f'"{node}"', f'"{_time(i)}"', f'"{_time(i + 4)}"')
    return tuple(text.encode() for text in texts)


def _spec(i: int, app: str, team: str, batch: bool) -> dict[str, Any]:
    number = i // PODS_PER_APP
    cpu, memory = _CPU[number % len(_CPU)], _MEMORY[(number // 2) % len(_MEMORY)]
    names = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory") if batch else ("cpu", "memory")
    amounts = dict(zip(names, (str(1000 + number % 8 * 250) if batch else cpu, memory), strict=True))
    token = f"kube-api-access-{_hex('token', i, 5)}"
    mounts = [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    common = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    probe = {
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    return {
        "volumes": [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
            {
                "name": token,
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "namespace",
                                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                                    }
                                ]
                            }
                        },
                    ],
                    "defaultMode": 420,
                },
            },
        ],
        "containers": [
            {
                "name": "app",
                "image": f"images.example.com/{team}/{app}:v1.{number % 7}",
                "args": ["--listen=:8080", "--config=/etc/app/config.yaml", f"--shards={number % 16}"],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                    {"name": "TEAM", "value": team},
                    {"name": "GOMAXPROCS", "value": "4"},
                    {"name": "LOG_LEVEL", "value": "info"},
                ],
                "resources": {"limits": amounts, "requests": amounts},
                "volumeMounts": [
                    {"name": "config", "readOnly": True, "mountPath": "/etc/app"},
                    {"name": "scratch", "mountPath": "/scratch"},
                    *mounts,
                ],
                "readinessProbe": probe,
                **common,
            },
            {
                "name": "log-shipper",
                "image": "images.example.com/platform/log-shipper:2.4.1",
                "env": [{"name": "SINK", "value": f"logs.{team}.svc:9000"}],
                "resources": {
                    "limits": {"cpu": "200m", "memory": "128Mi"},
                    "requests": {"cpu": "50m", "memory": "64Mi"},
                },
                "volumeMounts": mounts,
                **common,
            },
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "serviceAccount": app,
        "nodeName": f"node-{i // _PODS_PER_NODE:05d}",
        "securityContext": {},
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            }
        },
        "schedulerName": "koord-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{condition}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for condition in ("not-ready", "unreachable")
        ],
        "priorityClassName": "koord-batch" if batch else "koord-prod",
        "priority": 5500 if batch else 9500,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status(i: int, created: str, started: str) -> dict[str, Any]:
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ip = f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"
    return {
        "phase": "Running",
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": created if type_ == "PodScheduled" else started,
            }
            for type_ in conditions
        ],
        "hostIP": f"192.168.{i // _PODS_PER_NODE >> 8 & 255}.{i // _PODS_PER_NODE & 255}",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": created,
        "containerStatuses": [
            {
                "name": name,
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "restartCount": i % 3,
                "image": f"images.example.com/{name}:v1",
                "imageID": f"images.example.com/{name}@sha256:{_hex(name, i // PODS_PER_APP, 64)}",
                "containerID": f"containerd://{_hex(name, i, 64)}",
                "started": True,
            }
            for name in ("app", "log-shipper")
        ],
        "qosClass": "Burstable",
    }


def _managed_fields(created: str, started: str) -> list[dict[str, Any]]:
    container: dict[str, Any] = {field: {} for field in (".", "f:args", "f:env", "f:image", "f:name", "f:ports")} | {
        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}},
        "f:volumeMounts": {".": {}},
    }
    spec: dict[str, Any] = {
        "f:containers": {'k:{"name":"app"}': container, 'k:{"name":"log-shipper"}': {".": {}, "f:image": {}}},
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
    }
    metadata: dict[str, Any] = {
        "f:annotations": {".": {}, "f:prometheus.io/port": {}, "f:prometheus.io/scrape": {}},
        "f:generateName": {},
        "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}},
        "f:ownerReferences": {".": {}},
    }
    conditions: dict[str, Any] = {
        f'k:{{"type":"{type_}"}}': {".": {}, "f:status": {}, "f:type": {}} for type_ in ("Ready", "Initialized")
    }
    status = {"f:conditions": conditions, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}}
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": created,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": metadata, "f:spec": spec},
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": started,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": status},
            "subresource": "status",
        },
    ]


def _hex(what: str, number: int, digits: int) -> str:
    return hashlib.sha256(f"{what}/{number}".encode()).hexdigest()[:digits]


def _uid(what: str, number: int) -> str:
    digits = _hex(what, number, 32)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _time(i: int) -> str:
    minutes, second = divmod(i, 60)
    hours, minute = divmod(minutes, 60)
    return f"2026-11-{hours // 24 % 28 + 1:02d}T{hours % 24:02d}:{minute:02d}:{second:02d}Z"
