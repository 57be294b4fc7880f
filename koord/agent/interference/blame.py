"""What an episode teaches of two workloads: that one disturbs the other, that it surely does, or that it does not.

Reported to the cluster, so that the scheduler can keep them apart. Pods without a controller teach nothing, and neither
do replicas of one workload: to spread those is what topology constraints are for.
"""

from __future__ import annotations

from collections.abc import Callable

from koord.agent.interference.episode import ACTIONS, Finding, Step
from koord.api.protocol.crd.interference_pair import PairedWorkload
from koord.api.protocol.slowed_by import Blame, Verdict


def blame_of(finding: Finding, at: str, workload_of: Callable[[str], PairedWorkload | None]) -> Blame | None:
    """`at`: the time of the step, everybody's; `workload_of` gives a pod's workload by its uid."""
    verdict_and_pod = _verdict(finding)
    if verdict_and_pod is None:
        return None
    verdict, uid = verdict_and_pod
    victim, culprit = workload_of(finding.episode.victim), workload_of(uid)
    if victim is None or culprit is None or victim == culprit:
        return None
    return Blame(at=at, verdict=verdict, victim=victim, culprit=culprit, signal=finding.episode.signal.key)


def _verdict(finding: Finding) -> tuple[Verdict, str] | None:
    """The verdict, and the uid of the pod that it is about."""
    episode, taken = finding.episode, finding.taken
    match taken.step:
        case Step.HELD_BACK | Step.EVICTED | Step.MOVE_ASKED:
            return Verdict.NAMED, taken.uid
        case Step.UNDONE:
            return Verdict.CLEARED, taken.uid
        case Step.BETTER:
            last = episode.action
            # A victim that was moved away is not better for what its neighbour does.
            return None if last is None or last.step is Step.MOVE_ASKED else (Verdict.HELPED, last.uid)
        case Step.SLOWED | Step.OVER:
            culprit = episode.suspects.culprit
            is_undone = taken.step is Step.OVER and episode.last(*ACTIONS, Step.UNDONE) is not None
            return None if culprit is None or is_undone else (Verdict.NAMED, culprit.uid)
    return None
