"""Whom the kernel's out-of-memory killer takes first, where a pod says so: of its containers' processes.

Best effort always goes first: a batch pod that hid from the killer would have services killed in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent import wish
from koord.agent.hooks.hook import Hook
from koord.agent.host.knobs import OOM_SCORE_ADJ
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.annotations.pod_qos import oom_score_adj
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass

NAME: Final = "oom_score"
BEST_EFFORT: Final = 1000
"""What kubelet gives it."""


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    try:
        score = oom_score_adj(pod.meta, container.name)
    except AnnotationError:
        return
    if score is not None:
        score = BEST_EFFORT if pod.qos is QoSClass.BE else score
        target = wish.container(pod.uid, container.name)
        yield Wish(target, OOM_SCORE_ADJ, score, NAME, "the pod's annotation")


HOOK: Final = Hook(NAME, AgentGate.OOM_SCORE_ADJ, for_container=_for_container)
