from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodPhase, RestartPolicy
from koord.api.text.timestamp import from_seconds
from koord_minicluster.hollow.phases import (
    ANNOTATION_DURATION,
    ANNOTATION_EXIT_CODE,
    ANNOTATION_WAITING,
    Pace,
    backoff_s,
    life_at,
    removal_s,
)
from koord_minicluster.kubelet.states import Ended, Running, Waiting
from koord_minicluster.kubelet.termination import DEADLINE_EXCEEDED
from tests.minicluster.hollow.builders import pod

AT_ONCE = Pace(start_s=0.0, init_s=10.0, stop_s=0.0)
START_S = 1_000_000.0


def job(duration: str, code: str = "0", policy: str = "Never", **more: Any) -> Pod:
    return pod(annotations={ANNOTATION_DURATION: duration, ANNOTATION_EXIT_CODE: code}, restartPolicy=policy, **more)


def test_a_pod_waits_for_its_start_then_runs_for_ever() -> None:
    web, pace = pod(), Pace(start_s=4.0)
    before = life_at(web, START_S, START_S + 1, pace)
    assert before.phase is PodPhase.PENDING
    assert before.containers[0].state == Waiting("ContainerCreating")
    assert before.next_s is not None
    assert START_S + 2 <= before.next_s <= START_S + 6  # within half of 4 s
    running = life_at(web, START_S, before.next_s, pace)
    assert (running.phase, running.unready, running.next_s) == (PodPhase.RUNNING, (), None)


def test_init_containers_run_one_after_the_other_and_sidecars_stay() -> None:
    app = pod(init=({"name": "a"}, {"name": "side", "restartPolicy": "Always"}, {"name": "b"}))

    def states(after_s: float) -> list[str]:
        life = life_at(app, START_S, START_S + after_s, AT_ONCE)
        return [type(container_life.state).__name__ for container_life in (*life.init, *life.containers)]

    assert states(5) == ["Running", "Waiting", "Waiting", "Waiting"]
    assert states(15) == ["Ended", "Running", "Running", "Waiting"]
    assert states(20) == ["Ended", "Running", "Ended", "Running"]
    assert life_at(app, START_S, START_S + 15, AT_ONCE).phase is PodPhase.PENDING


@pytest.mark.parametrize(
    ("policy", "code", "after_s", "phase", "restarts", "state"),
    [
        ("Never", "0", 29, "Running", 0, Running(START_S)),
        ("Never", "0", 30, "Succeeded", 0, Ended(0, START_S, START_S + 30)),
        ("Never", "3", 31, "Failed", 0, Ended(3, START_S, START_S + 30)),
        ("OnFailure", "0", 30, "Succeeded", 0, Ended(0, START_S, START_S + 30)),
        # The first restart comes at once, the second 10 s after the second end: 30, 30, wait 10, 30, wait 20, ...
        ("OnFailure", "1", 30, "Running", 1, Running(START_S + 30)),
        ("OnFailure", "1", 60, "Running", 1, "CrashLoopBackOff"),
        ("OnFailure", "1", 70, "Running", 2, Running(START_S + 70)),
        ("OnFailure", "1", 100, "Running", 2, "CrashLoopBackOff"),
        ("OnFailure", "1", 120, "Running", 3, Running(START_S + 120)),
        ("Always", "0", 61, "Running", 1, "CrashLoopBackOff"),
    ],
)
def test_a_run_of_thirty_seconds_ends_as_its_policy_says(
    policy: str, code: str, after_s: float, phase: str, restarts: int, state: object
) -> None:
    life = life_at(job("30s", code, policy), START_S, START_S + after_s, AT_ONCE)
    (container,) = life.containers
    assert (life.phase, container.restarts) == (phase, restarts)
    found = container.state.reason if isinstance(container.state, Waiting) else container.state
    assert found == state


