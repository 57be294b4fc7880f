"""Every invariant finds its violation, and finds nothing in a cluster that keeps its promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from koord_chaos.invariants.cgroups import CgroupHistory
from koord_chaos.invariants.history import Acknowledged, Change, History
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.manifests import Objects, requests_of
from koord_chaos.invariants.moment import Moment, Witness
from koord_chaos.invariants.moving import Migrations
from koord_chaos.invariants.processes import MemoryUse, Recovery
from koord_chaos.invariants.promises import PROMISES
from koord_chaos.invariants.resting import Rest
from koord_chaos.stories.hardware import gpu, rdma, topology

S = "scheduling.koordinator.sh"
ALL = {invariant.name: invariant for chapter in PROMISES for invariant in chapter.invariants}
MIB = 1 << 20


def node(name: str = "n", labels: dict[str, str] | None = None, **amounts: Any) -> dict[str, Any]:
    allocatable = {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        **{key.replace("_", "-"): v for key, v in amounts.items()},
    }
    lent = {f"kubernetes.io/{key}" if key.startswith(("batch", "mid")) else key: v for key, v in allocatable.items()}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"} | lent,
            "capacity": {"cpu": "4", "memory": "8Gi"},
        },
    }


def pod(
    name: str,
    on: str = "n",
    requests: dict[str, str] | None = None,
    *,
    uid: str = "",
    labels: dict[str, str] | None = None,
    priority: int = 9500,
    selector: dict[str, str] | None = None,
    spec: dict[str, str] | None = None,
    **annotations: Any,
) -> dict[str, Any]:
    """Annotations: cpuset="0-1", zones=(0, 1), devices={...}, reservation="uid"; `spec`: of its CPUs."""
    written = {f"{S}/resource-spec": json.dumps(spec)} if spec else {}
    status: dict[str, Any] = {"cpuset": annotations["cpuset"]} if "cpuset" in annotations else {}
    if "zones" in annotations:
        status["numaNodeResources"] = [{"node": zone, "resources": {"cpu": "2"}} for zone in annotations["zones"]]
    written |= {f"{S}/resource-status": json.dumps(status)} if status else {}
    if "devices" in annotations:
        written[f"{S}/device-allocated"] = json.dumps(annotations["devices"])
    if "reservation" in annotations:
        written[f"{S}/reservation-allocated"] = json.dumps({"uid": annotations["reservation"], "name": "r"})
    return {
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": uid or f"uid-{name}",
            "labels": labels or {},
            "annotations": written,
        },
        "spec": {
            "priority": priority,
            "containers": [{"resources": {"requests": requests or {"cpu": "1"}}}],
            **({"nodeName": on} if on else {}),
            **({"nodeSelector": selector} if selector else {}),
        },
        "status": {"phase": "Running"},
    }


def lsr(name: str, cpuset: str, cpus: str = "2", **more: Any) -> dict[str, Any]:
    return pod(name, requests={"cpu": cpus}, labels={"koordinator.sh/qosClass": "LSR"}, cpuset=cpuset, **more)


def with_gpu(name: str, share: int, minor: int = 0, **more: Any) -> dict[str, Any]:
    amounts = {"koordinator.sh/gpu-core": str(share), "koordinator.sh/gpu-memory-ratio": str(share)}
    return pod(name, requests=amounts, devices={"gpu": [{"minor": minor, "resources": amounts}]}, **more)


def with_function(name: str, function: int) -> dict[str, Any]:
    card = {"minor": 0, "resources": {"koordinator.sh/rdma": "1"}, "extension": {"vfs": [{"minor": function}]}}
    return pod(name, requests={"koordinator.sh/rdma": "1"}, devices={"rdma": [card]})


def quota(name: str, cpu: str, parent: str = "") -> dict[str, Any]:
    labels = {"quota.scheduling.koordinator.sh/parent": parent} if parent else {}
    return {"metadata": {"name": name, "namespace": "a", "labels": labels}, "spec": {"max": {"cpu": cpu}}}


def in_quota(name: str, team: str) -> dict[str, Any]:
    return pod(name, labels={"quota.scheduling.koordinator.sh/name": team, "app": "web"})


def reservation(uid: str = "r", on: str = "n", app: str = "web", owners: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": uid, "uid": uid, "labels": {"app.kubernetes.io/created-by": "koord-descheduler"}},
        "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": app}}}], "allocateOnce": False},
        "status": {
            "phase": "Available",
            "nodeName": on,
            "allocatable": {"cpu": "1"},
            "currentOwners": [{"uid": owner} for owner in owners],
        },
    }


def moment(*pods: Any, nodes: Any = None, **kinds: Any) -> Moment:
    return Witness().look({"Node": nodes or [node()], "Pod": list(pods), **kinds})


def gang(number: int, bound: int) -> Rest:
    pods = [pod(f"g{i}", on="n" if i < bound else "") for i in range(number)]
    for member in pods:
        gang_prefix = "gang.scheduling.koordinator.sh"
        member["metadata"]["annotations"] |= {f"{gang_prefix}/name": "g", f"{gang_prefix}/min-available": str(number)}
    return Rest(moment(*pods))


def job(name: str, phase: str, uid: str = "uid-x") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"podRef": {"uid": uid}},
        "status": {"phase": phase},
    }


def migrations(**more: Any) -> Migrations:
    jobs = more.pop("jobs")
    return Migrations({"PodMigrationJob": jobs, "Pod": [pod("x"), pod("y")], **more.pop("kinds", {})}, **more)


def lease(holder: str) -> Change:
    manifest = {"metadata": {"name": "m", "namespace": "s"}, "spec": {"holderIdentity": holder}}
    return Change("update", "Lease", manifest)


def led(*changes: Change) -> History:
    return History(changes, leases={"koord-manager": "s/m"})


def written_by(identity: str) -> Change:
    return Change("update", "Node", node(), "koord-manager", identity)


def acknowledged(*objects: Any, revision: int = 5, **more: Any) -> History:
    return History(
        acknowledged=[Acknowledged("create", "Pod", "a/p", "uid-p", revision)], objects={"Pod": objects}, **more
    )


def at_version(version: int) -> dict[str, Any]:
    manifest = pod("p")
    manifest["metadata"]["resourceVersion"] = str(version)
    return manifest


def evicted(by: str, priority: int | None = None, *, victim: int = 9500) -> History:
    return History([Change("evict", "Pod", pod("s", priority=victim), by, priority=priority)])


TOPOLOGY = topology("n", "1x2x1x2", memory="4Gi")
GPUS = {"metadata": {"name": "n"}, "spec": {"devices": [gpu(0), gpu(1), {**gpu(2), "health": False}, rdma(0)]}}
RICH = node()
RICH["status"]["allocatable"] |= {f"koordinator.sh/{name}": "200" for name in ("gpu-core", "gpu-memory-ratio", "rdma")}
FILE = "/kubepods/pod1/cpu.shares"


def rich(*pods: Any) -> Moment:
    return moment(*pods, nodes=[RICH], Device=[GPUS], NodeResourceTopology=[TOPOLOGY])


def of_reservation(app: str = "web", **more: Any) -> Moment:
    owner = pod("o", labels={"app": "web"}, reservation="r")
    return moment(owner, Reservation=[reservation(app=app, **more)])


def selecting(kind: str) -> Moment:
    """A pod that was allocated from a reservation of one kind, and requires a special one."""
    owner = pod("o", labels={"app": "web"}, reservation="r")
    owner["metadata"]["annotations"][f"{S}/reservation-affinity"] = json.dumps(
        {"reservationSelector": {"kind": "special"}}
    )
    room = reservation()
    room["metadata"]["labels"]["kind"] = kind
    return moment(owner, Reservation=[room])


def twice(first: str, second: str) -> Moment:
    witness = Witness()
    witness.look({"Node": [node("n"), node("m")], "Pod": [pod("p", on=first)]})
    return witness.look({"Node": [node("n"), node("m")], "Pod": [pod("p", on=second)]})


def cgroups(*texts: str, **more: Any) -> CgroupHistory:
    return CgroupHistory([(float(i * 10), {FILE: text}) for i, text in enumerate(texts)], **more)


def specified(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of the application web with more in its spec."""
    result = pod(name, labels={"app": "web"})
    result["spec"] |= spec
    return result


