"""The rights that pages and acts need. The viewer's own rights decide, in pages as in acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from koord.api.protocol import names
from koord.console.shapes import ActName, Scope

OVERVIEW_PATH: Final = "/koord/overview"
"""A role that allows `get` on this path lets its users see sums and nodes."""


class Right(NamedTuple):
    """A right on resources."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        whole = f"{whole}/{self.subresource}" if self.subresource else whole
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {whole}{named}" + (f" in {self.namespace}" if self.namespace else "")

    def attributes(self) -> dict[str, object]:
        return {"resourceAttributes": {key: value for key, value in self._asdict().items() if value}}


class PathRight(NamedTuple):
    """A right on a path of the API server."""

    verb: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} on the path {self.path}"

    def attributes(self) -> dict[str, object]:
        return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}


_HERE: Final = names.NAMESPACE_KOORDINATOR


def _config_map(name: str) -> tuple[Right, ...]:
    return (
        Right("get", "configmaps", namespace=_HERE, name=name),
        Right("patch", "configmaps", namespace=_HERE, name=name),
        Right("create", "configmaps", namespace=_HERE),
    )


_RECORD: Final = (
    *_config_map(names.CONFIGMAP_CONSOLE_ACTS),
    Right("create", "events", group="events.k8s.io", namespace=_HERE),
)
_NODES: Final = (Right("list", "nodes"), Right("patch", "nodes"), Right("patch", "nodes", subresource="status"))
_PODS: Final = (Right("list", "pods"),)
_SETTINGS: Final = _config_map(names.CONFIGMAP_SLO_CONTROLLER)
_OUTLOOK: Final = (Right("list", "nodes"), *_PODS, Right("list", "nodemetrics", group="slo.koordinator.sh"))
"""What nodes would lend is calculated from these."""
_ROLLOUTS: Final = (*_SETTINGS, *_config_map(names.CONFIGMAP_ROLLOUTS), Right("list", "nodes"))
_STARTS: Final = (*_ROLLOUTS, *_OUTLOOK)
_OF_ACT: Final[Mapping[ActName, tuple[Right, ...]]] = {
    "colocation-off": (*_SETTINGS, *_NODES, *_PODS),
    "colocation-on": (*_SETTINGS, *_NODES, *_PODS),
    "thresholds": (*_SETTINGS, *_OUTLOOK),
    "policy": (*_SETTINGS, *_OUTLOOK),
    "rollout-start": _STARTS,
    "rollout-stop": _ROLLOUTS,
    "rollout-resume": _ROLLOUTS,
    "rollout-undo": (*_ROLLOUTS, *_NODES),
    "move-pod": tuple(Right(verb, "podmigrationjobs", group="scheduling.koordinator.sh") for verb in ("create", "get")),
}
COMMANDS: Final[Mapping[ActName, str]] = {
    "colocation-off": "koord colocation off",
    "colocation-on": "koord colocation on",
    "thresholds": "koord colocation thresholds",
    "policy": "koord colocation policy",
    "rollout-start": "koord colocation rollout start",
    "rollout-stop": "koord colocation rollout stop",
    "rollout-resume": "koord colocation rollout resume",
    "rollout-undo": "koord colocation rollout undo",
    "move-pod": "kubectl create -f podmigrationjob.yaml",
}
"""The command that does the same."""


def rights_of(act: ActName, scope: Scope | None = None) -> tuple[Right, ...]:
    """All rights that an act needs, with those to record it; without those to evict pods."""
    rights = _OF_ACT[act]
    if act in ("colocation-off", "colocation-on") and scope is not None and scope.nodes:
        rights = (*_NODES, *_PODS, Right("get", "configmaps", namespace=_HERE, name=names.CONFIGMAP_SLO_CONTROLLER))
    if act == "move-pod" and scope is not None and scope.pod:
        namespace, _, name = scope.pod.partition("/")
        rights = (*rights, Right("get", "pods", namespace=namespace, name=name))
    return (*rights, *_RECORD)


def evictions_in(namespaces: Iterable[str]) -> tuple[Right, ...]:
    return tuple(Right("create", "pods", namespace=name, subresource="eviction") for name in namespaces)
