"""The next step of one node, such that its reclaimed pool is sold once at every instant.

Four figures stand in three places: the `pool` and what Kubernetes is `told` of it on the Node, written by the manager
in one write; the `claim` on the Node (thirdPartyAllocations), written by the operator; YARN's `cap` at the
ResourceManager. The manager tells Kubernetes at most  pool - claim,  and its write fails if the claim changed since it
looked. So

    cap + told <= pool   holds as long as   cap <= claim

and every step keeps that: the claim rises before the cap does, and the cap rises only after the manager has lowered
what it tells, and no pod is above it. The cap falls before the claim does, and the claim stays above what containers
still use. A ResourceManager answers before a call takes effect, and a call without an answer may still take effect:
until a call was answered and its cap is seen in force, the claim covers all that were sent. A process that starts anew
takes the whole claim for such a call.

Only a fall of the pool, or a NodeManager that registers anew with more than its claim, makes an excess, which is ended
at once, without waiting for the pace.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from koord.api.machinery.struct import Struct
from koord.yarn.amount import MIB, NOTHING, Amount
from koord.yarn.split import Demand, Policy, ceiling, settled, share

RETRY_S: Final = 5.0
"""After a call without an answer."""


class NodeManagerReport(Struct):
    """The ResourceManager's word on a NodeManager that runs."""

    cap: Amount
    used: Amount = NOTHING


class View(Struct):
    """One version of the Node, and YARN's last word on it."""

    pool: Amount
    "What is reclaimed, before anybody took a share."
    told: Amount
    "Batch allocatable."
    claim: Amount
    report: NodeManagerReport | None
    "None: the ResourceManager has no such NodeManager running."
    demand: Demand = Demand()
    others: Amount = NOTHING
    "Held by further systems."
    is_declared: bool = True
    "Whether the node is still said to have this NodeManager."
    absent_s: float = 0.0
    "For how long the ResourceManager has had no such NodeManager running."


class Memory(Struct):
    """What this process knows of its own calls about a NodeManager."""

    pending: Amount | None = None
    "The most that calls without an answer may set."
    told: Amount | None = None
    "What was answered, and is not seen in force yet."
    is_sure: bool = False
    "Whether no call of an earlier process can still take effect."
    called_s: float = float("-inf")

    @property
    def is_settled(self) -> bool:
        return self.is_sure and self.pending is None and self.told is None


class Claim(Struct):
    """Write this claim on the Node, if it still is the version that was looked at."""

    amount: Amount
    why: str


class Call(Struct):
    """Tell the ResourceManager this cap."""

    cap: Amount
    why: str
    ends_containers: bool = False
    "Whether containers above the cap are to be ended, after the policy's time."


class Wait(Struct):
    """Nothing to do, or not yet."""

    why: str = ""
    again_s: float | None = None
    for_manager: bool = False
    "Whether the manager has yet to lower what it tells Kubernetes."


Step = Claim | Call | Wait


def next_step(view: View, memory: Memory, policy: Policy, now_s: float) -> Step:
    if view.report is None:
        return _without_report(view, policy)
    pool = view.pool.minus(view.others)
    cap, used = view.report.cap, view.report.used
    taken = possible(view, memory).most(used)
    if not taken.fits(view.claim):
        return Claim(view.claim.most(taken), "YARN has more than its claim")
    demand = Demand(view.demand.held, used, view.demand.kubernetes_waits, view.demand.yarn_waits)
    most = hardest = aim = NOTHING
    if view.is_declared:
        most, hardest = ceiling(pool, demand.held, policy), ceiling(pool, demand.held, policy, is_hard=True)
        aim = settled(cap, share(pool, demand, policy), pool, most, policy)
    retry_s = memory.called_s + RETRY_S
    is_open = memory.pending is not None or memory.told is not None
    due_s = retry_s if is_open else memory.called_s + policy.pace_s
    lower = cap.least(aim)
    if lower != cap:
        is_excess = not cap.fits(hardest)
        until_s = retry_s if is_excess else due_s
        if now_s < until_s:
            return Wait("the last change is too recent", until_s)
        why = "less is reclaimed" if is_excess else "Kubernetes needs it"
        return Call(lower, why, ends_containers=is_excess and not used.fits(lower))
    if not view.claim.fits(aim.most(cap).most(used)) and not memory.is_settled:
        # The claim may cover a call that is under way: once a later one is in force, it is over. A cap that differs
        # from the present one can be told apart from it.
        return Call(_a_little_less(cap), "to end earlier calls") if now_s >= retry_s else Wait("", retry_s)
    wanted = aim.most(taken)
    if wanted != view.claim:
        return Claim(wanted, "YARN has given it back" if wanted.fits(view.claim) else "for YARN to grow")
    if aim == cap:
        return Wait()
    grown = _grown(cap, aim, view.told.most(demand.held), pool)
    if grown == cap:
        return Wait("Kubernetes has yet to give up what YARN is to have", for_manager=True)
    if now_s < due_s:
        return Wait("the last change is too recent", due_s)
    return Call(grown, "Kubernetes has given it up")


