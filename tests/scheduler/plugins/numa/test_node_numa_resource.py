"""Pods get CPUs of their own and NUMA nodes, as they and their nodes say."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import NodeNUMAResourceArgs, ResourceWeight, ScoringStrategy
from koord.api.text.cpuset import CPUSet
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.plugins.default_preemption import DefaultPreemption
from koord.scheduler.plugins.numa.allocation import Allocation, held_by
from koord.scheduler.plugins.numa.judge import NUMAJudge
from koord.scheduler.plugins.numa.split import split
from koord.scheduler.state.table import Reason
from koord.scheduler.state.view import View
from tests.scheduler.builders import helps
from tests.scheduler.plugins.numa.machines import World, big, bound, pod, report, told

BIND_LABEL, POLICY_LABEL = "node.koordinator.sh/cpu-bind-policy", "node.koordinator.sh/numa-topology-policy"
STRATEGY_LABEL = "node.koordinator.sh/numa-allocate-strategy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
REQUIRED_FULL, REQUIRED_SPREAD = {"requiredCPUBindPolicy": "FullPCPUs"}, {"requiredCPUBindPolicy": "SpreadByPCPUs"}
NOT_ENOUGH = "not enough cpus available to satisfy request"
LEAST, MOST = ScoringStrategy("LeastAllocated"), ScoringStrategy("MostAllocated")
ONE_CPU = '{"id":0,"core":0,"socket":0,"node":0}'
STATUS = "scheduling.koordinator.sh/resource-status"
SPEC = "scheduling.koordinator.sh/resource-spec"


def world(labels: dict[str, str] | None = None, args: NodeNUMAResourceArgs | None = None, **said: Any) -> World:
    """One node with two NUMA nodes of 12 CPUs and 48Gi each."""
    found = World(args)
    annotations = said.pop("annotations", {})
    found.put(big("n1", said.pop("cpus", "24"), labels=labels or {}, annotations=annotations), report("n1", **said))
    return found


# Who gets CPUs of its own.


@pytest.mark.parametrize(
    ("ask", "cpuset"),
    [
        pytest.param(bound("p"), "0-3", id="LSR"),
        pytest.param(bound("p", qos="LSE"), "0-3", id="LSE"),
        pytest.param(bound("p", spec={"preferredCPUBindPolicy": "SpreadByPCPUs"}), "0,2,4,6", id="spread"),
        pytest.param(bound("p", spec={"preferredCPUBindPolicy": "Default"}), "0-3", id="default policy"),
        pytest.param(bound("p", spec={"preferredCPUBindPolicy": "ConstrainedBurst"}), "", id="constrained burst"),
        pytest.param(bound("p", qos="LS"), "", id="LS shares"),
        pytest.param(pod("p"), "", id="no class"),
        pytest.param(pod("p", labels={"koordinator.sh/qosClass": "LSR"}, priority=5500), "", id="LSR, but not prod"),
    ],
)
def test_pods_of_some_classes_get_cpus_of_their_own(ask: Any, cpuset: str) -> None:
    one = world()
    assert one.engine.place(ask).node == "n1"
    assert one.status(ask).cpuset == cpuset


def test_a_pod_without_requests_is_not_looked_at() -> None:
    empty = pod("p", "0", "0", labels={"koordinator.sh/qosClass": "LSR"}, priority=9500, spec=REQUIRED_FULL)
    assert World().numa.compile(empty, World().cluster) is None


def test_cpus_of_its_own_must_be_whole() -> None:
    assert world().why_not(bound("p", "1500m")) == {"the requested CPUs must be integer": 1}


def test_no_default_policy_binds_only_pods_that_name_one() -> None:
    args = NodeNUMAResourceArgs(default_cpu_bind_policy="")
    assert world(args=args).place(bound("p", spec=REQUIRED_FULL)).cpuset == "0-3"
    open_ = bound("q")
    one = world(args=args)
    one.engine.place(open_)
    assert one.status(open_).cpuset == ""


def test_two_pods_never_get_the_same_cpu() -> None:
    one = world()
    assert one.place(bound("p")).cpuset == "0-3"
    assert one.place(bound("q")).cpuset == "12-15"


def test_a_node_that_binds_all_its_pods_binds_those_that_share_too() -> None:
    assert world({BIND_LABEL: "FullPCPUsOnly"}).place(pod("p")).cpuset == "0-3"
    assert world({BIND_LABEL: "SpreadByPCPUs"}).place(pod("p")).cpuset == "0,2,4,6"
    assert world(options={"full-pcpus-only": "true"}).place(pod("p")).cpuset == "0-3"


def test_batch_pods_are_not_bound_by_such_a_node() -> None:
    one = World()
    one.put(big("n1", labels={BIND_LABEL: "FullPCPUsOnly"}, extended={"kubernetes.io/batch-cpu": "9000"}), report("n1"))
    batch = pod("p", "0", labels={"koordinator.sh/qosClass": "BE"}, extended={"kubernetes.io/batch-cpu": "1500"})
    assert one.engine.place(batch).node == "n1"
    assert one.written(batch) == {}


# What speaks against a node.


@pytest.mark.parametrize(
    ("labels", "ask", "why"),
    [
        ({BIND_LABEL: "FullPCPUsOnly"}, pod("p", "1500m"), "the requested CPUs must be integer"),
        (
            {BIND_LABEL: "SpreadByPCPUs"},
            bound("p", spec=REQUIRED_FULL),
            "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
        ),
        ({}, bound("p", "3", spec=REQUIRED_FULL), "node(s) requested cpus not multiple cpus per core"),
        ({BIND_LABEL: "FullPCPUsOnly"}, pod("p", "3"), "node(s) requested cpus not multiple cpus per core"),
        ({}, bound("p", "13", spec=REQUIRED_SPREAD), NOT_ENOUGH),
        (
            {POLICY_LABEL: "Restricted"},
            pod("p", numa={"numaTopologyPolicy": "SingleNUMANode"}),
            "node(s) NUMA Topology policy not match",
        ),
    ],
)
def test_reasons_are_those_of_the_spec(labels: dict[str, str], ask: Any, why: str) -> None:
    assert world(labels).why_not(ask) == {why: 1}


def test_a_bound_pod_needs_a_node_whose_cpus_are_known() -> None:
    one = World()
    one.put(big("n1"))
    assert one.why_not(bound("p")) == {"node(s) invalid CPU Topology": 1}
    one.put_report(report("n1"))
    assert one.place(bound("p")).cpuset == "0-3"


def test_a_numa_policy_needs_numa_nodes() -> None:
    one = World()
    one.put(big("n1", labels={POLICY_LABEL: "SingleNUMANode"}))
    assert one.why_not(pod("p")) == {"node(s) missing NUMA resources": 1}


def test_cpus_that_are_not_for_pods_are_never_given() -> None:
    one = World()
    kubelets = json.dumps([{"uid": "static", "cpuset": "4-5", "managedByKubelet": True}, {"uid": "o", "cpuset": "8"}])
    annotations = {
        "node.koordinator.sh/pod-cpu-allocs": kubelets,
        "node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "2-3"}),
        "node.koordinator.sh/system-qos-resource": json.dumps({"cpuset": "6-7"}),
    }
    one.put(big("n1"), report("n1", reserved="0-1", annotations=annotations))
    assert one.place(bound("p", "16")).cpuset == "8-23"
    assert one.why_not(bound("q", "2")) == {NOT_ENOUGH: 1}


def test_reserved_cpus_are_missing_in_the_amount_of_their_numa_node() -> None:
    one = World()
    one.put(big("n1", labels={POLICY_LABEL: "SingleNUMANode"}), report("n1", reserved="0-2"))
    assert [zone.node for zone in one.place(pod("p", "10")).numa_node_resources] == [1]
    assert one.place(pod("q", "9")).numa_node_resources[0].node == 0


def test_amplified_cpus_are_charged_for_those_that_are_bound() -> None:
    """24 CPUs stand for 36: a bound pod of 16 takes 24 of them, and leaves 12."""
    one = world(annotations={RATIO: json.dumps({"cpu": 1.5})}, cpus="36")
    one.place(bound("p", "16"))
    assert one.why_not(pod("q", "13")) == {"Insufficient amplified cpu": 1}
    assert one.why_not(bound("r", "9")) == {"Insufficient amplified cpu": 1}
    assert one.engine.place(pod("s", "12")).node == "n1"


def test_amplified_numa_nodes_hold_more_shared_pods_and_no_more_bound_ones() -> None:
    ratio = {RATIO: json.dumps({"cpu": 1.5})}
    one = world({POLICY_LABEL: "SingleNUMANode"}, annotations=ratio, cpus="36")
    assert one.place(pod("p", "18")).numa_node_resources[0].node == 0
    assert one.place(bound("q", "12")).cpuset == "12-23"
    assert world({POLICY_LABEL: "SingleNUMANode"}, annotations=ratio, cpus="36").why_not(bound("r", "13")) == {
        "Unsatisfied NUMA cpu": 1
    }


# NUMA policies.


def with_left(policy: str, first: str, second: str) -> World:
    """A node with N free CPUs on each NUMA node."""
    one = world({POLICY_LABEL: "SingleNUMANode"})
    for name, left in (("a", first), ("b", second)):
        one.place(pod(name, str(12 - int(left))))
    one.put(big("n1", labels={POLICY_LABEL: policy}))
    return one


def nodes_of(one: World, ask: Any) -> list[int]:
    return [zone.node for zone in one.place(ask).numa_node_resources]


def test_worked_example_of_policies() -> None:
    """Free cpu 6 and 10."""
    assert nodes_of(with_left("SingleNUMANode", "6", "10"), pod("p", "8")) == [1]
    assert with_left("SingleNUMANode", "6", "10").why_not(pod("p", "12")) == {"Unsatisfied NUMA cpu": 1}
    assert nodes_of(with_left("Restricted", "6", "10"), pod("p", "12")) == [0, 1]
    assert nodes_of(with_left("BestEffort", "6", "10"), pod("p", "12")) == [0, 1]


def test_worked_example_of_a_split() -> None:
    assert split({"cpu": 8000}, {0: {"cpu": 3000}, 1: {"cpu": 12000}}) == {0: {"cpu": 3000}, 1: {"cpu": 5000}}
    whole = split({"cpu": 10000}, {0: {"cpu": 12000}, 1: {"cpu": 12000}}, cpu_step=2000)
    assert whole == {0: {"cpu": 4000}, 1: {"cpu": 6000}}


def test_a_pod_bound_over_two_numa_nodes_has_cpus_of_both() -> None:
    status = world({POLICY_LABEL: "Restricted"}).place(bound("p", "14", spec=REQUIRED_FULL))
    assert status.cpuset == "0-5,12-19"
    assert [dict(zone.resources) for zone in status.numa_node_resources] == [
        {"cpu": "6", "memory": "512Mi"},
        {"cpu": "8", "memory": "512Mi"},
    ]


def test_kubelets_policy_comes_before_the_label() -> None:
    for kubelet in ("SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel"):
        assert world({POLICY_LABEL: "BestEffort"}, kubelet=kubelet).why_not(pod("p", "13")) == {
            "Unsatisfied NUMA cpu": 1
        }
    assert nodes_of(world({POLICY_LABEL: "SingleNUMANode"}, kubelet="Restricted"), pod("p", "13")) == [0, 1]
    assert world({POLICY_LABEL: "SingleNUMANode"}, kubelet="None").why_not(pod("p", "13")) == {
        "Unsatisfied NUMA cpu": 1
    }


def test_a_pods_own_policy_holds_where_the_node_has_none() -> None:
    assert nodes_of(world(), pod("p", "8", numa={"numaTopologyPolicy": "SingleNUMANode"})) == [0]
    assert nodes_of(world({POLICY_LABEL: "Restricted"}), pod("p", "8", numa={"numaTopologyPolicy": "Restricted"})) == [
        0
    ]


def test_memory_counts_as_well_and_only_at_the_same_numa_node() -> None:
    one = world({POLICY_LABEL: "SingleNUMANode"})
    one.place(pod("a", "10", "1Gi"))
    one.place(pod("b", "1", "40Gi"))
    assert one.why_not(pod("c", "4", "10Gi")) == {"Unsatisfied NUMA cpu": 1, "Unsatisfied NUMA memory": 1}


@pytest.mark.parametrize(("exclusive", "cpuset"), [("", "36-39"), ("Required", "36-39"), ("Preferred", "30-33")])
def test_a_pod_that_wants_its_numa_node_alone_shuns_those_that_others_span(exclusive: str, cpuset: str) -> None:
    """Full NUMA nodes go first, and the third one has 6 CPUs left."""
    one = World(NodeNUMAResourceArgs(numa_scoring_strategy=MOST))
    one.put(big("n1", "48"), report("n1", "2x2x6x2"))
    assert one.place(bound("wide", "30")).cpuset == "0-29"
    policy = {"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": exclusive}
    assert one.place(bound("alone", "4", numa=policy)).cpuset == cpuset


def test_a_pod_that_wants_its_numa_node_alone_is_refused_where_all_are_shared() -> None:
    one = world()
    one.place(bound("wide", "14"))
    why = "Unaligned NUMA Hint cause cpu prefer [10] among [10],memory prefer [10] among [10 11]"
    assert one.why_not(bound("alone", "4", numa={"numaTopologyPolicy": "SingleNUMANode"})) == {why: 1}


SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}


def test_cpus_of_its_own_are_not_those_that_another_pod_was_promised_on_its_numa_node() -> None:
    """10 of 12 CPUs of the first NUMA node are promised: 2 may be bound there, and 12 on the other one."""
    one = world()
    shares = pod("shares", "10", numa={**SINGLE, "singleNUMANodeExclusive": "Preferred"})
    assert nodes_of(one, shares) == [0]
    assert one.place(bound("a", "8")).cpuset == "12-19"
    assert one.place(bound("b", "6")).cpuset == "0-1,20-23"
    assert one.why_not(bound("c", "2")) == {"Insufficient cpu": 1}


@pytest.mark.parametrize(("spec", "cpuset"), [(REQUIRED_FULL, "0-1"), (REQUIRED_SPREAD, "0,2,4"), (None, "0-2")])
def test_what_is_left_of_a_numa_node_is_bound_in_the_shape_that_a_pod_wants(
    spec: dict[str, str] | None, cpuset: str
) -> None:
    """3 CPUs of the first NUMA node are not promised, and none of the second one."""
    one = world(cpus="64")
    nodes_of(one, pod("shares", "9", numa=SINGLE))
    nodes_of(one, pod("fills", "12", numa=SINGLE))
    number = str(CPUSet.parse(cpuset).mask.bit_count())
    assert one.place(bound("p", number, spec=spec)).cpuset == cpuset
    why = one.why_not(bound("q", "2", spec=spec))
    assert why == {NOT_ENOUGH: 1}


def test_a_numa_node_without_promises_is_bound_as_a_whole_though_it_reports_less() -> None:
    """The report leaves out what kubelet reserves of each NUMA node; its CPUs are whole all the same."""
    one = World()
    less = report("n1")
    zones = tuple(
        replace(zone, resources=tuple(replace(resource, allocatable="11750m") for resource in zone.resources[:1]))
        for zone in less.zones
    )
    one.put(big("n1", "23"), replace(less, zones=zones))
    assert one.place(bound("p", "12")).cpuset == "0-11"


@pytest.mark.parametrize("qos", ["LSR", "LS"])
def test_a_numa_node_of_a_pod_with_its_own_policy_is_not_spanned_by_cpus_of_others(qos: str) -> None:
    one = world()
    one.engine.place(bound("alone", "2", qos=qos, numa=SINGLE))
    assert one.place(bound("narrow", "8")).cpuset == "12-19"
    why = "node(s) CPUs would span the NUMA node of a pod with its own NUMA policy"
    assert one.why_not(bound("wide", "12")) == {why: 1}
    assert one.place(bound("beside", "4")).cpuset in ("0-3", "2-5")


def test_others_span_the_numa_nodes_that_nobody_keeps() -> None:
    one = World()
    one.put(big("n1", "24"), report("n1", "1x3x4x2"))
    assert one.place(bound("alone", "2", numa=SINGLE)).cpuset == "0-1"
    assert one.place(bound("wide", "12")).cpuset == "8-19"


@pytest.mark.parametrize("policy", ["Restricted", "BestEffort"])
def test_pods_by_the_nodes_policy_leave_such_a_numa_node_alone_too(policy: str) -> None:
    one = world({POLICY_LABEL: policy})
    one.place(bound("alone", "2", numa={"numaTopologyPolicy": policy}))
    assert one.engine.place(bound("wide", "16")).node is None


def test_a_pod_that_only_prefers_its_numa_node_alone_shares_it() -> None:
    one = world()
    one.place(bound("alone", "2", numa={**SINGLE, "singleNUMANodeExclusive": "Preferred"}))
    assert one.place(bound("wide", "20")).cpuset == "2-21"


def test_best_effort_never_refuses_what_the_node_has() -> None:
    one = world({POLICY_LABEL: "BestEffort"}, cpus="30")
    assert one.engine.place(pod("p", "28")).node == "n1"
    assert one.written(pod("p", "28")) == {}


BATCH = "kubernetes.io/batch-cpu"


def with_batch(each: str, policy: str) -> World:
    """A node of two NUMA nodes that report this much batch-cpu each."""
    one, topology = World(), report("n1")
    resource = type(topology.zones[0].resources[0])
    zones = [
        type(zone)(
            name=zone.name,
            type=zone.type,
            resources=(*zone.resources, resource(name=BATCH, capacity=each, allocatable=each, available=each)),
        )
        for zone in topology.zones
    ]
    one.put(
        big("n1", labels={POLICY_LABEL: policy}, extended={BATCH: "12000"}),
        type(topology)(metadata=topology.metadata, zones=tuple(zones)),
    )
    return one


def test_batch_resources_of_numa_nodes_count_like_others() -> None:
    one = with_batch("6000", "SingleNUMANode")
    assert one.why_not(pod("p", "0", extended={BATCH: "7000"})) == {f"Unsatisfied NUMA {BATCH}": 1}
    assert nodes_of(one, pod("q", "0", extended={BATCH: "5000"})) == [0]


@pytest.mark.parametrize("policy", ["SingleNUMANode", "Restricted"])
def test_a_resource_of_which_every_numa_node_reports_nothing_is_short_and_not_unknown(policy: str) -> None:
    one = with_batch("0", policy)
    assert one.why_not(pod("p", "0", extended={BATCH: "1000"})) == {f"Unsatisfied NUMA {BATCH}": 1}
    assert one.engine.place(pod("q", "2")).node == "n1"


# Scores.


def test_nodes_score_by_how_empty_or_full_they_are() -> None:
    """n2 has half its CPUs left."""
    for strategy, wanted in ((LEAST, "n1"), (MOST, "n2")):
        one = World(NodeNUMAResourceArgs(scoring_strategy=strategy, numa_scoring_strategy=strategy))
        one.put(big("n2"), report("n2"))
        one.place(bound("first", "12"))
        one.put(big("n1"), report("n1"))
        assert one.engine.place(bound("p")).node == wanted


def test_numa_nodes_score_by_their_own_strategy() -> None:
    """Both NUMA nodes can take the pod; the fuller one is preferred under MostAllocated."""
    for strategy, wanted in ((LEAST, 1), (MOST, 0)):
        one = world({POLICY_LABEL: "SingleNUMANode"}, NodeNUMAResourceArgs(numa_scoring_strategy=strategy))
        one.place(pod("first", "2"))
        assert nodes_of(one, pod("p", "2")) == [wanted]


@pytest.mark.parametrize(("resource", "wanted"), [("cpu", 1), ("memory", 0)])
def test_resources_of_the_numa_strategy_are_its_own(resource: str, wanted: int) -> None:
    """The first NUMA node has less cpu left, the second one less memory."""
    own = ScoringStrategy("LeastAllocated", (ResourceWeight(name=resource, weight=1),))
    one = world({POLICY_LABEL: "SingleNUMANode"}, NodeNUMAResourceArgs(numa_scoring_strategy=own))
    assert nodes_of(one, pod("a", "8", "1Gi")) == [0]
    assert nodes_of(one, pod("b", "1", "40Gi")) == [1]
    assert nodes_of(one, pod("p", "1", "1Gi")) == [wanted]


def test_the_nodes_label_says_which_numa_node_gives_cpus_first() -> None:
    for label, cpuset in (("MostAllocated", "2-3"), ("LeastAllocated", "12-13"), ("DistributeEvenly", "12-13")):
        one = world({STRATEGY_LABEL: label})
        assert one.place(bound("a", "2")).cpuset == "0-1"
        assert one.place(bound("b", "2")).cpuset == cpuset


# What is written on pods.


def test_a_bound_pod_says_afterwards_which_policy_it_got() -> None:
    def spec(one: World, ask: Any) -> object:
        one.place(ask)
        return json.loads(one.written(ask).get(SPEC, "null"))

    assert spec(world(), bound("p")) == {"preferredCPUBindPolicy": "FullPCPUs"}
    assert spec(world(), bound("p", spec=REQUIRED_FULL)) is None
    assert spec(world(), bound("p", spec={"requiredCPUBindPolicy": "Default"})) == {
        "requiredCPUBindPolicy": "FullPCPUs",
        "preferredCPUBindPolicy": "FullPCPUs",
    }
    assert spec(world({BIND_LABEL: "SpreadByPCPUs"}), pod("p")) == {
        "requiredCPUBindPolicy": "SpreadByPCPUs",
        "preferredCPUBindPolicy": "SpreadByPCPUs",
    }


def test_a_malformed_wish_keeps_the_pod_pending_and_says_why() -> None:
    one = world()
    ask = bound("p", spec={"requiredCPUBindPolicy": "WholeCores"})
    (why,) = one.why_not(ask)
    assert "requiredCPUBindPolicy" in why
    assert "FullPCPUs" in why
    assert one.place(bound("q")).cpuset == "0-3"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="not JSON"),
        pytest.param(
            '{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":0,"core":1,"socket":0,"node":0}]}', id="twice"
        ),
        pytest.param('{"detail":[{"id":-1,"core":0,"socket":0,"node":0}]}', id="negative"),
        pytest.param('{"detail":[]}', id="none"),
    ],
)
def test_a_malformed_topology_concerns_its_own_node_alone(text: str) -> None:
    one = world()
    one.put(big("n2"), report("n2", annotations={"node.koordinator.sh/cpu-topology": text}))
    assert one.engine.place(bound("p")).node == "n1"
    assert one.why_not(bound("q", "24")) == {"Insufficient cpu": 1, "node(s) invalid CPU Topology": 1}
    assert one.engine.place(pod("r", "24")).node == "n2"


def test_a_malformed_status_of_a_running_pod_holds_nothing() -> None:
    for text in ("{", '{"cpuset":"x"}', '{"numaNodeResources":[{"node":0,"resources":{"cpu":"many"}}]}'):
        one = world()
        ask = bound("p", annotations={STATUS: text})
        assert one.cluster.noted(ask.pod) == ()
    assert world().cluster.noted(bound("p", annotations={STATUS: '{"cpuset":"0-3"}'}).pod) != ()


def test_a_reservations_cpus_are_seen_by_whoever_may_use_them() -> None:
    """The view of its owners hides the reservation: its CPUs are free to them, and are taken first."""
    one = world()
    held = bound("held", "4")
    one.place(bound("other", "2"))
    assert one.place(held).cpuset == "12-15"
    record, row = one.cluster.pods[held.key]
    view = View(one.cluster)
    view.hide(record, row)
    owner = bound("owner", "6")
    owner.view = view
    judge = one.numa.compile(owner, one.cluster)
    assert isinstance(judge, NUMAJudge)
    assert judge.exact is not None
    found = judge.exact.check(owner, row)
    assert isinstance(found, Allocation)
    assert told(found.cpus) == "2-3,12-15"


def hinted(name: str, cpuset: str) -> Any:
    """A pod whose CPUs another user has chosen."""
    hint = {"scheduling.koordinator.sh/scheduling-hint": '{"extensions":{"NodeNUMAResource":{}}}'}
    return bound(name, "2", annotations={**hint, STATUS: json.dumps({"cpuset": cpuset})})


def test_cpus_that_were_chosen_for_a_pod_are_those_it_gets() -> None:
    one = world()
    assert one.place(hinted("p", "6-7")).cpuset == "6-7"
    assert one.why_not(hinted("q", "7-8")) == {NOT_ENOUGH: 1}


def test_what_a_pod_says_of_an_attempt_that_failed_does_not_count_where_it_goes() -> None:
    one = world()
    again = pod("p", "2", annotations={STATUS: '{"cpuset":"0-3"}'})
    assert one.engine.place(again).node == "n1"
    assert one.written(again) == {STATUS: None}
    assert one.place(bound("q", "4")).cpuset == "0-3"


def test_preemption_frees_cpus() -> None:
    """By amounts there is room for both; of CPUs there are only four."""
    one = World(plugins=(DefaultPreemption(),))
    one.put(big("n1"), report("n1", reserved="0-19"))
    low, high = bound("low", "4"), bound("high", "4", priority=9900)
    one.place(low)
    assert one.why_not(high) == {NOT_ENOUGH: 1}
    remedy = one.engine.remedy(high)
    assert (remedy.node, remedy.victims) == ("n1", ("shop/low",))


@pytest.mark.parametrize(
    ("labels", "ask", "score"),
    [
        # Of 24 CPUs 20 are left, of 96Gi 95Gi: (83 + 98) / 2.
        pytest.param({}, bound("p", "4"), 90, id="the node"),
        # Of the 12 CPUs of a NUMA node 8 are left, of 48Gi 47Gi: (66 + 97) / 2.
        pytest.param({POLICY_LABEL: "SingleNUMANode"}, bound("p", "4"), 81, id="the NUMA node that it would use"),
        # Of 24 CPUs 8 are left: (33 + 98) / 2.
        pytest.param({POLICY_LABEL: "Restricted"}, pod("p", "16"), 65, id="both NUMA nodes"),
    ],
)
def test_scores_are_of_what_the_pod_would_use(labels: dict[str, str], ask: Any, score: int) -> None:
    one = world(labels)
    (row,) = one.cluster.nodes
    assert one.engine.class_of(ask).scores(row) == {"NodeNUMAResource": score}


def test_bound_cpus_score_amplified() -> None:
    """24 CPUs stand for 36. 4 bound ones take 6 of them, as many as the pod would: 24 of 36 and 95 of 96Gi are left."""
    one = world(annotations={RATIO: json.dumps({"cpu": 1.5})}, cpus="36")
    one.place(bound("first", "4", memory="0"))
    (row,) = one.cluster.nodes
    assert one.engine.class_of(bound("p", "4")).scores(row) == {"NodeNUMAResource": (66 + 98) // 2}


def test_usage_reports_wake_nobody_who_waits_for_cpus() -> None:
    one = world()
    ask = bound("p")
    (node,) = one.cluster.nodes.values()
    assert helps(one.numa, ask, ClusterEvent(int(Reason.LOAD), node, "NodeUpdateNodeAnnotation"), one.cluster)
    assert helps(one.numa, ask, ClusterEvent(int(Reason.EXACT), "n1", "NodeResourceTopologyUpdate"), one.cluster)
    assert not helps(one.numa, ask, ClusterEvent(int(Reason.LOAD), "n1", "NodeMetricUpdate"), one.cluster)


# What pods say that they have.


@pytest.mark.parametrize(
    ("ask", "taken"),
    [
        pytest.param(bound("p", "4"), 8, id="LSR"),
        pytest.param(bound("p", "4", qos="LSE"), 8, id="LSE"),
        pytest.param(pod("p", "4"), 0, id="no class"),
        pytest.param(bound("p", "4", qos="LS"), 0, id="LS"),
        pytest.param(bound("p", "4", qos="BE"), 0, id="BE"),
        pytest.param(bound("p", "0"), 0, id="no CPUs"),
        pytest.param(pod("p", "4", spec=REQUIRED_FULL), 8, id="bound by its node, which wrote the policy on it"),
    ],
)
def test_cpus_count_for_pods_that_ask_for_cpus_of_their_own(ask: Any, taken: int) -> None:
    """A pod that asks for less since then still has the CPUs that it got."""
    said = {**ask.meta.annotations, STATUS: '{"cpuset":"0-7"}'}
    held = held_by(replace(ask.pod, metadata=replace(ask.meta, annotations=said)))
    assert (0 if held is None else held.cpus.bit_count()) == taken


def test_amounts_count_of_resources_that_a_pod_requests() -> None:
    text = '{"numaNodeResources":[{"node":0,"resources":{"cpu":"2","memory":"1Gi","kubernetes.io/batch-cpu":"9"}}]}'
    ask = pod("p", "2", annotations={STATUS: text})
    assert held_by(ask.pod) == Allocation(0, ((0, (("cpu", 2000), ("memory", 1 << 30))),))
    assert held_by(pod("p", "0", "0", annotations={STATUS: text}).pod) is None
