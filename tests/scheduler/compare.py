"""Where does the plain reading of the rules differ from what kube-scheduler said?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.kubernetes.pod import Pod
from tests.scheduler.kube_scheduler import Answer, Refusal
from tests.scheduler.profiles import twins
from tests.scheduler.reference import cycle, volume_rules
from tests.scheduler.reference.cluster import Cluster


def changes_cluster(pod: Pod, cluster: Cluster) -> bool:
    """Whether placing the pod would bind volumes, so that the next pod found another cluster."""
    return any(not volume_rules.is_bound(claim) for claim in volume_rules.claims_of(pod, cluster))


def differences(pod: Pod, cluster: Cluster, profile: SchedulerProfile, answer: Answer) -> Iterator[str]:
    """Each difference in words; nothing where the two agree."""
    if answer.feasible is not None:
        feasible = cycle.feasible_nodes(pod, cluster, profile)
        if set(feasible) != set(answer.feasible):
            yield f"feasible: {sorted(feasible)}, kube-scheduler: {sorted(answer.feasible)}"
        elif len(feasible) > 1:
            yield from _score_differences(pod, cluster, profile, answer)
    for twin, refusal in zip(twins(profile), answer.refusals, strict=True):
        yield from _refusal_differences(pod, cluster, twin, refusal)


def _refusal_differences(pod: Pod, cluster: Cluster, twin: SchedulerProfile, refusal: Refusal) -> Iterator[str]:
    verdicts = cycle.feasible(pod, cluster, twin).values()
    reasons = Counter(reason for verdict in verdicts for reason in verdict.reasons)
    if 0 in refusal.reasons.values():
        reasons = Counter(dict.fromkeys(reasons, 0))
    if reasons != refusal.reasons:
        said = dict(sorted(refusal.reasons.items()))
        yield f"{twin.scheduler_name}: {dict(sorted(reasons.items()))}, kube-scheduler: {said}"
    preemptible = sum(verdict.code == "unsched" for verdict in verdicts)
    if preemptible != refusal.preemptible:
        where = f"preemption may help on {preemptible} nodes, kube-scheduler: {refusal.preemptible}"
        yield f"{twin.scheduler_name}: {where}"


def _score_differences(pod: Pod, cluster: Cluster, profile: SchedulerProfile, answer: Answer) -> Iterator[str]:
    assert answer.feasible is not None
    found = cycle.scores(pod, answer.feasible, cluster, profile)
    weights = profile.resolved().weights
    weighed = {
        plugin: {node: score * weights[plugin] for node, score in by_node.items()} for plugin, by_node in found.items()
    }
    for plugin in sorted(weighed.keys() | answer.scores.keys()):
        ours, theirs = weighed.get(plugin), answer.scores.get(plugin)
        if ours != theirs:
            yield f"{plugin}: {_sorted(ours)}, kube-scheduler: {_sorted(theirs)}"


def _sorted(scores: dict[str, int] | None) -> dict[str, int] | None:
    return dict(sorted(scores.items())) if scores is not None else None
