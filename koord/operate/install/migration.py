"""Koordinator's components and koord's on one cluster: which of them acts, and the steps that move the work.

Both know the same kinds, configuration and leases. Manager, scheduler and descheduler act only with their lease, so
that both may run and one acts. Node agents have no lease: one DaemonSet is off a node before the other comes. Webhooks
have none either: they follow the manager's lease. A workload of Koordinator's is paused, never deleted, and says itself
what it was before; so every step can be done again, and undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.lease_holders import is_anothers, is_koords
from koord.api.protocol.quota_bounds import bound_faults
from koord.api.text.whole_number import INT32_MOST, natural_number
from koord.operate.install.manifest import Json, Key, annotations_of, key_of, part_of
from koord.operate.install.settings import AGENT, COMPONENTS, DESCHEDULER, MANAGER, SCHEDULER, Component

NAMESPACE: Final = names.NAMESPACE_BESIDE_KOORDINATOR
FIELD_MANAGER: Final = "koord-migrate"
PAUSED: Final = "install.koord.sh/paused"
"""A label that no node has: a DaemonSet that selects it has no pods."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A component in Koordinator's form."""

    component: Component
    kind: Literal["Deployment", "DaemonSet"]
    name: str
    lease: str = ""
    configuration: str = ""
    "The ConfigMap with its configuration file."


