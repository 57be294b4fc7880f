"""One pool, sold once: whatever fails or starts again, no step of ours sells a part of it twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from koord.yarn.amount import MIB, NOTHING, Amount, of_yarn
from koord.yarn.claims import (
    Call,
    Claim,
    Memory,
    NodeManagerReport,
    Step,
    View,
    Wait,
    answered,
    called,
    next_step,
    seen,
)
from koord.yarn.hadoop.messages import NodeReport
from koord.yarn.judge import ClusterReport, judge
from koord.yarn.nodes import Declared, NodeFacts, PodFacts
from koord.yarn.split import Demand, Policy, PolicyError, ceiling, settled, share

POLICY = Policy()
GIB = 1024 * MIB


def whole(cpu: int = 20_000, gib: int = 100) -> Amount:
    return Amount(cpu, gib * GIB)


@pytest.mark.parametrize(
    ("demand", "vcores", "gib"),
    [
        pytest.param(Demand(), 10, 50, id="nobody waits: half"),
        pytest.param(Demand(used=of_yarn(14, 70 * 1024)), 14, 70, id="nobody waits, and what YARN uses stays"),
        pytest.param(Demand(yarn_waits=True), 18, 90, id="only YARN waits: all but a tenth"),
        pytest.param(Demand(yarn_waits=True, held=Amount(5500, 30 * GIB)), 14, 70, id="not what pods hold"),
        pytest.param(Demand(kubernetes_waits=True), 2, 10, id="only Kubernetes waits: a tenth is YARN's"),
        pytest.param(Demand(kubernetes_waits=True, used=of_yarn(7, 1024)), 7, 10, id="nor what YARN uses"),
        pytest.param(Demand(yarn_waits=True, held=whole()), 2, 10, id="YARN's guaranteed part is not the pods'"),
        pytest.param(
            Demand(kubernetes_waits=True, yarn_waits=True, used=of_yarn(19, 99 * 1024)), 18, 90, id="nor the other way"
        ),
    ],
)
def test_the_split_follows_demand_between_two_guaranteed_parts(demand: Demand, vcores: int, gib: int) -> None:
    assert share(whole(), demand, POLICY) == of_yarn(vcores, gib * 1024)


@pytest.mark.parametrize(
    ("cpu_milli", "demand", "vcores"),
    [
        (1200, Demand(), 1),
        (1200, Demand(kubernetes_waits=True), 1),
        (1200, Demand(held=Amount(1200, 0)), 1),
        (1100, Demand(), 0),
    ],
    ids=["half is less", "only Kubernetes waits", "pods hold all", "Kubernetes' tenth would not be left"],
)
def test_a_small_pool_gives_yarn_one_vcore_where_kubernetes_keeps_its_part(
    cpu_milli: int, demand: Demand, vcores: int
) -> None:
    assert share(Amount(cpu_milli, 8 * GIB), demand, POLICY).vcores == vcores
    assert share(Amount(cpu_milli, 8 * GIB), demand, Policy(yarn_least_percent=0)).vcores == 0


def test_vcores_and_mib_are_rounded_down() -> None:
    # 26700 milli-cores and 137868450202 bytes: half of it is 13.35 vcores and 65740.8 MiB.
    assert share(Amount(26_700, 137_868_450_202), Demand(), POLICY) == of_yarn(13, 65_740)


def test_a_small_change_leaves_the_cap_alone_and_one_above_the_ceiling_does_not() -> None:
    most = ceiling(whole(), NOTHING, POLICY)
    near, far = of_yarn(11, 55 * 1024), of_yarn(12, 70 * 1024)
    assert settled(of_yarn(10, 50 * 1024), near, whole(), most, POLICY) == of_yarn(10, 50 * 1024)
    assert settled(of_yarn(10, 50 * 1024), far, whole(), most, POLICY) == far
    assert settled(of_yarn(19, 91 * 1024), of_yarn(18, 90 * 1024), whole(), most, POLICY) == of_yarn(18, 90 * 1024)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Policy(share_percent=120), "from 0 to 100"),
        (Policy(share_percent=5, yarn_least_percent=10), "at least its guaranteed part"),
        (Policy(share_percent=95), "leave Kubernetes'"),
    ],
)
def test_shares_that_cannot_be_are_refused(policy: Policy, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        policy.check()


def view(
    *,
    claim: Amount = NOTHING,
    told: Amount | None = None,
    cap: Amount | None = NOTHING,
    used: Amount = NOTHING,
    demand: Demand | None = None,
    reclaimed: Amount | None = None,
    declared: bool = True,
    absent_s: float = 0.0,
) -> View:
    all_ = reclaimed or whole()
    report = None if cap is None else NodeManagerReport(cap, used)
    return View(
        all_,
        all_.minus(claim) if told is None else told,
        claim,
        report,
        demand or Demand(),
        NOTHING,
        declared,
        absent_s,
    )


HALF = of_yarn(10, 50 * 1024)
SURE = Memory(is_sure=True)
REGISTERED = of_yarn(1, 1024)


def test_yarn_grows_in_three_steps_and_only_after_kubernetes_has_shrunk() -> None:
    assert next_step(view(), SURE, POLICY, 0) == Claim(HALF, "for YARN to grow")
    waits = next_step(view(claim=HALF, told=whole()), SURE, POLICY, 0)
    assert isinstance(waits, Wait)
    assert waits.for_manager
    assert next_step(view(claim=HALF), SURE, POLICY, 0) == Call(HALF, "Kubernetes has given it up")
    assert next_step(view(claim=HALF, cap=HALF), SURE, POLICY, 0) == Wait()


def test_a_pod_that_was_bound_meanwhile_keeps_yarn_from_growing_there() -> None:
    held = Demand(held=Amount(10_500, 10 * GIB))
    step = next_step(view(claim=HALF, demand=held), SURE, Policy(hysteresis_percent=0), 0)
    assert isinstance(step, Claim)
    assert step.amount == of_yarn(9, 50 * 1024)


def test_yarn_shrinks_before_its_claim_does_and_running_containers_stay_claimed() -> None:
    eight, two = of_yarn(8, 40 * 1024), of_yarn(2, 10 * 1024)
    waiting = Demand(kubernetes_waits=True)
    assert next_step(view(claim=HALF, cap=HALF, demand=waiting), SURE, POLICY, 0) == Call(two, "Kubernetes needs it")
    assert next_step(view(claim=HALF, cap=two, used=eight, demand=waiting), SURE, POLICY, 0) == Claim(
        eight, "YARN has given it back"
    )
    assert next_step(view(claim=eight, cap=two, demand=waiting), SURE, POLICY, 0) == Claim(
        two, "YARN has given it back"
    )


def test_after_a_fall_of_the_pool_the_excess_is_ended_at_once_and_its_containers_with_it() -> None:
    full = of_yarn(18, 90 * 1024)
    fallen = Amount(6000, 30 * GIB)
    memory = Memory(is_sure=True, called_s=90)
    step = next_step(view(claim=full, cap=full, used=full, reclaimed=fallen), memory, POLICY, 100)
    assert step == Call(of_yarn(5, 27 * 1024), "less is reclaimed", ends_within_s=POLICY.shrink_s)


@pytest.mark.parametrize("cap", [HALF, of_yarn(2, 10 * 1024)], ids=["in force", "not in force yet"])
def test_a_pool_that_falls_just_after_a_raise_is_lowered_at_once(cap: Amount) -> None:
    raised = answered(called(SURE, Call(HALF, ""), 100), HALF)
    looks = view(claim=HALF, cap=cap, reclaimed=Amount(4000, 100 * GIB))
    step = next_step(looks, seen(looks, raised, 101), POLICY, 101)
    assert isinstance(step, Call)
    assert step.cap.cpu_milli <= 3000
    # It is not repeated while it takes effect.
    again = called(raised, step, 101)
    assert isinstance(next_step(looks, seen(looks, again, 102), POLICY, 102), Wait)
    assert isinstance(next_step(looks, seen(looks, again, 107), POLICY, 107), Call)


def test_a_further_fall_of_the_pool_gives_containers_no_more_time() -> None:
    full = of_yarn(18, 90 * 1024)
    memory, limits = SURE, []
    for now_s, cpu_milli in ((0, 16_000), (10, 14_000), (25, 12_000), (40, 10_000)):
        looks = view(claim=full, cap=memory.asked or full, used=full, reclaimed=Amount(cpu_milli, 100 * GIB))
        memory = seen(looks, memory, now_s)
        step = next_step(looks, memory, POLICY, now_s)
        assert isinstance(step, Call)
        limits.append(step.ends_within_s)
        memory = answered(called(memory, step, now_s), step.cap)
    assert limits == [30, 20, 5, 0]
    # All fits: the next excess has its own time.
    looks = view(claim=full, cap=memory.asked, used=of_yarn(9, 1024))
    memory = seen(looks, memory, 50)
    looks = view(claim=full, cap=memory.asked, used=of_yarn(9, 1024), reclaimed=Amount(6000, 100 * GIB))
    step = next_step(looks, memory, POLICY, 60)
    assert isinstance(step, Call)
    assert step.ends_within_s == 30


def test_a_resource_manager_that_forgot_to_end_containers_is_told_again() -> None:
    eight, two = of_yarn(8, 40 * 1024), of_yarn(2, 10 * 1024)
    lowered = answered(called(SURE, Call(two, "", ends_within_s=30), 0), two)
    looks = view(claim=eight, cap=two, used=eight, reclaimed=Amount(3000, 100 * GIB))
    assert not isinstance(next_step(looks, seen(looks, lowered, 34), POLICY, 34), Call)
    assert next_step(looks, seen(looks, lowered, 36), POLICY, 36) == Call(
        of_yarn(2, 10 * 1024 - 1), "less is reclaimed", ends_within_s=0
    )


@pytest.mark.parametrize(
    ("cap", "memory", "is_at_once"),
    [
        (REGISTERED, Memory(is_sure=True, called_s=90, in_force=HALF), True),
        (of_yarn(1, 20 * 1024), Memory(is_sure=True, called_s=90, in_force=of_yarn(1, 20 * 1024)), True),
        (of_yarn(4, 1024), Memory(is_sure=True, called_s=90, in_force=of_yarn(4, 1024)), True),
        (of_yarn(4, 20 * 1024), Memory(is_sure=True, called_s=90, in_force=of_yarn(4, 20 * 1024)), False),
        (REGISTERED, Memory(is_sure=True, called_s=98, in_force=HALF), False),
    ],
    ids=["its NodeManager registered anew", "too few vcores", "too little memory", "it has enough", "called just now"],
)
def test_yarn_gets_its_part_without_waiting_for_the_pace_where_it_lacks_what_it_had_or_is_guaranteed(
    cap: Amount, memory: Memory, is_at_once: bool
) -> None:
    looks = view(claim=HALF, cap=cap)
    step = next_step(looks, seen(looks, memory, 100), POLICY, 100)
    assert isinstance(step, Call if is_at_once else Wait)


def test_less_than_the_guaranteed_part_is_never_too_small_a_change() -> None:
    # Of 12 vcores a tenth is 1.2: without the guarantee, one vcore more would not be worth a change.
    pool, waits = whole(12_000), Demand(kubernetes_waits=True)
    most = ceiling(pool, NOTHING, POLICY)
    nothing, little = of_yarn(0, 10 * 1024), of_yarn(1, 256)
    assert settled(nothing, share(pool, waits, POLICY), pool, most, POLICY) == of_yarn(1, 10 * 1024)
    assert settled(little, share(pool, waits, POLICY), pool, most, POLICY) == of_yarn(1, 10 * 1024)


OLD, NEW = ("", "n1:8041"), ("", "n1:8042")


@dataclass
class Replacement:
    """A node that has half of its pool at one NodeManager, and is then said to have another one."""

    running: dict[str, Amount]
    declared: Declared
    claim: Amount = HALF
    record: tuple[str, str] | None = OLD
    memories: dict[tuple[str, str], Memory] = field(default_factory=lambda: {OLD: SURE})
    now_s: float = 1000.0

    @property
    def sold(self) -> Amount:
        sold = whole().minus(self.claim)
        for cap in self.running.values():
            sold = sold.plus(cap)
        return sold

    def round(self) -> None:
        amount = whole().minus(self.claim)
        node = NodeFacts(
            "n1", "u", "1", whole(), amount, self.claim, NOTHING, (), self.record, self.declared, ("n1",)
        )  # fmt: skip
        look = ClusterReport({each: NodeReport(each, "RUNNING", cap) for each, cap in self.running.items()})
        absent = {OLD: self.now_s - 1000}
        verdict = judge(
            node, (), {"": look}, self.memories, absent, {}, POLICY, self.now_s, kubernetes_waits=False
        )  # fmt: skip
        step, key = verdict.step, (verdict.cluster, verdict.node_id)
        self.memories[key] = verdict.memory
        if isinstance(step, Claim):
            self.claim, self.record = step.amount, verdict.claims_for
        elif isinstance(step, Call):
            self.memories[key] = answered(called(verdict.memory, step, self.now_s), step.cap)
            self.running[verdict.node_id] = step.cap
        self.now_s += 10


@pytest.mark.parametrize("node_id", ["n1:8042", ""], ids=["by its id", "by its host"])
@pytest.mark.parametrize("is_old_there", [True, False], ids=["the old one still runs", "the old one is gone"])
@pytest.mark.parametrize("comes_s", [0, 40, 200], ids=["is there", "comes soon", "comes late"])
def test_a_node_manager_that_replaces_another_is_never_oversold(
    node_id: str, is_old_there: bool, comes_s: float
) -> None:
    world = Replacement({OLD[1]: HALF} if is_old_there else {}, Declared("", node_id, ("n1",), "node n1"))
    for _ in range(60):
        if world.now_s == 1000 + comes_s:
            world.running[NEW[1]] = REGISTERED
            # Nobody could know of a second one of the same host.
            assert world.sold.fits(whole()) or (is_old_there and not (node_id and comes_s))
        if world.now_s > 1300:
            # The ResourceManager notices in the end that the old one is gone.
            world.running.pop(OLD[1], None)
        world.round()
        assert world.sold.fits(whole()), f"{world.sold} at {world.now_s}"
    assert (world.record, world.running[NEW[1]], world.claim) == (NEW, HALF, HALF)


def test_several_node_managers_of_one_host_are_claimed_together_until_somebody_says_which_counts() -> None:
    world = Replacement({"n1:1": REGISTERED, "n1:2": REGISTERED}, Declared("", "", ("n1",), "pod hadoop/nm"), NOTHING)
    world.record = None
    world.round()
    assert world.claim == REGISTERED.plus(REGISTERED)
    assert world.sold == whole()


def test_a_call_without_an_answer_stays_claimed_until_a_later_one_is_in_force() -> None:
    lost = called(SURE, Call(HALF, ""), 0)
    fewer = Demand(kubernetes_waits=True)
    two, less = of_yarn(2, 10 * 1024), of_yarn(2, 10 * 1024 - 1)
    looks = view(claim=HALF, cap=two, demand=fewer)
    assert next_step(looks, seen(looks, lost, 1), POLICY, 1) == Wait("", 5)
    settles = next_step(looks, seen(looks, lost, 6), POLICY, 6)
    assert isinstance(settles, Call)
    assert settles.cap == less
    memory = answered(called(lost, Call(less, ""), 6), less)
    assert isinstance(next_step(looks, seen(looks, memory, 7), POLICY, 7), Wait)
    in_force = view(claim=HALF, cap=less, demand=fewer)
    assert next_step(in_force, seen(in_force, memory, 9), POLICY, 9) == Claim(less, "YARN has given it back")


def test_a_cap_stays_claimed_until_the_node_manager_has_heard_of_the_next() -> None:
    # Before, it would register at another ResourceManager with the cap that it knows.
    two, fewer = of_yarn(2, 10 * 1024), Demand(kubernetes_waits=True)
    memory = answered(called(SURE, Call(two, ""), 0), two)
    looks = view(claim=HALF, cap=two, demand=fewer)
    assert isinstance(next_step(looks, seen(looks, memory, 2), POLICY, 2), Wait)
    assert next_step(looks, seen(looks, memory, 3), POLICY, 3) == Claim(two, "YARN has given it back")


def test_a_process_that_starts_anew_takes_its_predecessors_claim_for_a_call_under_way() -> None:
    two, fewer = of_yarn(2, 10 * 1024), Demand(kubernetes_waits=True)
    looks = view(claim=HALF, cap=two, demand=fewer)
    assert isinstance(next_step(looks, seen(looks, Memory(), 100), POLICY, 100), Call)
    agree = view(claim=HALF, cap=HALF, demand=fewer)
    assert seen(agree, Memory(), 100).is_sure


def test_an_answer_alone_is_not_taken_for_the_effect() -> None:
    memory = answered(called(SURE, Call(HALF, ""), 0), HALF)
    looks = view(claim=HALF, cap=of_yarn(2, 10 * 1024), demand=Demand(kubernetes_waits=True))
    assert isinstance(next_step(looks, seen(looks, memory, 1), POLICY, 1), Wait)


@pytest.mark.parametrize(
    ("pool", "kept"),
    [(whole(), of_yarn(1, 1024)), (Amount(900, GIB // 2), of_yarn(0, 512)), (NOTHING, None)],
    ids=["little of the pool", "not more than there is", "nothing of nothing"],
)
def test_what_a_node_manager_registers_with_is_kept_before_it_comes(pool: Amount, kept: Amount | None) -> None:
    step = next_step(View(pool, pool, NOTHING, None), SURE, POLICY, 0)
    assert (step.amount if isinstance(step, Claim) else None) == kept
    declared = Declared("", "", ("n1",), "pod hadoop/nm-1")
    node = NodeFacts("n1", "u", "1", pool, pool, NOTHING, NOTHING, (), None, declared, ("n1",))
    verdict = judge(node, (), {"": ClusterReport({})}, {}, {}, {}, POLICY, 0, kubernetes_waits=False)
    assert verdict.condition is not None
    assert verdict.condition[1] == "UnknownNodeManager"
    assert (verdict.step.amount if isinstance(verdict.step, Claim) else None) == kept


def test_when_its_pod_is_gone_a_node_manager_gets_nothing_and_then_the_claim_is_given_back() -> None:
    of = ("", "n1:8041")
    node = NodeFacts("n1", "u", "1", whole(), whole().minus(HALF), HALF, NOTHING, (), of, None, ("n1",))
    pod = PodFacts("hadoop/nm", "p", "1", "n1", NOTHING, True, Declared("", "", ("nm",), "pod hadoop/nm"))
    there = {"": ClusterReport({of[1]: NodeReport(of[1], "RUNNING", HALF, of_yarn(2, 1024))})}

    def step(pods: tuple[PodFacts, ...], looks: dict[str, ClusterReport], absent_s: float = 0.0) -> Step:
        memories, missing = {of: SURE}, {of: absent_s}
        return judge(node, pods, looks, memories, missing, {}, POLICY, 1e6, kubernetes_waits=False).step

    assert isinstance(step((pod,), there), Wait)
    assert step((), there) == Call(NOTHING, "less is reclaimed", ends_within_s=POLICY.shrink_s)
    # The pod's NodeManager is not known to the ResourceManager any more: one that starts again may be late.
    assert isinstance(step((), {"": ClusterReport({})}, 30), Wait)
    assert step((), {"": ClusterReport({})}, 60) == Claim(NOTHING, "the node has no NodeManager any more")


def test_a_claim_that_nobody_is_known_for_is_given_back() -> None:
    node = NodeFacts("n1", "u", "1", whole(), whole(), HALF, NOTHING, (), None, None, ("n1",))
    verdict = judge(node, (), {"": ClusterReport({})}, {}, {}, {}, POLICY, 0, kubernetes_waits=False)
    assert verdict.step == Claim(NOTHING, "the node has no NodeManager any more")


def test_a_node_manager_that_is_lost_keeps_its_claim_and_one_that_is_taken_away_does_not() -> None:
    assert isinstance(next_step(view(claim=HALF, cap=None, absent_s=1e6), SURE, POLICY, 0), Wait)
    assert isinstance(next_step(view(claim=HALF, cap=None, declared=False, absent_s=5), SURE, POLICY, 0), Wait)
    step = next_step(view(claim=HALF, cap=None, declared=False, absent_s=61), SURE, POLICY, 0)
    assert step == Claim(NOTHING, "the node has no NodeManager any more")
    assert next_step(view(claim=HALF, cap=HALF, declared=False), SURE, POLICY, 0) == Call(NOTHING, "less is reclaimed")


@dataclass
class World:
    """A node, its manager, a ResourceManager and an operator, each doing one thing at a time."""

    pool: Amount = field(default_factory=whole)
    reclaimed: Amount = field(default_factory=whole)
    "What the manager would publish now."
    told: Amount = field(default_factory=whole)
    claim: Amount = NOTHING
    version: int = 0
    cap: Amount = REGISTERED
    heard: Amount = REGISTERED
    "What the NodeManager itself knows of its cap."
    used: Amount = NOTHING
    held: Amount = NOTHING
    waits: tuple[bool, bool] = (False, False)
    now_s: float = 0.0
    memory: Memory = field(default_factory=Memory)
    report: NodeManagerReport | None = None
    under_way: list[tuple[Amount, bool]] = field(default_factory=list)
    "Calls that have no effect yet, and whether they are answered: they arrive in order, if at all."
    looked: tuple[int, Amount] | None = None
    "The version at which the manager looked, and the claim that it saw."
    calls: int = 0

    @property
    def excess(self) -> Amount:
        """What is sold twice, or will be when a call that is under way arrives."""
        cap = self.cap.most(self.used)
        for amount, _ in self.under_way:
            cap = cap.most(amount)
        return cap.plus(self.told).minus(self.pool)

    # What the world does.
    def reclaim(self, percent: int) -> None:
        self.reclaimed = whole().percent(percent)

    def pods(self, percent: int) -> None:
        self.held = self.told.percent(percent).most(self.held.percent(percent))

    def containers(self, percent: int) -> None:
        self.used = self.cap.percent(percent).whole

    def demand(self, number: int) -> None:
        self.waits = bool(number & 1), bool(number & 2)

    def restart_node_manager(self, _: int) -> None:
        # Registering comes after all calls that were answered.
        while any(is_answered for _, is_answered in self.under_way):
            self.arrive(0)
        # It registers with what its own configuration says, which is little.
        self.cap, self.used = REGISTERED.least(self.cap), NOTHING
        self.heard = self.cap

    def fail_over(self, _: int) -> None:
        """Another ResourceManager knows of the NodeManager what that one knows; calls under way are lost."""
        self.under_way.clear()
        self.cap = self.heard

    # What we do.
    def manager_looks(self, _: int) -> None:
        self.looked = self.version, self.claim

    def manager_writes(self, _: int) -> None:
        if self.looked is None or self.looked[0] != self.version:
            return
        self.pool = self.reclaimed
        self.told = self.pool.minus(self.looked[1])
        self.version += 1
        self.looked = None

    def operator_restarts(self, _: int) -> None:
        self.memory, self.report = Memory(), None

    def poll(self, _: int) -> None:
        self.now_s += 25
        self.heard = self.cap
        self.report = NodeManagerReport(self.cap, self.used)

    def arrive(self, _: int) -> None:
        if self.under_way:
            self.cap, _ = self.under_way.pop(0)

    def operator(self, luck: int) -> None:
        """One round. `luck`: 0 the call fails, 1 it is done and its answer lost, 2 it arrives later, 3 it is answered
        and takes effect later, else all is well."""
        while self.memory.answered == NOTHING and self.under_way:
            self.arrive(0)
        if self.report is None:
            return
        view = View(
            self.pool, self.told, self.claim, self.report, Demand(self.held, NOTHING, self.waits[0], self.waits[1])
        )
        self.memory = seen(view, self.memory, self.now_s)
        step = next_step(view, self.memory, POLICY, self.now_s)
        if isinstance(step, Claim):
            self.claim, self.version = step.amount, self.version + 1
        elif isinstance(step, Call):
            self.calls += 1
            self.memory = called(self.memory, step, self.now_s)
            self.report = None
            if luck in (2, 3):
                self.under_way.append((step.cap, luck == 3))
                if luck == 3:
                    self.memory = answered(self.memory, step.cap)
            elif luck != 0:
                # The ResourceManager works one call after the other.
                self.under_way.clear()
                self.cap = step.cap
                if luck > 3:
                    self.memory = answered(self.memory, step.cap)

    def settle(self) -> None:
        for _ in range(30):
            self.poll(0)
            self.operator(9)
            self.manager_looks(0)
            self.manager_writes(0)
            self.used = self.used.least(self.cap)
            self.arrive(0)


def settled_world() -> World:
    """YARN has half of the pool, and all know it."""
    world = World()
    world.settle()
    assert (world.cap, world.claim, world.told) == (HALF, HALF, whole().minus(HALF))
    return world


def operated(world: World, *lucks: int) -> None:
    for luck in lucks:
        world.poll(0)
        world.operator(luck)


def test_a_patch_of_the_manager_from_before_a_claim_grew_does_not_arrive_after_it() -> None:
    world = settled_world()
    world.demand(1)
    operated(world, 9, 9, 9, 9, 9)
    assert world.claim.fits(HALF.percent(20))
    world.manager_looks(0)
    world.demand(0)
    # Kubernetes was not told more yet, so YARN may take it back at once.
    operated(world, 9, 9, 9, 9, 9)
    assert world.cap == HALF
    world.manager_writes(0)
    assert world.excess == NOTHING


def test_a_call_that_was_lost_and_comes_late_finds_its_room_still_claimed() -> None:
    world = settled_world()
    world.demand(2)
    operated(world, 9)
    world.manager_looks(0)
    world.manager_writes(0)
    # The growth is sent, and gets no answer. YARN's wish is gone in the meantime, and the call still under way.
    operated(world, 2)
    assert world.under_way
    world.demand(1)
    for _ in range(3):
        operated(world, 0)
        world.manager_looks(0)
        world.manager_writes(0)
    world.arrive(0)
    assert world.excess == NOTHING


def test_an_operator_that_starts_anew_knows_not_of_a_call_under_way_and_leaves_its_room_claimed() -> None:
    world = settled_world()
    world.demand(2)
    operated(world, 9)
    world.manager_looks(0)
    world.manager_writes(0)
    operated(world, 2)
    assert world.under_way
    world.operator_restarts(0)
    world.demand(1)
    for _ in range(3):
        operated(world, 0)
        world.manager_looks(0)
        world.manager_writes(0)
    world.arrive(0)
    assert world.excess == NOTHING


OURS = ("manager_looks", "manager_writes", "operator_restarts", "poll", "arrive", "operator")
ROUNDS = (
    ("manager_looks", "manager_writes", "poll", "operator"),
    ("poll", "operator", "manager_looks", "manager_writes"),
    ("manager_looks", "poll", "operator", "manager_writes"),
    ("poll", "operator", "operator", "manager_looks"),
    ("manager_writes", "arrive", "poll", "operator"),
    ("operator_restarts", "poll", "operator", "manager_looks"),
)
WORLDS = ("reclaim", "pods", "containers", "demand", "restart_node_manager", "fail_over", "manager_looks")
HISTORY = st.lists(
    st.tuples(st.sampled_from(ROUNDS), st.sampled_from(WORLDS), st.integers(0, 100), st.integers(0, 6)),
    min_size=30,
    max_size=60,
)


@settings(max_examples=40, phases=[Phase.generate])
@given(HISTORY)
def test_no_step_of_ours_ever_sells_a_part_of_the_pool_twice(
    history: list[tuple[tuple[str, ...], str, int, int]],
) -> None:
    world = World()
    for names, world_does, number, luck in history:
        getattr(world, world_does)(number)
        for name in names:
            before, fell = world.excess, not world.pool.fits(world.reclaimed)
            getattr(world, name)(luck)
            if not (name == "manager_writes" and fell):
                assert world.excess.fits(before), f"{name} {luck}: {before} became {world.excess}"
    world.settle()
    assert world.excess == NOTHING
    assert world.cap.fits(world.claim)
    calls = world.calls
    world.settle()
    assert world.calls == calls, "nothing changes, and YARN is told again and again"
