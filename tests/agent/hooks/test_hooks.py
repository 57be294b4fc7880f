"""Hooks: the settings that each pod gets, with the specification's figures."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from koord.agent.hooks import batch_resource, cpu_normalization, cpu_set, group_identity
from koord.agent.hooks.hook import Hook
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, GROUP_IDENTITY, MEMORY_LIMIT, Value
from koord.agent.host.time_slices import LONG, TIME_SLICE
from koord.agent.pods import AgentPod
from koord.agent.state import DEFAULT_GATES, Kernel, Kubelet, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.text.cpuset import CPUSet
from tests.agent.states import cpus, delivered, node, pod

STATUS = "scheduling.koordinator.sh/resource-status"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
MIB = 1 << 20


def wanted(hook: Hook, state: NodeState) -> dict[tuple[str, str], Value]:
    return {(write.knob.name, write.directory): write.value for write in delivered(state, hook.wishes(state))}


def batch(name: str, cpu: tuple[str, str], memory: str) -> dict[str, Any]:
    keys = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
    return {
        "name": name,
        "resources": {
            "requests": {keys[0]: cpu[0], keys[1]: memory},
            "limits": {keys[0]: cpu[1], keys[1]: memory},
        },
    }


JOB_B = batch("b", ("250", "250"), "512Mi")
JOB = pod("job", "BE", containers=[batch("a", ("1500", "2500"), "2Gi"), JOB_B])
JOB_DIR = "kubepods/besteffort/podjob"


def test_batch_resources_become_shares_quota_and_memory_limit() -> None:
    found = wanted(batch_resource.HOOK, node(JOB))
    assert found == {
        (CPU_SHARES.name, JOB_DIR): 1792,
        (CPU_QUOTA.name, JOB_DIR): 275_000,
        (MEMORY_LIMIT.name, JOB_DIR): 2684354560,
        (CPU_SHARES.name, f"{JOB_DIR}/job-a"): 1536,
        (CPU_QUOTA.name, f"{JOB_DIR}/job-a"): 250_000,
        (MEMORY_LIMIT.name, f"{JOB_DIR}/job-a"): 2147483648,
        (CPU_SHARES.name, f"{JOB_DIR}/job-b"): 256,
        (CPU_QUOTA.name, f"{JOB_DIR}/job-b"): 25_000,
        (MEMORY_LIMIT.name, f"{JOB_DIR}/job-b"): 536870912,
    }


def test_under_one_quota_for_all_there_is_none_for_each() -> None:
    state = node(JOB, slo={"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}})
    found = wanted(batch_resource.HOOK, state)
    assert {value for (knob, _), value in found.items() if knob == CPU_QUOTA.name} == {-1}


def test_a_fast_cpu_makes_a_quota_smaller() -> None:
    found = wanted(batch_resource.HOOK, node(JOB, annotations={RATIO: "1.25"}))
    assert found[CPU_QUOTA.name, JOB_DIR] == 220_000
    service = pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "3"})
    found = wanted(cpu_normalization.HOOK, node(service, annotations={RATIO: "1.15"}))
    assert found == {
        (CPU_QUOTA.name, "kubepods/burstable/podweb"): 260_870,
        (CPU_QUOTA.name, "kubepods/burstable/podweb/web-main"): 260_870,
    }
    assert wanted(cpu_normalization.HOOK, node(service)) == {}


@pytest.mark.parametrize(
    ("conditions", "expected"), [((), True), (("PodResizePending",), True), (("PodResizeInProgress",), False)]
)
def test_a_pod_that_kubelet_resizes_at_this_moment_is_left_to_it(conditions: tuple[str, ...], expected: bool) -> None:
    """Its container's new limit must fit into the pod's new one, which kubelet writes first."""
    service = pod("web", "LS", limits={"cpu": "3"}, conditions=conditions)
    assert bool(wanted(cpu_normalization.HOOK, node(service, annotations={RATIO: "1.15"}))) is expected


def test_containers_to_come_count_for_their_pods_quota() -> None:
    """Or kubelet could not start them below a quota that is too small for them."""
    limits = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    service = pod("web", "LS", containers=[{"name": "a", **limits}, {"name": "b", **limits}])
    coming = replace(service, containers=(service.containers[0], replace(service.containers[1], id="", directory="")))
    found = wanted(cpu_normalization.HOOK, node(coming, annotations={RATIO: "1.25"}))
    assert found == {
        (CPU_QUOTA.name, "kubepods/burstable/podweb"): 320_000,
        (CPU_QUOTA.name, "kubepods/burstable/podweb/web-a"): 160_000,
    }


@pytest.mark.parametrize(
    ("qos", "cpuset", "expected"),
    [("", "", True), ("LS", "", True), ("LSR", "", False), ("LSE", "", False), ("BE", "", False), ("", "2-3", False)],
)
def test_whose_quota_a_fast_cpu_changes(qos: str, cpuset: str, expected: bool) -> None:
    status = {"scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": cpuset})} if cpuset else {}
    own = pod("web", qos, requests={"cpu": "1"}, limits={"cpu": "1"}, annotations=status)
    assert bool(wanted(cpu_normalization.HOOK, node(own, annotations={RATIO: "1.2"}))) is expected


def test_one_container_without_a_limit_leaves_the_pod_without() -> None:
    free = {"name": "free", "resources": {"requests": {"kubernetes.io/batch-cpu": "100"}}}
    found = wanted(batch_resource.HOOK, node(pod("job", "BE", containers=[batch("a", ("1", "500"), "1Gi"), free])))
    assert found[CPU_QUOTA.name, JOB_DIR] == -1
    assert found[MEMORY_LIMIT.name, JOB_DIR] == -1
    assert found[CPU_QUOTA.name, f"{JOB_DIR}/job-a"] == 50_000


def test_a_limit_of_nothing_is_none() -> None:
    found = wanted(batch_resource.HOOK, node(pod("job", "BE", containers=[batch("a", ("1", "0"), "0"), JOB_B])))
    assert found[CPU_QUOTA.name, JOB_DIR] == found[CPU_QUOTA.name, f"{JOB_DIR}/job-a"] == -1
    assert found[MEMORY_LIMIT.name, JOB_DIR] == found[MEMORY_LIMIT.name, f"{JOB_DIR}/job-a"] == -1


def test_a_container_without_batch_resources_is_kubelets() -> None:
    plain = {"name": "plain", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    found = wanted(batch_resource.HOOK, node(pod("job", "BE", containers=[JOB_B, plain])))
    assert {directory for _, directory in found} == {"kubepods/burstable/podjob", "kubepods/burstable/podjob/job-b"}


def test_pods_without_batch_resources_are_left_alone() -> None:
    assert wanted(batch_resource.HOOK, node(pod("be", "BE"), pod("web", "LS", requests={"cpu": "1"}))) == {}


def identities(**classes: int) -> dict[str, Any]:
    return {
        "resourceQOSStrategy": {
            f"{name}Class": {"cpuQOS": {"enable": True, "groupIdentity": value}} for name, value in classes.items()
        }
    }


def anolis(*pods: Any, **classes: int) -> NodeState:
    return replace(node(*pods, slo=identities(**classes)), kernel=Kernel(has_group_identity=True, has_watermarks=True))


def test_classes_get_their_identity_and_what_is_off_is_neutral() -> None:
    pods = [
        pod("lsr", "LSR", requests={"cpu": "1"}),
        pod("ls", "LS", requests={"cpu": "1"}),
        pod("be", "BE"),
        pod("guaranteed", requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"}),
        pod("burstable", requests={"cpu": "1"}),
        pod("besteffort"),
    ]
    found = {
        directory: value
        for (_, directory), value in wanted(group_identity.HOOK, anolis(*pods, ls=2, be=-1)).items()
        if directory.count("/") <= 2 and "main" not in directory
    }
    assert found == {
        "kubepods": 0,
        "kubepods/burstable": 2,
        "kubepods/besteffort": -1,
        "kubepods/burstable/podlsr": 0,
        "kubepods/burstable/podls": 2,
        "kubepods/besteffort/podbe": -1,
        "kubepods/podguaranteed": 2,
        "kubepods/burstable/podburstable": 2,
        "kubepods/besteffort/podbesteffort": -1,
    }


def test_a_mainline_kernel_gives_best_effort_the_least_weight_and_long_time_slices() -> None:
    """And no more than that: with `cpu.idle` there, the kernel would refuse kubelet its shares."""
    below = {"name": "yarn", "qos": "BE", "cgroupPath": {"base": "KubepodsBesteffort", "relativePath": "yarn"}}
    beside = {"name": "cron", "qos": "BE"}
    services = pod("ls", "LS", requests={"cpu": "1"}), pod("batch", "BE", requests={"memory": "1Gi"})
    settings = {**identities(be=-1, ls=2), "hostApplications": [below, beside]}
    assert wanted(group_identity.HOOK, node(pod("be", "BE"), *services, slo=settings)) == {
        (CPU_SHARES.name, "kubepods/besteffort"): 2,
        (TIME_SLICE.name, "kubepods/besteffort/podbe/be-main"): LONG,
        (TIME_SLICE.name, "kubepods/besteffort/yarn"): LONG,
    }


def test_where_best_effort_does_not_yield_it_keeps_its_time_slices() -> None:
    assert wanted(group_identity.HOOK, node(pod("be", "BE"), slo=identities(be=0, ls=2))) == {}
    found = wanted(group_identity.HOOK, anolis(pod("be", "BE"), be=-1, ls=2))
    assert {name for name, _ in found} == {GROUP_IDENTITY.name}, "its numbers are better"


def test_without_a_class_switched_on_nothing_is_wanted() -> None:
    assert wanted(group_identity.HOOK, node(pod("be", "BE"), slo={})) == {}
    assert wanted(group_identity.HOOK, anolis(pod("be", "BE"))) == {}


@pytest.mark.parametrize(
    ("annotation", "expected"), [('{"enable": false}', 0), ('{"enable": true, "groupIdentity": 1}', 1), ("{", 2)]
)
def test_a_service_can_say_for_itself(annotation: str, expected: int) -> None:
    own = pod("ls", "LS", requests={"cpu": "1"}, annotations={"koordinator.sh/cpuQOS": annotation})
    found = wanted(group_identity.HOOK, anolis(own, ls=2))
    assert found[GROUP_IDENTITY.name, "kubepods/burstable/podls"] == expected


def bound(name: str, cpuset: str) -> Any:
    return pod(
        name, "LSR", requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1Gi"},
        annotations={"scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": cpuset})},
    )  # fmt: skip


def test_bound_pods_have_their_cpus_without_quota_and_services_share_the_rest() -> None:
    state = node(bound("db", "0-1"), pod("web", "LS", requests={"cpu": "1"}), pod("be", "BE"), topology=cpus(1, 8, 1))
    found = wanted(cpu_set.HOOK, state)
    assert found[CPUSET_CPUS.name, "kubepods/poddb"] == CPUSet([0, 1])
    assert found[CPUSET_CPUS.name, "kubepods/poddb/db-main"] == CPUSet([0, 1])
    assert found[CPU_QUOTA.name, "kubepods/poddb/db-main"] == -1
    assert found[CPUSET_CPUS.name, "kubepods/burstable/podweb"] == CPUSet(range(2, 8))
    assert found[CPUSET_CPUS.name, "kubepods/burstable"] == CPUSet(range(2, 8))
    assert not any("podbe" in directory for _, directory in found)


def test_where_nobody_has_cpus_of_his_own_nothing_is_wanted() -> None:
    assert wanted(cpu_set.HOOK, node(pod("web", "LS", requests={"cpu": "1"}))) == {}


def test_a_pod_of_a_numa_node_shares_the_cpus_there() -> None:
    status = json.dumps({"numaNodeResources": [{"node": 1, "resources": {"cpu": "1"}}]})
    near = pod("near", "LS", requests={"cpu": "1"}, annotations={"scheduling.koordinator.sh/resource-status": status})
    found = wanted(cpu_set.HOOK, node(bound("db", "4-5"), near, topology=cpus(2, 4, 1)))
    assert found[CPUSET_CPUS.name, "kubepods/burstable/podnear"] == CPUSet([6, 7])


SHARED = "2-3,6-15"
"""Of two NUMA nodes of eight CPUs: without an LSR pod's 0-1 and what is reserved, 4-5."""


