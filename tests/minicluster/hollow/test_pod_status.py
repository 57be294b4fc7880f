from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from koord.api.kubernetes.pod import Pod, ResourceRequirements
from koord.api.kubernetes.words import RestartPolicy
from koord.api.text.timestamp import from_seconds
from koord_minicluster.hollow.phases import ANNOTATION_DURATION, ANNOTATION_EXIT_CODE, Pace
from koord_minicluster.hollow.pod_status import Addresses, step
from tests.minicluster.hollow.builders import pod, with_status

HERE = Addresses("127.0.0.1", "10.0.0.7")
NOW_S = 1_700_000_000.0
PACE = Pace(start_s=4.0, init_s=1.0, stop_s=1.0)


def run(subject: Pod, now_s: float, pace: Pace = PACE) -> tuple[Pod, float | None]:
    """The pod after its step, which must then be the last for that moment."""
    decided = step(subject, now_s, pace, HERE)
    if decided.patch is not None:
        subject = with_status(subject, decided.patch)
        assert step(subject, now_s, pace, HERE).patch is None
    return subject, decided.next_s


def conditions(subject: Pod) -> dict[str, str]:
    return {str(condition.type): str(condition.status) for condition in subject.status.conditions}


def test_a_pod_that_was_just_bound_is_taken_on() -> None:
    taken, next_s = run(pod(), NOW_S)
    assert taken.status.phase == "Pending"
    assert taken.status.start_time == from_seconds(NOW_S)
    assert taken.status.pod_ip == ""
    assert conditions(taken) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }
    assert next_s is not None
    running, _ = run(taken, next_s)
    assert (running.status.phase, running.status.pod_ip) == ("Running", "10.0.0.7")
    assert set(conditions(running).values()) == {"True"}


def test_a_status_that_says_it_already_is_not_written() -> None:
    running, _ = run(pod(), NOW_S, Pace(0, 0, 0))
    assert step(running, NOW_S + 500, Pace(0, 0, 0), HERE).patch is None


def test_a_resize_of_a_running_pod_is_reported_as_done() -> None:
    running, _ = run(pod(), NOW_S, Pace(0, 0, 0))
    first = running.spec.containers[0]
    assert running.status.container_statuses[0].resources == first.resources
    more = structs.replace(first, resources=ResourceRequirements(requests={"cpu": "3"}))
    resized = structs.replace(running, spec=structs.replace(running.spec, containers=(more,)))
    reported, _ = run(resized, NOW_S + 5, Pace(0, 0, 0))
    assert reported.status.container_statuses[0].resources == more.resources


def test_conditions_keep_the_time_since_when_they_hold() -> None:
    taken, next_s = run(pod(), NOW_S)
    assert next_s is not None
    running, _ = run(taken, next_s + 10)
    since = {str(c.type): c.last_transition_time for c in running.status.conditions}
    assert since["Initialized"] == from_seconds(NOW_S)
    assert since["Ready"] == from_seconds(next_s + 10)


def test_a_patch_is_meant_for_this_very_pod() -> None:
    decided = step(pod(uid="u1"), NOW_S, PACE, HERE)
    assert decided.patch is not None
    assert decided.patch["metadata"] == {"uid": "u1"}


def test_a_finished_pod_is_left_alone() -> None:
    worker = pod(annotations={ANNOTATION_DURATION: "1s"}, restartPolicy="Never")
    taken, _ = run(worker, NOW_S)
    done, next_s = run(taken, NOW_S + 60)
    assert (done.status.phase, next_s) == ("Succeeded", None)
    assert done.status.condition("Ready").reason == "PodCompleted"  # type: ignore[union-attr]
    nothing = step(done, NOW_S + 100, PACE, HERE)
    assert (nothing.patch, nothing.remove, nothing.next_s) == (None, False, None)


def leaving(grace_s: int = 30, **more: Any) -> Pod:
    running, _ = run(pod(**more), NOW_S, Pace(0, 0, 0))
    status = {
        "phase": "Running",
        "startTime": running.status.start_time,
        "containerStatuses": [{"name": "app", "ready": True, "state": {"running": {}}}],
    }
    metadata = {
        "deletionTimestamp": from_seconds(NOW_S + 100 + grace_s),
        "deletionGracePeriodSeconds": grace_s,
        **more.pop("metadata", {}),
    }
    return pod(metadata=metadata, status=status, **more)


def test_a_deleted_service_is_removed_with_a_single_call() -> None:
    waiting = step(leaving(), NOW_S + 100, PACE, HERE)
    assert not waiting.remove
    assert waiting.next_s is not None
    gone = step(leaving(), waiting.next_s, PACE, HERE)
    assert (gone.patch, gone.remove) == (None, True)


def test_a_deleted_job_pod_says_how_it_ended_before_it_goes() -> None:
    counted = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
    for subject in (leaving(restartPolicy="Never"), leaving(metadata=counted)):
        gone = step(subject, NOW_S + 110, PACE, HERE)
        assert gone.remove
        assert gone.patch is not None
        assert with_status(subject, gone.patch).status.phase == "Failed"


def test_a_removed_pod_that_finalizers_hold_is_not_removed_again() -> None:
    held = leaving(grace_s=0, metadata={"finalizers": ["x.test/hold"]})
    first = step(held, NOW_S + 110, PACE, HERE)
    assert first.patch is not None
    assert not first.remove
    again = step(with_status(held, first.patch), NOW_S + 111, PACE, HERE)
    assert (again.patch, again.remove, again.next_s) == (None, False, None)


@given(
    policy=st.sampled_from(RestartPolicy),
    code=st.integers(0, 3),
    run_s=st.integers(0, 30),
    inits=st.integers(0, 2),
    pauses=st.lists(st.floats(0.1, 200), max_size=8),
)
def test_whenever_it_is_looked_at_one_patch_is_enough(
    policy: str, code: int, run_s: int, inits: int, pauses: list[float]
) -> None:
    """The process may be away for any time: the next look brings the status up to date, with one patch."""
    subject = pod(
        annotations={ANNOTATION_DURATION: f"{run_s}s", ANNOTATION_EXIT_CODE: str(code)},
        restartPolicy=policy,
        init=tuple({"name": f"i{number}"} for number in range(inits)),
    )
    now_s, restarts = NOW_S, 0
    for pause_s in pauses:
        subject, _ = run(subject, now_s)
        assert subject.status.container_statuses[0].restart_count >= restarts
        restarts = subject.status.container_statuses[0].restart_count
        now_s += pause_s
