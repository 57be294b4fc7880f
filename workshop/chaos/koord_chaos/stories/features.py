"""Everything that koord has, as one literal table: a new feature is one more line.

`FIRST` is the part of the table that recorded seeds were seen with. `ALL` has everything.
"""

from __future__ import annotations

import json
from typing import Any, Final

from koord.api.kinds import (
    DEVICES,
    ELASTIC_QUOTAS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    Kind,
)
from koord_chaos.invariants.manifests import GPU_PARTITION, JOINT, PARTITION_TABLE
from koord_chaos.stories import reservation_features as reserved
from koord_chaos.stories.actions import Action, Change, Drop, Has, Put
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.hardware import K, gpu, rdma
from koord_chaos.stories.script import (
    NAMESPACE,
    OTHER_NAMESPACE,
    QUOTA,
    Feature,
    Machine,
    Script,
    Wish,
    stripped,
)

APPS: Final = ("web", "db")
TABLE: Final = {
    "1": [{"minors": [minor]} for minor in range(4)],
    "2": [{"minors": [0, 1]}, {"minors": [2, 3]}],
    "4": [{"minors": [0, 1, 2, 3]}],
}
"""Which GPUs of a node with four are linked."""


def _requests(wish: Wish) -> dict[str, str]:
    requests: dict[str, str] = wish["spec"]["containers"][0]["resources"]["requests"]
    return requests


def _request(wish: Wish, **amounts: str) -> None:
    """Extended resources have limits."""
    resources = wish["spec"]["containers"][0]["resources"]
    named = {name.replace("__", "/").replace("_", "-"): amount for name, amount in amounts.items()}
    resources["requests"].update(named)
    resources.setdefault("limits", {}).update(named)


def _is_plain(wish: Wish) -> bool:
    """Whether a pod asks for CPU and memory alone, and shares its CPUs."""
    requests = _requests(wish)
    return requests.keys() <= {"cpu", "memory"} and wish["metadata"]["labels"].get(f"{K}/qosClass") not in (
        "LSR",
        "LSE",
    )


# Lending.


def _lends(dice: Dice, machine: Machine) -> None:
    if dice.chance(0.7):
        for amounts in (machine.node["status"]["allocatable"], machine.node["status"]["capacity"]):
            amounts |= _lent(dice)


def _lent(dice: Dice) -> dict[str, str]:
    return {
        "kubernetes.io/batch-cpu": dice.one(("1000", "2000", "4000")),
        "kubernetes.io/batch-memory": dice.one(("1Gi", "8Gi")),
        "kubernetes.io/mid-cpu": dice.one(("0", "500", "2000")),
        "kubernetes.io/mid-memory": "4Gi",
    }


def _asks_for_lent(dice: Dice, wish: Wish) -> None:
    if not _is_plain(wish):
        return
    band = dice.one(("batch", "batch", "mid"))
    requests = _requests(wish)
    requests.clear()
    cpu, memory = dice.one(("500", "1000", "2000")), dice.one(("64Mi", "1Gi"))
    _request(wish, **{f"kubernetes.io__{band}_cpu": cpu, f"kubernetes.io__{band}_memory": memory})
    wish["metadata"]["labels"][f"{K}/qosClass"] = "BE" if band == "batch" else "LS"
    wish["spec"]["priorityClassName"] = band


def _lending_follows(script: Script, has: Has) -> list[Action]:
    name = script.dice.one(sorted(has[NODES]))
    return [Change(NODES, name, {"status": {"allocatable": _lent(script.dice)}}, "status", lessens=True)]


def _colocation_is_switched(script: Script, has: Has) -> list[Action]:
    """Off on all nodes, or on."""
    lent = any(
        "kubernetes.io/batch-cpu" in node.get("status", {}).get("allocatable", {}) for node in has[NODES].values()
    )
    amounts: dict[str, Any] = _lent(script.dice)
    if lent:
        amounts = dict.fromkeys(amounts)
    return [Change(NODES, name, {"status": {"allocatable": amounts}}, "status", lessens=True) for name in has[NODES]]


# Devices.


def _has_cards(dice: Dice, machine: Machine) -> None:
    """RDMA cards beside the GPUs, with virtual functions or without."""
    if machine.device is None or not dice.chance(0.6):
        return
    units = machine.device["spec"]["devices"]
    cards = dice.integer(1, 2)
    functions = dice.one((0, 2, 3))
    placed = all("topology" in unit for unit in units)
    units += [
        rdma(i, functions=functions, pcie=i, numa_node=i % 2 if placed else None) for i in range(cards)
    ]  # fmt: skip
    for amounts in (machine.node["status"]["allocatable"], machine.node["status"]["capacity"]):
        amounts[f"{K}/rdma"] = str(100 * cards)


