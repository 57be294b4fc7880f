"""PodDisruptionBudgets: which pods they mean, and how many of these may still be disturbed.

As for kube-scheduler, a budget without a selector, or with an empty one, means no pod, and so does one whose selector
makes no sense. A pod whose eviction the API server has granted already counts no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.text.selector import NOTHING, LabelMatcher, SelectorError, compile_labels
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.selector_index import SelectorIndex


@dataclass(frozen=True, eq=False, slots=True)
class Budget:
    name: str
    pods: LabelMatcher
    allowed: int
    "How many of its pods may be disturbed now."
    granted: Mapping[str, object]
    "Names of pods that are counted as disturbed already."


class Budgets:
    """All budgets of a cluster, by the pods that they mean."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._index: dict[str, SelectorIndex[str]] = {}
        self.version = 0
        "Another number after every change."

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def put(self, given: PodDisruptionBudget) -> None:
        """A budget was added or has changed."""
        namespace, name, status = given.metadata.namespace, given.metadata.name, given.status
        try:
            pods = compile_labels(given.spec.selector, absent=NOTHING)
        except SelectorError:
            pods = NOTHING
        if not pods.requirements:
            pods = NOTHING
        old = self._budgets.get(namespace, {}).get(name)
        granted = dict(status.disrupted_pods)
        if old is not None and (old.pods, old.allowed, old.granted) == (pods, status.disruptions_allowed, granted):
            return
        self.remove(namespace, name)
        if pods is not NOTHING:
            self._budgets.setdefault(namespace, {})[name] = Budget(name, pods, status.disruptions_allowed, granted)
            self._index.setdefault(namespace, SelectorIndex()).add(name, pods)
            self.version += 1

    def remove(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        old = self._budgets.get(namespace, {}).pop(name, None)
        if old is not None:
            self._index[namespace].remove(name, old.pods)
            if not self._budgets[namespace]:
                del self._budgets[namespace], self._index[namespace]
            self.version += 1

    def of(self, record: PodRecord) -> list[Budget]:
        """The budgets that mean a pod, and whose allowance it would use up."""
        index = self._index.get(record.namespace)
        if index is None or not record.labels:
            return []
        budgets, pod = self._budgets[record.namespace], record.key.rpartition("/")[2]
        likely = [budgets[name] for name in dict.fromkeys(index.likely(record.labels))]
        return [budget for budget in likely if budget.pods.matches(record.labels) and pod not in budget.granted]

    def violated(self, records: Sequence[PodRecord]) -> list[bool]:
        """Whether each of some pods would be one too many, if they were taken away in this order."""
        if not self._budgets:
            return [False] * len(records)
        left: dict[Budget, int] = {}
        violated = []
        for record in records:
            too_many = False
            for budget in self.of(record):
                left[budget] = left.get(budget, budget.allowed) - 1
                too_many = too_many or left[budget] < 0
            violated.append(too_many)
        return violated
