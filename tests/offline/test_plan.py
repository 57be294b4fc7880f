"""What manifests come to: which pods take part, where they go, in which order, and the messages."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.configuration.scheduler_config import parse as parse_config
from koord.api.kinds import DEVICES, NODE_RESOURCE_TOPOLOGIES
from koord.api.machinery.faults import Invalid
from koord.api.protocol.annotations.cpu import CPU_TOPOLOGY
from koord.api.text.manifest import parse
from koord.api.text.quantity import amount
from koord.cli.main import run
from koord.offline.plan import Plan, Planned, plan
from koord.scheduler.profiles import profiles_of

NOW_S = 1_800_000_000.0


def node(name: str, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}}
    status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more, "status": status}


def pod(name: str, cpu: str = "1", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": more.pop("namespace", "shop"), "labels": more.pop("labels", {})}
    metadata |= more.pop("metadata", {})
    status = more.pop("status", {})
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    spec = {"containers": containers, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def planned(*objects: dict[str, Any], config: dict[str, Any] | None = None, **options: Any) -> Planned:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    profiles = profiles_of(SHIPPED if config is None else parse_config(config))
    return plan(parse(text, "input"), profiles, **{"now_s": NOW_S, **options})


def plan_of(*objects: dict[str, Any], **options: Any) -> Plan:
    return planned(*objects, **options).plan


def test_a_pod_goes_where_it_fits_best_and_counts_there() -> None:
    found = plan_of(node("small", "2"), node("large", "16"), pod("web", "1500m", "2Gi"))
    web = found.pods["shop/web"]
    assert (web.node, web.outcome) == ("large", "scheduled")
    assert web.scores["NodeResourcesFit"] > 0
    assert web.score == sum(
        web.scores[name] * weight
        for name, weight in profiles_of(SHIPPED).profiles["koord-scheduler"].weights.items()
        if name in web.scores
    )
    assert found.nodes["large"].requested == {"cpu": "1500m", "memory": "2Gi", "pods": "1"}
    assert found.nodes["large"].allocatable == {"cpu": "16", "memory": "32Gi", "pods": "110"}


def test_a_pod_without_a_place_has_the_reasons_of_all_nodes() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    found = plan_of(node("a", "1"), node("b", "1"), node("c", taints=[taint]), pod("big", "4"))
    big = found.pods["shop/big"]
    assert (big.node, big.outcome) == (None, "unschedulable")
    assert big.hint.startswith("It would fit on ")
    reasons = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    assert big.reason == f"{reasons} {big.hint}"
    assert big.nodes_rejected == {
        "TaintToleration: node(s) had untolerated taint(s)": 1,
        "NodeResourcesFit: insufficient cpu": 2,
    }
    assert [(event.object, event.reason) for event in found.events] == [("shop/big", "FailedScheduling")]
    assert found.events[0].message.endswith(big.hint)


def test_the_hint_for_a_pod_without_a_place_is_true_beside_the_whole_plan() -> None:
    found = plan_of(node("a", "4"), pod("big", "6", priority=10), pod("small", "3"))
    assert found.pods["shop/small"].node == "a"
    # Of 4 cpu, the small one has 3.
    assert found.pods["shop/big"].hint == "It would fit on a with a request of 1 cpu instead of 6."
    assert "1 Insufficient cpu." in found.pods["shop/big"].reason


def test_a_pod_whose_claims_have_no_volumes_is_told_who_is_to_make_them() -> None:
    late = {
        "metadata": {"name": "late"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    soon = {"metadata": {"name": "soon"}, "provisioner": "disks.example.com"}
    classes = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **each} for each in (late, soon)]
    claims = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"]},
        }
        for name in ("late", "soon", "missing")
    ]
    pods = [
        pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
        for name in ("late", "soon", "missing")
    ]
    found = plan_of(node("a"), *classes, *claims, *pods).pods
    maker = "waits for disks.example.com, the provisioner of its StorageClass"
    assert found["shop/late"].node == "a"
    assert found["shop/late"].hint == f"The claim shop/late {maker} late, to make a volume."
    assert found["shop/late"].reason.endswith(f"of all nodes that would do. {found['shop/late'].hint}")
    assert found["shop/soon"].reason == (
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. "
        f"The claim shop/soon {maker} soon, to make a volume."
    )
    assert found["shop/missing"].hint == (
        "The claim shop/missing waits for the StorageClass missing, which does not exist."
    )


def test_without_nodes_that_is_the_reason() -> None:
    pod_plan = plan_of(pod("web")).pods["shop/web"]
    assert (pod_plan.outcome, pod_plan.reason) == ("unschedulable", "there are no nodes")


def test_pods_with_a_node_count_as_running_but_not_those_that_have_finished() -> None:
    found = plan_of(
        node("n1", "4"),
        pod("runs", "3", nodeName="n1"),
        pod("ended", "4", nodeName="n1", status={"phase": "Failed"}),
        pod("new", "1"),
        pod("next", "1"),
    )
    assert found.nodes["n1"].requested["cpu"] == "4"
    assert {key: pod.outcome for key, pod in found.pods.items()} == {
        "shop/runs": "scheduled",
        "shop/ended": "skipped",
        "shop/new": "scheduled",
        "shop/next": "unschedulable",
    }
    assert found.pods["shop/runs"].node == "n1"


def test_of_a_pod_that_its_node_rejected_the_reason_is_told() -> None:
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": message}
    found = plan_of(node("n1", "4"), pod("big", "40", nodeName="n1", status=status))
    assert found.pods["shop/big"].reason == f"has finished (Failed): OutOfcpu: {message}"


def test_a_pod_on_a_node_that_is_not_there_counts_nowhere_and_that_is_said() -> None:
    found = planned(node("n1"), pod("astray", nodeName="gone"))
    assert found.plan.pods["shop/astray"].node == "gone"
    assert found.plan.nodes["n1"].requested["pods"] == "0"
    assert any("not in the input" in warning for warning in found.warnings)


def test_the_higher_priority_is_placed_first_and_of_equals_the_older() -> None:
    objects = [
        node("n1", "2"),
        pod("late", metadata={"creationTimestamp": "2026-11-15T05:00:00Z"}),
        pod("early", metadata={"creationTimestamp": "2026-11-15T04:00:00Z"}),
        pod("important", priority=10, metadata={"creationTimestamp": "2026-11-15T06:00:00Z"}),
    ]
    found = plan_of(*objects)
    assert [event.object for event in found.events] == ["shop/important", "shop/early", "shop/late"]
    assert found.pods["shop/late"].outcome == "unschedulable"


def priority_class(name: str, value: int, default: bool = False) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, "globalDefault": default}


def test_priorities_come_from_their_classes() -> None:
    found = plan_of(
        node("n1", "8"),
        priority_class("vip", 500),
        priority_class("usual", 100, default=True),
        pod("plain"),
        pod("stated", priority=50),
        pod("vip", priorityClassName="vip"),
        pod("system", priorityClassName="system-node-critical"),
        pod("batch", priorityClassName="koord-batch"),
    )
    order = ["shop/system", "shop/batch", "shop/vip", "shop/plain", "shop/stated"]
    assert [event.object for event in found.events] == order


def test_a_pod_whose_priority_class_is_nowhere_would_be_denied() -> None:
    pod_plan = plan_of(node("n1"), pod("web", priorityClassName="vip")).pods["shop/web"]
    assert (pod_plan.outcome, pod_plan.reason) == (
        "denied",
        "admission would refuse it: no PriorityClass with name vip was found",
    )


def test_gated_pods_wait_and_pods_of_other_schedulers_or_on_their_way_out_are_skipped() -> None:
    found = plan_of(
        node("n1"),
        pod("gated", schedulingGates=[{"name": "a"}, {"name": "b"}]),
        pod("foreign", schedulerName="theirs"),
        pod("leaving", metadata={"deletionTimestamp": "2026-11-15T04:00:00Z"}),
    )
    assert {key: (pod.outcome, pod.reason) for key, pod in found.pods.items()} == {
        "shop/gated": ("waiting", "waiting for scheduling gates: [a b]"),
        "shop/foreign": ("skipped", "is left to the scheduler theirs"),
        "shop/leaving": ("skipped", "is being deleted"),
    }


def test_profiles_are_chosen_by_scheduler_name() -> None:
    def scoring(strategy: str) -> list[dict[str, Any]]:
        strategy_ = {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}
        return [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy_}}]

    only_fit = {"score": {"enabled": [{"name": "NodeResourcesFit"}], "disabled": [{"name": "*"}]}}
    config = {
        "profiles": [
            {"schedulerName": "pack", "plugins": only_fit, "pluginConfig": scoring("MostAllocated")},
            {"schedulerName": "spread", "plugins": only_fit, "pluginConfig": scoring("LeastAllocated")},
        ]
    }
    objects = [
        node("small", "2"),
        node("large", "64"),
        pod("a", schedulerName="pack"),
        pod("b", schedulerName="spread"),
    ]
    found = plan_of(*objects, config=config)
    assert (found.pods["shop/a"].node, found.pods["shop/b"].node) == ("small", "large")


def test_a_pod_that_names_no_scheduler_goes_with_the_first_profile_where_none_is_the_default() -> None:
    config = {"profiles": [{"schedulerName": "koord-scheduler"}]}
    found = planned(node("n1"), pod("web"), config=config)
    assert found.plan.pods["shop/web"].node == "n1"
    assert found.unnamed == 1


NEAR_WEB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def test_a_pod_that_needs_a_later_one_is_placed_in_the_next_round() -> None:
    objects = [node("n1"), node("n2"), pod("cache", priority=9, affinity=NEAR_WEB), pod("web", labels={"app": "web"})]
    once = planned(*objects)
    assert once.plan.pods["shop/cache"].outcome == "unschedulable"
    assert any("--rounds 2" in warning for warning in once.warnings)
    twice = planned(*objects, rounds=2)
    assert twice.plan.pods["shop/cache"].node == twice.plan.pods["shop/web"].node
    assert not any("--rounds" in warning for warning in twice.warnings)


def test_measured_load_keeps_pods_away() -> None:
    def metric(name: str, cpu: str) -> dict[str, Any]:
        usage = {"nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}}}
        status = {"updateTime": "2027-01-15T07:59:50Z", **usage}
        head = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
        return {**head, "spec": {}, "status": status}

    found = plan_of(node("busy"), node("idle"), metric("busy", "7"), metric("idle", "1"), pod("web"))
    assert found.pods["shop/web"].node == "idle"
    assert found.pods["shop/web"].scores["LoadAwareScheduling"] > 0


def test_services_spread_their_pods() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}},
    }
    nodes = [node(f"n{i}", "64", labels={"topology.kubernetes.io/zone": f"z{i}"}) for i in range(3)]
    pods = [pod(f"web-{i}", "100m", "100Mi", labels={"app": "web"}) for i in range(6)]
    found = plan_of(*nodes, service, *pods)
    assert {node.requested["pods"] for node in found.nodes.values()} == {"2"}


def test_a_pod_goes_where_its_volume_is() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "shop", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "disk"},
        "status": {"phase": "Bound"},
    }
    using: dict[str, Any] = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    found = plan_of(node("n1", "64"), node("n2"), volume, claim, pod("db", **using))
    assert (found.pods["shop/db"].node, found.ignored) == ("n2", {})
    without = plan_of(node("n1"), pod("db", **using)).pods["shop/db"]
    assert without.outcome == "unschedulable"
    assert 'persistentvolumeclaim "data" not found' in without.reason


def test_kinds_that_play_no_part_are_named() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {}}
    stranger = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    found = plan_of(node("n1"), deployment, stranger, {**stranger, "metadata": {"name": "v"}})
    assert found.ignored == {"Deployment": 1, "Widget": 2}


def test_a_node_that_says_only_its_capacity_can_give_all_of_it() -> None:
    bare = node("n1")
    bare["status"] = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    assert plan_of(bare, pod("web")).pods["shop/web"].node == "n1"


def test_faults_of_all_objects_come_together_with_their_places() -> None:
    with pytest.raises(Invalid) as refused:
        planned(node("n1", cpu="many"), pod("web", cpu="1e30"), pod("fine"), pod("odd", tolerations="all"))
    told = str(refused.value)
    assert "3 faults" in told
    assert "input, document 1, Node n1: items[0].status.allocatable.cpu" in told
    assert "Pod shop/web" in told
    assert "items[3].spec.tolerations: must be a list" in told


def test_pods_without_a_name_get_one_each() -> None:
    unnamed = pod("")
    unnamed["metadata"] = {"generateName": "web-", "namespace": "shop"}
    found = plan_of(node("n1"), unnamed, unnamed)
    assert len(found.pods) == 2
    assert found.nodes["n1"].requested["pods"] == "2"


def test_the_same_seed_gives_the_same_plan_and_ties_go_by_it() -> None:
    nodes = [node(f"n{i}") for i in range(8)]
    chosen = {seed: plan_of(*nodes, pod("web"), seed=seed).pods["shop/web"].node for seed in range(8)}
    assert chosen == {seed: plan_of(*nodes, pod("web"), seed=seed).pods["shop/web"].node for seed in range(8)}
    assert len(set(chosen.values())) > 1


def test_progress_is_told_of_every_pod() -> None:
    told: list[tuple[int, int]] = []
    plan_of(node("n1"), pod("a"), pod("b"), progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_no_plan_gives_more_than_a_node_has_and_every_pod_has_an_outcome(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [
        node(f"n{i}", chance.choice(["2", "4"]), chance.choice(["4Gi", "8Gi"]), str(chance.randint(1, 4)))
        for i in range(chance.randint(1, 5))
    ]
    pods = [
        pod(f"p{i}", f"{chance.randint(1, 20) * 100}m", f"{chance.randint(1, 4)}Gi", priority=chance.randint(0, 2))
        for i in range(chance.randint(1, 20))
    ]
    found = plan_of(*nodes, *pods, seed=seed, rounds=2)
    assert set(found.pods) == {f"shop/{pod['metadata']['name']}" for pod in pods}
    for name, each in found.nodes.items():
        there = [one for one in pods if found.pods[f"shop/{one['metadata']['name']}"].node == name]
        for resource in ("cpu", "memory"):
            asked = sum(
                amount(resource, one["spec"]["containers"][0]["resources"]["requests"][resource]) for one in there
            )
            assert asked == amount(resource, each.requested[resource]) <= amount(resource, each.allocatable[resource])
        assert len(there) <= int(each.allocatable["pods"])
    for key, one in found.pods.items():
        if one.node is None:
            assert sum(one.nodes_rejected.values()) >= len(nodes), key


PROFILE = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "batch"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"colocation": "on"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    },
}
JOBS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs", "labels": {"colocation": "on"}}}


def lending(name: str, batch_cpu: str) -> dict[str, Any]:
    found = node(name, "8")
    found["status"]["allocatable"] |= {"kubernetes.io/batch-cpu": batch_cpu, "kubernetes.io/batch-memory": "64Gi"}
    return found


def test_pods_are_admitted_before_they_are_placed() -> None:
    found = plan_of(
        lending("n1", "3000"),
        JOBS,
        PROFILE,
        pod("job", "2", namespace="jobs"),
        pod("next", "2", namespace="jobs"),
        pod("web", "2"),
    )
    assert found.ignored == {}
    assert found.nodes["n1"].requested["kubernetes.io/batch-cpu"] == "2k"
    assert found.nodes["n1"].requested["cpu"] == "2"
    assert found.pods["jobs/next"].outcome == "unschedulable"
    assert "Insufficient kubernetes.io/batch-cpu" in found.pods["jobs/next"].reason


def test_a_pod_that_admission_refuses_is_denied_with_the_reason() -> None:
    found = plan_of(
        node("n1"), pod("odd", labels={"koordinator.sh/qosClass": "BE"}, priority=9500), pod("good", labels={})
    )
    odd = found.pods["shop/odd"]
    assert (odd.node, odd.outcome) == (None, "denied")
    assert odd.reason.startswith("admission would refuse it: spec.priority: must be of class koord-mid or")
    assert found.pods["shop/good"].outcome == "scheduled"


def test_pods_that_are_in_a_cluster_already_are_not_admitted_again() -> None:
    there = pod("there", "2", namespace="jobs", metadata={"uid": "4e5f"})
    running = pod("running", "2", namespace="jobs", nodeName="n1")
    found = plan_of(lending("n1", "3000"), JOBS, PROFILE, there, running)
    assert found.nodes["n1"].requested["cpu"] == "4"


@pytest.mark.parametrize("namespace", ["kube-system", "koordinator-system"])
def test_the_clusters_own_namespaces_are_never_asked_about(namespace: str) -> None:
    everything = {**PROFILE, "spec": {"qosClass": "BE", "priorityClassName": "koord-batch"}}
    found = plan_of(lending("n1", "3000"), everything, pod("own", "2", namespace=namespace))
    assert found.nodes["n1"].requested["cpu"] == "2"


def test_pods_without_a_name_are_admitted_and_named_after() -> None:
    nameless = pod("", "1", namespace="jobs", metadata={"name": "", "generateName": "job-"})
    found = plan_of(lending("n1", "3000"), JOBS, PROFILE, nameless)
    assert found.pods["jobs/job-0"].outcome == "scheduled"
    assert found.nodes["n1"].requested["kubernetes.io/batch-cpu"] == "1k"


def test_requests_for_gpus_are_completed_before_they_are_placed() -> None:
    gpu = node("n1")
    gpu["status"]["allocatable"] |= {
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory-ratio": "200",
        "koordinator.sh/gpu.shared": "200",
    }
    asking = pod("train")
    asking["spec"]["containers"][0]["resources"]["limits"] = {"koordinator.sh/gpu": "100"}
    offers = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    devices = [{"type": "gpu", "minor": minor, "health": True, "resources": offers} for minor in (0, 1)]
    version = "scheduling.koordinator.sh/v1alpha1"
    told = {"apiVersion": version, "kind": "Device", "metadata": {"name": "n1"}, "spec": {"devices": devices}}
    found = plan_of(gpu, told, asking)
    assert found.nodes["n1"].requested["koordinator.sh/gpu-core"] == "100"


def test_objects_that_the_scheduler_does_not_understand_whole_are_told() -> None:
    templates = {"data.yaml": "huawei-Ascend-310P: {vir02: [1]}"}
    meta = {"namespace": "koordinator-system", "name": "gpu-shared-resource-templates"}
    gpus = [{"type": "gpu", "minor": 0}, {"type": "gpu", "minor": 0}]
    malformed, kind = {CPU_TOPOLOGY.key: "[]"}, NODE_RESOURCE_TOPOLOGIES
    report = {"apiVersion": kind.api_version, "kind": kind.kind, "topologyPolicies": ["None"], "zones": []}
    found = planned(
        node("n1"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": templates},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "name": "another"}, "data": templates},
        {**report, "metadata": {"name": "n1", "annotations": malformed}},
        {**report, "metadata": {"name": "n2", "annotations": malformed}},
        {"apiVersion": DEVICES.api_version, "kind": "Device", "metadata": {"name": "n1"}, "spec": {"devices": gpus}},
    )
    config, topology, device = found.warnings[-3:]
    assert config.startswith(
        "ConfigMap koordinator-system/gpu-shared-resource-templates: data[data.yaml].huawei-Ascend"
    )
    assert topology.startswith(f"NodeResourceTopology n1 and 1 more: annotation {CPU_TOPOLOGY.key}: ")
    assert device == "Device n1: spec.devices[0].minor: 0 is the minor of 2 gpu devices: none of them is used"


def test_what_a_running_pod_says_wrongly_of_its_cpus_or_devices_is_told_since_others_may_get_them() -> None:
    said = {
        "cpus": {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-99999999999"}'},
        "gpus": {"scheduling.koordinator.sh/device-allocated": '{"gpu": {"minor": 0}}'},
        "fine": {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-3"}'},
    }
    pods = [pod(name, metadata={"annotations": each}, nodeName="n1") for name, each in said.items()]
    told = planned(node("n1"), *pods).warnings
    assert [each.split(": ")[0] for each in told] == ["Pod shop/cpus", "Pod shop/gpus"]


def test_columns_of_resources_that_end_alike_have_their_whole_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = node("n1")
    one["status"]["allocatable"] |= {"nvidia.com/gpu": "8", "koordinator.sh/gpu": "800", "koordinator.sh/rdma": "1"}
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [one, pod("p")]}))
    assert run(["plan", "-o", "wide", "-f", str(path)]) == 0
    (heading,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("NODE ")]
    assert "KOORDINATOR.SH/GPU (ASKED/HAS)" in heading
    assert "NVIDIA.COM/GPU (ASKED/HAS)" in heading
    assert " RDMA (ASKED/HAS)" in heading