THEIRS: Final = (
    Theirs(MANAGER, "Deployment", "koord-manager", names.LEASE_MANAGER),
    Theirs(SCHEDULER, "Deployment", "koord-scheduler", names.LEASE_SCHEDULER, "koord-scheduler-config"),
    Theirs(DESCHEDULER, "Deployment", "koord-descheduler", names.LEASE_DESCHEDULER, "koord-descheduler-config"),
    Theirs(AGENT, "DaemonSet", "koordlet"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """A workload of one of the two projects."""

    key: Key
    paused: bool
    pods: int
    "Existing pods, ready or not."


Acts = Literal["Koordinator", "koord", "both", "nobody"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Which project runs a component."""

    theirs: Theirs
    there: Side | None
    here: Side | None
    holder: str = ""
    "Holder of the lease; empty if the lease has no holder, or does not exist."

    @property
    def acts(self) -> Acts:
        if self.theirs.lease:
            return "koord" if is_koords(self.holder) else "Koordinator" if is_anothers(self.holder) else "nobody"
        one, other = (side is not None and side.pods > 0 for side in (self.there, self.here))
        return "both" if one and other else "Koordinator" if one else "koord" if other else "nobody"


Move = Literal[
    "install", "open", "pause", "wait", "release", "lead", "resume", "stop", "restore", "remove", "theirs lead"
]

SAYS: Final[Mapping[Move, str]] = {
    "install": "install koord's {component} in namespace {namespace}, beside Koordinator's",
    "open": "let Koordinator's webhooks be ignored while no manager answers",
    "pause": "pause Koordinator's {workload}; it stays, without pods",
    "wait": "wait until its pods are gone",
    "release": "release the lease {lease} if it was not renewed since",
    "lead": "wait until koord's {component} holds the lease {lease}",
    "resume": "let Koordinator's {workload} have its pods again",
    "stop": "stop koord's {component}, which gives its lease back",
    "restore": "let koord's agents put back what they changed on their nodes",
    "remove": "take koord's {component} away",
    "theirs lead": "wait until Koordinator's {component} holds the lease {lease}",
}

_FORTH: Final[Mapping[Component, tuple[Move, ...]]] = {
    # koord's replicas register webhooks only while koord has the lease. Until then nothing must wait for Koordinator's.
    MANAGER: ("install", "open", "pause", "wait", "release", "lead"),
    SCHEDULER: ("install", "pause", "wait", "release", "lead"),
    DESCHEDULER: ("install", "pause", "wait", "release", "lead"),
    AGENT: ("pause", "wait", "install"),
}
_BACK: Final[Mapping[Component, tuple[Move, ...]]] = {
    # Koordinator's replicas register webhooks as soon as they run, with the lease or without.
    MANAGER: ("stop", "remove", "resume", "theirs lead"),
    SCHEDULER: ("resume", "stop", "remove", "theirs lead"),
    DESCHEDULER: ("resume", "stop", "remove", "theirs lead"),
    AGENT: ("restore", "remove", "resume"),
}


def moves(component: Component, *, back: bool) -> tuple[Move, ...]:
    """The steps, in order. Each can be repeated."""
    return (_BACK if back else _FORTH)[component]


def said(move: Move, theirs: Theirs, namespace: str) -> str:
    workload = f"{theirs.kind} {theirs.name}"
    return SAYS[move].format(
        component=theirs.component.name, workload=workload, lease=theirs.lease, namespace=namespace
    )


def of_component(name: str) -> Theirs:
    return next(theirs for theirs in THEIRS if theirs.component.name == name)


def in_the_way(standing: Standing, namespace: str, *, back: bool) -> str:
    """Why a component cannot be moved; empty if it can. `namespace`: the namespace of koord's workloads."""
    theirs, there, here = standing.theirs, standing.there, standing.here
    name = theirs.component.name
    if there is None:
        how = f"koord install --components {name}" if not back else "install Koordinator's"
        return f"there is no {theirs.kind} {theirs.name} of Koordinator's on this cluster: {how}"
    if there.key.namespace != names.NAMESPACE_KOORDINATOR:
        return (
            f"Koordinator is in namespace {there.key.namespace} and has its leases there;"
            f" koord takes part in those of {names.NAMESPACE_KOORDINATOR} only"
        )
    if namespace == there.key.namespace:
        return f"koord's workloads would have the names of Koordinator's in namespace {namespace}: choose another by -n"
    if back and here is None and not there.paused:
        return f"the {name} is Koordinator's already"
    return ""


def conflicts(standings: Sequence[Standing]) -> list[str]:
    """Components that both projects run at the same time."""
    return [
        f"both have pods of the {standing.theirs.component.name}: pause one of them"
        for standing in standings
        if standing.acts == "both"
    ]


def unusable_quotas(quotas: Sequence[Json]) -> list[str]:
    """ElasticQuotas that Koordinator's scheduler uses, and koord's does not: pods in them would wait."""
    parents = {str(part_of(quota, "metadata").get("name", "")): _parent_quota(quota) for quota in quotas}
    reasons = []
    for quota in quotas:
        meta = part_of(quota, "metadata")
        try:
            least, most = (amounts(_quantities(part_of(quota, "spec", word))) for word in ("min", "max"))
            wrong = next(map(str, bound_faults(least, most)), "")
        except BadInput as error:
            wrong = str(error)
        if wrong:
            below = sum(1 for name in parents if name != meta.get("name") and meta.get("name") in _above(name, parents))
            others = f" and of {below} quota{'' if below == 1 else 's'} below it" if below else ""
            reasons.append(
                f"ElasticQuota {meta.get('namespace')}/{meta.get('name')}: {wrong}; "
                f"with koord's scheduler, new pods of this quota{others} would wait: correct it first"
            )
    return reasons


def _parent_quota(quota: Json) -> str:
    return str(part_of(quota, "metadata", "labels").get(names.LABEL_QUOTA_PARENT, ""))


def _above(name: str, parents: Mapping[str, str]) -> set[str]:
    ancestors: set[str] = set()
    while (name := parents.get(name, "")) and name not in ancestors:
        ancestors.add(name)
    return ancestors


def _quantities(listed: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in listed.items()}


def pause(workload: Json) -> Json | None:
    """The patch that removes a workload's pods; None if it is already paused."""
    if is_paused(workload):
        return None
    if workload.get("kind") == "DaemonSet":
        return _node_selector({PAUSED: "true"})
    return {
        "metadata": {"annotations": {names.OWN_ANNOTATION_REPLICAS_BEFORE: str(_replicas(workload))}},
        "spec": {"replicas": 0},
    }


def resume(workload: Json) -> Json | None:
    """The patch that restores a paused workload's pods; None if it is not paused."""
    if not is_paused(workload):
        return None
    if workload.get("kind") == "DaemonSet":
        # A map that did not exist before must not be left behind empty.
        return _node_selector({PAUSED: None} if len(_nodes_of(workload)) > 1 else None)
    before = str(annotations_of(workload).get(names.OWN_ANNOTATION_REPLICAS_BEFORE))
    return {
        "metadata": {"annotations": {names.OWN_ANNOTATION_REPLICAS_BEFORE: None}},
        "spec": {"replicas": 1 if (replicas := natural_number(before, INT32_MOST)) is None else replicas},
    }


def _node_selector(value: object) -> Json:
    return {"spec": {"template": {"spec": {"nodeSelector": value}}}}


def _nodes_of(daemon_set: Json) -> Mapping[str, object]:
    return part_of(daemon_set, "spec", "template", "spec", "nodeSelector")


def is_paused(workload: Json) -> bool:
    """Whether `pause` paused it, not a user. A workload that a user has scaled up since is not paused."""
    if workload.get("kind") != "DaemonSet":
        return names.OWN_ANNOTATION_REPLICAS_BEFORE in annotations_of(workload) and not _replicas(workload)
    return PAUSED in _nodes_of(workload)


def _replicas(deployment: Json) -> object:
    return part_of(deployment, "spec").get("replicas", 1)


def their_workload(workload: Json) -> Theirs | None:
    """The component of Koordinator that a workload is, by kind and name."""
    key = key_of(workload)
    return next((theirs for theirs in THEIRS if (theirs.kind, theirs.name) == (key.kind, key.name)), None)


def with_component(present: Sequence[str], name: str, *, back: bool) -> tuple[str, ...]:
    """koord's components afterwards, in the order in which they are rolled out."""
    wanted = {*present, name} - ({name} if back else set())
    return tuple(component.name for component in COMPONENTS if component.name in wanted)