def dedicated() -> dict[str, Any]:
    return {**node(), "spec": {"taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]}}


def alone(name: str, app: str) -> dict[str, Any]:
    """A pod that shares its node with no pod of an application."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return specified(name, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def with_port(name: str, number: int) -> dict[str, Any]:
    result = pod(name)
    result["spec"]["containers"][0]["ports"] = [{"hostPort": number}]
    return result


def linked(*minors: int) -> Moment:
    table = {f"{S}/gpu-partitions": json.dumps({"2": [{"minors": [0, 1]}]})}
    wanting = pod("p", requests={"koordinator.sh/gpu-core": "200"}, devices={"gpu": [{"minor": m} for m in minors]})
    wanting["metadata"]["annotations"][f"{S}/gpu-partition-spec"] = json.dumps({"allocatePolicy": "Restricted"})
    units = [gpu(minor) for minor in range(3)]
    return moment(
        wanting, nodes=[RICH], Device=[{"metadata": {"name": "n", "annotations": table}, "spec": {"devices": units}}]
    )


def joint(card: int) -> Moment:
    units = [gpu(0, pcie=0, numa_node=0), *(rdma(i, pcie=i, numa_node=0) for i in range(2))]
    wanting = pod("p", devices={"gpu": [{"minor": 0}], "rdma": [{"minor": card}]})
    scope = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    wanting["metadata"]["annotations"][f"{S}/device-joint-allocate"] = json.dumps(scope)
    return moment(wanting, nodes=[RICH], Device=[{"metadata": {"name": "n"}, "spec": {"devices": units}}])


def group(bound: int) -> Rest:
    """Two gangs of one pod each that are placed together."""
    pods = [pod(name, on="n" if i < bound else "") for i, name in enumerate(("g", "h"))]
    for member in pods:
        prefix = "gang.scheduling.koordinator.sh"
        member["metadata"]["annotations"] |= {
            f"{prefix}/name": member["metadata"]["name"],
            f"{prefix}/min-available": "1",
            f"{prefix}/groups": json.dumps(["a/g", "a/h"]),
        }
    return Rest(moment(*pods))


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "one-binding": (lambda: twice("n", "n"), lambda: twice("n", "m")),
    "node-selectors": (
        lambda: moment(pod("p", selector={"pool": "a"}), nodes=[node(labels={"pool": "a"})]),
        lambda: moment(pod("p", selector={"pool": "a"}), nodes=[node(labels={"pool": "b"})]),
    ),
    "node-taints": (
        lambda: moment(specified("p", tolerations=[{"operator": "Exists"}]), nodes=[dedicated()]),
        lambda: moment(specified("p", tolerations=[{"key": "dedicated", "value": "b"}]), nodes=[dedicated()]),
    ),
    "anti-affinity": (
        lambda: moment(alone("p", "db"), specified("q"), nodes=[node(labels={"kubernetes.io/hostname": "n"})]),
        lambda: moment(alone("p", "web"), specified("q"), nodes=[node(labels={"kubernetes.io/hostname": "n"})]),
    ),
    "host-ports": (
        lambda: moment(with_port("p", 80), with_port("q", 81)),
        lambda: moment(with_port("p", 80), with_port("q", 80)),
    ),
    "node-capacity": (
        lambda: moment(*(pod(f"p{i}") for i in range(4))),
        lambda: moment(*(pod(f"p{i}") for i in range(5))),
    ),
    "lent-once": (
        lambda: moment(pod("p", requests={"kubernetes.io/batch-cpu": "1000"}), nodes=[node(batch_cpu="1500")]),
        lambda: moment(
            *(pod(f"p{i}", requests={"kubernetes.io/batch-cpu": "1000"}) for i in range(2)),
            nodes=[node(batch_cpu="1500")],
        ),
    ),
    "lent-within-capacity": (
        lambda: moment(nodes=[node(batch_cpu="4000", mid_memory="8Gi")]),
        lambda: moment(nodes=[node(batch_cpu="4001")]),
    ),
    "exclusive-cpus": (lambda: rich(lsr("p", "0-1"), lsr("q", "2-3")), lambda: rich(lsr("p", "0-1"), lsr("q", "1-2"))),
    "requested-cpus": (lambda: rich(lsr("p", "0-1"), pod("q")), lambda: rich(pod("q", cpuset="0-1"))),
    "numa-policy": (
        lambda: moment(pod("p", zones=(0, 1)), nodes=[node()]),
        lambda: moment(
            pod("p", zones=(0, 1)), nodes=[node(labels={"node.koordinator.sh/numa-topology-policy": "SingleNUMANode"})]
        ),
    ),
    "numa-capacity": (
        lambda: rich(pod("p", zones=(0,)), lsr("q", "2-3")),
        lambda: rich(pod("p", zones=(0,)), lsr("q", "0-1")),
    ),
    "device-shares": (
        lambda: rich(with_gpu("p", 50), with_gpu("q", 50), with_gpu("r", 100, 1)),
        lambda: rich(with_gpu("p", 50), with_gpu("q", 60)),
    ),
    "requested-devices": (
        lambda: rich(with_gpu("p", 50), with_function("q", 1)),
        lambda: rich(with_gpu("p", 50, minor=2)),
    ),
    "virtual-functions": (
        lambda: rich(with_function("p", 1), with_function("q", 2)),
        lambda: rich(with_function("p", 1), with_function("q", 1)),
    ),
    "linked-gpus": (lambda: linked(0, 1), lambda: linked(0, 2)),
    "near-devices": (lambda: joint(0), lambda: joint(1)),
    "quotas": (
        lambda: moment(in_quota("p", "t"), in_quota("q", "t"), ElasticQuota=[quota("t", "2")]),
        lambda: moment(in_quota("p", "t"), in_quota("q", "t"), ElasticQuota=[quota("t", "1")]),
    ),
    "parent-quotas": (
        lambda: moment(in_quota("p", "t"), ElasticQuota=[quota("t", "2", "top"), quota("top", "1")]),
        lambda: moment(
            in_quota("p", "t"), in_quota("q", "t"), ElasticQuota=[quota("t", "2", "top"), quota("top", "1")]
        ),
    ),
    "reservations": (of_reservation, lambda: of_reservation(app="db")),
    "reservation-affinity": (lambda: selecting("special"), lambda: selecting("plain")),
    "whole-gangs": (lambda: gang(3, 3), lambda: gang(3, 2)),
    "whole-groups": (lambda: group(2), lambda: group(1)),
    "listed-owners": (lambda: Rest(of_reservation(owners=("uid-o",))), lambda: Rest(of_reservation())),
    "no-forgotten-pod": (lambda: Rest(moment()), lambda: Rest(moment(), binds=["a/p to n"])),
    "no-stale-figure": (lambda: Rest(moment()), lambda: Rest(moment(), writes=["batch-cpu of n"])),
    "durable-writes": (lambda: acknowledged(at_version(7)), lambda: acknowledged(at_version(4))),
    "one-binding-ever": (
        lambda: History([Change("update", "Pod", pod("p")), Change("update", "Pod", pod("p"))]),
        lambda: History([Change("update", "Pod", pod("p")), Change("update", "Pod", pod("p", on="m"))]),
    ),
    "one-leader": (
        lambda: led(lease("a"), written_by("a"), lease("b"), written_by("b")),
        lambda: led(lease("a"), lease("b"), written_by("a")),
    ),
    "protected-services": (lambda: evicted("koord-scheduler", 9900), lambda: evicted("koord-agent")),
    "finished-migrations": (
        lambda: migrations(jobs=[job("j", "Succeeded")], should_be_over=True),
        lambda: migrations(jobs=[job("j", "Running")], should_be_over=True),
    ),
    "migration-limits": (
        lambda: migrations(jobs=[job("j", "Running"), job("k", "Pending", "uid-y")], per_node=1),
        lambda: migrations(jobs=[job("j", "Running"), job("k", "Running", "uid-y")], per_node=1),
    ),
    "timely-cgroups": (
        lambda: cgroups("2", "1024\n", wanted={FILE: "1024"}),
        lambda: cgroups("2", "2", wanted={FILE: "1024"}),
    ),
    "steady-cgroups": (
        lambda: cgroups("2", "2", restarts_s=[(0, 5)], within_s=6),
        lambda: cgroups("2", "1024", restarts_s=[(0, 5)], within_s=6),
    ),
    "restored-cgroups": (
        lambda: cgroups("2", "1024", before={FILE: "1024"}, switched_off_s=1),
        lambda: cgroups("2", "2", before={FILE: "1024"}, switched_off_s=1),
    ),
    "recovery": (lambda: Recovery("a", "kill", 1, 2, 5), lambda: Recovery("a", "kill", 1, None, 5)),
    "bounded-memory": (
        lambda: MemoryUse("a", [100 * MIB] * 20, 200 * MIB),
        lambda: MemoryUse("a", [100 * MIB + i * 5 * MIB for i in range(20)], 500 * MIB),
    ),
}


def test_every_invariant_has_a_case_that_breaks_it() -> None:
    assert CASES.keys() == ALL.keys()
    assert sum(len(chapter.invariants) for chapter in PROMISES) == len(ALL)


@pytest.mark.parametrize("name", CASES)
def test_a_broken_promise_is_found_and_a_kept_one_is_not(name: str) -> None:
    kept, broken = CASES[name]
    assert list(violations([ALL[name]], kept())) == []
    lines = list(violations([ALL[name]], broken()))
    assert lines
    assert all(line.startswith(f"{name}: ") for line in lines)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("node-selectors", lambda: moment(pod("p", on="nowhere"))),
        ("node-capacity", lambda: moment(*(pod(f"p{i}") for i in range(4)), Reservation=[reservation()])),
        ("exclusive-cpus", lambda: rich(lsr("p", "0-1"), lsr("q", "0-1", uid="other"))),
        ("requested-cpus", lambda: rich(lsr("p", "0"))),
        ("requested-cpus", lambda: rich(lsr("p", "3-4"))),
        (
            "requested-cpus",
            lambda: rich(lsr("p", "1-2", spec={"requiredCPUBindPolicy": "FullPCPUs"})),
        ),
        ("requested-devices", lambda: rich({**pod("p", devices={"gpu": [{"minor": 0}]})})),
        ("requested-devices", lambda: rich(pod("p", requests={"koordinator.sh/rdma": "1"}))),
        ("reservations", lambda: of_reservation(on="m")),
        ("reservations", lambda: moment(pod("o", reservation="gone"))),
        ("durable-writes", lambda: acknowledged()),
        (
            "durable-writes",
            lambda: History(acknowledged=[Acknowledged("delete", "Pod", "a/p", "uid-p")], objects={"Pod": [pod("p")]}),
        ),
        ("one-leader", lambda: led(lease("a"), lease(""), written_by("a"))),
        ("protected-services", lambda: evicted("koord-scheduler", 9400)),
        ("protected-services", lambda: evicted("koord-manager")),
        (
            "finished-migrations",
            lambda: migrations(jobs=[job("r", "Failed")], kinds={"Reservation": [reservation()]}),
        ),
        ("migration-limits", lambda: migrations(jobs=[job("j", "Running")], globally=0)),
        ("migration-limits", lambda: migrations(jobs=[job("j", "Running")], per_namespace=0)),
        ("recovery", lambda: Recovery("a", "kill", 1, 9, 5)),
        ("bounded-memory", lambda: MemoryUse("a", [300 * MIB], 200 * MIB)),
        ("timely-cgroups", lambda: cgroups("2", wanted={"/gone": "1"}, changed_s=-9)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_ways_to_break_a_promise_are_found(name: str, broken: Callable[[], Any]) -> None:
    assert list(violations([ALL[name]], broken()))


def test_batch_pods_may_be_evicted_by_the_agent_and_deleted_objects_are_not_lost() -> None:
    assert not list(violations([ALL["protected-services"]], evicted("koord-agent", victim=5500)))
    gone = [Change("delete", "Pod", pod("p"))]
    assert not list(violations([ALL["durable-writes"]], acknowledged(changes=gone)))


def test_a_gang_that_lost_a_member_while_it_waited_is_not_judged() -> None:
    witness, pods = Witness(), [*gang(3, 2).moment.objects["Pod"]]
    objects: Objects = {"Node": [node()], "Pod": pods}
    witness.look(objects)
    rest = Rest(witness.look({"Node": [node()], "Pod": pods[:2]}))
    assert not list(violations([ALL["whole-gangs"]], rest))


def test_requests_count_sidecars_init_containers_and_overhead() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), container("500m")],
        "initContainers": [container("1", restartPolicy="Always"), container("3")],
        "overhead": {"cpu": "100m"},
    }
    # The second init container needs 4 beside the sidecar, the containers 2.5 with it; 0.1 of overhead.
    assert float(requests_of(spec)["cpu"]) == 4.1
