"""How much of a node's reclaimed pool YARN should have.

A pure function of what both sides hold and of who waits for more:

    both wait, or none      YARN's share of the pool, or what it uses where that is more
    only YARN waits         all that Kubernetes neither holds nor is guaranteed
    only Kubernetes waits   what YARN uses, at least what it is guaranteed

Each side keeps a guaranteed part, YARN one vcore at least: a ResourceManager without any refuses applications instead
of letting them wait. A fall of the pool is YARN's to bear, down to its guaranteed part: it runs lost
containers again by itself. The rest is the agent's, which evicts pods. Whole vcores and MiB, rounded down.
"""

from __future__ import annotations

from typing import Final

from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import Struct
from koord.yarn.amount import MIB, MILLI, NOTHING, Amount, of_yarn

LONGEST_S: Final = 86_400.0
ENOUGH_PERCENT: Final = 90


class PolicyError(BadInput):
    """Shares that leave one side less than it is guaranteed."""


class Policy(Struct):
    """How a pool is split. Percentages are of the pool."""

    share_percent: int = 50
    "YARN's, where both sides want more."
    yarn_least_percent: int = 10
    kubernetes_least_percent: int = 10
    hysteresis_percent: int = 10
    "A smaller change is not worth telling YARN."
    pace_s: float = 60.0
    "Between two calls about the same node, apart from those that end an excess."
    shrink_s: float = 30.0
    "After a fall of the pool, containers above YARN's cap are gone within this time."

    first: Amount = of_yarn(1, 1024)
    "What a NodeManager should register with at most: kept for one that is still to come."
    heard_s: float = 3.0
    "After a call, a NodeManager gets the new cap with a heartbeat."

    def check(self) -> Policy:
        """Itself; raises PolicyError."""
        for name, percent in (
            ("the share", self.share_percent),
            ("YARN's guaranteed part", self.yarn_least_percent),
            ("Kubernetes' guaranteed part", self.kubernetes_least_percent),
            ("the hysteresis", self.hysteresis_percent),
        ):
            if not 0 <= percent <= 100:
                raise PolicyError(f"{name} is {percent}%: it must be a percentage from 0 to 100")
        for name, seconds in (("the pace", self.pace_s), ("the shrink timeout", self.shrink_s)):
            if not 0 <= seconds <= LONGEST_S:
                raise PolicyError(f"{name} is {seconds:g} seconds: it must be from 0 to {LONGEST_S:g}")
        if not self.yarn_least_percent <= self.share_percent <= 100 - self.kubernetes_least_percent:
            raise PolicyError(
                f"YARN's share is {self.share_percent}%: it must be at least its guaranteed part"
                f" ({self.yarn_least_percent}%) and leave Kubernetes' ({self.kubernetes_least_percent}%)"
            )
        return self


class Demand(Struct):
    """What both sides hold of a node, and whether they wait for more."""

    held: Amount = NOTHING
    "Requested by batch pods on the node."
    used: Amount = NOTHING
    "Of YARN's containers on the node."
    kubernetes_waits: bool = False
    yarn_waits: bool = False


def guaranteed(pool: Amount, policy: Policy) -> Amount:
    """YARN's guaranteed part."""
    least = pool.percent(policy.yarn_least_percent)
    leaves = pool.minus(pool.percent(policy.kubernetes_least_percent))
    if policy.yarn_least_percent and leaves.cpu_milli >= MILLI:
        least = least.most(of_yarn(1, 0))
    return least


def ceiling(pool: Amount, held: Amount, policy: Policy, *, is_hard: bool = False) -> Amount:
    """The most that YARN may have: Kubernetes keeps what it is guaranteed, and what it holds down to YARN's part.

    Above the hard one, more is sold than there is; between the two, Kubernetes has less than it is guaranteed.
    """
    kept = held.least(pool.minus(guaranteed(pool, policy)))
    return pool.minus(kept if is_hard else kept.most(pool.percent(policy.kubernetes_least_percent)))


def share(pool: Amount, demand: Demand, policy: Policy) -> Amount:
    """What YARN should have, in whole vcores and MiB."""
    most = ceiling(pool, demand.held, policy)
    least = guaranteed(pool, policy)
    if demand.yarn_waits and not demand.kubernetes_waits:
        goal = most
    elif demand.kubernetes_waits and not demand.yarn_waits:
        goal = demand.used.most(least)
    else:
        goal = pool.percent(policy.share_percent).most(demand.used)
    return goal.most(least).least(most).whole


def enough(pool: Amount, most: Amount, policy: Policy) -> Amount:
    """With less than this, YARN lacks its guaranteed part. A few MiB below it are as good as the whole."""
    return guaranteed(pool, policy).least(most).whole.percent(ENOUGH_PERCENT)


def settled(present: Amount, goal: Amount, pool: Amount, most: Amount, policy: Policy) -> Amount:
    """The goal, where it is worth a change; else the present cap. More than `most` never stays, nor less than is
    enough."""
    step = pool.percent(policy.hysteresis_percent)

    def part(least: int, now: int, then: int, most: int, step: int) -> int:
        return now if least <= now <= most and abs(then - now) < step else then

    # At least one unit of YARN's: on a small pool a percentage of it is none.
    steps = step.most(Amount(MILLI, MIB))
    return Amount(*map(part, enough(pool, most, policy), present, goal, most, steps))
