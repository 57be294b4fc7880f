"""A pod as one compact row: what a scheduler keeps of the very many pods that are bound already.

`pod_row` reads only the fields that it needs, straight from the bytes, and shares what many pods have in common: node
names, namespaces, and whole sets of labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

import msgspec

from koord.api.machinery.codec import decode
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import amount
from koord.kube.store import Identity

CPU = "cpu"
MEMORY = "memory"
BATCH_CPU = "kubernetes.io/batch-cpu"
BATCH_MEMORY = "kubernetes.io/batch-memory"


class PodRow(msgspec.Struct, frozen=True, gc=False):
    key: str
    uid: str
    version: str
    node: str
    labels: tuple[tuple[str, str], ...]
    priority: int
    cpu_milli: int
    memory_bytes: int


class _Meta(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = EMPTY


class _Resources(Struct):
    requests: Mapping[str, str | int | float] = EMPTY


class _Container(Struct):
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _Spec(Struct):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: Mapping[str, str | int | float] = EMPTY
    node_name: str = ""
    priority: int = 0


class _View(Struct):
    metadata: _Meta
    spec: _Spec = _Spec()


_label_sets: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
LABEL_SETS_KEPT = 100_000


def pod_row(raw: msgspec.Raw) -> PodRow:
    view = decode(_View, memoryview(raw))
    meta, spec = view.metadata, view.spec
    return PodRow(
        f"{meta.namespace}/{meta.name}",
        meta.uid,
        meta.resource_version,
        intern(spec.node_name),
        _shared(tuple(meta.labels.items())),
        spec.priority,
        _requested(spec, CPU) or _requested(spec, BATCH_CPU),
        _requested(spec, MEMORY) or _requested(spec, BATCH_MEMORY),
    )


def identity(row: PodRow) -> Identity:
    return row.key, row.uid, row.version


def by_node(row: PodRow) -> tuple[str, ...]:
    return (row.node,) if row.node else ()


def _shared(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    shared = _label_sets.get(labels)
    if shared is None:
        if len(_label_sets) >= LABEL_SETS_KEPT:
            _label_sets.clear()
        shared = tuple((intern(key), intern(value)) for key, value in labels)
        _label_sets[shared] = shared
    return shared


def _requested(spec: _Spec, resource: str) -> int:
    """What the pod asks for: its containers and side-cars together, or its most demanding start, plus overhead."""
    running = starting = 0
    for container in spec.init_containers:
        asked = _amount(container.resources.requests, resource)
        if container.restart_policy == "Always":
            running += asked
            asked = 0
        starting = max(starting, running + asked)
    running += sum(_amount(container.resources.requests, resource) for container in spec.containers)
    return max(running, starting) + _amount(spec.overhead, resource)


def _amount(amounts: Mapping[str, str | int | float], resource: str) -> int:
    quantity = amounts.get(resource)
    return 0 if quantity is None else amount(resource, quantity)
