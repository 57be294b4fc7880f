"""Controllers on a real API server: a control plane without any others, and a kubelet of a few lines.

The kubelet binds every pod to a node name, marks it Ready, and removes it when it is deleted. An annotation on the pod
says otherwise: `test/stuck` leaves it pending, `test/exit` ends it with that exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from koord.api.kinds import PODS
from koord.api.kubernetes.core import Pod
from koord.api.text.timestamp import from_seconds
from koord.api.workloads.daemon_pods import target_node
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_minicluster.controllers.live.run import ControllersOptions, run
from tests.minicluster.controllers.conftest import Plane

NODE = "node-a"


class Kubelet:
    """Runs the pods of one namespace, in no time."""

    def __init__(self, client: Client, namespace: str, node: str = NODE, *, keep_terminating: bool = False) -> None:
        self._client, self._namespace, self._node = client, namespace, node
        self.keep_terminating = keep_terminating
        self.pods: Informer[Pod] = Informer(client, PODS, namespace=namespace)
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self.most_pods = 0
        self.fewest_ready: int | None = None
        self.pods.add_handler(self._heard)

    def _heard(self, delta: Delta[Pod]) -> None:
        alive = [p for p in self.pods.list() if p.metadata.deletion_timestamp is None and not p.is_finished]
        self.most_pods = max(self.most_pods, len(alive))
        self._queue.put_nowait(delta.key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            for _ in range(4):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            pod = self.pods.get(key)
            if pod is not None:
                with contextlib.suppress(NotFound, ApiError):
                    await self._handle(pod)

    async def _handle(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            if not self.keep_terminating:
                await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_s=0)
            return
        if pod.is_finished or "test/stuck" in meta.annotations:
            return
        if not pod.spec.node_name:
            await self._client.bind(meta.namespace, meta.name, target_node(pod) or self._node)
            return
        exit_code = meta.annotations.get("test/exit")
        if exit_code is not None:
            await self._set_status(pod, finished(int(exit_code)))
        elif pod.status.phase != "Running":
            await self._set_status(pod, running())

    async def _set_status(self, pod: Pod, status: dict[str, Any]) -> None:
        meta = pod.metadata
        await self._client.patch(
            PODS, meta.name, {"status": status}, namespace=meta.namespace, type="strategic", subresource="status"
        )


def running() -> dict[str, Any]:
    now = from_seconds(time.time())
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": now} for type_ in ("Ready", "ContainersReady")
    ]
    return {"phase": "Running", "startTime": now, "conditions": conditions}


def finished(exit_code: int) -> dict[str, Any]:
    now = from_seconds(time.time())
    ended = {"name": "app", "ready": False, "image": "app", "imageID": "", "restartCount": 0}
    state = {"terminated": {"exitCode": exit_code, "startedAt": now, "finishedAt": now}}
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "startTime": now,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
        "containerStatuses": [{**ended, "state": state}],
    }


@contextlib.asynccontextmanager
async def controllers(plane: Plane, namespace: str, options: ControllersOptions | None = None) -> AsyncIterator[Client]:
    """All controllers and a kubelet for one namespace, which is made first."""
    async with Client.from_config(str(plane.kubeconfig)) as client:
        from koord.api.kinds import NAMESPACES

        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        kubelet = Kubelet(client, namespace)
        ready = asyncio.Event()
        tasks = [
            asyncio.create_task(run(client, options=options, on_ready=ready.set)),
            asyncio.create_task(kubelet.run()),
        ]
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([*tasks, waiting], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                assert not task.done(), task.exception()
            assert ready.is_set()
            yield client
        finally:
            waiting.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, waiting, return_exceptions=True)
