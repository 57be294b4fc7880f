"""What would have to change for a pod to fit on a node: changes that judges propose, and how to try them out.

A judge knows best why it rejects a pod, so it proposes what would satisfy it (`Judge.fixes`). Whether that is enough is
always checked: before a change is proposed to a user, it is applied to the state, all judges are asked again, and the
change is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Container, Pod, ResourceRequirements
from koord.api.kubernetes.resources import pod_requests
from koord.api.kubernetes.words import RestartPolicy
from koord.api.text.quantity import amount, render

Side: TypeAlias = Literal["pod", "node", "others", "storage"]
Trial: TypeAlias = Callable[[], Callable[[], None]]
"""Makes something so on the state, and returns what takes it back."""


_SAID_BY_KUBELET: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
    }
)
_PLACES: Final = frozenset(
    f"{prefix}/{place}"
    for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io")
    for place in ("zone", "region")
)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that would be otherwise: the pod, the node, that other pods are gone, or else. Exactly one of these."""

    text: str
    "Goes on after `it would fit on <node> with`: a toleration for the taint gpu:NoSchedule."
    pod: Pod | None = None
    node: Node | None = None
    gone: tuple[str, ...] = ()
    "Keys of pods."
    because: str = ""
    "Of pods that are gone: what for."
    trial: Trial | None = None
    "How to have anything else for a moment: a volume, a driver's limit, a report."
    whose: Side = "storage"
    "Of a trial: which side would have to make the change."
    size: float = 1.0
    "How much work the change is, where one label or toleration is 1: smaller changes are proposed first."
    requests: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    "Of a pod that would request less: by resource, what it would request, and what it requests."

    @property
    def on(self) -> Side:
        if self.pod is not None:
            return "pod"
        if self.node is not None:
            return "node"
        return "others" if self.gone else self.whose

    def told_in(self, namespace: str) -> str:
        """The text for readers of one namespace: pods of others are counted, not named."""
        return f"{pods_told_in(namespace, self.gone)} gone, {self.because}" if self.gone else self.text


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = list(words)
    return f"{', '.join(most)} and {last}" if most else last


def asking_for_less(pod: Pod, requests: Mapping[str, tuple[int, int]], size: float) -> Change:
    """The pod as it then is, and of each resource the amount that it would ask for, and that it asks for."""
    less = [f"{render(name, now)} {name} instead of {render(name, before)}" for name, (now, before) in requests.items()]
    return Change(f"a request of {listed(less)}", pod=pod, size=size, requests=requests)


def without_pods(pods: Iterable[str], because: str) -> Change:
    """Other pods gone. A list of hundreds would not be read."""
    keys = sorted(pods)
    return Change(f"{_some_pods(keys)} gone, {because}", gone=tuple(keys), because=because, size=1.0 + len(keys))


def pods_told_in(namespace: str, pods: Iterable[str]) -> str:
    """Some pods by their keys, as readers of one namespace may see them. Everyone who may read a pod's namespace can
    read its events and conditions: they learn only the number of pods in other namespaces."""
    keys = sorted(pods)
    own = [key for key in keys if key.startswith(f"{namespace}/")]
    words = [_some_pods(own)] if own else []
    if others := len(keys) - len(own):
        words.append(f"{others} pod{'' if others == 1 else 's'} of other namespaces")
    return listed(words)


def _some_pods(keys: Sequence[str]) -> str:
    return listed(keys) if len(keys) <= 3 else f"{', '.join(keys[:2])} and {len(keys) - 2} more pods"


def is_the_nodes_own(node: Node, label: str) -> bool:
    """Whether only the node's kubelet sets a label: it would write the label back, and a label does not turn the node
    into another machine or move it elsewhere. A node without a zone or region may be given one."""
    return label in _SAID_BY_KUBELET or (label in _PLACES and label in node.metadata.labels)


