"""NUMA hints: on which NUMA nodes each resource of a pod could be, and which choice suits all of them.

Plugins that hand out parts of a node (CPUs and memory, devices) each offer hints for one row; the joint `NUMA` merges
them by the policy that holds there:

    BestEffort       takes the narrowest nodes that are in all offers, or all nodes; never refuses
    Restricted       every resource on the same nodes, and on no more nodes than it could be
    SingleNUMANode   everything on one node

The policy travels in the offer of NodeNUMAResource. Without it nothing is restricted. Sets of NUMA nodes are masks:
bit n stands for node n.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Joint, Objection
from koord.scheduler.state.table import Row

Policy: TypeAlias = Literal["BestEffort", "Restricted", "SingleNUMANode"]
Use: TypeAlias = Literal["idle", "single", "shared"]
"""Of a NUMA node: no pod has CPUs of its own there; only pods that stay on it do; or one that spans several does."""


class Hint(NamedTuple):
    """One set of NUMA nodes that can give a resource."""

    nodes: int
    preferred: bool
    "Whether no smaller set would do, or the policy does not mind."
    score: int = 0


Hints: TypeAlias = tuple[Hint, ...] | None
"""Of one resource; None: any nodes will do; empty: no nodes will."""


class Rule(NamedTuple):
    """What holds on a row for one pod."""

    policy: Policy
    all_nodes: int
    uses: tuple[Use, ...] | None = None
    "Of a pod that wants NUMA nodes for itself: how each node is used, by its number."


class Offer(NamedTuple):
    """What one plugin could live with on a row."""

    hints: Mapping[str, Hints]
    "By resource; a resource that the pod does not ask for is not there."
    rule: Rule | None = None
    "From NodeNUMAResource alone."


class Agreed(NamedTuple):
    """What all who made offers use."""

    nodes: int | None
    "None: any nodes will do."


ANYWHERE: Final = Agreed(None)


class _Merging(Joint):
    """Settles on NUMA nodes for one pod and row. An offer that is None has nothing to say."""

    def settle(self, offers: Sequence[object], ask: Ask, row: Row) -> Agreed | Objection:
        made = [offer for offer in offers if isinstance(offer, Offer)]
        rule = next((offer.rule for offer in made if offer.rule is not None), None)
        if rule is None:
            return ANYWHERE
        return merged({name: hints for offer in made for name, hints in offer.hints.items()}, rule)


NUMA: Final = _Merging()


def merged(hints: Mapping[str, Hints], rule: Rule) -> Agreed | Objection:
    """The nodes that suit all resources best, by the policy; or why there are none."""
    cared = {name: of_resource for name, of_resource in hints.items() if of_resource is not None}
    if not cared:
        return ANYWHERE
    if rule.policy == "BestEffort":
        return Agreed(_best_effort(cared, rule))
    missing = [f"Unsatisfied NUMA {name}" for name, of_resource in sorted(cared.items()) if not of_resource]
    if missing:
        return Objection(", ".join(missing))
    is_single = rule.policy == "SingleNUMANode"
    aligned = _aligned(
        {name: tuple(_single(of_resource)) for name, of_resource in cared.items()} if is_single else cared, rule
    )
    return Objection(_unaligned(cared, rule)) if aligned is None else Agreed(aligned)


def keeping(hints: Hints, nodes: int) -> Hints:
    """Those of a pod that has something on some nodes, and keeps it: only sets with all of them."""
    if not hints or not nodes:
        return hints
    kept = [hint for hint in hints if not nodes & ~hint.nodes]
    smallest = min((hint.nodes.bit_count() for hint in kept), default=0)
    return tuple(hint._replace(preferred=hint.preferred or hint.nodes.bit_count() == smallest) for hint in kept)


def _single(hints: Iterable[Hint]) -> Iterator[Hint]:
    return (hint for hint in hints if hint.preferred and hint.nodes.bit_count() == 1)


def _aligned(hints: Mapping[str, tuple[Hint, ...]], rule: Rule) -> int | None:
    """The best nodes that every resource prefers: the fewest, then the highest score, then the lowest numbers."""
    scores: dict[int, list[int]] = {}
    for of_resource in hints.values():
        for hint in of_resource:
            if hint.preferred and not hint.nodes & ~rule.all_nodes:
                scores.setdefault(hint.nodes, []).append(hint.score)
    ranked = [
        (nodes.bit_count(), -sum(of_nodes), nodes)
        for nodes, of_nodes in scores.items()
        if len(of_nodes) == len(hints) and is_open(nodes, rule)
    ]
    return min(ranked)[2] if ranked else None


def _best_effort(hints: Mapping[str, tuple[Hint, ...]], rule: Rule) -> int:
    """As `_aligned`, else the narrowest nodes that every resource could use, where all of them offer just these; else
    all nodes."""
    if not all(hints.values()):
        return rule.all_nodes
    aligned = _aligned(hints, rule)
    if aligned is not None:
        return aligned
    common = {rule.all_nodes}
    for of_resource in hints.values():
        common = {nodes & hint.nodes for nodes in common for hint in of_resource} - {0}
    offered = [{hint.nodes: hint.score for hint in of_resource} for of_resource in hints.values()]
    ranked = [(nodes.bit_count(), -sum(scores.get(nodes, 0) for scores in offered), nodes) for nodes in common]
    narrowest = min(ranked)[2] if ranked else rule.all_nodes
    return narrowest if all(narrowest in scores for scores in offered) else rule.all_nodes


def is_open(nodes: int, rule: Rule) -> bool:
    """Whether a pod that wants NUMA nodes for itself may use these: several only where no pod keeps to one of them, one
    only where no pod spans it and others."""
    if rule.uses is None:
        return True
    refused: Use = "single" if nodes.bit_count() > 1 else "shared"
    return not any(nodes >> number & 1 and use == refused for number, use in enumerate(rule.uses))


UNALIGNED: Final = "Unaligned NUMA Hint cause "
_CAUSE: Final = re.compile(r"(\S+) prefer \[([01 ]*)\]")


def in_words(unaligned: str) -> str:
    """An UNALIGNED reason in words: `cpu prefers NUMA node 1, gpu prefers NUMA node 0`."""
    causes = re.split(r",| & ", unaligned.removeprefix(UNALIGNED))
    preferences = []
    for match in filter(None, map(_CAUSE.match, causes)):
        sets = [[str(i) for i, bit in enumerate(reversed(masks)) if bit == "1"] for masks in match[2].split()]
        preferences.append(f"{match[1]} prefers NUMA node {' or '.join('+'.join(numbers) for numbers in sets)}")
    return ", ".join(preferences)


def _unaligned(hints: Mapping[str, tuple[Hint, ...]], rule: Rule) -> str:
    width = rule.all_nodes.bit_length()

    def bits(nodes: Iterable[int]) -> str:
        return f"[{' '.join(format(mask, f'0{width}b') for mask in nodes)}]"

    causes = [
        f"{name} prefer {bits(h.nodes for h in of_resource if h.preferred)} among {bits(h.nodes for h in of_resource)}"
        for name, of_resource in sorted(hints.items())
    ]
    return f"{UNALIGNED}{(',' if rule.policy == 'SingleNUMANode' else ' & ').join(causes)}"