def _a_little_less(cap: Amount) -> Amount:
    return Amount(cap.cpu_milli, cap.memory_bytes - MIB) if cap.memory_bytes >= MIB else cap


def _grown(cap: Amount, aim: Amount, others: Amount, pool: Amount) -> Amount:
    """Each part of the aim that nobody else is told of or holds."""

    def part(now: int, then: int, others: int, all_: int) -> int:
        return then if then > now and then + others <= all_ else now

    return Amount(
        part(cap.cpu_milli, aim.cpu_milli, others.cpu_milli, pool.cpu_milli),
        part(cap.memory_bytes, aim.memory_bytes, others.memory_bytes, pool.memory_bytes),
    )


def possible(view: View, memory: Memory) -> Amount:
    """The largest cap that may be in force, now or when a call that is under way takes effect."""
    cap = view.report.cap if view.report else NOTHING
    for each in (memory.pending, memory.told, None if memory.is_sure else view.claim):
        cap = cap if each is None else cap.most(each)
    return cap


def reserved(pool: Amount, claim: Amount, policy: Policy) -> Claim | None:
    """Before a NodeManager comes: it has what it registers with, whoever was told of that part meanwhile."""
    first = policy.first.least(pool).whole
    return Claim(first, "for a NodeManager that is to come") if claim == NOTHING != first else None


def _without_report(view: View, policy: Policy) -> Step:
    if view.is_declared and (first := reserved(view.pool.minus(view.others), view.claim, policy)):
        return first
    if view.is_declared or view.claim == NOTHING:
        # It may come back with the cap that it had: the claim stays.
        return Wait("the ResourceManager has no such NodeManager running")
    if view.absent_s < policy.pace_s:
        return Wait("the ResourceManager may have just started", again_s=None)
    return Claim(NOTHING, "the node has no NodeManager any more")


def called(memory: Memory, cap: Amount, now_s: float) -> Memory:
    """Before a call is sent: from here on it may take effect."""
    covered = cap
    for each in (memory.pending, memory.told):
        covered = covered if each is None else covered.most(each)
    return Memory(covered, None, memory.is_sure, now_s)


def refused(before: Memory, now_s: float) -> Memory:
    """The call was answered with no: it never takes effect, and is not repeated at once."""
    return replace(before, called_s=now_s)


def answered(memory: Memory, cap: Amount) -> Memory:
    """The call for this cap was answered: those before it are over, or come before it."""
    return Memory(memory.pending, cap, memory.is_sure, memory.called_s)


def seen(view: View, memory: Memory, now_s: float, heard_s: float = Policy().heard_s) -> Memory:
    """After a look at the ResourceManager: a cap in force that was answered ends all doubt about earlier calls.

    `heard_s` after a call the NodeManager has heard of it too: before, it would take its old cap to another
    ResourceManager if this one failed.
    """
    if view.report is None:
        return memory
    cap = view.report.cap
    is_in_force = cap == memory.told and now_s - memory.called_s >= (heard_s if cap.memory_bytes > 0 else RETRY_S)
    if is_in_force or (memory.told is None and memory.pending is None and cap == view.claim):
        return Memory(None, None, is_sure=True, called_s=memory.called_s)
    return memory
