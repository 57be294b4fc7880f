"""No pod, however much it asks to be looked at, keeps others waiting for long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.core.entity import Where
from koord.scheduler.core.queue import HEAVY_EVERY_S
from koord.scheduler.framework.bounds import BOUNDS, TRIED_TERMS
from koord.scheduler.plugins.default_preemption import NOT_TRIED
from tests.scheduler.core.build import Fed, changed, node, pod

HOST = "kubernetes.io/hostname"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def selector(i: int) -> dict[str, Any]:
    return {"matchLabels": {"app": f"a{i}"}}


def spread(number: int) -> dict[str, Any]:
    one = {"maxSkew": 9, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": selector(i)} for i in range(number)]}


def shunning(number: int) -> dict[str, Any]:
    terms = [{"topologyKey": HOST, "labelSelector": selector(i)} for i in range(number)]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def preferring(number: int) -> dict[str, Any]:
    terms = [{"topologyKey": HOST, "labelSelector": selector(i)} for i in range(number)]
    return {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term} for term in terms]}}}


def wordy(number: int) -> dict[str, Any]:
    among = {"key": "app", "operator": "NotIn", "values": [f"v{i}" for i in range(number)]}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [among]}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def on_nodes(number: int) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "x", "operator": "In", "values": [f"v{i}"]}]} for i in range(number)]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def resources(number: int) -> dict[str, Any]:
    asked = {f"example.com/r{i}": "1" for i in range(number)}
    return {"containers": [{"name": "c", "resources": {"requests": asked}}]}


def tolerating(number: int) -> dict[str, Any]:
    return {"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(number)]}


def choosing(number: int) -> dict[str, Any]:
    return {"nodeSelector": {f"k{i}": "v" for i in range(number)}}


def ports(number: int) -> dict[str, Any]:
    taken = [{"containerPort": 1000 + i, "hostPort": 1000 + i} for i in range(number)]
    return {"containers": [{"name": "c", "ports": taken}]}


def volumes(number: int) -> dict[str, Any]:
    return {"volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(number)]}


MANY: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "topology spread constraints": (spread, 1000),
    "pod affinity and anti-affinity terms": (shunning, 10_000),
    "labels, conditions and values in selectors of pods": (wordy, 10_000),
    "terms and conditions of node affinity": (on_nodes, 10_000),
    "labels in its node selector": (choosing, 10_000),
    "tolerations": (tolerating, 10_000),
    "kinds of requested resources": (resources, 2000),
    "host ports": (ports, 10_000),
    "volumes": (volumes, 10_000),
}


def cluster(number: int = 20) -> Fed:
    fed = Fed()
    fed.put(*(node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(number)))
    return fed


def work(step: Callable[[], object]) -> int:
    """Calls of Python functions that a step makes: a measure that no busy machine changes."""
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return calls


def test_everything_that_is_bounded_is_tried_here() -> None:
    assert [bound.what for bound in BOUNDS] == list(MANY)


@pytest.mark.parametrize("what", MANY)
def test_a_pod_beyond_a_bound_is_refused_with_the_number_and_costs_next_to_nothing_again(what: str) -> None:
    make, number = MANY[what]
    fed = cluster()
    fed.put(pod("much", **make(number)))
    decision = fed.nowhere()
    most = next(bound.most for bound in BOUNDS if bound.what == what)
    assert f" {what}, more than the {most} that are supported" in decision.message
    assert fed.feed.queue.where("shop/much") is Where.UNSCHEDULABLE
    fed.put(node("another"), pod("elsewhere", on="n1"))
    assert fed.feed.queue.where("shop/much") is Where.UNSCHEDULABLE, "nothing that happens helps it"
    fed.put(pod("again", **make(number)))
    assert work(fed.nowhere) < 12 * number + 5000


@pytest.mark.parametrize("what", MANY)
def test_a_pod_at_a_bound_is_not_refused_for_it(what: str) -> None:
    make, _ = MANY[what]
    bound = next(bound for bound in BOUNDS if bound.what == what)
    number = next(n for n in range(bound.most, 0, -1) if bound.count(pod("p", **make(n)).spec) <= bound.most)
    fed = cluster(3)
    fed.put(pod("within", **make(number)))
    decision = fed.step()
    assert isinstance(decision, Bind | Nowhere), decision
    assert not isinstance(decision, Nowhere) or "supported" not in decision.message


def test_a_pod_with_many_terms_that_has_its_node_counts_without_them(caplog: pytest.LogCaptureFixture) -> None:
    fed = cluster(2)
    fed.put(pod("much", cpu="3", on="n0", **shunning(10_000)), pod("a", cpu="3", metadata={"labels": {"app": "a1"}}))
    assert fed.bind().node == "n1"
    assert "10000 pod affinity and anti-affinity terms" in caplog.text
    assert not fed.feed.cluster.pods["shop/much"][0].held


def test_pods_of_others_go_before_many_heavy_ones_which_still_have_their_turn() -> None:
    fed = cluster()
    fed.put(*(pod(f"heavy-{i}", cpu="10m", priority=100, **spread(20 + i)) for i in range(10)))
    fed.put(*(pod(f"light-{i}", cpu="10m") for i in range(30)))
    order = []
    for _ in range(40):
        order.append(fed.bind().ask.key)
        fed.clock.advance(HEAVY_EVERY_S / 10)
    assert order.count("shop/heavy-0") == 1
    first_light = [i for i, key in enumerate(order) if "light" in key]
    assert max(first_light) < 34, "thirty light ones, and one heavy one each second"
    assert [key for key in order if "heavy" in key] == [f"shop/heavy-{i}" for i in range(10)]


def test_room_is_looked_for_on_fewer_nodes_for_a_pod_with_many_terms() -> None:
    """What is tried out is bounded in terms times nodes, whether it helps or not."""
    fed = Fed()
    fed.put(*(node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(200)))
    fed.put(*(pod(f"there-{i}", on=f"n{i}", priority=10, metadata={"labels": {"app": "a1"}}) for i in range(200)))
    fed.put(*(pod(f"low-{i}", on=f"n{i}") for i in range(200)))
    fed.put(pod("heavy", priority=5, **(shunning(100) | spread(60))))
    found = fed.nowhere()
    tried = TRIED_TERMS // 160
    assert f"{200 - tried} {NOT_TRIED}" in found.message


def test_heavy_pods_alone_do_not_wait_for_their_turn() -> None:
    fed = cluster()
    fed.put(*(pod(f"heavy-{i}", cpu="10m", **preferring(20 + i)) for i in range(5)))
    assert [fed.bind().ask.key for _ in range(5)] == [f"shop/heavy-{i}" for i in range(5)]


def test_a_pod_that_is_mended_is_tried_again() -> None:
    fed = cluster()
    much = pod("much", **spread(1000))
    fed.put(much)
    fed.nowhere()
    fed.put(changed(much, topology_spread_constraints=()))
    fed.clock.advance(11)
    assert isinstance(fed.step(), Bind)
