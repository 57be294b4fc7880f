"""The life of a pod of processes: what its containers do next, given what happened to them.

Init containers run one after the other (those with restart policy Always stay, as sidecars), then all others at once. A
container that ends is restarted by the pod's policy: the first time at once, then after pauses that double from 10 s to
5 min. A run of ten minutes resets the pause. This module decides what starts and stops; `live/` does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from koord.api.kubernetes.pod import ContainerTerminated
from koord.api.kubernetes.runnable import RunnableContainer, RunnableContainerStatus, RunnablePod
from koord.api.kubernetes.words import PodPhase, RestartPolicy
from koord.api.text.timestamp import parse_timestamp
from koord_minicluster.kubelet.states import BACKOFF_RESET_S, Ended, Running, State, Waiting, longer
from koord_minicluster.kubelet.termination import DEADLINE_EXCEEDED, Ending
from koord_minicluster.local.runs import Run

KILLED: Final = 137
UNKNOWN: Final = "ContainerStatusUnknown"


@dataclass(frozen=True, slots=True)
class ContainerLife:
    state: State = field(default_factory=Waiting)
    restarts: int = 0
    last: Ended | None = None
    "How it ended before it was started again."
    backoff_s: float = 0.0
    not_before_s: float = 0.0
    id: str = ""

    @property
    def has_begun(self) -> bool:
        return not isinstance(self.state, Waiting) or self.last is not None


@dataclass(frozen=True, slots=True)
class Life:
    """By container name, init containers included."""

    containers: Mapping[str, ContainerLife]
    ending: Ending | None = None
    "Why all of it is ended from outside, if it is: nothing starts again."

    @staticmethod
    def of(pod: RunnablePod) -> Life:
        waits = ContainerLife(Waiting("ContainerCreating" if not pod.spec.init_containers else "PodInitializing"))
        return Life({container.name: waits for container in (*pod.spec.init_containers, *pod.spec.containers)})

    @staticmethod
    def resumed(pod: RunnablePod, now_s: float) -> Life:
        """Of a pod that ran here before this process: what its status says ran counts as killed, unless it is
        `adopted`."""
        statuses = {
            status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        }
        life = Life.of(pod)
        for name, status in statuses.items():
            own = life.containers.get(name)
            if own is None:
                continue
            state = own.state
            if status.state.running is not None:
                state = Ended(KILLED, now_s, now_s, UNKNOWN)
            elif status.state.terminated is not None:
                ended_before = status.state.terminated
                state = Ended(ended_before.exit_code, *_times(ended_before, now_s), ended_before.reason)
            life = life.put(name, replace(own, state=state, restarts=status.restart_count, id=status.container_id))
        return life

    def put(self, name: str, life: ContainerLife) -> Life:
        return replace(self, containers={**self.containers, name: life})

    def lost(self, now_s: float) -> Life:
        """After the pod's cgroup was taken away from under its containers."""
        lost = {
            name: ended(own, KILLED, UNKNOWN, now_s) if isinstance(own.state, Running) else own
            for name, own in self.containers.items()
        }
        return replace(self, containers=lost)

    def ended_by(self, ending: Ending, now_s: float) -> Life:
        """After all its containers were stopped. A container that was waiting has ended too."""
        over = {
            name: own if isinstance(own.state, Ended) else replace(ended(own, KILLED, UNKNOWN, now_s), id=own.id)
            for name, own in self.containers.items()
        }
        return replace(self, containers=over, ending=ending)


@dataclass(frozen=True, slots=True)
class Todo:
    """What to do now: start these. And when to look again, if nothing happens before."""

    start: tuple[RunnableContainer, ...] = ()
    next_s: float | None = None


def todo(pod: RunnablePod, life: Life, now_s: float) -> Todo:
    """What to do for a pod that should run; a pod that must end only has to be stopped."""
    if phase_of(pod, life) in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return Todo()
    candidates: list[RunnableContainer] = []
    for container in pod.spec.init_containers:
        own = life.containers[container.name]
        if container.is_sidecar:
            if not isinstance(own.state, Running):
                candidates.append(container)
            if not (isinstance(own.state, Running) and own.state.started):
                return _startable(candidates, life, pod, now_s)
        elif not (isinstance(own.state, Ended) and own.state.ok):
            if not isinstance(own.state, Running) and _runs_again(pod, container, own):
                candidates.append(container)
            return _startable(candidates, life, pod, now_s)
    for container in pod.spec.containers:
        own = life.containers[container.name]
        if not isinstance(own.state, Running) and _runs_again(pod, container, own):
            candidates.append(container)
    return _startable(candidates, life, pod, now_s)


def _startable(candidates: list[RunnableContainer], life: Life, pod: RunnablePod, now_s: float) -> Todo:
    due = [container for container in candidates if life.containers[container.name].not_before_s <= now_s]
    later = [life.containers[container.name].not_before_s for container in candidates if container not in due]
    return Todo(tuple(due), min(later, default=None))


