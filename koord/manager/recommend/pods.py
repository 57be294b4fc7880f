"""What is kept of pods to recommend requests: few fields, read straight from bytes.

Pods of one workload have the same labels and requests, which are therefore kept once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.owners import REVISION_HASH, TEMPLATE_HASH, Workload, workloads_of
from koord.api.kubernetes.pod import Container, ContainerState, Pod, PodCondition, PodSpec
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.recommendation_target import Target
from koord.api.text.quantity import QuantityError, ResourceList
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.manager.node_state import BATCH, MID

OOM_KILLED: Final = "OOMKilled"
NATIVE: Final = (names.RESOURCE_CPU, names.RESOURCE_MEMORY)
LENT: Final = (BATCH, MID)
"""What pods of the lower bands request instead of CPU and memory."""


class _Status(Struct):
    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class _PodStatus(Struct):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[_Status, ...] = ()
    init_container_statuses: tuple[_Status, ...] = ()


class _PodSpec(Struct):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class _Pod(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class ContainerFacts(Struct):
    name: str
    cpu_milli: int
    "Requested; 0 if not."
    memory_bytes: int
    limit_bytes: int
    "Of memory; 0 without a limit."
    limit_milli: int = 0
    "Of CPU; likewise."
    asks_for: tuple[str, str] = NATIVE
    "The resources that stand for its CPU and memory."
    is_sidecar: bool = False
    "An init container that goes on running."


class Kill(Struct):
    """A container that was killed for memory."""

    container: str
    at_s: float


class PodFacts(Struct):
    key: str
    uid: str
    version: str
    node: str
    labels: Mapping[str, str]
    workloads: tuple[Workload, ...]
    revision: str
    "Of the template that it was made from; empty where its controller does not tell."
    is_ready: bool
    "It runs, is ready and stays."
    containers: tuple[ContainerFacts, ...]
    "Those that run side by side: sidecars too, and no other init containers."
    kills: tuple[Kill, ...] = ()
    has_failed: bool = False
    "It runs no more: of what becomes of its workload it says only why it ended."

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    def is_of(self, target: Target) -> bool:
        return target.concerns(self.namespace, self.labels, self.workloads)


def pod_facts(raw: msgspec.Raw | bytes) -> PodFacts:
    pod = decode(_Pod, memoryview(raw))
    meta = pod.metadata
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    return PodFacts(
        meta.key,
        meta.uid,
        meta.resource_version,
        pod.spec.node_name,
        _shared(tuple(meta.labels.items())),
        workloads_of(meta),
        meta.labels.get(TEMPLATE_HASH) or meta.labels.get(REVISION_HASH, ""),
        ready and pod.status.phase == "Running" and meta.deletion_timestamp is None,
        tuple(_containers(pod.spec)),
        tuple(_kills((*pod.status.container_statuses, *pod.status.init_container_statuses))),
        pod.status.phase == PodPhase.FAILED,
    )


def facts_of(pod: Pod) -> PodFacts:
    """Of a pod that was read whole. Kills are not in it."""
    meta = pod.metadata
    return PodFacts(
        meta.key,
        meta.uid,
        meta.resource_version,
        pod.spec.node_name,
        meta.labels,
        workloads_of(meta),
        "",
        True,
        tuple(_containers(pod.spec)),
    )


def _containers(spec: _PodSpec | PodSpec) -> Iterable[ContainerFacts]:
    yield from map(_container, spec.containers)
    yield from (_container(container) for container in spec.init_containers if container.is_sidecar)


def _container(container: Container) -> ContainerFacts:
    requests, limits = _amounts(container.resources.requests), _amounts(container.resources.limits)
    cpu, memory = next((lent for lent in LENT if not (requests.keys() | limits.keys()).isdisjoint(lent)), NATIVE)
    return ContainerFacts(
        container.name,
        requests.get(cpu, 0),
        requests.get(memory, 0),
        limits.get(memory, 0),
        limits.get(cpu, 0),
        (cpu, memory),
        container.is_sidecar,
    )


def _amounts(resources: ResourceList) -> dict[str, int]:
    try:
        return amounts(resources, capped=True)
    except QuantityError:
        return {}


def _kills(statuses: Iterable[_Status]) -> Iterable[Kill]:
    for status in statuses:
        for state in (status.state, status.last_state):
            ended = state.terminated
            if ended is not None and ended.reason == OOM_KILLED and ended.finished_at:
                try:
                    yield Kill(status.name, parse_timestamp(ended.finished_at))
                except TimestampError:
                    continue


@lru_cache(16384)
def _shared(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(labels)
