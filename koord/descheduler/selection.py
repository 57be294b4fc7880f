"""Which nodes and pods a plugin looks at, as its arguments say. Selectors are compiled once, with the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from koord.api.configuration.descheduler_args import Namespaces, PodSelector
from koord.api.kubernetes.pod import Pod
from koord.api.text.selector import EVERYTHING, LabelMatcher, LabelSelector, compile_labels
from koord.descheduler.sight import Sight


def chosen_by(selector: LabelSelector | None) -> LabelMatcher:
    """What a selector of a configuration takes; everything where there is none."""
    return compile_labels(selector, absent=EVERYTHING)


def in_namespaces(namespace: str, chosen: Namespaces | None) -> bool:
    if chosen is None:
        return True
    if chosen.include:
        return namespace in chosen.include
    return namespace not in chosen.exclude


class _Selects(Protocol):
    """Arguments of a plugin that looks at some nodes and pods."""

    @property
    def node_selector(self) -> LabelSelector | None: ...
    @property
    def pod_selectors(self) -> tuple[PodSelector, ...]: ...
    @property
    def evictable_namespaces(self) -> Namespaces | None: ...


@dataclass(frozen=True, slots=True)
class Selection:
    nodes: LabelMatcher = EVERYTHING
    pods: tuple[LabelMatcher, ...] = ()
    "One of them must match; all pods where there are none."
    namespaces: Namespaces | None = None

    @staticmethod
    def of(args: _Selects) -> Selection:
        return Selection(
            chosen_by(args.node_selector),
            tuple(chosen_by(pod_selector.selector) for pod_selector in args.pod_selectors),
            args.evictable_namespaces,
        )

    @staticmethod
    def of_pods(labels: LabelSelector | None, namespaces: Namespaces | None) -> Selection:
        """As arguments of the Kubernetes descheduler's plugins say it."""
        return Selection(pods=() if labels is None else (chosen_by(labels),), namespaces=namespaces)

    def has_node(self, sight: Sight, name: str) -> bool:
        return self.nodes is EVERYTHING or self.nodes.matches(sight.nodes[name].metadata.labels)

    def nodes_of(self, sight: Sight, names: Iterable[str]) -> Sequence[str]:
        return [name for name in names if self.has_node(sight, name)]

    def has_pod(self, pod: Pod) -> bool:
        return in_namespaces(pod.metadata.namespace, self.namespaces) and self.has_labels_of(pod)

    def has_labels_of(self, pod: Pod) -> bool:
        return not self.pods or any(selector.matches(pod.metadata.labels) for selector in self.pods)
