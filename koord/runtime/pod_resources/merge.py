"""Kubelet's answer with what the scheduler gave added: functions of bytes.

The scheduler gives to pods, not to containers: the first container has it all, as Koordinator tells it, and the pod its
CPUs. Where kubelet names a device already, it is not named twice. Where the scheduler gave CPUs, those that kubelet's
static policy chose are not the ones that the pod runs on, and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord.api.machinery.messages import Message, at, decode, encode
from koord.api.machinery.protobuf import varint
from koord.api.protocol.pod_resources import Given


@dataclass(slots=True)
class ContainerDevices(Message):
    resource_name: str = at(1, "")
    device_ids: list[str] = at(2, list)


@dataclass(slots=True)
class ContainerResources(Message):
    name: str = at(1, "")
    devices: list[ContainerDevices] = at(2, list)
    cpu_ids: bytes = at(3, b"")
    "Numbers one after the other, as proto3 writes them."


@dataclass(slots=True)
class PodResources(Message):
    name: str = at(1, "")
    namespace: str = at(2, "")
    containers: list[ContainerResources] = at(3, list)
    cpu_ids: bytes = at(4, b"")


@dataclass(slots=True)
class Answer(Message):
    """To List and to Get, which has one."""

    pod_resources: list[PodResources] = at(1, list)


def with_given(answer: bytes, given: Mapping[str, Given]) -> bytes:
    """Byte for byte the same if no container was given anything. Raises MessageError for an invalid message."""
    decoded = decode(Answer, answer)
    concerned = [(pod, own) for pod in decoded.pod_resources if (own := given.get(f"{pod.namespace}/{pod.name}"))]
    for pod, own in concerned:
        _add(pod, own)
    return encode(decoded) if concerned else answer


def _add(pod: PodResources, own: Given) -> None:
    if own.cpus:
        pod.cpu_ids = b"".join(map(varint, own.cpus))
        for container in pod.containers:
            container.cpu_ids = b""
    for first in pod.containers[:1]:
        first.cpu_ids = pod.cpu_ids if own.cpus else first.cpu_ids
        present = {identity for devices in first.devices for identity in devices.device_ids}
        for device in own.devices:
            new = [identity for identity in device.ids if identity not in present]
            if new:
                first.devices.append(ContainerDevices(device.resource, new))
