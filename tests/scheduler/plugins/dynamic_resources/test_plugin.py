"""Pods with claims, from the objects to what is written: with the scheduler's core, without a server."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, parse
from koord.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Kind,
)
from koord.api.kubernetes.dynamic_resources import AllocationResult, DeviceTaintRule, ResourceClaim
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.dynamic_resources.ledger import Ledger
from koord.scheduler.profiles import profiles_of
from tests.scheduler.core.build import CONFIG, node, pod
from tests.scheduler.plugins.dynamic_resources.build import ANY, claim, device, of_model, request, slice_

TWO_EACH = ("n1", "n2")


class Scheduler:
    """A core with two nodes of two devices each."""

    def __init__(self, *claims: ResourceClaim, devices: tuple[Any, ...] = ("x", "y"), config: Any = CONFIG) -> None:
        self.now = Moment(1000.0, 0.0)
        self.core = Core(profiles_of(config), now=self.now)
        self.claims: dict[str, ResourceClaim] = {}
        self.put(DEVICE_CLASSES, ANY)
        for name in TWO_EACH:
            self.put(NODES, node(name))
            self.put(RESOURCE_SLICES, slice_(f"{name}-s", *devices, pool=name, node=name))
        for item in claims:
            self.put_claim(item)

    def put(self, kind: Kind[Any], thing: Any, old: Any | None = None) -> None:
        self.core.at(self.now)
        self.core.put(kind, thing, old)

    def put_claim(self, now: ResourceClaim) -> None:
        key = now.metadata.key
        self.put(RESOURCE_CLAIMS, now, self.claims.get(key))
        self.claims[key] = now

    def tried(self, *pods: Pod) -> dict[str, str]:
        """Where pods go, or why they go nowhere."""
        for item in pods:
            self.put(PODS, item)
        self.core.at(self.now)
        outcomes: dict[str, str] = {}
        self.bound: list[Bind] = []
        while (decision := self.core.decide()) is not None:
            if isinstance(decision, Bind):
                self.bound.append(decision)
                outcomes |= {placed.ask.meta.name: placed.node for placed in decision.members}
            else:
                assert isinstance(decision, Nowhere), decision
                outcomes[decision.ask.meta.name] = decision.message
        return outcomes

    def written(self) -> list[Patch]:
        """What binding the pods of the last try writes on claims."""
        plans = [placed.plan for bind in self.bound for placed in bind.members]
        writes = [write for plan in plans for step in plan.steps for write in step.writes()]
        return [write for write in writes if isinstance(write, Patch)]

    def carried_out(self) -> None:
        """The writes of the last try are seen in claims, and the pods on their nodes."""
        for bind in self.bound:
            for placed in bind.members:
                for step in placed.plan.steps:
                    for write in step.writes():
                        assert isinstance(write, Patch)
                        self._apply(write)
                self.core.bound(bind, placed.ask)
                on = replace(placed.ask.pod, spec=replace(placed.ask.pod.spec, node_name=placed.node))
                self.put(PODS, on, placed.ask.pod)

    def _apply(self, write: Patch) -> None:
        claim_ = self.claims[f"{write.namespace}/{write.name}"]
        status = claim_.status
        more = write.body.get("status", {})
        if "allocation" in more:
            status = replace(status, allocation=convert(AllocationResult, more["allocation"]))
        if more.get("reservedFor"):
            pod_ = more["reservedFor"][0]
            users = convert(ResourceClaim, {"status": {"reservedFor": [pod_]}}).status.reserved_for
            status = replace(status, reserved_for=(*status.reserved_for, *users))
        self.put_claim(replace(claim_, status=status))


def using(name: str, *claims: str, **more: Any) -> Pod:
    return pod(name, resourceClaims=[{"name": item, "resourceClaimName": item} for item in claims], **more)


def test_each_pod_gets_devices_until_none_are_left_and_is_told_so() -> None:
    claims = [claim(f"c{i}", request(count=2)) for i in range(3)]
    scheduler = Scheduler(*claims)
    outcomes = scheduler.tried(*(using(f"p{i}", f"c{i}") for i in range(3)))
    assert sorted(outcomes.values())[1:] == ["n1", "n2"]
    (why,) = (item for item in outcomes.values() if item not in TWO_EACH)
    assert why.startswith("0/2 nodes are available: 2 cannot allocate all claims: too few free devices of class any.")


def test_the_claim_says_which_devices_it_has_before_the_pod_is_bound() -> None:
    scheduler = Scheduler(claim("c"))
    node_name = scheduler.tried(using("p", "c"))["p"]
    finalizer, status = scheduler.written()
    assert finalizer.body["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    (device_,) = status.body["status"]["allocation"]["devices"]["results"]
    assert (device_["pool"], device_["device"]) == (node_name, "x")
    assert status.body["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "p-uid"}]
    scheduler.carried_out()
    # The same steps again, after the writes were seen: nothing is left to do.
    assert scheduler.written() == []


def test_a_pod_that_ends_frees_no_device_and_a_claim_that_is_released_does() -> None:
    scheduler = Scheduler(claim("c", request(count=2)), claim("d", request(count=2)), claim("e", request(count=2)))
    scheduler.tried(using("p", "c"), using("q", "d"))
    scheduler.carried_out()
    assert "cannot allocate" in scheduler.tried(using("r", "e"))["r"]
    scheduler.core.removed(PODS, using("p", "c"))
    scheduler.now = Moment(2000.0, 1000.0)
    assert "cannot allocate" in scheduler.tried(changed(using("r", "e")))["r"]
    scheduler.put_claim(replace(scheduler.claims["shop/c"], status=claim("c").status))
    assert scheduler.tried()["r"] in TWO_EACH


def changed(given: Pod) -> Pod:
    labels = {**given.metadata.labels, "tried": "again"}
    return replace(given, metadata=replace(given.metadata, labels=labels))


def test_pods_that_share_a_claim_go_to_one_node_and_use_its_devices_together() -> None:
    scheduler = Scheduler(claim("c"))
    outcomes = scheduler.tried(*(using(f"p{i}", "c", cpu="100m") for i in range(3)))
    assert len(set(outcomes.values())) == 1
    writes = [write for write in scheduler.written() if "status" in write.body]
    assert len({str(write.body["status"]["allocation"]) for write in writes}) == 1
    scheduler.carried_out()
    assert [item.name for item in scheduler.claims["shop/c"].status.reserved_for] == ["p0", "p1", "p2"]


def test_a_pod_with_an_allocated_claim_goes_where_its_devices_are() -> None:
    scheduler = Scheduler(claim("c"))
    first = scheduler.tried(using("p", "c"))["p"]
    scheduler.carried_out()
    for i in range(6):
        assert scheduler.tried(using(f"q{i}", "c", cpu="100m"))[f"q{i}"] == first
    why = scheduler.tried(using("large", "c", cpu="4"))["large"]
    assert "1 Insufficient cpu" in why
    assert "1 resourceclaim not available on the node" in why


def test_a_claim_that_pins_its_only_pod_to_a_full_node_is_released() -> None:
    scheduler = Scheduler(claim("c"))
    first = scheduler.tried(using("p", "c", cpu="2"))["p"]
    # The claim is written, but the pod is not bound, and its node fills up.
    for write in scheduler.written():
        scheduler._apply(write)
    bind = scheduler.bound[0]
    scheduler.core.failed(bind, bind.ask, last=True)
    scheduler.put(PODS, pod("filler", cpu="4", on=first))
    scheduler.now = Moment(2000.0, 1000.0)
    assert "resourceclaim not available on the node" in scheduler.tried()["p"]
    released, *_ = [write for write in scheduler.core.take_writes() if isinstance(write, Patch)]
    assert released.body["status"] == {"allocation": None, "reservedFor": None, "devices": None}
    scheduler.put_claim(claim("c"))
    assert scheduler.tried()["p"] != first


def test_a_failed_binding_gives_up_the_reservation_and_keeps_the_devices() -> None:
    scheduler = Scheduler(claim("c"))
    scheduler.tried(using("p", "c"))
    for write in scheduler.written():
        scheduler._apply(write)
    bind = scheduler.bound[0]
    scheduler.core.failed(bind, bind.ask, last=True)
    (write,) = [item for item in scheduler.core.take_writes() if isinstance(item, Patch)]
    assert write.body["status"] == {"reservedFor": [{"$patch": "delete", "uid": "p-uid"}]}
    ledger = scheduler.core.cluster.notes(Ledger)
    assert ledger.allocation(scheduler.claims["shop/c"]) is not None


def test_what_must_happen_before_a_pod_can_be_tried_is_said() -> None:
    scheduler = Scheduler(claim("bad", request(device_class="none")))
    made = {"name": "t", "resourceClaimTemplateName": "large"}
    outcomes = scheduler.tried(using("a", "absent"), pod("b", resourceClaims=[made]), using("c", "bad"))
    assert 'resourceclaim "absent" not found' in outcomes["a"]
    assert 'pod "shop/b": ResourceClaim not created yet' in outcomes["b"]
    assert "request r: device class none does not exist" in outcomes["c"]
    scheduler.put_claim(claim("absent"))
    scheduler.now = Moment(2000.0, 1000.0)
    assert scheduler.tried()["a"] in TWO_EACH


def test_a_claim_that_was_not_made_for_the_pod_is_not_used() -> None:
    scheduler = Scheduler(claim("c"))
    status = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "c"}]}
    entry = {"name": "t", "resourceClaimTemplateName": "large"}
    why = scheduler.tried(pod("p", resourceClaims=[entry], status=status))["p"]
    assert "ResourceClaim shop/c was not created for Pod shop/p (Pod is not owner)" in why


def test_an_entry_that_needs_no_claim_is_skipped() -> None:
    entry = {"name": "t", "resourceClaimTemplateName": "large"}
    needless = pod("p", resourceClaims=[entry], status={"resourceClaimStatuses": [{"name": "t"}]})
    assert Scheduler().tried(needless)["p"] in TWO_EACH


def test_without_the_plugin_no_pod_runs_without_its_devices() -> None:
    off = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
    config = parse({"profiles": [{"schedulerName": "koord-scheduler", "plugins": off}]})
    why = Scheduler(claim("c"), config=config).tried(using("p", "c"))["p"]
    assert "the pod has resource claims (c), and its profile does not run the plugin DynamicResources" in why


def test_nodes_with_the_earlier_alternative_are_preferred() -> None:
    alternatives = [{"name": model, **request(where=[of_model(model)])["exactly"]} for model in ("best", "good")]
    scheduler = Scheduler(claim("c", {"name": "r", "firstAvailable": alternatives}))
    scheduler.put(RESOURCE_SLICES, slice_("n1-s", device("x", "good"), pool="n1", node="n1"))
    scheduler.put(RESOURCE_SLICES, slice_("n2-s", device("x", "best"), pool="n2", node="n2"))
    assert scheduler.tried(using("p", "c")) == {"p": "n2"}
    assert scheduler.written()[1].body["status"]["allocation"]["devices"]["results"][0]["request"] == "r/best"


def test_a_taint_rule_that_goes_lets_a_pod_in() -> None:
    rule = convert(
        DeviceTaintRule,
        {"metadata": {"name": "all"}, "spec": {"taint": {"key": "broken", "effect": "NoSchedule"}}},
    )
    scheduler = Scheduler(claim("c"))
    scheduler.put(DEVICE_TAINT_RULES, rule)
    why = scheduler.tried(using("p", "c"))["p"]
    assert "a toleration for the device taint broken:NoSchedule in request r" in why
    scheduler.core.removed(DEVICE_TAINT_RULES, rule)
    scheduler.now = Moment(2000.0, 1000.0)
    assert scheduler.tried()["p"] in TWO_EACH


def test_a_gang_gets_devices_for_all_its_members_or_for_none() -> None:
    scheduler = Scheduler(*(claim(f"c{i}") for i in range(5)), config=SHIPPED)
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "5"}
    members = [using(f"p{i}", f"c{i}", cpu="100m", metadata={"annotations": gang}) for i in range(5)]
    outcomes = scheduler.tried(*members)
    assert not set(outcomes.values()) & set(TWO_EACH)
    ledger = scheduler.core.cluster.notes(Ledger)
    assert (ledger.usage.taken, ledger.usage.holders) == ({}, {})


def state_of(ledger: Ledger) -> object:
    usage = ledger.usage
    return (
        dict(usage.taken),
        {key: dict(row) for key, row in usage.holders.items()},
        {key: dict(row) for key, row in usage.consumed.items()},
        {key: dict(row) for key, row in usage.in_pool.items()},
        dict(ledger._held),
        {key: dict(row) for key, row in ledger._in_flight.items()},
    )


COUNTS = st.lists(st.integers(1, 2), min_size=1, max_size=6)


@given(COUNTS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_device_is_given_twice_and_what_is_undone_leaves_no_trace(counts: list[int], shared: bool) -> None:
    card: dict[str, Any] = {"capacity": {"memory": {"value": "4"}}, "allowMultipleAllocations": True} if shared else {}
    wanted: dict[str, Any] = {"capacity": {"requests": {"memory": "3"}}} if shared else {}
    claims = [claim(f"c{i}", request(count=count, **wanted)) for i, count in enumerate(counts)]
    scheduler = Scheduler(*claims, devices=(device("x", **card), device("y", **card)))
    ledger, cluster = scheduler.core.cluster.notes(Ledger), scheduler.core.cluster
    engine = scheduler.core.feed.engines["koord-scheduler"]
    pods = [using(f"p{i}", f"c{i}", cpu="10m") for i in range(len(counts))]
    before = state_of(ledger)
    with cluster.transaction() as trial:
        for item in pods:
            engine.place(Ask(item))
        trial.undo()
    assert state_of(ledger) == before
    scheduler.tried(*pods)
    scheduler.carried_out()
    held = [
        (result.pool, result.device)
        for item in scheduler.claims.values()
        if item.status.allocation is not None
        for result in item.status.allocation.devices.results
    ]
    # Of a shared device two claims may not have 3 of 4 either.
    assert len(held) == len(set(held))
    counted = {(device_.pool, device_.name) for device_ in ledger.usage.holders}
    assert counted == set(held)
    # A new scheduler counts the same from the claims alone.
    fresh = Scheduler(*scheduler.claims.values()).core.cluster.notes(Ledger)
    assert state_of(fresh)[:4] == state_of(ledger)[:4]  # type: ignore[index]
