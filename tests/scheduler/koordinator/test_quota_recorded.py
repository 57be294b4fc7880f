"""Trees of quotas are shared out as Koordinator does, and the same pods go where a quota uses more than its share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from koord.scheduler.plugins.quota.revoke import Holder, to_revoke
from koord.scheduler.plugins.quota.tree import Bounds, Quota, Tree
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained

ROOT = "koordinator-root-quota"
Shown: TypeAlias = dict[str, dict[str, dict[str, int]]]
"""By quota and figure, amounts by resource."""


def shared(question: Question) -> Shown:
    keeps = question.get("guarantee", False)
    tree = Tree(scales=question["scale"], keeps=keeps)
    tree.has(question["total"])
    quotas = {ROOT: tree.root}
    for quota in question["quotas"]:
        bounds = Bounds(quota["min"], quota["max"], quota.get("weight") or quota["max"], quota["lent"])
        quotas[quota["name"]] = Quota(quota["name"], bounds)
        tree.attach(quotas[quota["name"]], quotas[quota["parent"]])
    for pod in question["pods"]:
        add = partial(tree.add, quotas[pod["quota"]], pod["request"], +1, fixed=pod.get("non_preemptible", False))
        add(used=False)
        if pod.get("bound"):
            add(used=True)
    del quotas[ROOT]
    return shown(tree, quotas, keeps=keeps)


def shown(tree: Tree, quotas: Mapping[str, Quota], *, keeps: bool) -> Shown:
    return {
        name: {
            "runtime": dict(tree.runtime(quota)),
            "request": quota.request(keeps=keeps),
            "child_request": quota.child_request,
            "used": quota.used,
            "non_preemptible_used": quota.fixed_used,
        }
        for name, quota in quotas.items()
    }


def differences(question: Question, answer: Answer) -> list[str]:
    return compared(shared(question), answer)


def compared(ours: Shown, answer: Answer) -> list[str]:
    return [
        f"{field} of {name}: {_positive(amounts)}, Koordinator: {_positive(answer[name].get(field, {}))}"
        for name, said in ours.items()
        for field, amounts in said.items()
        if _positive(amounts) != _positive(answer[name].get(field, {}))
    ]


def _positive(amounts: dict[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in amounts.items() if amount}


def test_shares_are_those_that_koordinator_computes() -> None:
    assert unexplained("quota", differences) == []


def revoked(question: Question) -> list[str]:
    pods = sorted(question["pods"], key=lambda pod: (-pod["priority"], pod["start"]))
    share = question["runtime"]
    used = {key: sum(pod["request"].get(key, 0) for pod in pods) for key in share}
    holders = [Holder(pod["name"], pod["request"], pod.get("fixed", False)) for pod in pods]
    return sorted(holder.key for holder in to_revoke(holders, used, share))


def differences_of_revocations(question: Question, answer: Answer) -> list[str]:
    ours, theirs = revoked(question), sorted(answer["revoked"])
    return [] if ours == theirs else [f"{ours}, not {theirs}"]


def test_pods_that_go_are_those_that_koordinator_would_revoke() -> None:
    assert unexplained("revocations", differences_of_revocations) == []


def test_the_recording_is_of_many_trees() -> None:
    trees = [case.question for case in read("quota").cases]
    assert len(trees) >= 150
    assert sum(1 for tree in trees if tree.get("guarantee")) >= 20
    assert sum(1 for tree in trees if any(quota["is_parent"] for quota in tree["quotas"])) >= 60
    numbers = [len(case.answers[0]["revoked"]) for case in read("revocations").cases]
    assert sum(1 for number in numbers if number > 1) >= 30
    assert sum(1 for tree in trees if not all(quota["lent"] for quota in tree["quotas"])) >= 60
