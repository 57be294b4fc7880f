"""Objects in the states that tables tell apart. A second object is merged in as the status."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.builtin.case import Obj
from tests.minicluster.apiserver.builtin.cases_cluster import (
    claim,
    event,
    new_event,
    rbac,
    service,
    storage,
    volume,
    webhooks,
)
from tests.minicluster.apiserver.builtin.cases_cluster import hook as webhook
from tests.minicluster.apiserver.builtin.cases_core import config, namespace, node, secret
from tests.minicluster.apiserver.builtin.cases_workloads import (
    FINISHED,
    MET,
    budget,
    cron,
    deployment,
    job,
    lease,
    priority,
    workload,
)
from tests.minicluster.apiserver.builtin.pods import C, pod

LONG_AGO = "2020-01-01T00:00:00Z"


def container(name: str = "c", *, ready: bool = False, restarts: int = 0, last: Obj | None = None, **state: Any) -> Obj:
    status = {"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": restarts, "state": state}
    return {**status, "lastState": {"terminated": last}} if last else status


def running(*containers: Obj, phase: str = "Running", **rest: Any) -> Obj:
    return {"phase": phase, "containerStatuses": list(containers), **rest}


READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]
TWO = pod({}, {"name": "d"})
INIT = pod(initContainers=[{**C, "name": "i"}, {**C, "name": "j"}])
SIDECAR = pod(initContainers=[{**C, "name": "s", "restartPolicy": "Always"}])
UP: dict[str, Any] = {"running": {"startedAt": LONG_AGO}}
ENDED = {"exitCode": 0, "finishedAt": LONG_AGO}

SAMPLES: list[tuple[str, Obj, Obj | None]] = [
    ("pending", pod(), None),
    (
        "running",
        pod(nodeName="n1"),
        running(container(ready=True, **UP), podIPs=[{"ip": "10.1.2.3"}], podIP="10.1.2.3", conditions=READY),
    ),
    ("gated", pod(schedulingGates=[{"name": "x"}]), None),
    ("half ready", TWO, running(container(ready=True, **UP), container("d", **UP))),
    ("creating", pod(), running(container(waiting={"reason": "ContainerCreating"}), phase="Pending")),
    (
        "crash loop",
        pod(),
        running(
            container(waiting={"reason": "CrashLoopBackOff"}, restarts=3, last={"exitCode": 1, "finishedAt": LONG_AGO})
        ),
    ),
    ("restarted without a time", pod(), running(container(ready=True, restarts=2, **UP))),
    (
        "succeeded",
        pod(restartPolicy="Never"),
        running(container(terminated={**ENDED, "reason": "Completed"}), phase="Succeeded"),
    ),
    ("failed", pod(restartPolicy="Never"), running(container(terminated={"exitCode": 3}), phase="Failed")),
    ("killed", pod(), running(container(terminated={"exitCode": 137, "signal": 9}))),
    (
        "completed but one runs",
        TWO,
        running(container(terminated={"exitCode": 0, "reason": "Completed"}), container("d", ready=True, **UP)),
    ),
    (
        "completed but one runs and ready",
        TWO,
        running(
            container(terminated={"exitCode": 0, "reason": "Completed"}),
            container("d", ready=True, **UP),
            conditions=READY,
        ),
    ),
    (
        "one of two failed",
        TWO,
        running(
            container(terminated={"exitCode": 0, "reason": "Completed"}),
            container("d", terminated={"exitCode": 1, "reason": "Error"}),
        ),
    ),
    ("evicted", pod(), {"phase": "Failed", "reason": "Evicted"}),
    (
        "first init",
        INIT,
        running(
            phase="Pending",
            initContainerStatuses=[container("i", **UP), container("j", waiting={"reason": "PodInitializing"})],
        ),
    ),
    (
        "second init",
        INIT,
        running(
            phase="Pending",
            initContainerStatuses=[
                container("i", terminated=ENDED),
                container("j", waiting={"reason": "PodInitializing"}),
            ],
        ),
    ),
    (
        "init waits",
        INIT,
        running(phase="Pending", initContainerStatuses=[container("i", waiting={"reason": "ImagePullBackOff"})]),
    ),
    (
        "init failed",
        INIT,
        running(
            phase="Pending", initContainerStatuses=[container("i", terminated={"exitCode": 2}, restarts=4, last=ENDED)]
        ),
    ),
    (
        "init failed with a reason",
        INIT,
        running(phase="Pending", initContainerStatuses=[container("i", terminated={"exitCode": 2, "reason": "Error"})]),
    ),
    (
        "initialized",
        INIT,
        running(
            container(ready=True, **UP),
            initContainerStatuses=[container("i", terminated=ENDED, restarts=4), container("j", terminated=ENDED)],
            conditions=INITIALIZED,
        ),
    ),
    (
        "sidecar",
        SIDECAR,
        running(
            container(ready=True, **UP),
            initContainerStatuses=[{**container("s", ready=True, restarts=2, last=ENDED, **UP), "started": True}],
        ),
    ),
    (
        "readiness gates",
        pod(readinessGates=[{"conditionType": "a"}, {"conditionType": "b"}]),
        {"phase": "Running", "nominatedNodeName": "n2", "conditions": [{"type": "a", "status": "True"}]},
    ),
    ("unknown", node(), None),
    (
        "ready",
        node({"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}}),
        {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {
                "kubeletVersion": "v1.35.0",
                "osImage": "Linux",
                "kernelVersion": "6.1",
                "containerRuntimeVersion": "containerd://2",
            },
        },
    ),
    ("cordoned", node(unschedulable=True), {"conditions": [{"type": "Ready", "status": "False"}]}),
    ("active", namespace(), None),
    ("three keys", config(data={"a": "b", "c": "d"}, binaryData={"e": "eA=="}), None),
    ("none", config(), None),
    ("opaque", secret(data={"a": "eA=="}), None),
    ("an account", {"apiVersion": "v1", "kind": "ServiceAccount"}, None),
    ("cluster ip", service(selector={"b": "c", "a": "b"}), None),
    ("headless", service(clusterIP="None", ports=None, selector={"a": "b"}), None),
    ("external name", service(type="ExternalName", externalName="example.com", ports=None), None),
    ("load balancer", service(type="LoadBalancer"), None),
    (
        "endpoints",
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "subsets": [{"addresses": [{"ip": f"1.2.3.{i}"} for i in range(5)], "ports": [{"port": 80}]}],
        },
        None,
    ),
    ("no endpoints", {"apiVersion": "v1", "kind": "Endpoints"}, None),
    ("pending", claim(), None),
    (
        "bound",
        claim(volumeName="v", storageClassName="fast"),
        {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
    ),
    ("available", volume(storageClassName="fast"), {"phase": "Available"}),
    ("claimed", volume(claimRef={"namespace": "n", "name": "c"}), None),
    (
        "old",
        event(
            type="Warning",
            count=3,
            firstTimestamp=LONG_AGO,
            lastTimestamp=LONG_AGO,
            source={"component": "kubelet", "host": "n1"},
        ),
        None,
    ),
    ("bare", event(message=" padded "), None),
    (
        "new",
        new_event(
            eventTime="2020-01-01T00:00:00.000000Z",
            note="done",
            series={"count": 4, "lastObservedTime": "2021-01-01T00:00:00.000000Z"},
        ),
        None,
    ),
    ("fresh", deployment(), None),
    (
        "rolling",
        deployment(replicas=3),
        {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
    ),
    ("a set", workload("ReplicaSet", replicas=2), {"replicas": 2, "readyReplicas": 1}),
    (
        "a daemon",
        workload(
            "DaemonSet",
            template={
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [C], "nodeSelector": {"b": "c", "a": "b"}},
            },
        ),
        {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1, "numberMisscheduled": 0},
    ),
    ("a stateful one", workload("StatefulSet"), {"replicas": 1, "readyReplicas": 1}),
    (
        "a revision",
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "revision": 7,
            "data": {"a": 1},
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
                ]
            },
        },
        None,
    ),
    ("fresh", job(), None),
    ("started", job(parallelism=3, completions=None), {"startTime": LONG_AGO, "active": 1}),
    ("complete", job(), FINISHED),
    ("criteria met", job(), {"startTime": LONG_AGO, "conditions": [MET]}),
    ("suspended", job(suspend=True), {"conditions": [{"type": "Suspended", "status": "True"}]}),
    ("cron", cron(timeZone="UTC"), {"lastScheduleTime": LONG_AGO, "active": [{"kind": "Job", "name": "j"}]}),
    ("cron that never ran", cron(suspend=True), None),
    (
        "min",
        budget(minAvailable=2),
        {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    ),
    ("max", budget(maxUnavailable="30%"), None),
    ("held", lease(holderIdentity="me"), None),
    ("a class", priority(value=5), None),
    (
        "storage",
        storage(
            "StorageClass",
            provisioner="x",
            metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        ),
        None,
    ),
    ("driver", storage("CSIDriver", spec={"tokenRequests": [{"audience": "a"}]}), None),
    ("drivers of a node", storage("CSINode", spec={"drivers": [{"name": "d", "nodeID": "n"}]}), None),
    ("capacity", storage("CSIStorageCapacity", storageClassName="x", capacity="1Gi"), None),
    ("no capacity", storage("CSIStorageCapacity", storageClassName="x"), None),
    (
        "attachment",
        storage("VolumeAttachment", spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}),
        {"attached": True},
    ),
    ("role", rbac("Role", rules=[]), None),
    ("cluster role", rbac("ClusterRole", rules=[]), None),
    (
        "binding",
        rbac(
            "RoleBinding",
            roleRef={"kind": "Role", "name": "r"},
            subjects=[
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        ),
        None,
    ),
    ("cluster binding", rbac("ClusterRoleBinding", roleRef={"kind": "ClusterRole", "name": "r"}), None),
    ("mutating", webhooks("Mutating", webhook()), None),
    ("validating", webhooks("Validating"), None),
    ("runtime", {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}, None),
    (
        "quota",
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "10"}}},
        {"hard": {"pods": "10", "limits.cpu": "4"}, "used": {"pods": "2"}},
    ),
    ("limits", {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}}, None),
    (
        "template",
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}},
        },
        None,
    ),
    (
        "controller",
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}}},
        },
        None,
    ),
]

CANDIDATE_FIELDS = (
    "metadata.name", "metadata.namespace", "name", "type", "reason", "source", "reportingComponent",
    "reportingController", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
    "spec.hostNetwork", "spec.unschedulable", "spec.clusterIP", "spec.type", "spec.host", "spec.replicas",
    "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName", "status.replicas",
    "status.successful", "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
    "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
    "regarding.resourceVersion", "regarding.fieldPath", "spec.signerName",
)  # fmt: skip
