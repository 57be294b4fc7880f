"""Asks for a pod's eviction: one write notifies the pod, and no component notifies it twice.

A write names the version of the pod that was decided on. If another writer was faster, the pod is read again and
its entry counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import LONGEST_S
from koord.api.protocol.eviction_notice import Asker, Go, Tell, Verdict, Wait, concerns, decide, withdrawal
from koord.kube.client import Client
from koord.kube.errors import Conflict

TRIES: Final = 5
AGAIN_S: Final = 1.0
"""How long until a pod that changes all the time is asked again."""


async def ask(client: Client, pod: Pod, asker: Asker, now_s: float, at_most_s: float = LONGEST_S) -> Verdict:
    """What becomes of a pod, told to it where there is something to tell. Raises what the API raises, as
    `NotFound` where the pod is gone."""
    if not concerns(pod.metadata):
        return Go("no notice")
    for _ in range(TRIES):
        verdict = decide(pod, asker, now_s, at_most_s)
        if not isinstance(verdict, Tell) or await _write(client, pod, verdict.patch, asker):
            return verdict
        present = await client.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        if present.metadata.uid != pod.metadata.uid:
            return Go("not running")
        pod = present
    return Wait(now_s + AGAIN_S)


async def withdraw(client: Client, pod: Pod, asker: Asker, now_s: float) -> bool:
    """Takes back what an asker asked for; whether there was something."""
    for _ in range(TRIES):
        patch = withdrawal(pod, asker, now_s)
        if patch is None:
            return False
        if await _write(client, pod, patch, asker):
            return True
        present = await client.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        if present.metadata.uid != pod.metadata.uid:
            return False
        pod = present
    return False


async def _write(client: Client, pod: Pod, patch: Mapping[str, Any], asker: Asker) -> bool:
    """Whether it was written: False if the pod has changed since it was read."""
    try:
        await client.patch(
            PODS,
            pod.metadata.name,
            patch,
            namespace=pod.metadata.namespace,
            type="strategic",
            subresource="status",
            field_manager=asker.by,
        )
    except Conflict:
        return False
    return True