def _asks_for_cards(dice: Dice, wish: Wish) -> None:
    said = wish["metadata"]["annotations"]
    share = dice.one(("20", "50", "100", "100", "200"))
    if dice.chance(0.4):
        share = "1"
        said[reserved.HINT] = json.dumps({"rdma": {"vfSelector": {}}})
    elif int(share) >= 100 and _requests(wish).get(f"{K}/gpu-core") in ("100", "200") and dice.chance(0.5):
        said[JOINT] = json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": dice.one(("", "SamePCIe"))})
    _request(wish, **{f"{K}__rdma": share})


def _has_linked_gpus(dice: Dice, machine: Machine) -> None:
    if machine.device is None or not dice.chance(0.4):
        return
    others = [unit for unit in machine.device["spec"]["devices"] if unit["type"] != "gpu"]
    placed = dice.chance(0.5)
    gpus = [gpu(i, pcie=i // 2, numa_node=i // 2 if placed else None) for i in range(4)]
    machine.device["spec"]["devices"] = gpus + others
    machine.device["metadata"]["annotations"] = {PARTITION_TABLE: json.dumps(TABLE)}
    if dice.chance(0.5):
        machine.device["metadata"]["labels"] = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
    for amounts in (machine.node["status"]["allocatable"], machine.node["status"]["capacity"]):
        amounts |= {f"{K}/gpu-core": "400", f"{K}/gpu-memory-ratio": "400"}


def _asks_for_linked_gpus(dice: Dice, wish: Wish) -> None:
    share = dice.one(("100", "200", "400"))
    _request(wish, **{f"{K}__gpu_core": share, f"{K}__gpu_memory_ratio": share})
    wish["metadata"]["annotations"][GPU_PARTITION] = json.dumps({"allocatePolicy": "Restricted"})


# Where pods may run.


def _is_tainted(dice: Dice, machine: Machine) -> None:
    if dice.chance(0.2):
        machine.node["spec"]["taints"] = [_taint()]


def _taint() -> dict[str, str]:
    return {"key": "dedicated", "value": "team", "effect": "NoSchedule"}


def _taint_changes(script: Script, has: Has) -> list[Action]:
    name = script.dice.one(sorted(has[NODES]))
    taints = None if has[NODES][name].get("spec", {}).get("taints") else [_taint()]
    return [Change(NODES, name, {"spec": {"taints": taints}}, lessens=True)]


def _tolerates(dice: Dice, wish: Wish) -> None:
    wish["spec"]["tolerations"] = [{"key": "dedicated", "operator": dice.one(("Exists", "Equal")), "value": "team"}]
    if wish["spec"]["tolerations"][0]["operator"] == "Exists":
        del wish["spec"]["tolerations"][0]["value"]


def _keeps_apart(dice: Dice, wish: Wish) -> None:
    """Apart from pods of an application, or of its own, on a node or in half of the cluster."""
    app = wish["metadata"]["labels"].setdefault("app", dice.one(APPS))
    term = {
        "labelSelector": {"matchLabels": {"app": app if dice.chance(0.7) else dice.one(APPS)}},
        "topologyKey": dice.one(("kubernetes.io/hostname", "kubernetes.io/hostname", "half")),
    }
    kind = "podAntiAffinity" if dice.chance(0.7) else "podAffinity"
    wish["spec"]["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spreads(dice: Dice, wish: Wish) -> None:
    app = wish["metadata"]["labels"].setdefault("app", dice.one(APPS))
    wish["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": dice.one(("kubernetes.io/hostname", "half")),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def _takes_a_port(dice: Dice, wish: Wish) -> None:
    port = dice.one((8080, 8081))
    wish["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]


def _has_more_containers(dice: Dice, wish: Wish) -> None:
    """An init container that needs more for a while, or a sidecar."""
    if not _is_plain(wish):
        return
    first = {"name": "i", "image": "app:1", "resources": {"requests": {"cpu": dice.one(("500m", "3"))}}}
    if dice.chance(0.5):
        first["restartPolicy"] = "Always"
    wish["spec"]["initContainers"] = [first]


def _has_overhead(dice: Dice, wish: Wish) -> None:
    wish["spec"]["overhead"] = {"cpu": dice.one(("250m", "1"))}


# Gates, budgets, roll-outs.


def _is_gated(dice: Dice, wish: Wish) -> None:
    wish["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]


def _gate_opens(script: Script, has: Has) -> list[Action]:
    gated = [key for key, pod in sorted(has[PODS].items()) if pod["spec"].get("schedulingGates")]
    return [Change(PODS, script.dice.one(gated), {"spec": {"schedulingGates": []}})] if gated else []


def _budget_changes(script: Script, has: Has) -> list[Action]:
    app = script.dice.one(APPS)
    key = f"{NAMESPACE}/{app}"
    if key in has[POD_DISRUPTION_BUDGETS]:
        return [Drop(POD_DISRUPTION_BUDGETS, key)]
    allowed = script.dice.integer(0, 1)
    budget = {
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": allowed},
        "status": {"disruptionsAllowed": allowed},
    }
    return [Put(POD_DISRUPTION_BUDGETS, budget)]


def _service_comes(script: Script, has: Has) -> list[Action]:
    name, wish = script.name("s"), script.wish()
    return [script.pod(f"{name}-1-{i}", _owned(wish, name, 1)) for i in range(script.dice.integer(2, 4))]


def _owned(wish: Wish, name: str, revision: int) -> Wish:
    """A pod of a ReplicaSet of the service."""
    copy: Wish = json.loads(json.dumps(wish))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-{revision}", "controller": True}
    copy["metadata"]["ownerReferences"] = [{**owner, "uid": f"uid-of-{name}-{revision}"}]
    copy["metadata"]["labels"] |= {"service": name, "revision": str(revision)}
    return copy


def _service_rolls_out(script: Script, has: Has) -> list[Action]:
    """Some pods of a service, or all at once, are replaced by those of its next revision."""
    services = sorted({pod["metadata"].get("labels", {}).get("service", "") for pod in has[PODS].values()} - {""})
    if not services:
        return []
    dice, name, wish = script.dice, script.dice.one(services), script.wish()
    old = [
        (key, pod) for key, pod in sorted(has[PODS].items()) if pod["metadata"].get("labels", {}).get("service") == name
    ]
    revision = max(int(pod["metadata"]["labels"]["revision"]) for _, pod in old) + 1
    namespace = old[0][1]["metadata"]["namespace"]
    result: list[Action] = []
    for i, (key, pod) in enumerate(dice.some(old, len(old), 1)):
        if dice.chance(0.5):
            copy: Wish = {part: stripped(pod)[part] for part in ("metadata", "spec")}
            wish = {"metadata": {"labels": copy["metadata"].get("labels", {}), "annotations": {}}, "spec": wish["spec"]}
        new = script.pod(f"{name}-{revision}-{i}", _owned(wish, name, revision))
        new.manifest["metadata"]["namespace"] = namespace
        result += [new, Drop(PODS, key)] if dice.chance(0.5) else [Drop(PODS, key), new]
    return result


# Jobs and quotas.


def _gang_group_comes(script: Script, has: Has) -> list[Action]:
    names = [script.name("g") for _ in range(2)]
    groups = [f"{NAMESPACE}/{name}" for name in names]
    return [action for name in names for action in script.gang(groups, name)]


def _quota_moves(script: Script, has: Has) -> list[Action]:
    """Below another parent, or to the top."""
    keys = [key for key in sorted(has[ELASTIC_QUOTAS]) if not key.endswith("/all")]
    if not keys or f"{NAMESPACE}/all" not in has[ELASTIC_QUOTAS]:
        return []
    key = script.dice.one(keys)
    labels = has[ELASTIC_QUOTAS][key]["metadata"].get("labels", {})
    parent = None if labels.get(f"{QUOTA}parent") == "all" else "all"
    return [Change(ELASTIC_QUOTAS, key, {"metadata": {"labels": {f"{QUOTA}parent": parent}}}, lessens=True)]


def _minimum_changes(script: Script, has: Has) -> list[Action]:
    keys = [key for key, quota in sorted(has[ELASTIC_QUOTAS].items()) if "max" in quota.get("spec", {})]
    if not keys:
        return []
    key = script.dice.one(keys)
    most = has[ELASTIC_QUOTAS][key]["spec"]["max"]["cpu"]
    return [Change(ELASTIC_QUOTAS, key, {"spec": {"min": {"cpu": script.dice.one(("0", "1", most))}}}, lessens=True)]


# Deletions.


def _in_another_namespace(dice: Dice, wish: Wish) -> None:
    wish["metadata"]["namespace"] = OTHER_NAMESPACE


def _namespace_goes(script: Script, has: Has) -> list[Action]:
    """With everything in it."""
    return [
        Drop(kind, key, lessens=True)
        for kind in (POD_GROUPS, PODS)
        for key in sorted(has[kind])
        if key.startswith(f"{OTHER_NAMESPACE}/")
    ]


def _kind_goes(script: Script, has: Has) -> list[Action]:
    """All objects of it, as when its CustomResourceDefinition is deleted."""
    kinds: tuple[Kind[Any], ...] = (POD_GROUPS, RESERVATIONS, ELASTIC_QUOTAS, DEVICES, NODE_RESOURCE_TOPOLOGIES)
    kind = script.dice.one(kinds)
    if kind in (DEVICES, NODE_RESOURCE_TOPOLOGIES, ELASTIC_QUOTAS):
        script.away += [Put(kind, stripped(manifest), lessens=True) for manifest in has[kind].values()]
    return [Drop(kind, key, lessens=True) for key in sorted(has[kind])]


def _kind_comes_back(script: Script, has: Has) -> list[Action]:
    away, script.away = script.away, []
    return list(away)


FIRST: Final[tuple[Feature, ...]] = (
    Feature("pods", 24, Script.pod_comes),
    Feature("gangs", 6, Script.gang_comes),
    Feature("reservations", 5, Script.reservation_comes),
    Feature("reservations-go", 2, Script.reservation_goes),
    Feature("pods-go", 9, Script.pod_goes),
    Feature("many-pods-go", 2, Script.pods_of_a_node_go),
    Feature("pods-end", 7, Script.pod_ends),
    Feature("resizes", 3, Script.pod_is_resized),
    Feature("nodes-go", 2, Script.node_goes),
    Feature("nodes-come-back", 4, Script.node_comes_back),
    Feature("cordons", 3, Script.node_is_cordoned_or_not),
    Feature("amounts", 1, Script.node_has_other_amounts),
    Feature("device-health", 3, Script.device_changes),
    Feature("quotas", 4, Script.quota_changes),
    Feature("quotas-go", 2, Script.quota_goes_or_comes),
    Feature("restarts", 3, Script.restart),
    Feature("rests", 6, Script.rest),
)
"""Own CPUs, NUMA policies and GPU shares are what pods ask for in `Script.wish`; preemption follows from priorities."""
ALL: Final[tuple[Feature, ...]] = (
    *FIRST,
    Feature("lent", 3, _lending_follows, 0.15, _asks_for_lent, _lends),
    Feature("co-location", 1, _colocation_is_switched),
    Feature("gpu-partitions", chance=0.05, asks=_asks_for_linked_gpus, equips=_has_linked_gpus),
    Feature("rdma", chance=0.1, asks=_asks_for_cards, equips=_has_cards),
    Feature("taints", 2, _taint_changes, 0.4, _tolerates, _is_tainted),
    Feature("affinity", chance=0.08, asks=_keeps_apart),
    Feature("spread", chance=0.05, asks=_spreads),
    Feature("host-ports", chance=0.06, asks=_takes_a_port),
    Feature("init-containers", chance=0.06, asks=_has_more_containers),
    Feature("overhead", chance=0.03, asks=_has_overhead),
    Feature("gates", 3, _gate_opens, 0.06, _is_gated),
    Feature("budgets", 2, _budget_changes),
    Feature("services", 4, _service_comes),
    Feature("roll-outs", 4, _service_rolls_out),
    Feature("gang-groups", 2, _gang_group_comes),
    Feature("quota-trees", 2, _quota_moves),
    Feature("quota-minima", 2, _minimum_changes),
    Feature("expiring-reservations", 2, reserved.reservation_expires_soon),
    Feature("closed-reservations", 1, reserved.reservation_closes_or_opens),
    Feature("migrations", 3, reserved.reservation_for_a_service),
    Feature("reservation-affinity", 2, reserved.special_reservation, 0.05, reserved.asks_for_special),
    Feature("pre-allocation", 1, reserved.taking_over),
    Feature("namespaces", 1, _namespace_goes, 0.15, _in_another_namespace),
    Feature("kinds-go", 1, _kind_goes),
    Feature("kinds-come-back", 2, _kind_comes_back),
)