def given_by(**status: Any) -> dict[str, str]:
    return {"scheduling.koordinator.sh/resource-status": json.dumps(status)}


def on_node(number: int, **resources: str) -> dict[str, str]:
    return given_by(numaNodeResources=[{"node": number, "resources": resources}])


@pytest.mark.parametrize(
    ("qos", "requests", "annotations", "expected", "under_static"),
    [
        ("LS", {"cpu": "1"}, {}, SHARED, SHARED),
        ("", {"cpu": "1"}, {}, SHARED, None),
        ("LSR", {"cpu": "1"}, {}, SHARED, None),
        ("", {}, {}, None, None),
        ("BE", {}, {}, None, None),
        # Below burstable suppression does not reach it, and its directory has no other CPUs.
        ("BE", {"cpu": "1"}, {}, SHARED, None),
        ("BE", {"cpu": "1"}, on_node(1, cpu="1"), SHARED, None),
        ("LS", {"cpu": "1"}, on_node(0, cpu="1"), "2-3,6-7", "2-3,6-7"),
        ("", {"cpu": "1"}, on_node(1, cpu="1"), "8-15", "8-15"),
        ("LS", {"cpu": "1"}, on_node(0, **{"hugepages-1Gi": "2Gi"}), SHARED, SHARED),
        ("LS", {"cpu": "1"}, on_node(0, cpu="0", memory="1Gi"), SHARED, SHARED),
        ("SYSTEM", {"cpu": "1"}, {}, "8-9", "8-9"),
        ("LS", {"cpu": "1"}, given_by(cpuset="12-13"), "12-13", "12-13"),
        ("LS", {"cpu": "1"}, {"scheduling.koordinator.sh/resource-status": "{"}, None, None),
    ],
)
@pytest.mark.parametrize("is_static", [False, True])
def test_whose_cpus_a_pod_runs_on(
    qos: str,
    requests: dict[str, str],
    annotations: dict[str, str],
    expected: str | None,
    under_static: str | None,
    is_static: bool,
) -> None:
    asked = pod("asked", qos, requests=requests, annotations=annotations)
    reserved = {
        "node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "4-5"}),
        "node.koordinator.sh/system-qos-resource": json.dumps({"cpuset": "8-9", "cpusetExclusive": False}),
    }
    kubelet = Kubelet("static" if is_static else "none")
    state = node(bound("db", "0-1"), asked, topology=cpus(2, 8, 1), annotations=reserved, kubelet=kubelet)
    found = wanted(cpu_set.HOOK, state)
    text = under_static if is_static else expected
    assert found.get((CPUSET_CPUS.name, asked.directory)) == (None if text is None else CPUSet.parse(text))


