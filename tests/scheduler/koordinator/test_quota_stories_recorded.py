"""A tree of quotas that has seen many changes is shared out as Koordinator does: cluster, bounds, parents and pods."""

from __future__ import annotations

from typing import Any

from koord.scheduler.plugins.quota.tree import Bounds, Quota, Tree
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained
from tests.scheduler.koordinator.test_quota_recorded import ROOT, compared, shown

Event = dict[str, Any]


class Story:
    def __init__(self, *, scales: bool, keeps: bool) -> None:
        self.tree = Tree(scales=scales, keeps=keeps)
        self.quotas: dict[str, Quota] = {}
        self.pods: dict[str, dict[str, Any]] = {}

    def hear(self, event: Event) -> None:
        match event["do"]:
            case "total":
                self.tree.has(event["total"])
            case "quota":
                self._put(event["quota"])
            case "no-quota":
                self.tree.detach(self.quotas.pop(event["name"]))
            case "pod":
                if (before := self.pods.get(event["name"])) is not None:
                    self._count(before, -1)
                self.pods[event["name"]] = event["pod"]
                self._count(event["pod"], +1)
            case "no-pod":
                self._count(self.pods.pop(event["name"]), -1)

    def _put(self, said: dict[str, Any]) -> None:
        bounds = Bounds(said["min"], said["max"], said.get("weight") or said["max"], said["lent"])
        parent = self.tree.root if said["parent"] == ROOT else self.quotas[said["parent"]]
        quota = self.quotas.get(said["name"])
        if quota is None:
            quota = self.quotas[said["name"]] = Quota(said["name"], bounds)
            self.tree.attach(quota, parent)
            return
        if quota.parent is not parent:
            self.tree.detach(quota)
            self.tree.attach(quota, parent)
        self.tree.bind(quota, bounds)

    def _count(self, pod: dict[str, Any], sign: int) -> None:
        for used in (False, True) if pod.get("bound") else (False,):
            fixed = pod.get("non_preemptible", False)
            self.tree.add(self.quotas[pod["quota"]], pod["request"], sign, used=used, fixed=fixed)


def differences(question: Question, answer: Answer) -> list[str]:
    story = Story(scales=question["scale"], keeps=question.get("guarantee", False))
    for event in question["events"]:
        story.hear(event)
    return compared(shown(story.tree, story.quotas, keeps=question.get("guarantee", False)), answer)


def test_a_tree_is_shared_out_after_changes_as_koordinator_does() -> None:
    assert unexplained("quota_stories", differences) == []


def test_the_recording_is_of_many_changes() -> None:
    cases = read("quota_stories").cases
    done = [event["do"] for case in cases for event in case.question["events"]]
    assert len(cases) >= 150
    assert all(done.count(each) >= 50 for each in ("total", "quota", "no-quota", "pod", "no-pod"))
