"""SchedulingHint: nodes that another system names are the only ones that will do, or are tried first."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import SchedulingHintArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.machinery.faults import check
from koord.scheduler.explain import explain
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.scheduling_hint import SchedulingHint
from koord.scheduler.profiles import profiles_of
from tests.scheduler.build import pod
from tests.scheduler.builders import engine, node
from tests.scheduler.core import build

HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
OLD_HINT = "scheduling.koordinator.sh/scheduling-hint"


def hinted(hint: dict[str, list[str]], name: str = "p", *, key: str = HINT) -> Ask:
    return Ask(pod(name, requests={"cpu": "1"}, annotations={key: json.dumps(hint)}))


def three(most: int = 100, small: str = "") -> Engine:
    """`a` has the most free, then `b` and `c`; one of them may be too small for anything."""
    sizes = {"a": "64", "b": "16", "c": "8"} | ({small: "0"} if small else {})
    args = check(SchedulingHintArgs, {"maxHintNodes": most}, "args")
    nodes = [node(name, cpu=cpu) for name, cpu in sizes.items()]
    return engine(*nodes, plugins=(SchedulingHint(args), NodeResourcesFit()))


def preferred(*names: str) -> dict[str, list[str]]:
    return {"preferredNodeNames": list(names)}


@pytest.mark.parametrize(
    ("hint", "goes_to"),
    [
        ({}, "a"),
        ({"nodeNames": ["b", "c"]}, "b"),
        ({"nodeNames": ["c", "gone"]}, "c"),
        ({"nodeNames": []}, "a"),
        (preferred("c", "b"), "c"),
        (preferred("gone", "b"), "b"),
        ({"nodeNames": ["a", "b"], **preferred("c", "b")}, "b"),
        ({"nodeNames": ["a", "b"], **preferred("c")}, "a"),
    ],
)
@pytest.mark.parametrize("key", [HINT, OLD_HINT])
def test_where_a_hint_sends_a_pod(key: str, hint: dict[str, list[str]], goes_to: str) -> None:
    assert three().place(hinted(hint, key=key)).node == goes_to


def test_preferred_nodes_are_tried_in_order_and_then_all_others() -> None:
    assert three(small="c").place(hinted(preferred("c", "b"))).node == "b"
    assert three(small="c").place(hinted(preferred("c"))).node == "a"


def test_preferred_nodes_beyond_the_most_that_are_looked_at_do_not_count() -> None:
    """First cut to that number, and then compared with what will do at all."""
    assert three(most=1, small="c").place(hinted(preferred("c", "b"))).node == "a"


def test_nodes_that_do_not_exist_leave_the_pod_pending_until_one_of_them_comes() -> None:
    found = three()
    placement = found.place(hinted({"nodeNames": ["later"]}))
    assert placement.rejections == {"node(s) didn't satisfy plugin(s) [SchedulingHint]": 3}
    found.cluster.put_node(node("later"))
    assert found.place(hinted({"nodeNames": ["later"]})).node == "later"


def test_members_of_a_job_go_where_their_own_hints_say() -> None:
    found = three()
    asks = [hinted(preferred("c") if i % 2 else {}, f"p{i}") for i in range(12)]
    placed = found.place_all(asks)
    assert [placement.node for placement in placed][1::2] == ["c"] * 6
    assert "c" not in [placement.node for placement in placed][::2]


def test_a_promised_node_comes_before_preferred_ones() -> None:
    found = three()
    wanted = hinted(preferred("c")).pod
    promised = replace(wanted, status=replace(wanted.status, nominated_node_name="b"))
    assert found.place(Ask(promised)).node == "b"


def test_a_malformed_hint_is_an_error_of_its_pod_alone() -> None:
    fed = build.Fed(SHIPPED)
    bad = build.pod("bad", metadata={"annotations": {HINT: "[not json"}})
    fed.put(build.node("n1"), bad)
    assert HINT in fed.broken().message
    fed.put(build.pod("good"))
    assert fed.bind().node == "n1"


def test_the_shipped_profile_has_it() -> None:
    (profile,) = profiles_of(SHIPPED).profiles.values()
    assert isinstance(profile, Profile)
    assert "SchedulingHint" in [plugin.name for plugin in profile.plugins]


@pytest.mark.parametrize("key", [HINT, OLD_HINT])
def test_a_hint_that_names_no_node_that_would_do_says_so_and_what_would_help(key: str) -> None:
    scheduler = three()
    asking = hinted({"nodeNames": ["gone", *(f"x{i}" for i in range(9))]}, key=key)
    assert scheduler.place(asking).node is None
    explanation = explain(scheduler, asking)
    (why,) = explanation.why_not
    assert "the scheduling-hint allows gone, x0, x1, x2, x3 and 5 more alone; there is no node gone, x0" in why.detail
    assert [step.text for change in explanation.changes for step in change.steps] == [
        "nodeNames of scheduling-hint left out"
    ]