@pytest.mark.parametrize(
    ("qos", "annotations", "node_annotations", "expected"),
    [
        ("LS", on_node(1, cpu="1"), {}, "4-7"),
        ("SYSTEM", {}, {"node.koordinator.sh/system-qos-resource": '{"cpuset": "0-1"}'}, "0-1"),
        ("LS", {}, {"node.koordinator.sh/system-qos-resource": '{"cpuset": "0-1"}'}, "2-7"),
        ("LS", {}, {"node.koordinator.sh/reservation": '{"reservedCPUs": "0"}'}, "1-7"),
        ("SYSTEM", {}, {"node.koordinator.sh/reservation": '{"reservedCPUs": "0"}'}, "1-7"),
        ("LS", {}, {}, None),
        ("SYSTEM", {}, {}, None),
    ],
)
def test_without_pods_with_cpus_of_their_own(
    qos: str, annotations: dict[str, str], node_annotations: dict[str, str], expected: str | None
) -> None:
    asked = pod("asked", qos, requests={"cpu": "1"}, annotations=annotations)
    found = wanted(cpu_set.HOOK, node(asked, topology=cpus(2, 4, 1), annotations=node_annotations))
    text = found.get((CPUSET_CPUS.name, asked.directory))
    assert text == (None if expected is None else CPUSet.parse(expected))


