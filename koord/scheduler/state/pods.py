"""Pods as the scheduler keeps them: who, what they ask for, what others may ask about them.

A `PodRecord` is made once from a decoded Pod. Everything that many pods have in common (requests, ports, terms) is
interned, so that half a million bound pods cost little more than their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from koord.api.meta import OwnerReference
from koord.api.pod import Pod
from koord.api.resources import NON_ZERO_REQUESTS, pod_requests

Amounts = tuple[tuple[str, int], ...]
"""Resource amounts, sorted by name."""


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """What the state keeps of a pod that is on a node."""

    key: str
    uid: str
    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    non_zero: tuple[int, int]
    "Requested cpu (milli) and memory (bytes), with the usual amounts where a container names none."
    ports: tuple[HostPort, ...] = ()
    priority: int = 0
    terminating: bool = False
    owner: OwnerReference | None = None
    anti_affinity: tuple[Any, ...] = ()
    "Required anti-affinity terms, compiled; opaque here."
    affinity: tuple[Any, ...] = ()
    "Other terms by which it attracts or repels others, compiled; opaque here."
    claims: tuple[str, ...] = ()


_amounts: dict[Amounts, Amounts] = {}


def requests_of(pod: Pod) -> Amounts:
    """What a pod takes from a node."""
    amounts = tuple(sorted((name, n) for name, n in pod_requests(pod).items() if n))
    return _amounts.setdefault(amounts, amounts)


def non_zero_of(pod: Pod) -> tuple[int, int]:
    found = pod_requests(pod, missing=NON_ZERO_REQUESTS)
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
