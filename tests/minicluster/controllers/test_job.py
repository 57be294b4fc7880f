"""Jobs: ends counted once whatever dies when, and what each rule means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import JOBS, PODS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.workloads import Job
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.api.workloads.job_pods import INDEX, TRACKING
from koord_minicluster.controllers import job_indexes
from koord_minicluster.controllers.actions import Action, Create, Delete, Patch
from koord_minicluster.controllers.job import decide, expiry, is_finished
from koord_minicluster.controllers.job_pods import backoff_left_s, has_failed, new_pod, verdict
from tests.minicluster.controllers.builders import NOW, job, pod
from tests.minicluster.controllers.test_rollout import merged


@dataclass
class World:
    """One Job and its pods. Pods vanish when they are deleted and nothing holds them."""

    job: Job
    pods: dict[str, Pod] = field(default_factory=dict)
    now_s: float = NOW
    made: int = 0
    ended: dict[str, str] = field(default_factory=dict)

    def carry_out(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Create():
                    self.create(action)
                case Delete() if action.kind is PODS:
                    self.change(action.name, metadata={"deletionTimestamp": from_seconds(self.now_s)})
                case Patch() if action.kind is PODS:
                    removed = action.body["metadata"]["$deleteFromPrimitiveList/finalizers"]
                    if action.name in self.pods:
                        held = [f for f in self.pods[action.name].metadata.finalizers if f not in removed]
                        self.change(action.name, metadata={"finalizers": held})
                case Patch() if action.kind is JOBS:
                    self.tell(action.body)

    def create(self, action: Create) -> None:
        self.made += 1
        name = f"{action.body['metadata']['generateName']}{self.made}"
        body = {**action.body, "metadata": {**action.body["metadata"], "name": name, "uid": f"uid-{name}"}}
        body["metadata"] |= {"namespace": "default", "creationTimestamp": from_seconds(self.now_s)}
        self.pods[name] = convert(Pod, body)

    def change(self, name: str, **parts: Any) -> None:
        if name not in self.pods:
            return
        changed = merged(self.pods[name], parts)
        if changed.metadata.deletion_timestamp and not changed.metadata.finalizers:
            del self.pods[name]
        else:
            self.pods[name] = changed

    def tell(self, body: Any) -> None:
        """The API's own rules for a Job's status, as far as they concern order."""
        locked = body.get("metadata", {}).get("resourceVersion")
        assert locked == self.job.metadata.resource_version, "a status must be based on what was read"
        before = self.job.status
        version = str(int(locked) + 1)
        self.job = merged(self.job, {"status": body["status"], "metadata": {"resourceVersion": version}})
        status = self.job.status
        true = {c.type for c in status.conditions if c.status == "True"}
        uncounted = status.uncounted_terminated_pods
        assert status.succeeded >= before.succeeded
        assert status.failed >= before.failed
        assert (status.ready or 0) <= status.active
        assert not ("Complete" in true and "SuccessCriteriaMet" not in true)
        assert not ("Failed" in true and "FailureTarget" not in true)
        assert not {"Complete", "Failed"} <= true
        if {"Complete", "Failed"} & true:
            assert status.start_time
            assert status.active == status.terminating == 0
            assert uncounted is None or not (uncounted.succeeded or uncounted.failed)
            assert ("Complete" in true) == (status.completion_time is not None)

    def end(self, name: str, phase: str) -> None:
        if name in self.pods and not self.pods[name].is_finished and not self.pods[name].metadata.deletion_timestamp:
            self.ended[name] = phase
            ended = {"name": "app", "state": {"terminated": {"exitCode": 0, "finishedAt": from_seconds(self.now_s)}}}
            self.change(name, status={"phase": phase, "containerStatuses": [ended]})

    def step(self, crash_after: int | None = None) -> bool:
        """One decision, carried out up to where the controller dies. False where there was nothing to do."""
        plan = decide(self.job, tuple(self.pods.values()), self.now_s)
        self.carry_out(plan.actions[:crash_after])
        return bool(plan.actions)


@settings(max_examples=120)
@given(
    completions=st.integers(1, 6),
    parallelism=st.integers(1, 4),
    indexed=st.booleans(),
    data=st.data(),
)
def test_every_end_is_counted_once_wherever_the_controller_dies(
    completions: int, parallelism: int, indexed: bool, data: st.DataObject
) -> None:
    mode = "Indexed" if indexed else "NonIndexed"
    made = job(completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=1000)
    world = World(made)
    for _ in range(30):
        running = [name for name, p in world.pods.items() if not p.is_finished]
        what = data.draw(st.sampled_from(["step", "step", "crash", *running]))
        if what == "step":
            world.step()
        elif what == "crash":
            world.step(data.draw(st.integers(0, 6)))
        else:
            world.end(what, data.draw(st.sampled_from(["Succeeded", "Succeeded", "Failed"])))
        assert len([p for p in world.pods.values() if not p.is_finished]) <= parallelism
    for _ in range(200):
        world.now_s += 1000
        if not world.step():
            for name in list(world.pods):
                world.end(name, "Succeeded")
            if is_finished(world.job) and not world.step():
                break
    status = world.job.status
    assert is_finished(world.job)
    succeeded = sum(phase == "Succeeded" for phase in world.ended.values())
    assert status.failed == sum(phase == "Failed" for phase in world.ended.values())
    if indexed:
        assert (status.succeeded, status.completed_indexes) == (completions, job_indexes.text(range(completions)))
    else:
        assert status.succeeded == succeeded >= completions
    assert not [p for p in world.pods.values() if TRACKING in p.metadata.finalizers]


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([5, 1, 2, 3, 7], "1-3,5,7"), ([3, 4, 9], "3,4,9")],
)
def test_indexes_are_written_as_kubernetes_writes_them(indexes: list[int], text: str) -> None:
    assert job_indexes.text(indexes) == text
    assert job_indexes.parse(text, 10) == frozenset(indexes)


def test_indexes_beyond_the_completions_are_dropped() -> None:
    assert job_indexes.parse("1-3,5", 3) == {1, 2}
    assert job_indexes.parse("1,x", 9) == {1}


@pytest.mark.parametrize(
    ("failures", "seconds_ago", "left_s"),
    [(0, 0, 0), (1, 0, 10), (1, 4, 6), (2, 0, 20), (3, 45, 0), (4, 0, 80), (30, 0, 600)],
)
def test_the_wait_doubles_with_each_failure(failures: int, seconds_ago: float, left_s: float) -> None:
    assert backoff_left_s(failures, NOW - seconds_ago, NOW) == left_s


def exited(code: int, *conditions: str) -> Pod:
    failed = pod("a", phase="Failed", finalizers=(TRACKING,))
    ended = {"name": "app", "state": {"terminated": {"exitCode": code}}}
    told = [{"type": type_, "status": "True"} for type_ in conditions]
    made: Pod = merged(failed, {"status": {"containerStatuses": [ended], "conditions": told}})
    return made


@pytest.mark.parametrize(
    ("code", "conditions", "word"),
    [
        (42, (), "fail-job"),
        (7, (), "ignore"),
        (1, (), "count"),
        (0, (), "count"),
        (1, ("DisruptionTarget",), "ignore"),
        (42, ("DisruptionTarget",), "fail-job"),
    ],
)
def test_the_first_matching_failure_rule_decides(code: int, conditions: tuple[str, ...], word: str) -> None:
    rules = [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42, 43], "containerName": "app"}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 2, 3]}},
    ]
    made = job(podFailurePolicy={"rules": rules})
    assert verdict(made, exited(code, *conditions))[0] == word


def test_a_deleted_pod_counts_as_failed_unless_only_failed_ones_are_replaced() -> None:
    leaving = pod("a", deleting=True)
    assert has_failed(job(), leaving)
    assert not has_failed(job(podReplacementPolicy="Failed"), leaving)
    assert not has_failed(job(), pod("b", deleting=True, phase="Succeeded"))


def test_an_indexed_pod_has_its_index_everywhere_that_programs_look() -> None:
    body = new_pod(job(completionMode="Indexed", completions=3), 2)
    assert body["metadata"]["generateName"] == "sum-2-"
    assert body["metadata"]["labels"][INDEX] == body["metadata"]["annotations"][INDEX] == "2"
    assert body["spec"]["hostname"] == "sum-2"
    (variable,) = body["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert TRACKING in body["metadata"]["finalizers"]


def test_a_long_name_leaves_room_for_index_and_suffix() -> None:
    long = msgspec.structs.replace(job(completions=1000), metadata=merged(job().metadata, {"name": "x" * 63}))
    assert len(new_pod(long, 999)["metadata"]["generateName"]) + 5 <= 63
    assert len(new_pod(long, None)["metadata"]["generateName"]) + 5 <= 63


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": from_seconds(NOW - 30)}
    done = merged(job(ttlSecondsAfterFinished=100), {"status": {"conditions": [ended]}})
    assert expiry(done, NOW).again_in_s == 70
    (gone,) = expiry(done, NOW + 70).actions
    assert isinstance(gone, Delete)
    assert gone.propagation == "Foreground"
    assert expiry(job(ttlSecondsAfterFinished=0), NOW).actions == ()


def test_a_suspended_job_gives_its_pods_up_without_counting_them() -> None:
    world = World(job(completions=4, parallelism=2))
    world.step()
    world.job = merged(world.job, {"spec": {"suspend": True}})
    for _ in range(4):
        world.step()
    assert world.pods == {}
    assert (world.job.status.failed, world.job.status.active) == (0, 0)


@pytest.mark.parametrize(
    ("rule", "succeeded", "met"),
    [
        ({"succeededIndexes": "0,2"}, {0, 2}, True),
        ({"succeededIndexes": "0,2"}, {0, 1}, False),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, {1, 3}, True),
        ({"succeededCount": 2}, {4}, False),
        ({"succeededCount": 1}, {4}, True),
    ],
)
def test_a_success_policy_ends_a_job_early(rule: dict[str, Any], succeeded: set[int], met: bool) -> None:
    made = job(completions=5, parallelism=5, completionMode="Indexed", successPolicy={"rules": [rule]})
    world = World(made)
    world.step()
    for name, found in list(world.pods.items()):
        if int(found.metadata.annotations[INDEX]) in succeeded:
            world.end(name, "Succeeded")
    world.step()
    reasons = {c.type: c.reason for c in world.job.status.conditions}
    assert (reasons.get("SuccessCriteriaMet") == "SuccessPolicy") == met
