"""Which pods budgets mean, and which would be one too many."""

from __future__ import annotations

from typing import Any

from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.budgets import Budgets
from koord.scheduler.state.pods import PodRecord
from tests.scheduler.build import pod


def budget(name: str, selector: Any, allowed: int, **status: Any) -> PodDisruptionBudget:
    return convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": allowed, **status},
        },
    )


def record(name: str, namespace: str = "default", **labels: str) -> PodRecord:
    return Ask(pod(name, namespace=namespace, labels=labels)).record()


WEB = {"matchLabels": {"app": "web"}}


def test_the_budget_is_used_up_one_pod_after_the_other() -> None:
    budgets = Budgets()
    budgets.put(budget("web", WEB, 1))
    pods = [record("a", app="web"), record("b", app="db"), record("c", app="web"), record("d", app="web")]
    assert budgets.violated(pods) == [False, False, True, True]


def test_every_budget_that_means_a_pod_counts() -> None:
    budgets = Budgets()
    budgets.put(budget("web", WEB, 5))
    budgets.put(budget("all", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 0))
    assert budgets.violated([record("a", app="web"), record("b")]) == [True, False]


def test_what_means_no_pod() -> None:
    budgets = Budgets()
    for name, selector in (("none", None), ("empty", {}), ("bad", {"matchLabels": {"app": "no such value!"}})):
        budgets.put(budget(name, selector, 0))
    assert not budgets
    budgets.put(budget("web", WEB, 0))
    assert budgets.violated([record("a", "elsewhere", app="web")]) == [False]


def test_a_pod_whose_eviction_was_granted_counts_no_more() -> None:
    budgets = Budgets()
    budgets.put(budget("web", WEB, 1, disruptedPods={"a": "2026-01-01T00:00:00Z"}))
    assert budgets.violated([record(name, app="web") for name in "abc"]) == [False, False, True]


def test_only_what_matters_is_a_change() -> None:
    budgets = Budgets()
    budgets.put(budget("web", WEB, 1))
    before = budgets.version
    budgets.put(budget("web", WEB, 1, currentHealthy=7))
    assert budgets.version == before
    budgets.put(budget("web", WEB, 0))
    assert budgets.version > before
    budgets.remove("default", "web")
    assert not budgets
