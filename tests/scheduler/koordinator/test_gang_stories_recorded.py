"""Gangs come together, are placed, bound and taken apart, event by event, as Koordinator keeps account of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_group import PodGroup
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.gang_rules import why_it_waits
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained

Event = dict[str, Any]
SETTINGS: Final = ("min", "total", "mode", "policy", "wait_s", "group")


class Story:
    """The gangs as the events so far have left them; `placed` are pods that have a place and wait for others."""

    def __init__(self) -> None:
        self.gangs = Cluster(0).notes(Gangs)
        self.pods: dict[str, Pod] = {}
        self.placed: set[str] = set()

    def hear(self, event: Event) -> None:
        key = f"{event['namespace']}/{event['name']}"
        match event["do"]:
            case "pod":
                self.pods[key] = pod = convert(Pod, _pod(event))
                self.gangs.put_pod(pod)
                if pod.spec.node_name:
                    self.placed.discard(key)
            case "no-pod":
                self.gangs.remove_pod(self.pods.pop(key))
                self.placed.discard(key)
            case "group":
                self.gangs.put_group(convert(PodGroup, _pod_group(event)))
            case "no-group":
                self.gangs.remove_group(convert(PodGroup, _pod_group(event)))
            case "placed":
                self.placed.add(key)
            case "unplaced":
                self.placed.discard(key)

    def told(self, id_: str) -> Answer:
        """What there is to say of a gang."""
        gang = self.gangs.all.get(id_)
        if gang is None:
            return {}
        said: Answer = {"init": gang.settings is not None, "members": sorted(gang.members), "bound": sorted(gang.bound)}
        if (ours := gang.settings) is not None:
            values = (
                ours.min_available,
                ours.total_number,
                ours.mode,
                ours.match_policy,
                ours.waiting_time_s,
                gang.group,
            )
            said |= dict(zip(SETTINGS, (*values[:-1], list(values[-1])), strict=True))
        together = [each for each in self.gangs.all.values() if each.group == gang.group]
        members = [key for gang in together for key in gang.members]
        said["waiting"] = sorted(self.placed & set(gang.members))
        if said["waiting"]:
            said["goes"] = self._passes(key for key in members if key in self.placed)
        pending = [key for key in members if not self.pods[key].spec.node_name]
        # Koordinator tries pods of a larger group one by one, and then has some wait for others that cannot come.
        if pending and len(gang.group) == 1:
            said["tried"] = self._passes(pending)
        return said

    def _passes(self, keys: Any) -> bool:
        return why_it_waits(self.gangs, [Ask(self.pods[key]) for key in keys]) is None


def _pod_group(event: Event) -> dict[str, Any]:
    meta = {key: event[key] for key in ("name", "namespace", "annotations") if key in event}
    timeout = {"scheduleTimeoutSeconds": event["timeout"]} if "timeout" in event else {}
    return {"metadata": meta, "spec": {"minMember": event.get("min_member", 0), **timeout}}


def _pod(event: Event) -> dict[str, Any]:
    meta = {key: event[key] for key in ("name", "namespace", "labels", "annotations")}
    meta |= {"uid": f"{event['namespace']}/{event['name']}", "creationTimestamp": from_seconds(event["made"])}
    return {"metadata": meta, "spec": {"nodeName": event["node"], "containers": [{"name": "main"}]}}


def differences(question: Question, answer: Answer) -> list[str]:
    story, found = Story(), list[str]()
    for number, (event, step) in enumerate(zip(question["events"], answer["steps"], strict=True)):
        story.hear(event)
        found += [f"after event {number} ({event['do']}): {each}" for each in _compared(story, step)]
    return found


def _compared(story: Story, step: Answer) -> Iterator[str]:
    for id_ in sorted(story.gangs.all.keys() | step.keys()):
        ours, theirs = story.told(id_), step.get(id_, {})
        if not ours or not theirs:
            yield f"{id_} is {'not ' if not ours else ''}there"
            continue
        for key, value in ours.items():
            if (theirs["init"] or key == "init") and value != theirs[key]:
                yield f"{id_}: {key} {value}, not {theirs[key]}"


def test_gangs_are_what_koordinator_takes_them_for_after_every_event() -> None:
    assert unexplained("gang_stories", differences) == []


def test_the_recording_is_of_many_stories() -> None:
    cases = read("gang_stories").cases
    done = [event["do"] for case in cases for event in case.question["events"]]
    assert len(cases) >= 200
    assert all(done.count(each) >= 20 for each in ("pod", "no-pod", "group", "no-group", "placed", "unplaced"))
    gone = [
        gang["goes"] for case in cases for step in case.answers[0]["steps"] for gang in step.values() if gang["waiting"]
    ]
    assert 200 <= sum(gone) <= len(gone) - 200
