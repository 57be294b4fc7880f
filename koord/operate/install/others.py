"""Other systems on the cluster: how each is recognized, and what it means for koord.

Two agents that write the same names on nodes, or the same cgroups, undo each other's work: the other system keeps
koord's own half from being installed. Koordinator takes part in the same elections, so that one of the two acts at a
time, except for its node agent, since agents have no election. Components that `koord migrate` has
replaced do not count. Autoscalers and queues are neighbours. `koord install` refuses because of this list, and `koord
check` reports all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from koord.api.kinds import CONFIG_MAPS
from koord.api.protocol import names
from koord.operate.install.manifest import Json, Key, key_of, labels_of, part_of
from koord.operate.install.migration import is_paused
from koord.operate.install.settings import AGENT, MANAGER, Settings

Relation = Literal["clashes", "alternates", "beside"]
"""Clashes: both write the same fields. Alternates: a shared election lets one of them act. Beside: independent work."""
PAGE: Final = "docs/beside-other-systems.md"
LENDING: Final = (MANAGER.name, AGENT.name)
"""The components that write the same fields on nodes as a clashing system."""


@dataclass(frozen=True, slots=True)
class System:
    what: str
    known_by: frozenset[str]
    "Names of its workload, of a container or an image, or values of the labels that name a program."
    relation: Relation
    why: str
    how: str
    clashes_with: tuple[str, ...] = LENDING
    "The components of koord that it clashes with, if it does."


def _koordinator(part: str, name: str) -> System:
    how = f"koord takes part in the same elections, so only one acts at a time; koord migrate {part} takes over"
    return System(f"Koordinator's {part}", frozenset({name}), "alternates", "it does the same work as koord", how)


KOORDLET: Final = System(
    "Koordinator's node agent",
    frozenset({"koordlet"}),
    "clashes",
    "it writes the cgroups of pods, as koord's agent does, and node agents have no election",
    "koord migrate agent takes over",
    (AGENT.name,),
)
_AUTOSCALES: Final = "nodes that it takes away get no pods; pods that ask it to stay are not moved"
CLUSTER_AUTOSCALER: Final = System(
    "Cluster Autoscaler",
    frozenset({"cluster-autoscaler"}),
    "beside",
    _AUTOSCALES,
    f"see {PAGE}",
)
KARPENTER: Final = System(
    "Karpenter",
    frozenset({"karpenter"}),
    "beside",
    _AUTOSCALES,
    f"see {PAGE}",
)
KUEUE: Final = System(
    "Kueue",
    frozenset({"kueue", "kueue-controller-manager"}),
    "beside",
    "pods count in koord's quotas once Kueue has admitted them; the limits of both hold",
    f"see {PAGE}",
)
SYSTEMS: Final = (
    KOORDLET,
    _koordinator("manager", "koord-manager"),
    _koordinator("scheduler", "koord-scheduler"),
    _koordinator("descheduler", "koord-descheduler"),
    System(
        "Volcano's node agent",
        frozenset({"volcano-agent", "vc-agent"}),
        "clashes",
        f"it writes {names.RESOURCE_BATCH_CPU} and {names.RESOURCE_BATCH_MEMORY} on nodes and the cgroups of pods,"
        " as koord does; each would undo what the other wrote",
        "take it away first (Volcano's scheduler may stay), or install koord's scheduler alone:"
        " --components scheduler,descheduler",
    ),
    System(
        "Katalyst's node agent",
        frozenset({"katalyst-agent"}),
        "clashes",
        "it writes the cgroups of pods, as koord does; each would undo what the other wrote",
        "take it away first, or install koord's scheduler alone: --components scheduler,descheduler",
    ),
    CLUSTER_AUTOSCALER,
    KARPENTER,
    KUEUE,
)

BY_GROUP: Final = {"karpenter.sh": KARPENTER, "kueue.x-k8s.io": KUEUE}
"""Systems that a provider may run outside the cluster, by their API groups."""
AUTOSCALER_STATUS: Final = Key(CONFIG_MAPS.api_version, CONFIG_MAPS.kind, "cluster-autoscaler-status", "kube-system")
"""Cluster Autoscaler keeps its state in this ConfigMap, wherever it runs."""
_NAMING_LABELS: Final = ("name", "app", "k8s-app", "app.kubernetes.io/name")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A system, and the object that proves its presence."""

    system: System
    proof: str

    def __str__(self) -> str:
        return f"{self.system.what} ({self.proof})"


def neighbour(workload: Json) -> Neighbour | None:
    """The system in the list that a workload belongs to, if any. Callers leave out koord's own workloads."""
    if is_paused(workload):
        return None
    own_names = {*_names(workload)}
    for system in SYSTEMS:
        if system.known_by & own_names:
            return Neighbour(system, str(key_of(workload)))
    return None


def _names(workload: Json) -> Iterator[str]:
    yield key_of(workload).name
    spec = part_of(workload, "spec")
    template = part_of(spec, "template")
    for labels in (labels_of(workload), labels_of(template)):
        yield from (str(labels[label]) for label in _NAMING_LABELS if label in labels)
    containers = part_of(template, "spec").get("containers")
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, Mapping):
            yield str(container.get("name", ""))
            image = str(container.get("image", "")).partition("@")[0]
            yield image.rpartition("/")[2].partition(":")[0]


def refusals(neighbours: Sequence[Neighbour], settings: Settings, installed: Settings | None) -> list[str]:
    """Why koord's manager and agent must not be added to this cluster. Components already installed are not
    blocked: an upgrade may fix the cluster."""
    before = installed.components if installed is not None else ()
    added = {*settings.components} - {*before}
    clashing = [
        other
        for other in neighbours
        if other.system.relation == "clashes" and not added.isdisjoint(other.system.clashes_with)
    ]
    return [f"{other.proof} is {other.system.what}: {other.system.why}; {other.system.how}" for other in clashing]
