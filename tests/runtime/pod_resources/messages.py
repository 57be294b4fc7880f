"""Kubelet's pod-resources messages, built and read by their public field numbers: what a kubelet and its clients do."""

from __future__ import annotations

from typing import Any

from koord.api.machinery.protobuf import fields, message, read_varint, text, varint

OF_A_LATER_VERSION = message(99, b"of a later version")


def container(name: str, devices: dict[str, list[str]] | None = None, cpus: tuple[int, ...] = ()) -> bytes:
    told = [text(1, name), *([message(3, b"".join(map(varint, cpus)))] if cpus else [])]
    for resource, ids in (devices or {}).items():
        told.append(message(2, text(1, resource) + b"".join(text(2, id_) for id_ in ids)))
    return b"".join(told) + OF_A_LATER_VERSION


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    return (
        text(1, name)
        + text(2, namespace)
        + b"".join(message(3, container) for container in containers)
        + OF_A_LATER_VERSION
    )


def answer(*pods: bytes) -> bytes:
    return b"".join(message(1, pod) for pod in pods) + OF_A_LATER_VERSION


def read(data: bytes) -> dict[str, Any]:
    """By pod: its CPUs, and by container its CPUs and devices."""
    found: dict[str, Any] = {}
    for number, body in fields(data):
        if number == 1 and isinstance(body, bytes):
            parts = [(each, part) for each, part in fields(body) if isinstance(part, bytes)]
            names = {each: part.decode() for each, part in parts if each in (1, 2)}
            containers = dict(_container(part) for each, part in parts if each == 3)
            found[f"{names[2]}/{names[1]}"] = {"cpus": _numbers(parts, 4), "containers": containers}
    return found


def _container(body: bytes) -> tuple[str, dict[str, Any]]:
    parts = [(each, part) for each, part in fields(body) if isinstance(part, bytes)]
    devices: dict[str, list[str]] = {}
    for each, part in parts:
        if each == 2:
            told = [(one, value.decode()) for one, value in fields(part) if isinstance(value, bytes)]
            devices.setdefault(told[0][1], []).extend(value for one, value in told if one == 2)
    name = next(part.decode() for each, part in parts if each == 1)
    return name, {"cpus": _numbers(parts, 3), "devices": devices}


def _numbers(parts: list[tuple[int, bytes]], field: int) -> list[int]:
    found = []
    for each, part in parts:
        at = 0
        while each == field and at < len(part):
            number, at = read_varint(part, at)
            found.append(number)
    return found
