"""StatefulSets and DaemonSets, decided step by step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.workloads import ControllerRevision, DaemonSet, template_of
from koord.api.machinery.codec import convert
from koord.api.workloads.daemon_pods import belongs, pinned, target_node
from koord.api.workloads.revision import POD_LABEL, data_of
from koord_minicluster.controllers import daemon_set, stateful_set
from koord_minicluster.controllers.actions import Create, Delete, Patch, Plan
from tests.minicluster.controllers.builders import NOW, SELECTOR, node, pod, template
from tests.minicluster.controllers.builders import stateful_set as make_set
from tests.minicluster.controllers.test_rollout import merged


def revision(name: str, image: str, number: int) -> ControllerRevision:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {POD_LABEL: name.rpartition("-")[2]}}
    return convert(ControllerRevision, {"metadata": meta, "data": data_of(template(image)), "revision": number})


OLD, NEW = revision("db-old", "app:1", 1), revision("db-new", "app:2", 2)


def member(number: int, *, of: ControllerRevision = NEW, **state: Any) -> Pod:
    return pod(f"db-{number}", labels={"app": "web", POD_LABEL: of.metadata.name}, **state)


def steps(plan: Plan) -> list[str]:
    """`+db-1` for a pod made, `-db-1` for one deleted."""
    found = []
    for action in plan.actions:
        if isinstance(action, Create) and action.kind is PODS:
            found.append(f"+{action.body['metadata']['name']}")
        elif isinstance(action, Delete) and action.kind is PODS:
            found.append(f"-{action.name}")
    return found


def ordered(*pods: Pod, replicas: int = 3, **spec: Any) -> list[str]:
    made = merged(make_set(replicas, "app:2", **spec), {"status": {"currentRevision": "db-old"}})
    return steps(stateful_set.decide(stateful_set.State(made, pods, (OLD, NEW), frozenset()), NOW))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ["+db-0"]),
        ([member(0, ready=False)], []),
        ([member(0)], ["+db-1"]),
        ([member(0), member(2)], ["+db-1"]),
        ([member(0), member(1, deleting=True), member(2)], []),
        ([member(0), member(1, phase="Failed"), member(2)], ["-db-1"]),
        ([member(0), member(1), member(2), member(3), member(4)], ["-db-4"]),
        ([member(0), member(1, ready=False), member(2), member(3)], []),
        ([member(0), member(1), member(2), member(3, deleting=True)], []),
        # An update goes from the top, one at a time, and waits for each.
        ([member(0, of=OLD), member(1, of=OLD), member(2, of=OLD)], ["-db-2"]),
        ([member(0, of=OLD), member(1, of=OLD), member(2)], ["-db-1"]),
        ([member(0, of=OLD), member(1, of=OLD), member(2, ready=False)], []),
    ],
)
def test_an_ordered_set_takes_one_step_at_a_time(pods: list[Pod], expected: list[str]) -> None:
    assert ordered(*pods) == expected


def test_a_parallel_set_takes_all_steps_at_once() -> None:
    assert ordered(member(1), podManagementPolicy="Parallel") == ["+db-0", "+db-2"]
    surplus = ordered(member(0), member(1), member(2), member(3), member(4), podManagementPolicy="Parallel")
    assert surplus == ["-db-4", "-db-3"]


def test_on_delete_leaves_old_pods_alone() -> None:
    assert ordered(*(member(n, of=OLD) for n in range(3)), updateStrategy={"type": "OnDelete"}) == []


def test_a_partition_keeps_what_is_below_it_and_makes_it_as_it_was() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    assert ordered(*(member(n, of=OLD) for n in range(3)), updateStrategy=strategy) == ["-db-2"]
    assert ordered(member(0, of=OLD), member(1, of=OLD), member(2), updateStrategy=strategy) == []
    made = merged(make_set(3, "app:2", updateStrategy=strategy), {"status": {"currentRevision": "db-old"}})
    plan = stateful_set.decide(stateful_set.State(made, (), (OLD, NEW), frozenset()), NOW)
    (create,) = [a for a in plan.actions if isinstance(a, Create)]
    assert create.body["spec"]["containers"][0]["image"] == "app:1"
    assert create.body["metadata"]["labels"][POD_LABEL] == "db-old"


def test_several_pods_may_be_away_where_that_is_asked_for() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    assert ordered(*(member(n, of=OLD) for n in range(3)), updateStrategy=strategy) == ["-db-2", "-db-1"]


def test_claims_are_made_before_their_pod_and_only_once() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    made = make_set(1, "app:2", volumeClaimTemplates=[claim])
    plan = stateful_set.decide(stateful_set.State(made, (), (NEW,), frozenset()), NOW)
    kinds = [action.kind for action in plan.actions if isinstance(action, Create)]
    assert kinds == [PERSISTENT_VOLUME_CLAIMS, PODS]
    plan = stateful_set.decide(stateful_set.State(made, (), (NEW,), frozenset({"data-db-0"})), NOW)
    assert [action.kind for action in plan.actions if isinstance(action, Create)] == [PODS]


def test_ordinals_may_start_elsewhere() -> None:
    assert ordered(replicas=1, ordinals={"start": 5}) == ["+db-5"]
    assert ordered(member(0), member(5), replicas=1, ordinals={"start": 5}) == ["-db-0"]


def test_a_template_that_comes_back_gets_its_revision_back() -> None:
    made = merged(make_set(1, "app:1"), {"status": {"currentRevision": "db-new"}})
    plan = stateful_set.decide(stateful_set.State(made, (), (OLD, NEW), frozenset()), NOW)
    (patch,) = [a for a in plan.actions if isinstance(a, Patch) and a.kind is CONTROLLER_REVISIONS]
    assert (patch.name, patch.body) == ("db-old", {"revision": 3})


def test_revisions_beyond_the_limit_go_unless_a_pod_has_them() -> None:
    history = (*(revision(f"db-r{n}", f"app:x{n}", n) for n in range(4)), revision("db-new", "app:2", 9))
    made = merged(make_set(1, "app:2", revisionHistoryLimit=1), {"status": {"currentRevision": "db-new"}})
    used = pod("db-0", labels={POD_LABEL: "db-r0"})
    plan = stateful_set.decide(stateful_set.State(made, (used,), history, frozenset()), NOW)
    gone = [a.name for a in plan.actions if isinstance(a, Delete) and a.kind is CONTROLLER_REVISIONS]
    assert gone == ["db-r1", "db-r2"]


def daemon(image: str = "app:2", rolling: dict[str, Any] | None = None, **spec: Any) -> DaemonSet:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling or {"maxUnavailable": 1}}
    meta = {"name": "agent", "namespace": "default", "uid": "uid-agent", "generation": 1}
    body = {"selector": SELECTOR, "template": template(image, **spec), "updateStrategy": strategy}
    return convert(DaemonSet, {"metadata": meta, "spec": body})


HISTORY = (revision("agent-old", "app:1", 1), revision("agent-new", "app:2", 2))


def on(name: str, *, new: bool = True, **state: Any) -> Pod:
    kind = "new" if new else "old"
    return pod(f"{kind}-{name}", node=name, labels={"app": "web", POD_LABEL: kind}, **state)


def daemon_steps(set_: DaemonSet, pods: list[Pod], nodes: list[Node]) -> list[str]:
    plan = daemon_set.decide(daemon_set.State(set_, tuple(pods), tuple(nodes), HISTORY), NOW)
    found = []
    for action in plan.actions:
        if isinstance(action, Create) and action.kind is PODS:
            found.append(f"+{target_node(convert(Pod, action.body))}")
        elif isinstance(action, Delete):
            found.append(f"-{action.name}")
    return sorted(found)


THREE = [node(name) for name in "abc"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ["+a", "+b", "+c"]),
        ([on("a"), on("b"), on("c")], []),
        ([on("a"), on("b", phase="Failed", ready=False), on("c")], ["-new-b"]),
        ([on("a"), on("b", deleting=True), on("c")], []),
        ([on("a"), pod("twin", node="a", labels={POD_LABEL: "new"}, age_s=1), on("b"), on("c")], ["-twin"]),
        # An update takes one node at a time ...
        ([on("a", new=False), on("b", new=False), on("c", new=False)], ["-old-a"]),
        ([on("a", deleting=True), on("b", new=False), on("c", new=False)], []),
        ([on("a", ready=False), on("b", new=False), on("c", new=False)], []),
        ([on("a"), on("b", new=False), on("c", new=False)], ["-old-b"]),
        # ... but what is of no use goes at once.
        ([on("a", ready=False), on("b", new=False, ready=False), on("c", new=False)], ["-old-b"]),
    ],
)
def test_every_node_has_one_pod_and_an_update_leaves_most_served(pods: list[Pod], expected: list[str]) -> None:
    assert daemon_steps(daemon(), pods, THREE) == expected


def test_with_surge_the_new_pod_is_there_before_the_old_one_goes() -> None:
    surging = daemon(rolling={"maxSurge": 1, "maxUnavailable": 0})
    old = [on(name, new=False) for name in "abc"]
    assert daemon_steps(surging, old, THREE) == ["+a"]
    assert daemon_steps(surging, [*old, on("a", ready=False)], THREE) == []
    assert daemon_steps(surging, [*old, on("a")], THREE) == ["+b", "-old-a"]


def test_a_pod_for_a_node_that_is_gone_is_given_up() -> None:
    body = template("app:2")
    spec = pinned(body["spec"], template_of(body), "gone")
    waiting = convert(Pod, {"metadata": {"name": "w", "uid": "u", "labels": {POD_LABEL: "new"}}, "spec": spec})
    assert daemon_steps(daemon(), [waiting, on("a")], [node("a")]) == ["-w"]


@pytest.mark.parametrize(
    ("taint", "made", "stays"),
    [
        (("node.kubernetes.io/unschedulable", "NoSchedule"), True, True),
        (("node.kubernetes.io/not-ready", "NoExecute"), True, True),
        (("node.kubernetes.io/not-ready", "NoSchedule"), False, True),
        (("node.kubernetes.io/network-unavailable", "NoSchedule"), False, True),
        (("dedicated", "NoSchedule"), False, True),
        (("dedicated", "NoExecute"), False, False),
        (("dedicated", "PreferNoSchedule"), True, True),
    ],
)
def test_taints_keep_daemons_off_except_those_they_help_with(taint: tuple[str, str], made: bool, stays: bool) -> None:
    tainted = node("a", taints=({"key": taint[0], "effect": taint[1]},))
    assert belongs(template_of(template()), tainted) == (made, stays)
    if taint[0].endswith("network-unavailable"):
        assert belongs(template_of(template(hostNetwork=True)), tainted) == (True, True)


def test_selectors_choose_nodes() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    chosen = template_of(template(nodeSelector={"pool": "x"}, affinity={"nodeAffinity": required}))
    assert belongs(chosen, node("a", labels={"pool": "x", "disk": "ssd"})) == (True, True)
    assert belongs(chosen, node("a", labels={"pool": "x"})) == (False, False)
    assert belongs(chosen, node("a", labels={"disk": "ssd"})) == (False, False)


def test_a_pinned_pod_keeps_its_own_terms_and_tolerations_once() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, term]}}
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    body = template(affinity={"nodeAffinity": required}, tolerations=[own])
    spec = pinned(body["spec"], template_of(body), "n1")
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [t["matchFields"][0]["values"] for t in terms] == [["n1"], ["n1"]]
    assert all(t["matchExpressions"] for t in terms)
    assert spec["tolerations"].count(own) == 1
    assert len(spec["tolerations"]) == 6


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["new", "old", "sick", "none", "leaving"]), min_size=1, max_size=8), st.integers(1, 4))
def test_an_update_never_takes_more_nodes_down_than_it_may(states: list[str], budget: int) -> None:
    nodes = [node(f"n{i}") for i in range(len(states))]
    pods = []
    for i, state in enumerate(states):
        if state != "none":
            sick = {"ready": False} if state == "sick" else {}
            pods.append(on(f"n{i}", new=state == "new", deleting=state == "leaving", **sick))
    done = daemon_steps(daemon(rolling={"maxUnavailable": budget}), pods, nodes)
    served = sum(state in ("new", "old") for state in states)
    taken = sum(f"-old-n{i}" in done for i, state in enumerate(states) if state == "old")
    assert served - taken >= min(served, len(states) - budget)
