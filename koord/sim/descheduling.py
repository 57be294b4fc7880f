"""A round of the descheduler: the decisions that run live, on the objects that they read there.

A round proposes moves, arbitration lets some begin, and each of them is a PodMigrationJob that is taken from step to
step: room is reserved, the pod is evicted, its replacement takes the room. All of it happens within one minute; a move
that is not over then is given up, with its reservation. Moves are not slowed by `objectLimiters`.
"""

from __future__ import annotations

import json
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kinds import RESERVATIONS
from koord.api.machinery.codec import convert, encode
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.load import PASSED_ARBITRATION
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.protocol.crd.reservation import Reservation
from koord.descheduler.arbitration import MoveRequest, arbitrate
from koord.descheduler.compiled import ReadyProfile
from koord.descheduler.held_room import reservation_name
from koord.descheduler.job_request import job_request
from koord.descheduler.migration import step
from koord.descheduler.migration_step import DropReservation, EvictPod, MakeReservation, MigrationState
from koord.descheduler.moves import Moves
from koord.descheduler.plugin import Proposal
from koord.descheduler.replacement import reservation_for
from koord.descheduler.round import Outcome
from koord.descheduler.round import run as run_round
from koord.descheduler.sight import Sight
from koord.sim import pods
from koord.sim.descheduler import Descheduler
from koord.sim.reporting import sight_of
from koord.sim.stage import Stage, lose, move_service, schedule, wait_again

PASSES: Final = 12
"""How often all moves of a round are looked at within its minute."""


def deschedule(stage: Stage, descheduler: Descheduler) -> None:
    """A round, and the moves that it begins."""
    sight = sight_of(stage)
    outcome = run_round(descheduler.compiled, sight, descheduler.memory)
    if outcome.failed:
        name, error = outcome.failed[0]
        raise BadInput(f"the descheduler's plugin {name} failed: {error}") from error
    descheduler.memory = outcome.memory
    moves = [_Move(stage, proposal, profile) for proposal, profile in _let_begin(outcome, sight)]
    for _ in range(PASSES if moves else 0):
        went_on = [move.go_on() for move in moves]
        if not any(went_on):
            break
        schedule(stage)
    for move in moves:
        move.end()
        stage.meanwhile.moved += move.has_evicted


def _let_begin(outcome: Outcome, sight: Sight) -> list[tuple[Proposal, ReadyProfile]]:
    """Moves that pass arbitration, profile by profile, in its order."""
    by_profile: dict[str, tuple[ReadyProfile, dict[str, Proposal]]] = {}
    for proposal in outcome.moves:
        profile = outcome.asked_by[proposal.pod.metadata.key]
        by_profile.setdefault(profile.name, (profile, {}))[1][proposal.pod.metadata.key] = proposal
    moves, passed = Moves(sight.now_s), list[tuple[Proposal, ReadyProfile]]()
    for profile, proposals in by_profile.values():
        requests = [MoveRequest(key, sight.now_s, proposal.pod, profile.rules) for key, proposal in proposals.items()]
        rulings = arbitrate(requests, sight.workloads, moves)
        passed += [(proposals[ruling.request.name], profile) for ruling in rulings if ruling.outcome == "passes"]
    return passed


class _Move:
    """A pod on its way to another node: a PodMigrationJob, and what its steps ask for."""

    def __init__(self, stage: Stage, proposal: Proposal, profile: ReadyProfile) -> None:
        self.stage, self.args = stage, profile.rules.args
        self.pod = proposal.pod
        self.has_evicted = False
        self.job = _job(proposal, self.args, profile.name, self._now_s)

    @property
    def _now_s(self) -> float:
        return pods.START_S + self.stage.now_s

    def go_on(self) -> bool:
        """Steps until the job waits for others. Whether anything was done."""
        is_changed = False
        while not self.job.is_over:
            taken = step(self.job, self._state(), self.args, self._now_s)
            for action in taken.actions:
                match action:
                    case MakeReservation():
                        self._reserve()
                    case DropReservation(name):
                        self._drop(name)
                    case EvictPod():
                        self._evict()
                    case _:
                        # They are about reservations of users, notice and Deployments, which no scenario has.
                        raise TypeError(f"{type(action).__name__} is not simulated")
            is_same = taken.job == self.job and not taken.actions
            self.job = taken.job
            is_changed |= not is_same
            if is_same or taken.actions or taken.again_s:
                break
        return is_changed

    def end(self) -> None:
        """What is not over within its minute is given up."""
        if not self.job.is_over:
            self._drop(reservation_name(self.job))

    def _state(self) -> MigrationState:
        placing = self.stage.scheduler.placing
        reservation = placing.core.objects(RESERVATIONS).get(reservation_name(self.job))
        owners = reservation.status.current_owners if reservation is not None else ()
        bound = placing.pods.get(f"{owners[0].namespace}/{owners[0].name}") if owners else None
        return MigrationState(placing.pods.get(self.pod.metadata.key), reservation, bound)

    def _reserve(self) -> None:
        plain = json.loads(encode(self.pod))
        wanted = reservation_for(self.job, plain, str(self.args.default_job_ttl), self._now_s)
        wanted["metadata"]["uid"] = wanted["metadata"]["name"]
        wanted["metadata"]["creationTimestamp"] = pods.stamp(self.stage.now_s)
        self.stage.scheduler.placing.core.put(RESERVATIONS, convert(Reservation, wanted))

    def _drop(self, name: str) -> None:
        placing = self.stage.scheduler.placing
        reservation = placing.core.objects(RESERVATIONS).get(name)
        if reservation is not None:
            placing.core.removed(RESERVATIONS, reservation)

    def _evict(self) -> None:
        """The pod goes, and its workload makes another one."""
        stage, key = self.stage, self.pod.metadata.key
        self.has_evicted = True
        number = stage.scheduler.task_of.get(key)
        if number is None:
            move_service(stage, stage.scheduler.service_of[key])
        else:
            lose(stage, number, "descheduler")
            wait_again(stage, number)


def _job(proposal: Proposal, args: MigrationControllerArgs, profile: str, now_s: float) -> PodMigrationJob:
    uid = f"move-{proposal.pod.metadata.uid}"
    data = job_request(proposal, args, name=uid, created_by="koord-sim", profile=profile)
    metadata = data["metadata"]
    metadata |= {"uid": uid, "creationTimestamp": pods.stamp(now_s - pods.START_S)}
    metadata["annotations"] |= {PASSED_ARBITRATION.key: "true"}
    return convert(PodMigrationJob, data)
