"""Whom kube-scheduler has go in random full clusters, kept in one file, so that it can be compared with without it.

Scenes are kept as seeds, with a digest. Of each scene one pod is asked. To record again:

    python -m tests.scheduler.preemption_recording 60
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.struct import Struct
from koord.api.text.timestamp import from_seconds
from tests.control_plane import ControlPlane
from tests.scheduler.build import NOW_S
from tests.scheduler.kube_scheduler import APISERVER_FLAGS, PATHS, KubeScheduler
from tests.scheduler.preemption_scenes import Crowd, Manifest, crowded
from tests.scheduler.reference.preemption_rules import verdict

PATH: Final = Path(__file__).parent / "data" / "preemption.json.gz"
FLAGS: Final = tuple(f"{flag},Priority" if "admission" in flag else flag for flag in APISERVER_FLAGS)
"""Priorities are given as numbers, without classes."""
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SETTLED_WITHIN_S: Final = 10.0


class Preempted(Struct):
    """What became of one pod."""

    seed: int
    digest: str
    pod: str
    node: str | None
    victims: tuple[str, ...]
    message: str
    "Why no eviction would help."


class Recording(Struct):
    version: str
    recorded_at: str
    pods: tuple[Preempted, ...]


def read() -> Recording:
    return msgspec.json.decode(gzip.decompress(PATH.read_bytes()), type=Recording)


def scene(seed: int) -> Crowd:
    """With start times that all differ: among equals kube-scheduler has no order."""
    crowd = crowded(seed)
    for i, pod in enumerate(crowd.placed):
        pod["status"]["startTime"] = from_seconds(NOW_S - 60 * (i * 7919 % 1000))
    return crowd


def asked(crowd: Crowd) -> Pod | None:
    """The first pod that fits nowhere, an important one if there is one."""
    cluster, waiting = crowd.cluster(), crowd.pods()
    nowhere = [
        pod for pod in waiting if not any(verdict(pod, node.metadata.name, cluster, None, ()) for node in cluster.nodes)
    ]
    return max(nowhere, key=lambda pod: pod.spec.priority or 0, default=None)


def record(scheduler: KubeScheduler, seed: int) -> Preempted | None:
    crowd = scene(seed)
    chosen = asked(crowd)
    if chosen is None:
        return None
    api = scheduler._api
    load(scheduler, crowd, f"crowd-{seed}")
    manifest = next(each for each in crowd.pending if each["metadata"]["name"] == chosen.metadata.name)
    path = PATHS["Pod"].format("default")
    api("POST", path, _posted(manifest))
    try:
        lines = scheduler._lines_of(chosen.metadata.key)
        message = lines[-1].fields.get("err", "")
        node, victims = outcome(scheduler, chosen.metadata.name, "preemption: " not in message)
    finally:
        api("DELETE", f"{path}/{chosen.metadata.name}", {"gracePeriodSeconds": 0}, absent_ok=True)
    said = message.partition("preemption: ")[2].rstrip('"')
    return Preempted(seed, crowd.digest(), chosen.metadata.key, node, victims, f"preemption: {said}" if said else "")


def load(scheduler: KubeScheduler, crowd: Crowd, label: str) -> None:
    api = scheduler._api
    scheduler._wipe()
    api("DELETE", BUDGETS, {})
    for node in crowd.nodes:
        node = deepcopy(node)
        node["metadata"]["labels"]["scene"] = label
        api("POST", PATHS["Node"], node)
    path = PATHS["Pod"].format("default")
    for budget in crowd.budgets:
        api("POST", BUDGETS, {key: value for key, value in budget.items() if key != "status"})
        status = {"status": {**budget["status"], "observedGeneration": 1}}
        api("PATCH", f"{BUDGETS}/{budget['metadata']['name']}/status", status)
    for pod in crowd.placed:
        api("POST", path, _posted(pod))
        api("PATCH", f"{path}/{pod['metadata']['name']}/status", {"status": pod["status"]})
    scheduler._wait_for_nodes(len(crowd.nodes), label)
    time.sleep(0.2)  # budgets and start times come by other ways


def outcome(scheduler: KubeScheduler, name: str, helped: bool) -> tuple[str | None, tuple[str, ...]]:
    """The victims, and the node: known once the pod is told its node, and victims are deleted."""
    api, path = scheduler._api, PATHS["Pod"].format("default")
    deadline = time.monotonic() + SETTLED_WITHIN_S
    seen: tuple[str | None, tuple[str, ...]] = (None, ())
    while helped and time.monotonic() < deadline:
        time.sleep(0.3)
        pods: list[dict[str, Any]] = api("GET", path)["items"]
        going = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
        node = next((p["status"].get("nominatedNodeName") for p in pods if p["metadata"]["name"] == name), None)
        now = (node, tuple(sorted(f"default/{each}" for each in going)))
        if now == seen and node and going:
            return now
        seen = now
    return seen


def _posted(pod: Manifest) -> Manifest:
    posted = deepcopy(pod)
    posted.pop("status", None)
    posted["metadata"].pop("uid")
    return posted


def main(wanted: int) -> None:
    found: list[Preempted] = []
    seed = 0
    with ControlPlane(*FLAGS) as plane, KubeScheduler(plane) as scheduler:
        while len(found) < wanted:
            one = record(scheduler, seed)
            seed += 1
            if one is not None:
                found.append(one)
                print(one, flush=True)
        version = scheduler.version()
    recording = Recording(version, from_seconds(time.time()), tuple(found))
    PATH.write_bytes(gzip.compress(msgspec.json.encode(recording, order="deterministic"), mtime=0))
    print(
        json.dumps({"pods": len(found), "helped": sum(1 for preempted in found if preempted.node), "version": version})
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
