"""What a pod of processes does next: order, restarts, pauses, phases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from koord.api.kubernetes.runnable import RunnablePod
from koord.api.kubernetes.words import PodPhase
from koord.api.machinery.codec import convert
from koord_minicluster.kubelet.states import Ended, Running, Waiting
from koord_minicluster.kubelet.termination import DEADLINE_EXCEEDED, DELETED, Ending
from koord_minicluster.local.life import (
    ContainerLife,
    Life,
    adopted,
    ended,
    failed_to_start,
    phase_of,
    probed,
    shown,
    started,
    todo,
)
from koord_minicluster.local.runs import Run
from tests.minicluster.local.pods import container, pod

S = 1000.0


class Story:
    """A pod, and what happens to it."""

    def __init__(self, pod: RunnablePod) -> None:
        self.pod, self.life, self.now_s = pod, Life.of(pod), S
        self.by_name = {container.name: container for container in (*pod.spec.init_containers, *pod.spec.containers)}

    def starts(self) -> list[str]:
        """Starts what is due, and names it."""
        names = [container.name for container in todo(self.pod, self.life, self.now_s).start]
        for name in names:
            own = started(self.life.containers[name], self.by_name[name], f"containerd://{name}", self.now_s)
            self.life = self.life.put(name, own)
        return names

    def ends(self, name: str, code: int = 0, after_s: float = 1.0) -> None:
        self.now_s += after_s
        self.life = self.life.put(name, ended(self.life.containers[name], code, "", self.now_s))

    def probe(self, name: str, **told: bool) -> None:
        self.life = self.life.put(name, probed(self.life.containers[name], **told))

    def phase(self) -> PodPhase:
        return phase_of(self.pod, self.life)

    def own(self, name: str = "main") -> ContainerLife:
        return self.life.containers[name]


def test_all_containers_start_at_once() -> None:
    story = Story(pod(container("a"), container("b")))
    assert story.phase() is PodPhase.PENDING
    assert story.starts() == ["a", "b"]
    assert story.starts() == []
    assert story.phase() is PodPhase.RUNNING


def test_init_containers_run_one_after_the_other_before_the_rest() -> None:
    story = Story(pod(init=(container("i1"), container("i2"))))
    assert story.starts() == ["i1"]
    assert story.starts() == []
    story.ends("i1")
    assert story.starts() == ["i2"]
    story.ends("i2")
    assert story.starts() == ["main"]
    assert story.phase() is PodPhase.RUNNING


def test_a_sidecar_stays_and_must_have_started_before_the_next() -> None:
    probe = {"exec": {"command": ["true"]}}
    sidecar = container("side", restartPolicy="Always", startupProbe=probe)
    story = Story(pod(init=(sidecar, container("i2")), restart="Never"))
    assert story.starts() == ["side"]
    assert story.starts() == []
    story.probe("side", is_started=True)
    assert story.starts() == ["i2"]
    story.ends("i2")
    assert story.starts() == ["main"]
    story.ends("side", 1)
    story.now_s += 10
    assert story.starts() == ["side"], "a sidecar is started again whatever the pod's policy"
    story.ends("main")
    assert story.phase() is PodPhase.SUCCEEDED, "it does not keep the pod from ending"


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    story = Story(pod(init=(container("i1"),), restart="Never"))
    story.starts()
    story.ends("i1", 3)
    assert story.phase() is PodPhase.FAILED
    assert story.starts() == []


@pytest.mark.parametrize(
    ("policy", "code", "phase", "again"),
    [
        ("Never", 0, PodPhase.SUCCEEDED, False),
        ("Never", 2, PodPhase.FAILED, False),
        ("OnFailure", 0, PodPhase.SUCCEEDED, False),
        ("OnFailure", 2, PodPhase.RUNNING, True),
        ("Always", 0, PodPhase.RUNNING, True),
        ("Always", 2, PodPhase.RUNNING, True),
    ],
)
def test_who_is_started_again(policy: str, code: int, phase: PodPhase, again: bool) -> None:
    story = Story(pod(restart=policy))
    story.starts()
    story.ends("main", code)
    assert story.phase() is phase
    story.now_s += 300
    assert (story.starts() == ["main"]) == again


def test_pauses_double_up_to_five_minutes_and_are_forgotten_after_a_long_run() -> None:
    story = Story(pod())
    pauses: list[float] = []
    story.starts()
    for _ in range(8):
        story.ends("main", 1)
        assert not pauses or story.starts() == [], "not before its pause is over"
        pauses.append(story.own().not_before_s - story.now_s)
        story.now_s = story.own().not_before_s
        assert story.starts() == ["main"]
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]
    story.ends("main", 1, after_s=601)
    assert story.own().not_before_s == story.now_s


def test_who_waits_to_be_started_again_says_so() -> None:
    story = Story(pod())
    for _ in range(2):
        story.starts()
        story.ends("main", 1)
    container_life = shown(story.pod, story.by_name["main"], story.life, story.now_s)
    assert isinstance(container_life.state, Waiting)
    assert container_life.state.reason == "CrashLoopBackOff"
    assert "10s" in container_life.state.message
    assert isinstance(container_life.last, Ended)
    story.now_s += 10
    story.starts()
    assert story.own().restarts == 2
    assert isinstance(story.own().state, Running)


def test_a_command_that_cannot_be_run_is_tried_again_and_is_no_restart() -> None:
    own = failed_to_start(ContainerLife(), "RunContainerError", "no such file", S)
    assert own.restarts == 0
    assert own.not_before_s == S + 10
    assert phase_of(pod(), Life({"main": own})) is PodPhase.PENDING


def test_readiness_is_what_the_probe_says() -> None:
    probe = {"exec": {"command": ["true"]}}
    story = Story(pod(container(readinessProbe=probe)))
    story.starts()
    for ready in (False, True):
        state = story.own().state
        assert isinstance(state, Running)
        assert state.ready == ready
        story.probe("main", ready=True)


@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    codes=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    sizes=st.tuples(st.integers(0, 2), st.integers(1, 3)),
)
def test_a_pod_that_is_over_starts_nothing_and_one_that_is_not_has_something_to_do(
    policy: str, codes: list[int], sizes: tuple[int, int]
) -> None:
    inits = tuple(container(f"i{number}") for number in range(sizes[0]))
    story = Story(pod(*(container(f"c{number}") for number in range(sizes[1])), init=inits, restart=policy))
    for code in codes:
        story.now_s += 301
        story.starts()
        running = [name for name, own in story.life.containers.items() if isinstance(own.state, Running)]
        if story.phase() in (PodPhase.SUCCEEDED, PodPhase.FAILED):
            assert not running
            assert story.starts() == []
            return
        assert running, "a container runs, or is about to"
        story.ends(running[0], code)


@pytest.mark.parametrize(("policy", "phase"), [("Always", PodPhase.RUNNING), ("Never", PodPhase.FAILED)])
def test_what_ran_before_this_process_counts_as_killed(policy: str, phase: PodPhase) -> None:
    status = {"name": "main", "restartCount": 2, "containerID": "containerd://old", "state": {"running": {}}}
    raw = {**to_builtins(pod(restart=policy)), "status": {"phase": "Running", "containerStatuses": [status]}}
    story = Story(convert(RunnablePod, raw))
    story.life = Life.resumed(story.pod, S)
    assert story.phase() is phase
    assert story.starts() == (["main"] if policy == "Always" else [])
    assert story.own().restarts == (3 if policy == "Always" else 2)


@pytest.mark.parametrize(
    ("ending", "code", "phase"),
    [
        (DELETED, 0, PodPhase.SUCCEEDED),
        (DELETED, 143, PodPhase.FAILED),
        (DEADLINE_EXCEEDED, 0, PodPhase.FAILED),
    ],
)
def test_a_pod_that_is_ended_from_outside_is_over_whatever_its_policy_says(
    ending: Ending, code: int, phase: PodPhase
) -> None:
    story = Story(pod())
    story.starts()
    story.ends("main", code)
    story.life = story.life.ended_by(ending, story.now_s)
    assert story.phase() is phase
    assert story.starts() == []
    assert shown(story.pod, story.by_name["main"], story.life, story.now_s) == story.own()


def test_containers_that_waited_when_the_pod_was_ended_have_ended_too() -> None:
    story = Story(pod(init=(container("first"),)))
    story.starts()
    story.ends("first", 1)
    story.life = story.life.ended_by(DEADLINE_EXCEEDED, story.now_s)
    assert story.own("main").state == Ended(137, story.now_s, story.now_s, "ContainerStatusUnknown")
    assert story.own("first").state == Ended(1, S, story.now_s)


@pytest.mark.parametrize(("told_of", "is_ready"), [("containerd://this", True), ("containerd://before", False)])
def test_an_adopted_container_goes_on_as_its_probes_said_of_this_run(told_of: str, is_ready: bool) -> None:
    probed = container(readinessProbe={"exec": {"command": ["true"]}})
    before = {"exitCode": 7, "startedAt": "1970-01-01T00:10:00Z", "finishedAt": "1970-01-01T00:11:00Z"}
    status = {
        "name": "main", "restartCount": 1, "ready": True, "started": True, "containerID": told_of,
        "state": {"running": {}}, "lastState": {"terminated": before},
    }  # fmt: skip
    raw = {**to_builtins(pod(probed)), "status": {"phase": "Running", "containerStatuses": [status]}}
    story = Story(convert(RunnablePod, raw))
    lost = Life.resumed(story.pod, S).containers["main"]
    (told,) = story.pod.status.container_statuses
    run = Run(restarts=1, process="12@34", since_s=S - 100, backoff_s=10.0)
    own = adopted(lost, story.by_name["main"], run, "containerd://this", told)
    assert own.state == Running(S - 100, ready=is_ready)
    assert (own.restarts, own.backoff_s, own.id) == (1, 10.0, "containerd://this")
    assert own.last == (Ended(7, 600.0, 660.0) if is_ready else None)
