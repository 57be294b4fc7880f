"""Pods as the scheduler keeps them: who, what they ask for, what others may ask about them.

A `PodRecord` is made once from a decoded Pod. Everything that many pods have in common (requests, ports, terms) is
interned, so that half a million bound pods cost little more than their names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

import msgspec

from koord.api import names
from koord.api.meta import OwnerReference
from koord.api.pod import Pod, Volume
from koord.api.priority import PriorityClass, priority_class
from koord.api.resources import NON_ZERO_REQUESTS, pod_limits, pod_requests
from koord.api.timestamp import parse_timestamp
from koord.scheduler.state.terms import Held

Amounts = tuple[tuple[str, int], ...]
"""Resource amounts, sorted by name."""


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


class LoadBasis(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a pod's load is estimated from. Pods alike in this share one, so that it is compared by identity."""

    requests: Amounts
    limits: Amounts
    "Both by the spec alone, whatever the node has granted."
    priority_class: PriorityClass
    factors: str = ""
    seconds_after_initialized: str = ""
    seconds_after_scheduled: str = ""
    "The pod's own wishes, as its annotations have them."


class Shape(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a pod takes from a node. Pods of one template share one, so that it is worked out once for all of them."""

    requests: Amounts
    non_zero: tuple[int, int]
    "Requested cpu (milli) and memory (bytes), with the usual amounts where a container names none."
    ports: tuple[HostPort, ...] = ()
    gains: tuple[tuple[Hashable, int], ...] = ()
    "What the columns of a node gain by such a pod."
    of_spec: bool = False
    "Whether pods that share it have equal specs: then it stands for all of the spec."


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """What the state keeps of a pod that is on a node."""

    key: str
    uid: str
    namespace: str
    labels: Mapping[str, str]
    shape: Shape
    priority: int = 0
    terminating: bool = False
    owner: OwnerReference | None = None
    held: tuple[Held, ...] = ()
    "Terms by which it attracts or repels others."
    claims: tuple[str, ...] = ()
    "Names of the persistent volume claims that its volumes name."
    own_claims: tuple[str, ...] = ()
    "Names of the claims that are made for its ephemeral volumes."
    disks: tuple[Volume, ...] = ()
    "Volumes that only one pod may use at a time, or only readers."
    load: LoadBasis | None = None
    placed_s: float | None = None
    "When it got its node. Where the pod does not say, the time at which it is placed."
    initialized_s: float | None = None

    @property
    def requests(self) -> Amounts:
        return self.shape.requests

    @property
    def non_zero(self) -> tuple[int, int]:
        return self.shape.non_zero

    @property
    def ports(self) -> tuple[HostPort, ...]:
        return self.shape.ports


_KEPT: Final = 1 << 15
_encode: Final = msgspec.msgpack.Encoder(enc_hook=dict).encode
_shapes: dict[tuple[object, ...], Shape] = {}
_shapes_by_spec: dict[bytes, Shape] = {}


def shape_of(pod: Pod) -> Shape:
    """What a pod takes from a node.

    Encoding a spec is far cheaper than looking through it. A node's name in it, or amounts that the status grants,
    would make every pod another one: such pods share by what was worked out.
    """
    if pod.spec.node_name or pod.status.container_statuses or pod.status.init_container_statuses:
        return _shared(pod)
    text = _encode(pod.spec)
    known = _shapes_by_spec.get(text)
    if known is None:
        if len(_shapes_by_spec) >= _KEPT:
            _shapes_by_spec.clear()
        known = _shapes_by_spec[text] = _shape(pod, of_spec=True)
    return known


def _shared(pod: Pod) -> Shape:
    found = _shape(pod, of_spec=False)
    name = (found.requests, found.non_zero, found.ports)
    if len(_shapes) >= _KEPT:
        _shapes.clear()
    return _shapes.setdefault(name, found)


def _shape(pod: Pod, *, of_spec: bool) -> Shape:
    requests, non_zero = requests_of(pod), non_zero_of(pod)
    more = (("non-zero cpu", non_zero[0]), ("non-zero memory", non_zero[1]), ("pod count", 1))
    gains: list[tuple[Hashable, int]] = [(("requested", name), amount) for name, amount in requests]
    gains += [(column, amount) for column, amount in more if amount]
    return Shape(requests, non_zero, host_ports_of(pod), tuple(gains), of_spec)


_amounts: dict[Amounts, Amounts] = {}


def requests_of(pod: Pod) -> Amounts:
    """What a pod takes from a node."""
    amounts = tuple(sorted((name, n) for name, n in pod_requests(pod).items() if n))
    return _amounts.setdefault(amounts, amounts)


def non_zero_of(pod: Pod) -> tuple[int, int]:
    """Requested cpu and memory, with the usual amounts where a container names none.

    Where a pod states amounts for itself as a whole, only what is stated nowhere in it is made up.
    """
    missing = NON_ZERO_REQUESTS
    if pod.spec.resources is not None and pod.spec.resources.requests:
        stated = pod_requests(pod)
        missing = {name: amount for name, amount in missing.items() if name not in stated}
    found = pod_requests(pod, missing=missing)
    return found.get("cpu", 0), found.get("memory", 0)


def host_ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the node that a pod takes, an address of all zeros meaning every address."""
    spec = pod.spec
    containers = [*spec.containers, *(c for c in spec.init_containers if c.is_sidecar)]
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", str(port.protocol), port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )


_bases: dict[tuple[object, ...], LoadBasis] = {}
_bases_of_shapes: dict[tuple[object, ...], LoadBasis] = {}
_LOAD_ANNOTATIONS: Final = (
    names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS,
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    names.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
)


def load_basis_of(pod: Pod, shape: Shape) -> LoadBasis:
    """What a pod's load is estimated from."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    said = tuple(annotations.get(key, "") for key in _LOAD_ANNOTATIONS) if annotations else ("", "", "")
    if not shape.of_spec:
        return _new_basis(pod, said)
    key = (shape, labels.get(names.LABEL_PRIORITY_CLASS), labels.get(names.LABEL_QOS_CLASS), pod.status.qos_class, said)
    known = _bases_of_shapes.get(key)
    if known is None:
        if len(_bases_of_shapes) >= _KEPT:
            _bases_of_shapes.clear()
        known = _bases_of_shapes[key] = _new_basis(pod, said)
    return known


def _new_basis(pod: Pod, said: tuple[str, ...]) -> LoadBasis:
    requests = tuple(sorted((name, n) for name, n in pod_requests(pod, use_status=False).items() if n))
    limits = tuple(sorted((name, n) for name, n in pod_limits(pod, use_status=False).items() if n))
    key = (requests, limits, priority_class(pod), said)
    known = _bases.get(key)
    if known is None:
        if len(_bases) >= _KEPT:
            _bases.clear()
        known = _bases[key] = LoadBasis(requests, limits, priority_class(pod), *said)
    return known


def since_s(pod: Pod, condition: str) -> float | None:
    """Since when a condition of a pod has been true."""
    found = pod.status.condition(condition) if pod.status.conditions else None
    if found is None or found.status != "True" or not found.last_transition_time:
        return None
    return parse_timestamp(found.last_transition_time)


def named_claims_of(pod: Pod) -> tuple[str, ...]:
    volumes = pod.spec.volumes
    return tuple(each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim)


def own_claims_of(pod: Pod) -> tuple[str, ...]:
    return tuple(f"{pod.metadata.name}-{each.name}" for each in pod.spec.volumes if each.ephemeral)


def disks_of(pod: Pod) -> tuple[Volume, ...]:
    volumes = pod.spec.volumes
    return tuple(
        each for each in volumes if each.gce_persistent_disk or each.aws_elastic_block_store or each.iscsi or each.rbd
    )
