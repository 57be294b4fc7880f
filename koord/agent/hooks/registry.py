"""The hooks, in the order in which they are asked; of two that disagree on a setting, the later one counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord.agent.hooks import batch_resource, cpu_normalization, cpu_set, gpu, group_identity, oom_score, rdma
from koord.agent.hooks.hook import Hook
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Setting, Target, Wish

HOOKS: Final[tuple[Hook, ...]] = (
    group_identity.HOOK,
    batch_resource.HOOK,
    cpu_normalization.HOOK,
    cpu_set.HOOK,
    oom_score.HOOK,
    gpu.HOOK,
    rdma.HOOK,
)


def wishes_for(
    state: NodeState, pod: AgentPod, container: AgentContainer | None = None, hooks: Iterable[Hook] = HOOKS
) -> tuple[Wish, ...]:
    """The settings that a pod, or one container of it, starts with: for the runtime that is about to create it.

    The pod need not be one of the state's, and nothing of it has to exist.
    """
    chosen: dict[tuple[Target, Setting], Wish] = {}
    for hook in hooks:
        if hook.is_on(state):
            hook_wishes = hook.for_pod(state, pod) if container is None else hook.for_container(state, pod, container)
            chosen |= {(wish.target, wish.setting): wish for wish in hook_wishes}
    return tuple(chosen.values())