def _runs_again(pod: RunnablePod, container: RunnableContainer, own: ContainerLife) -> bool:
    """Whether the container must be started, for the first time or again."""
    if not isinstance(own.state, Ended):
        return True
    if container.is_sidecar:
        return True
    is_init = any(init.name == container.name for init in pod.spec.init_containers)
    policy = pod.spec.restart_policy
    if policy == RestartPolicy.NEVER:
        return False
    if policy == RestartPolicy.ON_FAILURE or is_init:
        return not own.state.ok
    return True


def started(own: ContainerLife, container: RunnableContainer, container_id: str, now_s: float) -> ContainerLife:
    again = own.state if isinstance(own.state, Ended) else own.last
    is_restart = again is not None
    state = Running(now_s, ready=container.readiness_probe is None, started=container.startup_probe is None)
    return replace(own, state=state, restarts=own.restarts + is_restart, last=again, id=container_id)


def ended(own: ContainerLife, code: int, reason: str, now_s: float) -> ContainerLife:
    since_s = own.state.since_s if isinstance(own.state, Running) else now_s
    pause_s = 0.0 if now_s - since_s >= BACKOFF_RESET_S else own.backoff_s
    return replace(
        own,
        state=Ended(code, since_s, now_s, reason),
        backoff_s=longer(pause_s),
        not_before_s=now_s + pause_s,
    )


def failed_to_start(own: ContainerLife, reason: str, message: str, now_s: float) -> ContainerLife:
    """It never ran: a command that is not there, an environment that cannot be had."""
    pause_s = longer(own.backoff_s)
    return replace(own, state=Waiting(reason, message), backoff_s=pause_s, not_before_s=now_s + pause_s)


def probed(own: ContainerLife, *, ready: bool | None = None, is_started: bool | None = None) -> ContainerLife:
    if not isinstance(own.state, Running):
        return own
    state = replace(
        own.state,
        ready=own.state.ready if ready is None else ready,
        started=own.state.started if is_started is None else is_started,
    )
    return replace(own, state=state)


def adopted(
    own: ContainerLife,
    container: RunnableContainer,
    run: Run,
    container_id: str,
    status: RunnableContainerStatus | None,
) -> ContainerLife:
    """A container that outlived the process that started it. `told` is its status in the API, which may be that of the
    run before; then its probes have said nothing yet."""
    is_told = status is not None and status.container_id == container_id
    state = Running(
        run.since_s,
        ready=status.ready if status is not None and is_told else container.readiness_probe is None,
        started=bool(status.started) if status is not None and is_told else container.startup_probe is None,
    )
    before = status.last_state.terminated if status is not None and is_told else None
    last = None if before is None else Ended(before.exit_code, *_times(before, run.since_s), before.reason)
    return replace(own, state=state, restarts=run.restarts, last=last, backoff_s=run.backoff_s, id=container_id)


def _times(terminated: ContainerTerminated, otherwise_s: float) -> tuple[float, float]:
    began, finished = (
        parse_timestamp(at) if at else otherwise_s for at in (terminated.started_at, terminated.finished_at)
    )
    return began, finished


def phase_of(pod: RunnablePod, life: Life) -> PodPhase:
    if life.ending is not None:
        states = [life.containers[container.name].state for container in pod.spec.containers]
        is_ok = life.ending is not DEADLINE_EXCEEDED and all(isinstance(state, Ended) and state.ok for state in states)
        return PodPhase.SUCCEEDED if is_ok else PodPhase.FAILED
    for container in pod.spec.init_containers:
        own = life.containers[container.name]
        if (
            not container.is_sidecar
            and isinstance(own.state, Ended)
            and not own.state.ok
            and not _runs_again(pod, container, own)
        ):
            return PodPhase.FAILED
    main = [(container, life.containers[container.name]) for container in pod.spec.containers]
    if any(not own.has_begun for _, own in main):
        return PodPhase.PENDING
    over = [own for container, own in main if isinstance(own.state, Ended) and not _runs_again(pod, container, own)]
    if len(over) < len(main):
        return PodPhase.RUNNING
    is_ok = all(isinstance(own.state, Ended) and own.state.ok for own in over)
    return PodPhase.SUCCEEDED if is_ok else PodPhase.FAILED


def shown(pod: RunnablePod, container: RunnableContainer, life: Life, now_s: float) -> ContainerLife:
    """As its status tells it: one that waits to be started again says so."""
    own = life.containers[container.name]
    if life.ending is not None:
        return own
    if isinstance(own.state, Ended) and _runs_again(pod, container, own) and own.not_before_s > now_s:
        seconds = int(own.not_before_s - own.state.ended_s)
        message = f"back-off {seconds}s restarting failed container={container.name} pod={pod.metadata.name}"
        return replace(own, state=Waiting("CrashLoopBackOff", message), last=own.state)
    return own
