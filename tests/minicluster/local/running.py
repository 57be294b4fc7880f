"""Pods that really run on a local node, and what can be seen of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koord.api.kinds import EVENTS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase
from koord.kube.client import Client
from koord.kube.errors import NotFound
from tests.waiting import eventually

WITHIN_S = 60.0
NAME = "here"
ROOT = f"koord-test-local-{os.getpid()}"


def left_behind() -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob(f"*/{ROOT}") if path.exists()]


def text(path: Path) -> str:
    return path.read_text().strip()


def is_there(path: Path) -> bool:
    return path.exists()


def pod(name: str, script: str, restart: str = "Never", **fields: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", script],
        "resources": resources,
        **fields.pop("container", {}),
    }
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": NAME, "restartPolicy": restart, "containers": [container], **fields},
    }


async def until_pod(client: Client, name: str, holds: Callable[[Pod], bool]) -> Pod:
    async def pod() -> Pod | None:
        stored = await client.get(PODS, name, namespace="default")
        return stored if holds(stored) else None

    reached = await eventually(pod, WITHIN_S, what=name)
    assert reached is not None
    return reached


def is_running(pod: Pod) -> bool:
    return pod.status.phase is PodPhase.RUNNING and all(
        container_status.ready for container_status in pod.status.container_statuses
    )


async def log_of(client: Client, name: str) -> str:
    _, _, body = await client.raw("GET", f"/api/v1/namespaces/default/pods/{name}/log")
    return body.decode()


async def until_log(client: Client, name: str, text: str) -> None:
    """Wait for what the pod's process writes: a pod is running a moment before its process has come so far."""

    async def is_written() -> bool:
        return await log_of(client, name) == text

    await eventually(is_written, what=text)


async def container_id_of(client: Client, name: str) -> str:
    _, _, body = await client.raw("GET", f"/api/v1/namespaces/default/pods/{name}")
    (status,) = json.loads(body)["status"]["containerStatuses"]
    runtime, _, container_id = status["containerID"].partition("://")
    assert runtime == "containerd"
    return str(container_id)


async def pids_of(client: Client, name: str) -> list[int]:
    """The processes of a running pod's container."""
    found = await client.get(PODS, name, namespace="default")
    return pids_in(found.metadata.uid, await container_id_of(client, name))


def pids_in(uid: str, container_id: str, root: str = ROOT) -> list[int]:
    (directory,) = Path(f"/sys/fs/cgroup/cpu/{root}/kubepods").glob(f"**/pod{uid}/{container_id}")
    return [int(pid) for pid in text(directory / "cgroup.procs").split()]


async def events_of(client: Client, name: str) -> dict[str, str]:
    """The notes of the pod's events by their reasons."""
    uid = (await client.get(PODS, name, namespace="default")).metadata.uid
    events = await client.list(EVENTS, namespace="default")
    return {event.reason: event.note for event in events if event.regarding.uid == uid}


async def event_of(client: Client, name: str, reason: str) -> str:
    async def note() -> str | None:
        return (await events_of(client, name)).get(reason)

    return await eventually(note, WITHIN_S, what=f"event {reason} of {name}") or ""


async def gone(client: Client, name: str) -> None:
    async def is_gone() -> bool:
        try:
            await client.get(PODS, name, namespace="default")
        except NotFound:
            return True
        return False

    await eventually(is_gone, WITHIN_S, what=name)