def relabelled(node: Node, labels: Mapping[str, str | None], size: float | None = None) -> list[Change]:
    """Other labels on the node, where users may change them; None removes a label."""
    if any(is_the_nodes_own(node, label) for label in labels):
        return []
    now = {key: value for key, value in node.metadata.labels.items() if key not in labels}
    now |= {key: value for key, value in labels.items() if value is not None}
    set_ = [f"{key}={value}" for key, value in labels.items() if value is not None]
    off = [key for key, value in labels.items() if value is None]
    words = [f"the label{'s' if len(set_) > 1 else ''} {listed(set_)} on it"] if set_ else []
    words += [f"the label{'s' if len(off) > 1 else ''} {listed(off)} taken off it"] if off else []
    changed = replace(node, metadata=replace(node.metadata, labels=now))
    return [Change(listed(words), node=changed, size=float(len(labels)) if size is None else size)]


def smaller(pod: Pod, most: Mapping[str, int]) -> Pod | None:
    """The pod with requests that come to no more than `most` in all, cut where most is asked for.

    None where that is not possible: what the runtime adds is not the user's to cut.
    """
    spec = pod.spec
    for name, bound in most.items():
        left = bound - _of(spec.overhead, name)
        if left < 0:
            return None
        sidecars = sum(_asked(container, name) for container in spec.init_containers if _is_sidecar(container))
        if sidecars > left:
            return None
        containers = _cut(spec.containers, name, left - sidecars)
        inits = tuple(
            container
            if _is_sidecar(container) or _asked(container, name) <= left - sidecars
            else _with(container, name, left - sidecars)
            for container in spec.init_containers
        )
        whole = spec.resources
        if whole is not None and name in whole.requests:
            whole = replace(whole, requests={**whole.requests, name: render(name, left)})
        spec = replace(spec, containers=containers, init_containers=inits, resources=whole)
    return replace(pod, spec=spec)


def larger(pod: Pod, name: str, least: int) -> Pod:
    """The pod with requests raised to `least` in all: the container that requests most gets the rest."""
    spec, more = pod.spec, least - pod_requests(pod).get(name, 0)
    if spec.resources is not None and name in spec.resources.requests:
        whole = _grown(spec.resources, name, more)
        return replace(pod, spec=replace(spec, resources=whole))
    most = max(range(len(spec.containers)), key=lambda i: _asked(spec.containers[i], name))
    kept = list(spec.containers)
    kept[most] = replace(kept[most], resources=_grown(kept[most].resources, name, more))
    return replace(pod, spec=replace(spec, containers=tuple(kept)))


def _grown(resources: ResourceRequirements, name: str, more: int) -> ResourceRequirements:
    """With a limit that is no less than the request."""
    asked = _of(resources.requests, name) + more
    limits = resources.limits
    if name in limits and _of(limits, name) < asked:
        limits = {**limits, name: render(name, asked)}
    return replace(resources, requests={**resources.requests, name: render(name, asked)}, limits=limits)


def _cut(containers: tuple[Container, ...], name: str, most: int) -> tuple[Container, ...]:
    asked = [_asked(container, name) for container in containers]
    over = sum(asked) - most
    for i in sorted(range(len(asked)), key=lambda i: -asked[i]):
        less = min(asked[i], max(0, over))
        asked[i] -= less
        over -= less
    return tuple(
        container if _asked(container, name) == now else _with(container, name, now)
        for container, now in zip(containers, asked, strict=True)
    )


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == RestartPolicy.ALWAYS


def _of(amounts: Mapping[str, str | int | float], name: str) -> int:
    return amount(name, amounts[name]) if name in amounts else 0


def _asked(container: Container, name: str) -> int:
    return _of(container.resources.requests, name)


def _with(container: Container, name: str, number: int) -> Container:
    resources: ResourceRequirements = container.resources
    return replace(container, resources=replace(resources, requests={**resources.requests, name: render(name, number)}))
