"""What an episode teaches of two workloads, and that it is in the node's report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import Raw
from msgspec.json import encode

from koord.agent.interference.blame import blame_of
from koord.agent.interference.culprits import Suspect, Suspects
from koord.agent.interference.episode import Episode, EpisodeStep, Finding, Step
from koord.agent.interference.signals import Signal
from koord.agent.report.node_metric import node_metric_status
from koord.agent.series import names
from koord.api.protocol.crd.interference_pair import PairedWorkload
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.protocol.slowed_by import Blame, Verdict, blames_in
from koord.manager.live.records import metric_record
from tests.agent import states

AT = "2026-11-16T08:00:00Z"
WEB = PairedWorkload("shop", "Deployment", "web")
BUILD = PairedWorkload("batch", "Job", "build")
WORKLOADS = {"web-1": WEB, "web-2": WEB, "build-1": BUILD}


def suspect(uid: str, score: float = 0.9) -> Suspect:
    return Suspect(uid, score, None, 5.0, 0.9, 1900.0)


EPISODE = Episode("web-1", Signal.RUN_QUEUE_DELAY, 0.0, 0.5, 4.5, 4.5, "main", Suspects((suspect("build-1"),)))


def taught(*steps: tuple[Step, str], episode: Episode = EPISODE) -> tuple[Verdict, PairedWorkload] | None:
    """By the last of some steps."""
    taken = tuple(EpisodeStep(step, 10.0, uid) for step, uid in steps)
    blame = blame_of(Finding(taken[-1], replace(episode, steps=taken)), AT, WORKLOADS.get)
    return None if blame is None else (blame.verdict, blame.culprit)


HELD = (Step.HELD_BACK, "build-1")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(Step.SLOWED, "")], (Verdict.NAMED, BUILD)),
        ([(Step.SLOWED, ""), HELD], (Verdict.NAMED, BUILD)),
        ([(Step.SLOWED, ""), (Step.EVICTED, "build-1")], (Verdict.NAMED, BUILD)),
        ([(Step.SLOWED, ""), (Step.MOVE_ASKED, "build-1")], (Verdict.NAMED, BUILD)),
        ([(Step.SLOWED, ""), HELD, (Step.BETTER, "")], (Verdict.HELPED, BUILD)),
        ([(Step.SLOWED, ""), HELD, (Step.UNDONE, "build-1")], (Verdict.CLEARED, BUILD)),
        ([(Step.SLOWED, ""), HELD, (Step.BETTER, ""), (Step.OVER, "")], None),
        ([(Step.SLOWED, ""), HELD, (Step.UNDONE, "build-1"), (Step.OVER, "")], None),
        ([(Step.SLOWED, ""), (Step.OVER, "")], (Verdict.NAMED, BUILD)),
        ([(Step.WORKLOAD, "")], None),
        ([(Step.SLOWED, ""), (Step.UNCLEAR, "")], None),
        ([(Step.SLOWED, ""), (Step.MOVE_ASKED, "build-1"), (Step.BETTER, "")], None),
    ],
)
def test_each_step_teaches_what_it_proves(
    steps: list[tuple[Step, str]], expected: tuple[Verdict, PairedWorkload] | None
) -> None:
    assert taught(*steps) == expected


@pytest.mark.parametrize(
    "suspects",
    [
        (suspect("web-1"),),  # it slowed itself down
        (suspect("web-2"),),  # a replica of its own
        (suspect("bare"),),  # no controller makes it again
        (suspect("build-1", 0.4),),
        (suspect("build-1", 0.6), suspect("web-2", 0.5)),
        (),
    ],
)
def test_who_is_not_clearly_another_workload_is_not_blamed(suspects: tuple[Suspect, ...]) -> None:
    assert taught((Step.SLOWED, ""), episode=replace(EPISODE, suspects=Suspects(suspects))) is None


def test_the_manager_reads_in_the_report_what_the_agent_found() -> None:
    pod = states.pod("web-1", "LS")
    state = states.node(pod)
    used = {
        names.NODE_CPU: 1.0,
        names.NODE_MEMORY: 1.0,
        names.pod_cpu(pod.uid): 1.0,
        names.pod_memory(pod.uid): 1.0,
    }
    victim = PairedWorkload(pod.meta.namespace, "Deployment", "web")
    blame = Blame(AT, Verdict.NAMED, victim, BUILD, "runQueueDelay")
    status = node_metric_status(
        state, states.samples(used), ReportPolicy(), states.NOW, AT, blames={pod.uid: [blame], "gone": [blame]}
    )
    assert status is not None
    sent = encode({"metadata": {"name": "n1"}, "status": status})
    assert metric_record(Raw(sent)).blames == (blame,)
    silent = node_metric_status(state, states.samples(used), ReportPolicy(), states.NOW, AT)
    assert silent is not None
    assert all(not list(blames_in(metric)) for metric in silent.pods_metric)
