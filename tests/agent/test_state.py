"""A node's state, and what is worked out of it."""

from dataclasses import replace

from koord.agent.state import NodeState
from tests.agent.states import node, pod


def test_what_follows_from_a_state_is_worked_out_once_and_anew_for_the_next() -> None:
    asked = []

    def pods(state: NodeState) -> int:
        asked.append(state)
        return len(state.pods)

    first = node(pod("web"))
    assert [first.once(pods), first.once(pods)] == [1, 1]
    second = replace(first, pods={})
    assert second.once(pods) == 0
    assert asked == [first, second]
