"""The life of a modelled pod: what its status should be at a given time, and when that changes next.

Everything follows from the pod, its start time and the clock, so that a restart of the process changes nothing:

    start --start delay--> [init containers, one after the other] --> run --duration--> end, or restart by its policy

A pod runs for ever unless the annotation `hollow.koord.sh/duration` (`90s`, `1h30m`) says how long each run takes;
`hollow.koord.sh/exit-code` says how it then ends (0). `hollow.koord.sh/waiting` keeps it from starting at all, for the
reason that it gives (`ImagePullBackOff`). Restarts back off as a kubelet's do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from koord.api.kubernetes.pod import Container, Pod
from koord.api.kubernetes.words import PodPhase, RestartPolicy
from koord.api.text.duration import DurationError, parse_duration
from koord_minicluster.hollow.chance import spread
from koord_minicluster.kubelet.states import (
    BACKOFF_FIRST_S,
    BACKOFF_MOST_S,
    BACKOFF_RESET_S,
    Ended,
    Running,
    State,
    Waiting,
)
from koord_minicluster.kubelet.termination import (
    DEADLINE_EXCEEDED,
    Ending,
    deadline_s,
    deletion_asked_s,
    grace_s,
)

ANNOTATION_DURATION: Final = "hollow.koord.sh/duration"
ANNOTATION_EXIT_CODE: Final = "hollow.koord.sh/exit-code"
ANNOTATION_WAITING: Final = "hollow.koord.sh/waiting"

SHORTEST_RUN_S: Final = 1.0
KILLED: Final = 143


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, each pod within half of it; `stop_s` never longer than the pod's grace."""

    start_s: float = 1.0
    init_s: float = 0.5
    stop_s: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ContainerLife:
    container: Container
    state: State
    restarts: int = 0
    last: Ended | None = None

    @property
    def ready(self) -> bool:
        """Whether it serves; an init container counts as ready once it has done its work."""
        if isinstance(self.state, Ended):
            return self.state.code == 0
        return isinstance(self.state, Running)


