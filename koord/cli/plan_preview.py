"""Preview of a configuration in a plan: what nodes lend before and after it, and which pods it would evict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koord.api.text.counted import counted
from koord.cli.tables import heading, table

if TYPE_CHECKING:
    from koord.offline.plan import Plan
    from koord.offline.preview import NodePreview, ResourceChange

MOST_NODES: Final = 50
MOST_EVICTIONS: Final = 50
GIB: Final = 1 << 30
_COLUMNS: Final = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")


def previewed_tables(plan_made: Plan, *, wide: bool) -> str:
    """Nodes that change (all, if wide), the sum over all of them, and evictions."""
    changing = {name: node for name, node in plan_made.colocation.items() if wide or _changes(node)}
    rows: list[tuple[str, ...]] = [("NODE", *(name.upper() for name in _COLUMNS), "WHY")]
    for name, node in list(changing.items())[: None if wide else MOST_NODES]:
        cells = (_cell(node.resources.get(f"kubernetes.io/{column}"), column) for column in _COLUMNS)
        rows.append((name, *cells, node.why or "-"))
    parts = []
    if changing:
        rows.append(("all nodes", *(_total(plan_made, column) for column in _COLUMNS), ""))
        parts.append(table(rows))
    else:
        parts.append("no node would lend more or less than before")
    if not wide and len(changing) > MOST_NODES:
        parts.append(f"and {counted(len(changing) - MOST_NODES, 'more node')} (all of them with -o wide)")
    if plan_made.evictions:
        lines = [("POD", "NODE", "BY", "WHY")]
        lines += [
            (eviction.pod, eviction.node, eviction.by, eviction.why)
            for eviction in plan_made.evictions[: None if wide else MOST_EVICTIONS]
        ]
        parts.append(f"\n{heading('EVICTIONS')}   by agents with these features switched on\n{table(lines)}")
        if len(lines) <= len(plan_made.evictions):
            parts.append(f"and {len(plan_made.evictions) - MOST_EVICTIONS} more pods (all of them with -o wide)")
    else:
        parts.append("no pod would be evicted")
    return "\n".join(parts)


def _changes(node: NodePreview) -> bool:
    return any(change.before != change.after for change in node.resources.values())


def _cell(change: ResourceChange | None, column: str) -> str:
    if change is None:
        return "-"
    before, after = (_figure(_amount(amount), column) for amount in (change.before, change.after))
    return before if before == after else f"{before} -> {after}"


def _total(plan_made: Plan, column: str) -> str:
    changes = [node.resources.get(f"kubernetes.io/{column}") for node in plan_made.colocation.values()]
    before = sum(_amount(change.before) or 0 for change in changes if change is not None)
    after = sum(_amount(change.after) or 0 for change in changes if change is not None)
    one, other = _figure(before, column), _figure(after, column)
    return one if one == other else f"{one} -> {other}"


def _amount(text: str | None) -> int | None:
    from koord.api.text.quantity import value

    return None if text is None else value(text)


def _figure(amount: int | None, column: str) -> str:
    if amount is None:
        return "none"
    return f"{amount / 1000:g}" if column.endswith("cpu") else f"{amount / GIB:.1f}Gi"
