"""Tables and partial metadata: objects as kubectl and garbage collectors want them."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from tests.minicluster.apiserver.differential.steps import (
    APPS,
    BATCH,
    CORE,
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    Step,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    post,
    put,
    sequence,
    settled,
)

CM = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "completions": 3,
        "template": {"spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Never"}},
    },
}


def _pod_status(name: str, **status: object) -> Step:
    return patch(f"{PODS}/{name}/status", {"status": status})


def _container(**more: object) -> dict[str, object]:
    return {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 0, **more}


SEQUENCES = [
    sequence(
        "table-forms",
        post(CM, config_map("a", {"x": "1"}, labels={"l": "m"})),
        get(CM, TABLE), get(CM, KUBECTL), get(f"{CM}?includeObject=None", TABLE), get(f"{CM}?includeObject=Object", TABLE), get(f"{CM}?includeObject=Odd", TABLE),
        get(f"{CM}/a?includeObject=Object", TABLE), get(f"{CM}?limit=1", TABLE), get(f"{CM}?labelSelector=none", TABLE), get(f"{CM}/absent", TABLE),
        post(CM, config_map("b"), accept=TABLE), patch(f"{CM}/a", {"data": {"y": "2"}}, accept=TABLE), put(f"{CM}/a", config_map("a"), accept=TABLE),
        delete(f"{CM}/b", accept=TABLE), delete(CM, accept=TABLE), get(CM, "application/yaml;as=Table;v=v1;g=meta.k8s.io", shape=True),
    ),
    sequence(
        "partial-forms",
        post(CM, config_map("a", {"x": "1"}, labels={"l": "m"}, annotations={"n": "o"})),
        get(CM, PARTIAL_LIST), get(CM, PARTIAL), get(f"{CM}/a", PARTIAL), get(f"{CM}/a", PARTIAL_LIST), get(f"{CM}/absent", PARTIAL), get(f"{CM}?limit=1", PARTIAL_LIST),
        get(f"{CM}/a", f"{PARTIAL},application/json"), post(CM, config_map("b", {"x": "1"}), accept=PARTIAL), patch(f"{CM}/a", {"data": {"y": "2"}}, accept=PARTIAL),
        delete(f"{CM}/b", accept=PARTIAL), get(CM, "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io"), get(f"{APPS}/deployments", PARTIAL_LIST),
    ),
    sequence(
        "table-pods",
        *[post(PODS, pod(name)) for name in ("crash", "done", "init", "failed", "running", "waiting", "gone", "reason", "unknown", "evicted")],
        post(PODS, pod("gated", schedulingGates=[{"name": "a/b"}])),
        post(PODS, pod("two", containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], readinessGates=[{"conditionType": "example.com/x"}], initContainers=[{"name": "c", "image": "i"}])),
        _pod_status("crash", phase="Running", containerStatuses=[_container(restartCount=5, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}})]),
        _pod_status("done", phase="Succeeded", containerStatuses=[_container(state={"terminated": {"exitCode": 0, "reason": "Completed"}})]),
        _pod_status("failed", phase="Failed", containerStatuses=[_container(state={"terminated": {"exitCode": 3}})]),
        _pod_status("waiting", phase="Pending", containerStatuses=[_container(state={"waiting": {"reason": "ContainerCreating"}})]),
        _pod_status("running", phase="Running", podIP="10.5.5.5", podIPs=[{"ip": "10.5.5.5"}], nominatedNodeName="nom", conditions=[{"type": "Ready", "status": "True"}], containerStatuses=[_container(ready=True, started=True, state={"running": {"startedAt": "2020-01-01T00:00:00Z"}})]),
        _pod_status("two", phase="Pending", conditions=[{"type": "example.com/x", "status": "True"}], initContainerStatuses=[{"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 2, "state": {"waiting": {"reason": "PodInitializing"}}}]),
        _pod_status("init", phase="Pending", initContainerStatuses=[{"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 2, "state": {"terminated": {"exitCode": 1, "signal": 9}}}]),
        _pod_status("reason", phase="Failed", reason="NodeLost"),
        _pod_status("evicted", phase="Failed", reason="Evicted", message="low memory"),
        _pod_status("unknown", phase="Unknown"),
        post(f"{PODS}/gone/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "gone"}, "target": {"kind": "Node", "name": "n"}}),
        settled(f"{PODS}/gone", spec__nodeName="n"),
        delete(f"{PODS}/gone"),
        get(f"{PODS}?includeObject=None", TABLE),
    ),
    sequence(
        "table-workloads",
        post(f"{APPS}/deployments", deployment("d")),
        patch(f"{APPS}/deployments/d/status", {"status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 1}}),
        get(f"{APPS}/deployments?includeObject=None", TABLE),
        post(f"{APPS}/replicasets", {**deployment("r"), "kind": "ReplicaSet"}), get(f"{APPS}/replicasets?includeObject=None", TABLE),
        post(f"{APPS}/statefulsets", {**deployment("s"), "kind": "StatefulSet"}), get(f"{APPS}/statefulsets?includeObject=None", TABLE),
        post(f"{APPS}/daemonsets", {**deployment("t", None, nodeSelector={"a": "b"}), "kind": "DaemonSet"}), get(f"{APPS}/daemonsets?includeObject=None", TABLE),
        post(f"{BATCH}/jobs", JOB), get(f"{BATCH}/jobs?includeObject=None", TABLE),
        patch(f"{BATCH}/jobs/j/status", {"status": {"active": 2, "succeeded": 1, "startTime": "2020-01-01T00:00:00Z"}}), get(f"{BATCH}/jobs?includeObject=None", TABLE),
        patch(f"{BATCH}/jobs/j", {"spec": {"suspend": True}}),
        post(f"{BATCH}/cronjobs", {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": JOB["spec"]}}}), get(f"{BATCH}/cronjobs?includeObject=None", TABLE),
        get(f"{APPS}/deployments/d/scale", TABLE),
    ),
    sequence(
        "table-nodes",
        post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "{{seq}}", "labels": {"seq": "{{seq}}", "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}}, "spec": {"unschedulable": True}}),
        get("/api/v1/nodes?labelSelector=seq%3D{{seq}}&includeObject=None", TABLE),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.8.8.8"}, {"type": "ExternalIP", "address": "1.2.3.4"}], "nodeInfo": {"kubeletVersion": "v1.35.0", "osImage": "Linux", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2", "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}}}),
        get("/api/v1/nodes?labelSelector=seq%3D{{seq}}&includeObject=None", TABLE),
        patch("/api/v1/nodes/{{seq}}/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        get("/api/v1/nodes/{{seq}}?includeObject=None", TABLE),
        get("/api/v1/namespaces/{{ns}}?includeObject=None", TABLE),
    ),
]  # fmt: skip