@dataclass(frozen=True, slots=True)
class Life:
    """Where a pod is. `next_s` is when that changes by itself, if it does."""

    phase: PodPhase
    containers: tuple[ContainerLife, ...]
    init: tuple[ContainerLife, ...] = ()
    has_sandbox: bool = True
    initialized: bool = True
    ending: Ending | None = None
    "Why it was ended from outside, if it was."
    next_s: float | None = None

    @property
    def is_over(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def unready(self) -> tuple[str, ...]:
        """The containers that do not serve."""
        return tuple(life.container.name for life in self.containers if not isinstance(life.state, Running))


@dataclass(frozen=True, slots=True)
class Script:
    """What the pod's annotations ask for."""

    run_s: float | None = None
    exit_code: int = 0
    waiting: Waiting | None = None


def script_of(pod: Pod) -> Script:
    """The annotations' meaning. One that cannot be read keeps the pod from starting, and says why."""
    annotations = pod.metadata.annotations
    waiting, duration = annotations.get(ANNOTATION_WAITING), annotations.get(ANNOTATION_DURATION)
    code_text = annotations.get(ANNOTATION_EXIT_CODE, "0")
    if waiting is not None:
        return Script(waiting=Waiting(waiting or "ImagePullBackOff", f"as the annotation {ANNOTATION_WAITING} asks"))
    try:
        run_s = None if duration is None else parse_duration(duration)
    except DurationError as error:
        return Script(waiting=Waiting("CreateContainerConfigError", f"annotation {ANNOTATION_DURATION}: {error}"))
    if run_s is not None and run_s < 0:
        message = f"annotation {ANNOTATION_DURATION} is {duration}; it must not be negative"
        return Script(waiting=Waiting("CreateContainerConfigError", message))
    if not (code_text.isascii() and code_text.isdigit() and len(code_text) < 4 and int(code_text) < 256):
        message = f"annotation {ANNOTATION_EXIT_CODE} is {code_text[:60]!r}; it must be a number from 0 to 255"
        return Script(waiting=Waiting("CreateContainerConfigError", message))
    return Script(run_s, int(code_text))


def life_at(pod: Pod, started_s: float, now_s: float, pace: Pace) -> Life:
    """The pod's state at `now_s`, its node having taken it on at `started_s`. Deletion is `removal_s`'s affair."""
    until_s = deadline_s(pod, started_s)
    if until_s is None:
        return _life(pod, started_s, now_s, pace)
    life = _life(pod, started_s, min(now_s, until_s), pace)
    if life.is_over:
        return life
    if now_s >= until_s:
        return killed(life, until_s, DEADLINE_EXCEEDED)
    return replace(life, next_s=min(life.next_s or until_s, until_s))


def removal_s(pod: Pod, pace: Pace) -> float | None:
    """When a pod that is being deleted is gone from its node; None for a pod that is not being deleted."""
    asked_s = deletion_asked_s(pod)
    if asked_s is None or pod.is_finished:
        return asked_s
    return asked_s + min(grace_s(pod), spread(pace.seed, "stop", pod.metadata.uid, around=pace.stop_s))


def killed(life: Life, at_s: float, ending: Ending) -> Life:
    """The pod's last state when its containers were ended from outside."""

    def end(container: ContainerLife) -> ContainerLife:
        match container.state:
            case Ended():
                return container
            case Running(since_s):
                return ContainerLife(
                    container.container, Ended(KILLED, since_s, at_s), container.restarts, container.last
                )
            case Waiting():
                last = container.last or Ended(KILLED, at_s, at_s)
                return ContainerLife(container.container, last, container.restarts, None)

    return Life(
        phase=PodPhase.FAILED,
        containers=tuple(map(end, life.containers)),
        init=tuple(map(end, life.init)),
        has_sandbox=False,
        initialized=life.initialized,
        ending=ending,
    )


def _life(pod: Pod, started_s: float, now_s: float, pace: Pace) -> Life:
    script = script_of(pod)
    sandbox_s = started_s + spread(pace.seed, "start", pod.metadata.uid, around=pace.start_s)
    times_s = _init_times(pod.spec.init_containers, sandbox_s, pace)
    run_s = times_s[-1]
    init = tuple(
        _init_life(*container_times, now_s)
        for container_times in zip(pod.spec.init_containers, times_s, times_s[1:], strict=False)
    )
    if script.waiting is not None:
        return Life(
            phase=PodPhase.PENDING,
            containers=_all(pod, script.waiting),
            init=tuple(ContainerLife(life.container, Waiting("PodInitializing")) for life in init),
            initialized=not init,
        )
    if now_s < run_s:
        return Life(
            phase=PodPhase.PENDING,
            containers=_all(pod, Waiting("PodInitializing" if init else "ContainerCreating")),
            init=init,
            has_sandbox=now_s >= sandbox_s,
            initialized=run_s == sandbox_s,
            next_s=next(time_s for time_s in times_s if time_s > now_s),
        )
    return _running(pod, script, run_s, now_s, init)


def _running(pod: Pod, script: Script, run_s: float, now_s: float, init: tuple[ContainerLife, ...]) -> Life:
    if script.run_s is None:
        return Life(PodPhase.RUNNING, _all(pod, Running(run_s)), init)
    policy = pod.spec.restart_policy
    if policy == RestartPolicy.NEVER or (policy == RestartPolicy.ON_FAILURE and script.exit_code == 0):
        end_s = run_s + script.run_s
        if now_s < end_s:
            return Life(PodPhase.RUNNING, _all(pod, Running(run_s)), init, next_s=end_s)
        return Life(
            phase=PodPhase.SUCCEEDED if script.exit_code == 0 else PodPhase.FAILED,
            containers=_all(pod, Ended(script.exit_code, run_s, end_s)),
            init=tuple(_sidecar_ended(life, end_s) for life in init),
            has_sandbox=False,
        )
    cycle_s = max(script.run_s, SHORTEST_RUN_S)
    restarts, began_s = _cycle(run_s, now_s, cycle_s)
    ended_s = began_s + cycle_s
    before_s = began_s - backoff_s(restarts, cycle_s) - cycle_s
    last = Ended(script.exit_code, before_s, before_s + cycle_s) if restarts else None
    if now_s < ended_s:
        return Life(PodPhase.RUNNING, _all(pod, Running(began_s), restarts, last), init, next_s=ended_s)
    pause_s = backoff_s(restarts + 1, cycle_s)
    message = f"back-off {pause_s:g}s restarting failed container"
    now_ended = Ended(script.exit_code, began_s, ended_s)
    waiting = Waiting("CrashLoopBackOff", message)
    return Life(PodPhase.RUNNING, _all(pod, waiting, restarts, now_ended), init, next_s=ended_s + pause_s)


def backoff_s(restart: int, run_s: float) -> float:
    """The wait before restart number `restart` (from 1): none before the first, then 10 s, doubled up to 5 minutes."""
    if restart <= 1 or run_s >= BACKOFF_RESET_S:
        return 0.0
    return float(min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2 ** min(restart - 2, 10)))


def _cycle(run_s: float, now_s: float, cycle_s: float) -> tuple[int, float]:
    """Which run it is at `now_s` (from 0), and when that began. A wait belongs to the run before it."""
    restarts, began_s = 0, run_s
    while True:
        pause_s = backoff_s(restarts + 1, cycle_s)
        if pause_s == BACKOFF_MOST_S or cycle_s >= BACKOFF_RESET_S:
            # From here on all runs are alike.
            whole = int(max(0.0, now_s - began_s) // (cycle_s + pause_s))
            return restarts + whole, began_s + whole * (cycle_s + pause_s)
        if now_s < began_s + cycle_s + pause_s:
            return restarts, began_s
        restarts, began_s = restarts + 1, began_s + cycle_s + pause_s


def _init_times(containers: tuple[Container, ...], sandbox_s: float, pace: Pace) -> list[float]:
    """When each init container begins, and at last when the main containers do. A sidecar holds up none."""
    steps_s = (0.0 if container.is_sidecar else pace.init_s for container in containers)
    return list(accumulate(steps_s, initial=sandbox_s))


def _init_life(container: Container, begin_s: float, end_s: float, now_s: float) -> ContainerLife:
    if now_s < begin_s:
        return ContainerLife(container, Waiting("PodInitializing"))
    if container.is_sidecar or now_s < end_s:
        return ContainerLife(container, Running(begin_s))
    return ContainerLife(container, Ended(0, begin_s, end_s))


def _sidecar_ended(life: ContainerLife, end_s: float) -> ContainerLife:
    if isinstance(life.state, Running):
        return ContainerLife(life.container, Ended(0, life.state.since_s, end_s))
    return life


def _all(pod: Pod, state: State, restarts: int = 0, last: Ended | None = None) -> tuple[ContainerLife, ...]:
    return tuple(ContainerLife(container, state, restarts, last) for container in pod.spec.containers)
