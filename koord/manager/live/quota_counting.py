"""Counts new pods in their quotas at admission: the requested amount in the quota's object grows with each pod.

Pods that come together for one quota are one read and one write. A write that meets another's is tried again on what
is there then.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from koord.admission.pod_quota import evaluated, quota_name
from koord.admission.quota_topology import BUILT_IN, QuotaTopology
from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.text.quantity import render
from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict

log = logging.getLogger(__name__)

TRIES: Final = 4
LIMIT_S: Final = 10.0


@dataclass(slots=True)
class _Waiting:
    pod: Pod
    answer: asyncio.Future[str]


class QuotaCounting:
    """`default`: pods that no quota claims are in the default quota. `overhead`: whether that of pods counts."""

    def __init__(self, client: Client, quotas: QuotaTopology, *, default: bool, overhead: bool) -> None:
        self._client, self._quotas, self._default, self._overhead = client, quotas, default, overhead
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def count(self, pod: Pod, namespace: str, old: Pod | None = None) -> str:
        """Why a pod's quota has no room for it; empty where it has, and the pod is counted."""
        name = quota_name(pod, namespace, self._quotas, default=self._default)
        if not name or name in BUILT_IN:
            return ""
        if old is not None and quota_name(old, namespace, self._quotas, default=self._default) == name:
            return ""
        quotas = self._quotas.named(name)
        if len(quotas) != 1:
            there = "does not exist" if not quotas else f"is the name of {len(quotas)} objects: one may have it"
            return f"metadata.labels[{names.LABEL_QUOTA_NAME}]: quota {name} {there}"
        key = quotas[0].metadata.key
        one = _Waiting(pod, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, []).append(one)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._work(key), name=f"count pods of {key}")
        try:
            async with asyncio.timeout(LIMIT_S):
                return await one.answer
        except TimeoutError:
            return f"quota {name} could not be asked within {LIMIT_S:g} seconds; try again"

    async def _work(self, key: str) -> None:
        try:
            await self._answer_all(key)
        finally:
            # Not in a callback, which comes later: a pod that comes in between would get no answer.
            del self._tasks[key]

    async def _answer_all(self, key: str) -> None:
        while batch := self._waiting.pop(key, None):
            try:
                answers = await self._counted(key, [waiting.pod for waiting in batch])
            except (ApiError, DecodeError, BadInput) as error:
                log.warning("quota %s could not be asked: %s", key, error)
                answers = [f"quota {key} could not be asked: {error}"] * len(batch)
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)

    async def _counted(self, key: str, pods: list[Pod]) -> list[str]:
        namespace, _, name = key.partition("/")
        for attempt in range(TRIES):
            quota = await self._client.get(ELASTIC_QUOTAS, name, namespace=namespace)
            before = requested = amounts(protocol.CHILD_REQUEST.read(quota.metadata), capped=True)
            answers: list[str] = []
            for pod in pods:
                evaluation = evaluated(pod, quota, requested, overhead=self._overhead)
                answers.append(evaluation.fault)
                if evaluation.child_request is not None:
                    requested = dict(evaluation.child_request)
            if requested == before:
                return answers
            text = protocol.CHILD_REQUEST.render(
                {resource: render(resource, n) for resource, n in sorted(requested.items())}
            )
            meta = {
                "uid": quota.metadata.uid,
                "resourceVersion": quota.metadata.resource_version,
                "annotations": {protocol.CHILD_REQUEST.key: text},
            }
            try:
                await self._client.patch(ELASTIC_QUOTAS, name, {"metadata": meta}, namespace=namespace)
            except Conflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return answers
        raise AssertionError("the last try returns or raises")
