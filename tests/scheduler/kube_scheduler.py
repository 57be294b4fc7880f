"""The real kube-scheduler, asked about pod after pod: which nodes are feasible, why not the others, what scores?

It says so in its own log: scores by plugin and node at verbosity 10, the reasons and their counts when no node is left.
A pod is therefore asked three times: with its scene's profile, and with the twins that refuse every node in the end.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from koord.api.configuration.scheduler_config import SchedulerConfiguration, SchedulerProfile
from koord.api.machinery.struct import Struct
from tests.control_plane import ControlPlane, find_binary
from tests.scheduler.generate import NAMESPACE_LABELS, Scene
from tests.scheduler.generate_pod import Manifest
from tests.scheduler.profiles import PROFILES, twins

APISERVER_FLAGS: Final = (
    # Taints of nodes that no kubelet vouches for, finalizers that no controller takes away, checks of overhead.
    "--disable-admission-plugins=TaintNodesByCondition,StorageObjectInUseProtection,RuntimeClass",
)
ANSWER_WITHIN_S: Final = 30.0
PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/namespaces/{}/services",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
}
_FIELD: Final = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_COUNTED: Final = re.compile(r"(\d+) (.+)")


class Refusal(Struct):
    """What kube-scheduler said of one pod that it was not to place."""

    reasons: dict[str, int]
    "How many nodes have each reason; 0 for a reason that concerns the pod as such."
    preemptible: int
    "On how many nodes preemption might help."


class Answer(Struct):
    """What kube-scheduler said of one pod."""

    feasible: tuple[str, ...] | None
    "None where it could not be asked without changing the cluster."
    scores: dict[str, dict[str, int]]
    "By plugin and node, times weight. Only where two nodes or more are feasible."
    refusals: tuple[Refusal, ...]
    "Of each refusing twin."


@dataclass(frozen=True)
class _Line:
    message: str
    fields: dict[str, str]


class Api:
    """Requests to the API server, on one connection for each thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._port = plane.port
        self._context = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))
        self._context.load_cert_chain(plane.dir / "admin.crt", plane.dir / "admin.key")
        self._local = threading.local()

    def __call__(
        self, method: str, path: str, body: Manifest | None = None, *, absent_ok: bool = False
    ) -> dict[str, Any]:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=30)
            self._local.connection = connection
        merge = "application/merge-patch+json"
        headers = {"Content-Type": merge if method == "PATCH" else "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300 and not (absent_ok and answer.status == 404):
            raise RuntimeError(f"{method} {path}: {answer.status} {data.decode(errors='replace')[:2000]}")
        found: dict[str, Any] = json.loads(data)
        return found


class KubeScheduler:
    """A running kube-scheduler with every profile. `load` a scene, `ask` about its pods; the next scene replaces it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._api = Api(plane)
        self._log_path: Path = plane.dir / "kube-scheduler.log"
        self._pool = ThreadPoolExecutor(4)
        self._asked = 0
        self._lines: list[_Line] = []
        self._half_line = b""

    def __enter__(self) -> KubeScheduler:
        config = _configuration(self._plane)
        config_path = self._plane.dir / "scheduler.json"
        config_path.write_text(json.dumps(config))
        binary = find_binary("kube-scheduler")
        assert binary, "no kube-scheduler"
        for name, labels in NAMESPACE_LABELS.items():
            meta = {"metadata": {"name": name, "labels": labels}}
            if name == "default":
                self._api("PATCH", f"{PATHS['Namespace']}/default", meta)
            else:
                self._api("POST", PATHS["Namespace"], meta)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(binary),
                    f"--config={config_path}",
                    "--secure-port=0",
                    "--feature-gates=OpportunisticBatching=false",  # it would not score pods that look alike
                    "--v=2",
                    "--vmodule=schedule_one=10",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self._plane.dir,
            )
        self._log = self._log_path.open("rb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=60)
        self._pool.shutdown()
        self._log.close()

    def version(self) -> str:
        binary = find_binary("kube-scheduler")
        done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()[-1]

    def load(self, scene: Scene, label: str) -> None:
        """Replace all objects by a scene. `label` must be a new one: it tells this scene's nodes from older ones."""
        self._wipe()
        by_kind: dict[str, list[Manifest]] = {kind: [] for kind in PATHS}
        for manifest in scene.objects:
            if manifest["kind"] in by_kind and manifest["kind"] != "Namespace":
                by_kind[manifest["kind"]].append(_as_posted(manifest, label))
        nodes = by_kind.pop("Node")
        pods = by_kind.pop("Pod")
        self._all(self._create, [manifest for manifests in by_kind.values() for manifest in manifests])
        self._all(self._create, nodes)
        self._all(self._create, pods)
        self._all(self._finish, [manifest for manifest in scene.objects if _needs_finishing(manifest)])
        self._wait_for_nodes(len(nodes), label)

    def ask(self, pod: Manifest, profile: SchedulerProfile, *, changes_cluster: bool = False) -> Answer:
        """Its answer about a pod. If a placement would bind volumes, only the refusing twins get the request."""
        refused = [self._schedule(pod, twin.scheduler_name)[-1].fields["err"] for twin in twins(profile)]
        refusals = tuple(map(_refusal, refused))
        if changes_cluster:
            return Answer(None, {}, refusals)
        lines = self._schedule(pod, profile.scheduler_name)
        scores: dict[str, dict[str, int]] = {}
        for line in lines:
            if line.message == "Plugin scored node for pod":
                scores.setdefault(line.fields["plugin"], {})[line.fields["node"]] = int(line.fields["score"])
        feasible = {node for by_node in scores.values() for node in by_node}
        if not feasible and lines[-1].message == "Successfully bound pod to node":
            feasible = {lines[-1].fields["node"]}
        return Answer(tuple(sorted(feasible)), scores, refusals)

    def _schedule(self, pod: Manifest, scheduler: str) -> list[_Line]:
        """Have a copy of the pod scheduled, and take it away again."""
        self._asked += 1
        copy = _as_posted(pod, "")
        copy["metadata"]["name"] += f"-{self._asked}"
        copy["spec"]["schedulerName"] = scheduler
        path = PATHS["Pod"].format(copy["metadata"]["namespace"])
        self._api("POST", path, copy)
        try:
            return self._lines_of(f"{copy['metadata']['namespace']}/{copy['metadata']['name']}")
        finally:
            self._api("DELETE", f"{path}/{copy['metadata']['name']}", {"gracePeriodSeconds": 0}, absent_ok=True)

    def _lines_of(self, pod: str) -> list[_Line]:
        """What the log says of a pod, up to the end of the attempt."""
        deadline = time.monotonic() + ANSWER_WITHIN_S
        self._lines = []
        while time.monotonic() < deadline:
            data = self._half_line + self._log.read()
            *whole, self._half_line = data.split(b"\n")
            self._lines += [line for text in whole if (line := _parse(text.decode(errors="replace")))]
            mine = [line for line in self._lines if line.fields.get("pod") == pod]
            for i, line in enumerate(mine):
                if line.message in ("Successfully bound pod to node", "Unable to schedule pod; no fit; waiting"):
                    return mine[: i + 1]
                if line.message.startswith("Error scheduling pod"):
                    raise RuntimeError(f"kube-scheduler: {line.message}: {line.fields}")
            if self._process.poll() is not None:
                raise RuntimeError(f"kube-scheduler ended:\n{self._log_path.read_text(errors='replace')[-4000:]}")
            time.sleep(0.004)
        raise TimeoutError(f"kube-scheduler said nothing of {pod} within {ANSWER_WITHIN_S} s")

    def _wipe(self) -> None:
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for kind, path in PATHS.items():
            if kind == "Namespace":
                continue
            for namespace in NAMESPACE_LABELS if "{}" in path else ("",):
                self._api("DELETE", path.format(namespace), now)

    def _create(self, manifest: Manifest) -> None:
        path = PATHS[manifest["kind"]].format(manifest["metadata"].get("namespace"))
        self._api("POST", path, manifest)

    def _finish(self, manifest: Manifest) -> None:
        """What cannot be said when an object is made: that it is deleted, has ended, is available."""
        meta = manifest["metadata"]
        path = f"{PATHS[manifest['kind']].format(meta.get('namespace'))}/{meta['name']}"
        status = {key: manifest["status"][key] for key in ("phase", "containerStatuses") if key in manifest["status"]}
        self._api("PATCH", f"{path}/status", {"status": status})
        if "deletionTimestamp" in meta:
            self._api("DELETE", path, {"gracePeriodSeconds": 600})

    def _wait_for_nodes(self, number: int, label: str) -> None:
        """Until the scheduler knows all nodes of this scene, and no older ones: then it finds all of them too small.

        Pods come to it in the order in which they were made, so it knows the others by then.
        """
        probe: Manifest = {
            "metadata": {"name": "probe", "namespace": "default", "labels": {}},
            "spec": {
                "nodeSelector": {"scene": label},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9999"}}}],
            },
        }
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while time.monotonic() < deadline:
            lines = self._schedule(probe, "default-scheduler")
            if _refusal(lines[-1].fields["err"]).reasons.get("Insufficient cpu") == number:
                time.sleep(0.05)  # services and volumes come by other ways
                return
            time.sleep(0.02)
        raise TimeoutError(f"kube-scheduler does not see the {number} nodes of scene {label}")

    def _all(self, function: Any, manifests: Iterable[Manifest]) -> None:
        for _ in self._pool.map(function, manifests):
            pass


def _configuration(plane: ControlPlane) -> Manifest:
    profiles = (*PROFILES, *(twin for profile in PROFILES for twin in twins(profile)))
    config = SchedulerConfiguration(percentage_of_nodes_to_score=100, profiles=profiles).manifest()
    config["clientConnection"] = {"kubeconfig": str(plane.kubeconfig), "qps": 2000, "burst": 4000}
    config["leaderElection"] = {"leaderElect": False}
    for profile in config["profiles"]:
        # It has nothing to say of pods without resource claims, and says so in every message.
        points = profile.setdefault("plugins", {})
        for point in points.values():
            point["enabled"] = [plugin for plugin in point.get("enabled", ()) if plugin["name"] != "DynamicResources"]
        points["multiPoint"] = {"disabled": [{"name": "DynamicResources"}]}
    return config


def _as_posted(manifest: Manifest, label: str) -> Manifest:
    """As a client makes it: nothing that only the server may say, and no priority, lest pods push each other out."""
    posted = deepcopy(manifest)
    posted["metadata"].pop("deletionTimestamp", None)
    kind = posted.get("kind", "Pod")
    if kind == "Pod":
        posted["spec"].pop("priority", None)
        posted.pop("status", None)
    if kind == "Service":
        posted["spec"]["clusterIP"] = "None"
    if kind == "Node":
        posted["metadata"]["labels"]["scene"] = label
    return posted


def _needs_finishing(manifest: Manifest) -> bool:
    phase = manifest.get("status", {}).get("phase")
    ended = manifest["kind"] == "Pod" and phase in ("Succeeded", "Failed")
    resized = "containerStatuses" in manifest.get("status", {})
    return "deletionTimestamp" in manifest["metadata"] or ended or resized or manifest["kind"] == "PersistentVolume"


def _parse(text: str) -> _Line | None:
    """`I1115 06:00:00.1 1 schedule_one.go:830] "Message" key="value" number=1`."""
    head, _, rest = text.partition('] "')
    message, _, fields = rest.partition('"')
    if " schedule_one.go:" not in head:
        return None
    found = {key: json.loads(value) if value.startswith('"') else value for key, value in _FIELD.findall(fields)}
    return _Line(message, found)


def _refusal(error: str) -> Refusal:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods. preemption: 0/5 nodes are available: 2 No ...`"""
    said, _, preemption = error.partition(" preemption: ")
    text = said.partition(" nodes are available: ")[2].rstrip().removesuffix(".")
    reasons: dict[str, int] = {}
    for item in text.split(", "):
        counted = _COUNTED.fullmatch(item)
        if counted is None:
            return Refusal({text: 0}, 0)
        reasons[counted[2]] = int(counted[1])
    helpful = re.search(r"(\d+) No preemption victims found for incoming pod", preemption)
    return Refusal(reasons, int(helpful[1]) if helpful else 0)