def test_cpus_that_kubelet_gave_away_stay_where_they_are() -> None:
    own = pod("own", requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1Gi"})
    web = pod("web", "LS", requests={"cpu": "1"})
    kubelet = Kubelet("static", static_cpus={"own": CPUSet([0, 1])})
    found = wanted(cpu_set.HOOK, node(own, web, topology=cpus(1, 8, 1), kubelet=kubelet))
    assert found[CPUSET_CPUS.name, web.directory] == CPUSet(range(2, 8))
    assert not any(directory.startswith(own.directory) for _, directory in found)


def test_burstable_pods_that_are_left_alone_keep_the_directory_of_all_of_them_wide() -> None:
    odd = pod("odd", "LS", requests={"cpu": "1"}, annotations={"scheduling.koordinator.sh/resource-status": "{"})
    found = wanted(cpu_set.HOOK, node(bound("db", "0-1"), odd, topology=cpus(1, 8, 1)))
    assert found[CPUSET_CPUS.name, "kubepods/burstable"] == CPUSet(range(8))


def test_a_pod_on_its_way_out_keeps_its_cpus_and_its_limits() -> None:
    """It still runs, for as long as it needs to end."""

    def leaving(one: AgentPod) -> AgentPod:
        return replace(one, meta=msgspec.structs.replace(one.meta, deletion_timestamp="2026-01-02T03:04:05Z"))

    db, web = bound("db", "0-1"), pod("web", "LS", requests={"cpu": "1"})
    state = node(leaving(db), web, leaving(JOB), topology=cpus(1, 8, 1))
    found = wanted(cpu_set.HOOK, state)
    assert found[CPUSET_CPUS.name, db.directory] == CPUSet([0, 1])
    assert found[CPUSET_CPUS.name, web.directory] == CPUSet(range(2, 8))
    assert wanted(batch_resource.HOOK, state) == wanted(batch_resource.HOOK, node(JOB))


@pytest.mark.parametrize(("qos", "expected"), [("LSE", 1), ("LSR", 1), ("LS", 2), ("BE", -1), ("SYSTEM", 0), ("", 0)])
def test_a_host_application_has_the_identity_of_its_class(qos: str, expected: int) -> None:
    settings = {**identities(lsr=1, ls=2, be=-1), "hostApplications": [
        {"name": "app", "qos": qos, "cgroupPath": {"relativePath": "app"}}
    ]}  # fmt: skip
    state = replace(node(slo=settings), kernel=Kernel(has_group_identity=True))
    assert wanted(group_identity.HOOK, state)[GROUP_IDENTITY.name, "app"] == expected


def test_host_applications_have_their_sides_identity_and_the_shared_cpus() -> None:
    apps = [
        {"name": "nginx", "qos": "LS"},
        {"name": "yarn", "qos": "BE", "cgroupPath": {"base": "KubepodsBesteffort", "relativePath": "hadoop-yarn"}},
    ]
    settings = {**identities(ls=2, be=-1), "hostApplications": apps}
    state = node(bound("db", "0-1"), slo=settings, topology=cpus(1, 8, 1))
    on_anolis = replace(state, kernel=Kernel(has_group_identity=True))
    found = wanted(group_identity.HOOK, on_anolis)
    assert found[GROUP_IDENTITY.name, "host-latency-sensitive/nginx"] == 2
    assert found[GROUP_IDENTITY.name, "kubepods/besteffort/hadoop-yarn"] == -1
    found = wanted(cpu_set.HOOK, state)
    assert found[CPUSET_CPUS.name, "host-latency-sensitive/nginx"] == CPUSet(range(2, 8))
    assert (CPUSET_CPUS.name, "kubepods/besteffort/hadoop-yarn") not in found


def test_with_the_schedulers_cpus_a_best_effort_pod_below_burstable_stays_on_its_numa_node() -> None:
    given = {"numaNodeResources": [{"node": 1, "resources": {"kubernetes.io/batch-cpu": "2000"}}]}
    job = pod("job", "BE", requests={"cpu": "1"}, annotations={STATUS: json.dumps(given)})
    own = pod("own", "LSR", requests={"cpu": "2"}, limits={"cpu": "2"}, annotations={STATUS: '{"cpuset": "4-5"}'})
    without = node(job, own, topology=cpus(2, 4, 1), slo={})
    state = replace(without, gates={**DEFAULT_GATES, AgentGate.BE_CPU_MANAGER: True})
    found = cpu_set.cpus_of(state, job)
    # Best effort also runs on the CPUs of LSR pods.
    assert found is not None
    assert str(found[0]) == "4-7"
    # Where its NUMA node is ignored, it has what services share.
    found = cpu_set.cpus_of(without, job)
    assert found is not None
    assert str(found[0]) == "0-3,6-7"
