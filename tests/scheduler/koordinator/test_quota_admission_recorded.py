"""ElasticQuotas are taken and refused as Koordinator's webhook does."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from koord.admission.quota_objects import QuotaPods, QuotaRules, completed, deletion_faults, faults
from koord.admission.quota_topology import QuotaTopology
from koord.admission.request import Refused
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained


def reviewed(question: Question) -> tuple[list[str], dict[str, Any]]:
    """What is wrong with a request, and the quota with what was filled in."""
    stored = [convert(ElasticQuota, each) for each in question["stored"]]
    quota_topology, quota = QuotaTopology.of(stored), question["quota"]
    pods = _pods(question)
    old = next((each for each in stored if each.metadata.name == quota["metadata"]["name"]), None)
    if question["op"] == "delete":
        assert old is not None
        return [str(fault) for fault in deletion_faults(old, quota_topology, pods)], quota
    if question["op"] == "create":
        old = None
        try:
            quota = completed(quota, quota_topology)
        except Refused as refusal:
            return [str(refusal)], quota
    found = faults(convert(ElasticQuota, quota), old, quota_topology, pods, QuotaRules(), {})
    return [str(fault) for fault in found], quota


def _pods(question: Question) -> QuotaPods:
    labelled, within = dict[str, str](), dict[str, str]()
    for pod in question["pods"]:
        meta = pod["metadata"]
        if "labels" in meta:
            labelled[meta["labels"][names.LABEL_QUOTA_NAME]] = meta["name"]
        else:
            within[meta["namespace"]] = meta["name"]
    return QuotaPods(labelled, within)


def differences(question: Question, answer: Answer) -> list[str]:
    why, quota = reviewed(question)
    if bool(why) == answer["allowed"]:
        return [f"{why or 'taken'}, not {answer.get('error', 'taken')}"]
    if why or question["op"] != "create":
        return []
    labels, meta = answer["labels"], quota["metadata"]
    ours = {key: value for key, value in meta["labels"].items() if value}
    weight = meta["annotations"][names.ANNOTATION_QUOTA_SHARED_WEIGHT]
    same = ours == {key: value for key, value in labels.items() if value} and _read(weight) == _read(answer["weight"])
    return [] if same else [f"{ours} {weight}, not {labels} {answer['weight']}"]


def _read(weight: str) -> dict[str, int]:
    return amounts({key: str(value) for key, value in json.loads(weight).items()})


def test_quotas_are_taken_and_refused_as_by_koordinator() -> None:
    assert unexplained("quota_admission", differences) == []


def test_the_recording_is_of_many_requests() -> None:
    taken = Counter((case.question["op"], case.answers[0]["allowed"]) for case in read("quota_admission").cases)
    assert {(op, allowed) for op in ("create", "update", "delete") for allowed in (True, False)} == {
        key for key, times in taken.items() if times >= 20
    }
