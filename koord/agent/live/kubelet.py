"""What kubelet knows of this node: its pods, and how it deals with CPUs.

What cannot be had leaves the last answer in force; before the first one nothing is known (None), which is not the same
as no pods.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from koord.agent.host.files import Files
from koord.agent.host.topology import Topology
from koord.agent.state import Kubelet
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import UNREADABLE
from koord.api.protocol.names import RESOURCE_CPU
from koord.api.text.cpuset import NO_CPUS, CPUSet
from koord.api.text.quantity import milli
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.errors import ApiError

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 3.0
DEFAULT_PORT: Final = 10250
STATIC: Final = "static"
_NEVER_TOLD: Final = (403, 404, 405)
"""Answers of a kubelet that keeps its configuration to itself; others come from one that is about to start."""
STATE_FILE: Final = "var/lib/kubelet/cpu_manager_state"


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[RunnablePod, ...] | None = ()
    "None before the first pod."


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: dict[str, str] | None = None
    reserved_system_cpus: str = msgspec.field(name="reservedSystemCPUs", default="")
    kube_reserved: dict[str, str] | None = None
    system_reserved: dict[str, str] | None = None
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    cgroup_driver: str = ""


class _Configz(msgspec.Struct, frozen=True):
    kubeletconfig: _Config = _Config()


def address_of(node: Node) -> str:
    """Where the node's kubelet answers, by the node's own word."""
    host = node.status.address("InternalIP") or node.status.address("Hostname") or node.metadata.name
    port = node.status.daemon_endpoints.kubelet_endpoint.port or DEFAULT_PORT
    return f"https://{host}:{port}" if ":" not in host else f"https://[{host}]:{port}"


def client_of(config: ClusterConfig, address: str) -> Client:
    """With the agent's own credentials. A kubelet signs its certificate itself, so there is nothing to check it by."""
    own = replace(config, server=address, ca_file="", ca_data=b"", insecure_skip_tls_verify=True, tls_server_name="")
    return Client(own, user_agent="koord-agent", timeout_s=TIMEOUT_S).limited(attempts=1)


class PodList:
    """Kubelet's pods. Most of the time it lists the same as before, which is not read again."""

    def __init__(self) -> None:
        self._last = b""

    async def news(self, client: Client) -> tuple[RunnablePod, ...] | None:
        """Empty where it has no pods; None where it does not answer, or lists the same as before."""
        try:
            _, _, body = await client.raw("GET", "/pods")
            if (last := blake2b(body).digest()) == self._last:
                return None
            pods = msgspec.json.decode(body, type=_Pods).items
        except (ApiError, OSError, *UNREADABLE) as error:
            log.warning("kubelet does not list its pods, the last list stays: %s", error)
            return None
        self._last = last
        return pods or ()

    def look_again(self) -> None:
        """The next answer is news, also if it is the same."""
        self._last = b""


_LEVELS: Final = {"container": "ContainerLevel", "pod": "PodLevel"}
_TOPOLOGY_POLICIES: Final = {
    "single-numa-node": "SingleNUMANode",
    "restricted": "Restricted",
    "best-effort": "BestEffort",
}


def topology_policy(policy: str, scope: str) -> str:
    """Kubelet's topology manager in the words of a NodeResourceTopology."""
    if policy not in _TOPOLOGY_POLICIES or scope not in _LEVELS:
        return "None"
    return _TOPOLOGY_POLICIES[policy] + _LEVELS[scope]


def reserved_cpus(config: _Config, topology: Topology) -> CPUSet:
    """Those that it names, else as many as it reserves for itself and the system. Only its static policy has any."""
    if config.cpu_manager_policy != STATIC:
        return NO_CPUS
    named = CPUSet.parse(config.reserved_system_cpus)
    reserved = (config.kube_reserved or {}, config.system_reserved or {})
    cpu_milli = sum(milli(reserved_map.get(RESOURCE_CPU, 0)) for reserved_map in reserved)
    return named or topology.first(-(-cpu_milli // 1000))


async def settings(client: Client, before: Kubelet | None, topology: Topology) -> Kubelet | None:
    """None while they are not known. A kubelet that keeps them back has the usual ones."""
    try:
        _, _, body = await client.raw("GET", "/configz")
        config = msgspec.json.decode(body, type=_Configz).kubeletconfig
        reserved = reserved_cpus(config, topology)
    except (ApiError, OSError, ValueError) as error:
        log.warning("kubelet does not tell its configuration, the last one stays: %s", error)
        is_kept_back = isinstance(error, ApiError) and error.code in _NEVER_TOLD
        return Kubelet() if before is None and is_kept_back else before
    return replace(
        before or Kubelet(),
        cpu_policy=config.cpu_manager_policy,
        reserved_cpus=reserved,
        cpu_options=config.cpu_manager_policy_options or {},
        topology_policy=topology_policy(config.topology_manager_policy, config.topology_manager_scope),
    )


def given_cpus(files: Files, asked: Kubelet, before: Kubelet | None) -> Mapping[str, CPUSet] | None:
    """By pod uid, what it gave away. A file that cannot be read leaves what was known before, at first nothing (None):
    those CPUs are still taken."""
    if asked.cpu_policy != STATIC:
        return {}
    try:
        return static_cpus(files.once(STATE_FILE))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("kubelet's cpu_manager_state cannot be read, what was known stays: %s", error)
        return None if before is None else before.static_cpus


def static_cpus(state: bytes) -> dict[str, CPUSet]:
    """Of kubelet's `cpu_manager_state`: by pod uid, the CPUs that it gave away."""
    content: dict[str, Any] = msgspec.json.decode(state)
    entries = content.get("entries") or {}
    given = {}
    for uid, containers in entries.items():
        cpus = NO_CPUS
        for text in containers.values():
            cpus |= CPUSet.parse(text)
        given[uid] = cpus
    return given
