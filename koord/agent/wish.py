"""What a strategy or hook wants: a setting of a target to have a value, and why.

Targets are named by what everybody knows of them (a band, a pod's uid, a container's name), not by where they lie. So
the same wish can be delivered by any component that finds the place: the cgroup executor for what runs, a CRI proxy or
an NRI plugin before a container exists. A setting that one way of delivery cannot set is left to the others: the
environment of a container that runs cannot be changed.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec

from koord.agent.host.knobs import Knob, Value
from koord.api.kubernetes.words import KubeQoS


class Level(Enum):
    NODE = "node"
    BAND = "band"
    "All pods of one of Kubernetes' QoS classes."
    POD = "pod"
    CONTAINER = "container"
    APPLICATION = "application"
    "A host application of the node's settings."
    CGROUP = "cgroup"
    "A directory that no pod is known for: a sandbox, a guest. Only what runs has one."


class Target(NamedTuple):
    level: Level
    name: str = ""
    "Of a band its QoS class, of a pod its uid, of a cgroup its directory."
    container: str = ""
    "Its name in the pod's spec, which it has before it has an id."

    def __str__(self) -> str:
        return " ".join(part for part in (self.level.value, self.name, self.container) if part)


NODE = Target(Level.NODE)


def band(qos: KubeQoS) -> Target:
    return Target(Level.BAND, qos.value)


def pod(uid: str) -> Target:
    return Target(Level.POD, uid)


def container(uid: str, name: str) -> Target:
    return Target(Level.CONTAINER, uid, name)


def application(name: str) -> Target:
    return Target(Level.APPLICATION, name)


def cgroup(directory: str) -> Target:
    return Target(Level.CGROUP, directory)


class Env(msgspec.Struct, frozen=True):
    """A variable of a container's environment. Its value is its text."""

    name: str


class Device(msgspec.Struct, frozen=True):
    """A device that a container may use, by its path in it. Its value is the host's path."""

    path: str
    permissions: str = "rw"


class Mount(msgspec.Struct, frozen=True):
    """Something of the host's in a container, by its path in it. Its value is the host's path."""

    path: str
    is_read_only: bool = True


class CdiDevice(msgspec.Struct, frozen=True):
    """A device by the name that a specification file of the node gives it (nvidia.com/gpu=GPU-5e...): the runtime
    brings along whatever that file says. Its value is the name."""

    name: str


Setting: TypeAlias = Knob | Env | Device | Mount | CdiDevice


class Wish(msgspec.Struct, frozen=True):
    target: Target
    setting: Setting
    value: Value | str
    by: str
    "The strategy or hook."
    why: str
    own: int | None = None
    "What kubelet sets there by the pod's spec: put back if the spec has changed since."
    is_watched: bool = False
    "Read in every round, even if it was verified lately: what another program writes there does not last."
