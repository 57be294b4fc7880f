"""A profile's rules about moving pods: which may move at all, and which first. They are the arguments of
MigrationController, ready to be asked for every pod, and what the user's own plugins add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes.pod import Pod
from koord.api.text.selector import EVERYTHING, LabelMatcher, compile_labels, parse_labels

SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""PriorityClasses that every cluster has."""


@dataclass(frozen=True, slots=True)
class Rules:
    args: MigrationControllerArgs
    skipped: frozenset[str]
    "The checks that the profile does without (skipEvictionGates)."
    labels: LabelMatcher
    targets: LabelMatcher
    "The nodes that pods may go to (nodeSelector)."
    priority_threshold: int | None
    "Pods of at least this priority stay."
    priority_class_missing: str = ""
    "The PriorityClass of the threshold, where the cluster has none of that name."
    filters: bool = True
    "Whether any of this keeps pods where they are (MigrationController is among the filters); else only `keeps` does."
    sorts: bool = True
    "Whether the least important pods move first; otherwise in the order of the requests."
    keeps: tuple[Callable[[Pod], str | None], ...] = ()
    "Further filters: why a pod stays."
    ranks: tuple[Callable[[Pod], float], ...] = ()
    "Further sorters, which come before koord's own order: the lowest first."

    @staticmethod
    def of(args: MigrationControllerArgs) -> Rules:
        """`args`: completed."""
        threshold = args.priority_threshold
        return Rules(
            args,
            frozenset(args.skip_eviction_gates),
            compile_labels(args.label_selector, absent=EVERYTHING),
            parse_labels(args.node_selector),
            threshold.value if threshold is not None else None,
            threshold.name if threshold is not None and threshold.value is None else "",
        )

    def with_priorities(self, classes: Mapping[str, int]) -> Rules:
        """With the threshold that a PriorityClass names looked up among those of the cluster."""
        name = self.priority_class_missing
        priority = classes.get(name, SYSTEM_CLASSES.get(name)) if name else None
        return self if priority is None else replace(self, priority_threshold=priority, priority_class_missing="")
