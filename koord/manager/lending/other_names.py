"""The pool under the names of other systems: each name shows it less what is allocated through all other names.

    shown by a name = max(0, pool - requests of pods by all other names)

Of 20 cores, batch pods hold 6 and YARN 4: batch shows 16, YARN 14 and a third name 10. 10 are free by each.
Names that are counted in whole cores are rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from koord.api.protocol.pool_names import ALIASES, OTHER_NAMES
from koord.manager.figures import Figure, Term, continued, figure, total
from koord.manager.node_state import PodRow


def requested_by_name(pods: Iterable[PodRow]) -> Mapping[str, int]:
    """What pods that run request by other systems' names, in the pool's own unit."""
    total: dict[str, int] = {}
    for pod in pods:
        if pod.active and pod.by_other_names:
            for name, amount in pod.by_other_names.items():
                total[name] = total.get(name, 0) + amount * ALIASES[name].unit
    return total


def requested_of_pool(pods: Iterable[PodRow]) -> tuple[int, int]:
    """CPU and memory that pods that run request of the pool, by any name."""
    active = [pod for pod in pods if pod.active]
    return sum(pod.batch_cpu_milli for pod in active), sum(pod.batch_memory_bytes for pod in active)


def by_name(
    figures: Sequence[Figure], published: Sequence[str], by_others: Mapping[str, int], all_requests: Mapping[str, int]
) -> tuple[Figure, ...]:
    """The figures of the pool by its own name, and by each name that is published. `all_requests`: what pods request of
    the pool by any name, by the pool's own name."""
    if not published and not by_others:
        return tuple(figures)
    shown = []
    for of in figures:
        aliases = {name: alias.unit for name, alias in ALIASES.items() if alias.of == of.resource}
        held = sum(by_others.get(name, 0) for name in aliases)
        shown.append(continued(of, *_less(held)) if held else of)
        for name in (name for word in published for name in OTHER_NAMES[word][:2] if name in aliases):
            others = all_requests.get(of.resource, 0) - by_others.get(name, 0)
            terms = [Term("start", "pool", of.amount, of.resource), *_less(others)]
            if aliases[name] > 1:
                terms.append(Term("becomes", "whole", total(terms) // aliases[name], "whole cores"))
            shown.append(figure(name, terms, of.policy))
    return tuple(shown)


def _less(held: int) -> tuple[Term, Term]:
    why = "requested by pods through other names of the pool"
    return Term("minus", "otherNames", held, why), Term("atLeast", "nothing", 0)
