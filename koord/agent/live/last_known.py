"""What a node's agent knew last, kept on disk: the next one goes on by it until the API server and kubelet answer.

Without it, an agent that starts while the API server is away would protect no service. It is kept before it is acted
on. It is not used if it is older than a day, or if the record of changes names a pod that is here and not in it: that
pod came later, and what was set for it would be put back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.agent.executor.ledger import Entry
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.layout import pods_in
from koord.agent.live.keeping import replace_in_room
from koord.agent.pods import AgentPod
from koord.agent.state import Kubelet
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import UNREADABLE
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.text.cpuset import CPUSet

log = logging.getLogger(__name__)

FILE: Final = "last-known.json"
OLDEST_S: Final = 24 * 3600.0


class LastKnown(msgspec.Struct, frozen=True, rename="camel"):
    at_s: float
    "When it was kept, in everybody's time."
    node: Node
    slo: NodeSLO | None
    "None where the API server had none."
    kubelet: Kubelet
    pods: dict[str, AgentPod]

    def is_of(self, node: str, now_s: float) -> bool:
        """Whether it is about this node, and young enough."""
        return self.node.metadata.name == node and abs(now_s - self.at_s) < OLDEST_S


def read_last_known(directory: Path) -> LastKnown | None:
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=LastKnown, dec_hook=_decoded)
    except FileNotFoundError:
        return None
    except (*UNREADABLE, OSError) as error:
        log.warning("%s cannot be used: %s; the agent waits for the API server and kubelet", directory / FILE, error)
        return None


def strangers(
    pods: Mapping[str, AgentPod], record: Iterable[Entry], cgroups: Cgroups, driver: CgroupDriver
) -> set[str]:
    """Directories of pods that are here and in the record of changes, and not among these pods."""
    others = {directory for directory, _ in pods_in(cgroups, driver)} - {pod.directory for pod in pods.values()}
    recorded = {f"{entry.directory}/" for entry in record}
    return {other for other in others if any(directory.startswith(f"{other}/") for directory in recorded)}


class LastKnownFile:
    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self._trouble = ""
        "Why it could not be written, in the last log message."

    def save(self, last_known: LastKnown) -> None:
        """Until the disk takes it, the last one that it took stays."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_in_room(self._file, msgspec.json.encode(last_known, enc_hook=_encoded))
            trouble = ""
        except OSError as error:
            trouble = str(error)
        if trouble and not self._trouble:
            log.warning("%s cannot be written: %s; an agent that starts now knows an older state", self._file, trouble)
        self._trouble = trouble


def _encoded(value: object) -> object:
    if isinstance(value, CPUSet):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value)} is not kept")


def _decoded(wanted: type, value: Any) -> object:
    if wanted is CPUSet:
        return CPUSet.parse(value)
    raise NotImplementedError(f"{wanted} is not kept")
