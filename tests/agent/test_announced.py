"""A pod that only a runtime has announced gets what it would get once it is known."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from koord.agent.announced import Asking, PodTold, announced, answer, is_resized
from koord.agent.pods import pod_of
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from tests.agent.states import node

ALL_ON = dict.fromkeys(AgentGate, True)
BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
SPEC = "node.koordinator.sh/extended-resource-spec"
STATUS = "scheduling.koordinator.sh/resource-status"


def told(qos: str, tier: str = "besteffort", **annotations: str) -> PodTold:
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    return PodTold("u1", "job", "ns", labels, annotations, f"/kubepods/{tier}/podu1")


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_it_is_answered_for_as_when_its_spec_is_known(driver: CgroupDriver) -> None:
    state = replace(node(slo={}), gates=ALL_ON)
    annotations = {
        SPEC: json.dumps({"containers": {"main": {"requests": BATCH, "limits": BATCH}}}),
        "koordinator.sh/oom-score-adj": "900",
    }
    spec = {"containers": [{"name": "main", "resources": {"requests": BATCH, "limits": BATCH}}]}
    meta = {"uid": "u1", "name": "job", "namespace": "ns", "labels": {"koordinator.sh/qosClass": "BE"}}
    whole = pod_of(convert(RunnablePod, {"metadata": {**meta, "annotations": annotations}, "spec": spec}), driver)
    guessed = announced(told("BE", **annotations), driver)
    assert (guessed.directory, guessed.kube_qos, guessed.qos) == (whole.directory, whole.kube_qos, whole.qos)
    for name in ("", "main", "init"):
        asking = Asking(told("BE", **annotations), name)
        assert answer(state, guessed, asking) == answer(state, whole, asking)
    adjustment = answer(state, guessed, Asking(told("BE"), "main"))
    assert (adjustment.cpu_quota_us, adjustment.cpu_shares, adjustment.memory_limit_bytes) == (50_000, 512, 1 << 30)
    assert adjustment.oom_score_adj == 1000
    assert adjustment.why


def test_cpus_of_its_own_need_no_quota() -> None:
    state = node(slo={})
    pod = announced(told("LSR", "", **{STATUS: '{"cpuset": "0-1"}'}), CgroupDriver.CGROUPFS)
    adjustment = answer(state, pod, Asking(told("LSR"), "main"))
    assert (adjustment.cpus, adjustment.cpu_quota_us, adjustment.cpu_period_us) == ("0-1", -1, None)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "x"}}}}']
)
def test_an_annotation_that_cannot_be_read_leaves_the_container_to_kubelet(text: str) -> None:
    state = node(slo={})
    pod = announced(told("BE", **{SPEC: text}), CgroupDriver.SYSTEMD)
    assert answer(state, pod, Asking(told("BE"), "main")).cpu_quota_us is None


def test_when_kubelet_changes_a_container_what_follows_from_its_figure_waits_for_the_new_one() -> None:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}
    meta = {"uid": "u1", "name": "web", "namespace": "ns", "labels": {"koordinator.sh/qosClass": "LS"}}
    raw = node(slo={})
    ratio = {"node.koordinator.sh/cpu-normalization-ratio": "2.0"}
    annotated = msgspec.structs.replace(raw.node.metadata, annotations=ratio)
    state = replace(raw, node=msgspec.structs.replace(raw.node, metadata=annotated), gates=ALL_ON)
    pod = pod_of(convert(RunnablePod, {"metadata": meta, "spec": spec}), CgroupDriver.SYSTEMD)
    assert answer(state, pod, Asking(told("LS"), "main")).cpu_quota_us == 100_000
    for runs in (Asking(told("LS"), "main", is_update=True), Asking(told("LS"), "main", is_look=True)):
        assert answer(state, pod, runs).cpu_quota_us is None
    assert answer(state, pod, Asking(told("LS"), "main", is_running=True)) == answer(state, pod, runs)


@pytest.mark.parametrize(("quota", "is_so"), [(0, False), (200_000, False), (300_000, True), (-1, True)])
def test_an_update_with_another_quota_than_the_limit_says_is_a_resize(quota: int, is_so: bool) -> None:
    """One without any is not: kubelet's CPU manager changes CPUs alone."""
    spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}
    pod = pod_of(convert(RunnablePod, {"metadata": {"uid": "u1"}, "spec": spec}), CgroupDriver.SYSTEMD)
    assert is_resized(pod, Asking(told("LS"), "main", is_update=True, cpu_quota_us=quota)) is is_so


@pytest.mark.parametrize(("conditions", "limit"), [([], 8000), (["PodResizePending"], 2000)])
def test_a_resize_that_kubelet_does_not_carry_out_changes_no_limit(conditions: list[str], limit: int) -> None:
    spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "8"}}}]}
    given = [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]
    said = [{"type": condition, "status": "True", "reason": "Deferred"} for condition in conditions]
    status = {"containerStatuses": given, "conditions": said}
    raw = convert(RunnablePod, {"metadata": {"uid": "u1"}, "spec": spec, "status": status})
    pod = pod_of(raw, CgroupDriver.SYSTEMD)
    assert (pod.containers[0].limits, pod.limits, pod.largest_cpu_limit) == ({"cpu": limit}, {"cpu": limit}, limit)


@pytest.mark.parametrize("uid", ["", "../../x", "a/b", "x" * 300, "-"])
def test_a_uid_that_would_lead_elsewhere_is_refused(uid: str) -> None:
    with pytest.raises(ValueError, match=r"pod\.uid is"):
        announced(PodTold(uid), CgroupDriver.CGROUPFS)