def test_back_off_grows_to_five_minutes_and_is_forgiven_after_ten() -> None:
    assert [backoff_s(restart, 1.0) for restart in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert backoff_s(5, 600.0) == 0


@given(
    policy=st.sampled_from(RestartPolicy),
    code=st.integers(0, 255),
    run_s=st.integers(0, 2000),
    deadline_s=st.none() | st.integers(1, 5000),
    at_s=st.floats(0, 100_000),
    inits=st.integers(0, 3),
)
def test_life_only_goes_on(policy: str, code: int, run_s: int, deadline_s: int | None, at_s: float, inits: int) -> None:
    """Following `next_s` shows every state, each later than the one before; what is over stays over."""
    extra = {} if deadline_s is None else {"activeDeadlineSeconds": deadline_s}
    worker = job(f"{run_s}s", str(code), policy, init=tuple({"name": f"i{n}"} for n in range(inits)), **extra)
    pace = Pace(start_s=1.0, init_s=0.3)
    now_s = START_S
    for _ in range(12):
        life = life_at(worker, START_S, now_s, pace)
        assert life.is_over == (life.next_s is None)
        if life.next_s is None:
            assert life_at(worker, START_S, now_s + at_s, pace) == life
            break
        assert life.next_s > now_s
        between = life_at(worker, START_S, now_s + (life.next_s - now_s) * 0.5, pace)
        assert (between.phase, between.containers, between.init) == (life.phase, life.containers, life.init)
        now_s = life.next_s


@given(at_s=st.floats(0, 10**8), run_s=st.integers(0, 1000))
def test_restarts_never_become_fewer(at_s: float, run_s: int) -> None:
    worker = job(f"{run_s}s", "1", "Always")
    first, later = (life_at(worker, START_S, START_S + at, AT_ONCE).containers[0] for at in (at_s, at_s + 100))
    assert later.restarts >= first.restarts


def test_a_deadline_ends_a_pod_that_still_runs() -> None:
    late = pod(activeDeadlineSeconds=60, restartPolicy="Never")
    assert life_at(late, START_S, START_S + 59, AT_ONCE).next_s == START_S + 60
    over = life_at(late, START_S, START_S + 90, AT_ONCE)
    assert (over.phase, over.ending) == (PodPhase.FAILED, DEADLINE_EXCEEDED)
    assert over.containers[0].state == Ended(143, START_S, START_S + 60)


def test_a_pod_may_be_kept_from_starting() -> None:
    stuck = life_at(pod(annotations={ANNOTATION_WAITING: "ImagePullBackOff"}), START_S, START_S + 1e6, AT_ONCE)
    assert stuck.phase is PodPhase.PENDING
    assert isinstance(stuck.containers[0].state, Waiting)
    assert stuck.containers[0].state.reason == "ImagePullBackOff"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ANNOTATION_DURATION, "ten minutes"),
        (ANNOTATION_DURATION, "-1s"),
        (ANNOTATION_EXIT_CODE, "256"),
        (ANNOTATION_EXIT_CODE, "x"),
        (ANNOTATION_EXIT_CODE, "９"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_told_on_the_pod(name: str, value: str) -> None:
    life = life_at(pod(annotations={name: value}), START_S, START_S + 100, AT_ONCE)
    state = life.containers[0].state
    assert isinstance(state, Waiting)
    assert state.reason == "CreateContainerConfigError"
    assert name in state.message


@pytest.mark.parametrize(("grace_s", "phase", "after_s"), [(30, "Running", 2), (1, "Running", 1), (30, "Succeeded", 0)])
def test_a_deleted_pod_is_gone_after_its_stop_but_within_its_grace(grace_s: int, phase: str, after_s: float) -> None:
    pace = Pace(stop_s=4.0)
    leaving = pod(
        metadata={
            "deletionTimestamp": from_seconds(START_S + grace_s),
            "deletionGracePeriodSeconds": grace_s,
        },
        status={"phase": phase},
    )
    gone_s = removal_s(leaving, pace)
    assert gone_s is not None
    assert START_S + after_s <= gone_s <= START_S + min(grace_s, 6.0 if after_s else 0.0)
    assert removal_s(pod(), pace) is None
