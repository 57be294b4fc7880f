"""The next step of one node, so that its reclaimed pool is never sold twice.

Four figures stand in three places: the `pool` and what is `allocatable` in Kubernetes, on the Node, written by the
manager in one write; the `claim` on the Node (thirdPartyAllocations), written by the operator; YARN's `cap` at the
ResourceManager. The manager makes at most  pool - claim  allocatable, and its write fails if the claim changed since it
was read. So

    cap + allocatable <= pool   holds as long as   cap <= claim

and every step keeps that: the claim rises before the cap does, and the cap rises only after the manager has lowered
allocatable, and no pod is above it. The cap falls before the claim does, and the claim stays above what containers
still use. A ResourceManager answers before a call takes effect, and a call without an answer may still take effect:
until a call was answered and its cap is seen in force, the claim covers all that were sent. A process that has
restarted takes the whole claim for a call without an answer.

Only a fall of the pool, or a NodeManager that registers again with more than its claim, makes an excess, which is ended
at once, without waiting for the pace. Containers above the new cap are gone `shrink_s` after the first call about an
excess: a further fall does not give them more time.

A NodeManager that replaces another one of the same node has what it registers with from the start. So the claim covers
both until the old one has nothing, and then becomes the new one's in one write.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from koord.api.machinery.struct import Struct
from koord.yarn.amount import MIB, NOTHING, Amount
from koord.yarn.split import Demand, Policy, ceiling, enough, settled, share

RETRY_S: Final = 5.0
"""After a call without an answer."""


class NodeManagerReport(Struct):
    """The ResourceManager's word on a NodeManager that runs."""

    cap: Amount
    used: Amount = NOTHING


class View(Struct):
    """One version of the Node, and YARN's last word on it."""

    pool: Amount
    "What is reclaimed, before any system took a share."
    allocatable: Amount
    "Batch resources for Kubernetes."
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
    successor: Amount | None = None
    "What the NodeManager has that replaces this one, or will register with; None: this one is not replaced."

    @property
    def beside(self) -> Amount:
        """What the claim has to cover for another NodeManager."""
        return self.successor or NOTHING


class Memory(Struct):
    """What this process knows of its own calls about a NodeManager."""

    pending: Amount | None = None
    "The most that calls without an answer may set."
    answered: Amount | None = None
    "The cap of an answered call that is not in force yet."
    is_sure: bool = False
    "Whether no call of an earlier process can still take effect."
    called_s: float = float("-inf")
    asked: Amount | None = None
    "The cap of the last call, whatever came of it."
    in_force: Amount | None = None
    "The cap that was last seen in force. A different cap shows that a NodeManager has registered again."
    gone_by_s: float | None = None
    "When the ResourceManager ends containers above the cap; None: there are none to end."

    @property
    def is_open(self) -> bool:
        """Whether a call has not been seen in force."""
        return self.pending is not None or self.answered is not None

    @property
    def is_settled(self) -> bool:
        return self.is_sure and not self.is_open


class Claim(Struct):
    """Write this claim on the Node, if it still is the version that was looked at."""

    amount: Amount
    why: str
    hands_over: bool = False
    "Whether it is the claim of the NodeManager that replaces this one from here on."


class Call(Struct):
    """Tell the ResourceManager this cap."""

    cap: Amount
    why: str
    ends_within_s: float | None = None
    "After this time containers above the cap are ended; None: never."


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
    taken = possible(view, memory).most(used).plus(view.beside)
    if not taken.fits(view.claim):
        return Claim(view.claim.most(taken), "YARN has more than its claim")
    demand = Demand(view.demand.held, used, view.demand.kubernetes_waits, view.demand.yarn_waits)
    most = hardest = aim = NOTHING
    if view.is_declared:
        most, hardest = ceiling(pool, demand.held, policy), ceiling(pool, demand.held, policy, is_hard=True)
        aim = settled(cap, share(pool, demand, policy), pool, most, policy)
    lower = cap.least(aim)
    if not _called_for(memory, cap).most(used).fits(hardest) and (
        step := _without_excess(lower, view.report, memory, policy, now_s)
    ):
        return step
    retry_s = memory.called_s + RETRY_S
    is_anew = memory.in_force is not None and memory.in_force != cap
    has_enough = enough(pool, most, policy).fits(cap)
    due_s = retry_s if memory.is_open or is_anew or not has_enough else memory.called_s + policy.pace_s
    if lower != cap:
        return Call(lower, "Kubernetes needs it") if now_s >= due_s else Wait("the last change is too recent", due_s)
    if not view.claim.fits(aim.most(cap).most(used).plus(view.beside)) and not memory.is_settled:
        # The claim may cover a call that is under way: once a later one is in force, it is over. A cap that differs
        # from the present one can be told apart from it.
        return Call(_a_little_less(cap), "to end earlier calls") if now_s >= retry_s else Wait("", retry_s)
    wanted = aim.most(taken)
    is_successors = view.successor is not None and wanted == view.successor
    if wanted != view.claim or is_successors:
        why = "YARN has given it back" if wanted.fits(view.claim) else "for YARN to grow"
        return Claim(wanted, why, hands_over=is_successors)
    if aim == cap:
        return Wait()
    grown = _grown(cap, aim, view.allocatable.most(demand.held), pool)
    if grown == cap:
        return Wait("Kubernetes still holds the amount that YARN will get", for_manager=True)
    if now_s < due_s:
        return Wait("the last change is too recent", due_s)
    return Call(grown, "Kubernetes has given it up")


def _without_excess(
    lower: Amount, report: NodeManagerReport, memory: Memory, policy: Policy, now_s: float
) -> Call | Wait | None:
    """More is sold than there is: the step that ends it. None where the ResourceManager is about to end it."""
    retry_s = memory.called_s + RETRY_S
    if memory.asked is not None and memory.asked.fits(lower) and now_s < retry_s:
        return Wait("the last change is too recent", retry_s)
    if lower == report.cap:
        # Containers above it run, or a higher cap is under way. The ResourceManager takes no notice of a cap that it
        # has, and one that has restarted does not know any more that it has to end containers.
        lower = _a_little_less(lower)
        is_ending = memory.gone_by_s is not None and now_s < memory.gone_by_s + RETRY_S
        if is_ending or lower == report.cap:
            return None
    if report.used.fits(lower):
        return Call(lower, "less is reclaimed")
    gone_by_s = now_s + policy.shrink_s if memory.gone_by_s is None else memory.gone_by_s
    return Call(lower, "less is reclaimed", ends_within_s=max(gone_by_s - now_s, 0.0))


def _a_little_less(cap: Amount) -> Amount:
    return Amount(cap.cpu_milli, cap.memory_bytes - MIB) if cap.memory_bytes >= MIB else cap


def _grown(cap: Amount, aim: Amount, others: Amount, pool: Amount) -> Amount:
    """Each part of the aim that is neither published to Kubernetes nor held by pods."""

    def part(now: int, then: int, others: int, all_: int) -> int:
        return then if then > now and then + others <= all_ else now

    return Amount(
        part(cap.cpu_milli, aim.cpu_milli, others.cpu_milli, pool.cpu_milli),
        part(cap.memory_bytes, aim.memory_bytes, others.memory_bytes, pool.memory_bytes),
    )


def possible(view: View, memory: Memory) -> Amount:
    """The largest cap that may be in force, now or when a call that is under way takes effect."""
    cap = _called_for(memory, view.report.cap if view.report else NOTHING)
    return cap if memory.is_sure else cap.most(view.claim.minus(view.beside))


def _called_for(memory: Memory, cap: Amount) -> Amount:
    """The largest of this cap and of those that this process called for and that may be in force."""
    for other in (memory.pending, memory.answered):
        cap = cap if other is None else cap.most(other)
    return cap


def first_of(pool: Amount, policy: Policy) -> Amount:
    """What a NodeManager that is still to come registers with."""
    return policy.first.least(pool).whole


def reserved(claim: Amount, first: Amount) -> Claim | None:
    """A NodeManager that is not known yet has what it registers with, even if that part is published to Kubernetes."""
    return None if first.fits(claim) else Claim(claim.most(first), "for a NodeManager that has not registered yet")


def _without_report(view: View, policy: Policy) -> Step:
    first = first_of(view.pool.minus(view.others), policy) if view.is_declared else view.beside
    if step := reserved(view.claim, first):
        return step
    if view.is_declared or (view.claim == NOTHING and view.successor is None):
        # It may come back with the cap that it had: the claim stays.
        return Wait("the ResourceManager has no such NodeManager running")
    if view.absent_s < policy.pace_s:
        return Wait("the ResourceManager may have just started", again_s=None)
    if view.successor is not None:
        return Claim(view.successor, "the NodeManager is replaced", hands_over=True)
    return Claim(NOTHING, "the node has no NodeManager any more")


def called(memory: Memory, call: Call, now_s: float) -> Memory:
    """Before a call is sent: from here on it may take effect."""
    covered = _called_for(memory, call.cap)
    gone_by_s = memory.gone_by_s if call.ends_within_s is None else now_s + call.ends_within_s
    return replace(memory, pending=covered, answered=None, called_s=now_s, asked=call.cap, gone_by_s=gone_by_s)


def refused(before: Memory, call: Call, now_s: float) -> Memory:
    """The call was answered with no: it never takes effect, and is not repeated at once."""
    return replace(before, called_s=now_s, asked=call.cap)


def answered(memory: Memory, cap: Amount) -> Memory:
    """The call for this cap was answered: those before it are over, or come before it."""
    return replace(memory, answered=cap)


def seen(view: View, memory: Memory, now_s: float, heard_s: float = Policy().heard_s) -> Memory:
    """After a look at the ResourceManager: a cap in force that was answered ends all doubt about earlier calls.

    `heard_s` after a call the NodeManager has the new cap too: before, it would take its old cap to another
    ResourceManager if this one failed.
    """
    if view.report is None:
        return memory
    cap = view.report.cap
    is_in_force = cap == memory.answered and now_s - memory.called_s >= (heard_s if cap.memory_bytes > 0 else RETRY_S)
    if is_in_force or (not memory.is_open and cap == view.claim.minus(view.beside)):
        memory = replace(memory, pending=None, answered=None, is_sure=True, in_force=cap)
    if not memory.is_open and view.report.used.fits(cap):
        memory = replace(memory, gone_by_s=None)
    return memory
