"""Quotas on a terminal: the way from a pod's quota to the root, and `koord top quotas`, the trees with bars."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click

from koord.cli import structured
from koord.cli.tables import counted, heading, short, table

if TYPE_CHECKING:
    from koord.offline.quotas import QuotaTop
    from koord.scheduler.plugins.quota.told import QuotaPath

WIDTH: Final = 24
UNBOUNDED: Final = 1 << 53
"""A max of so much bounds nothing that people own."""


def quota_path(told: QuotaPath) -> str:
    """For `koord explain`: figures at every level, who borrowed what, and what would free it."""
    rows: list[tuple[str, ...]] = [("QUOTA", "RESOURCE", "REQUEST", "USED", "RUNTIME", "MIN", "MAX")]
    for each in told.path:
        for key in sorted(each.max):
            figures = (each.request, each.used, each.runtime, each.min, each.max)
            rows.append((each.name, key, *(str(listed.get(key, "0")) for listed in figures)))
    lines = [f"{heading('QUOTA')}   {told.quota} and what is above it", *_indented(table(rows, right=_RIGHT))]
    if told.borrowers:
        lines.append("  who uses more than its min:")
        lines += [
            f"    {each.quota}, beside {each.beside}, uses {each.resource} {each.used}: "
            f"{each.borrowed} more than the {each.guaranteed} that it is guaranteed"
            for each in told.borrowers
        ]
    if told.frees:
        lines.append("  any of these would give the pod room:")
        lines += [f"    {each}" for each in told.frees]
    return "\n".join(lines)


_RIGHT: Final = frozenset(range(2, 7))


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def show_quotas(bars: bool | None, kubeconfig: str | None, context: str | None, output: str) -> int:
    found = asyncio.run(_look(kubeconfig, context))
    if output != "table":
        structured.say({"quotas": found}, output)
        return 0
    if not found:
        click.echo("there are no quotas")
        return 0
    drawn = sys.stdout.isatty() if bars is None else bars
    click.echo(quota_table(found, drawn=drawn))
    for each in found:
        if each.problem:
            click.echo(f"{each.quota}: {each.problem}", err=True)
    full = [each for each in found if not each.is_parent and _is_short(each)]
    if full:
        click.echo(f"{counted(len(full), 'quota')} with pods that wait for room: koord explain POD says what helps")
    return 0


def quota_table(found: list[QuotaTop], *, drawn: bool) -> str:
    """A line for each quota, below its parent; a bar is what is used (#) of what it may use now (|) and at most."""
    head = ("QUOTA", *(f"{key.upper()} {word}" for key in ("cpu", "memory") for word in ("USED", "REQUEST", "RUNTIME")))
    rows: list[tuple[str, ...]] = [(*head, "CPU MIN", "CPU MAX", *(("CPU",) if drawn else ()))]
    for each in found:
        cells = [
            short(key, amounts.get(key, 0)) if key in each.max or key in amounts else "-"
            for key in ("cpu", "memory")
            for amounts in (each.used, each.request, each.runtime)
        ]
        bounds = [_bound(each.min.get("cpu")), _bound(each.max.get("cpu"))]
        rows.append(("  " * each.depth + each.quota, *cells, *bounds, *((_bar(each),) if drawn else ())))
    return table(rows, right=frozenset(range(1, 9)))


def _bound(amount: int | None) -> str:
    if amount is None:
        return "-"
    return "none" if amount >= UNBOUNDED else short("cpu", amount)


def _bar(quota: QuotaTop) -> str:
    """Used of the larger of max and what is used; where the share ends, a line."""
    most = quota.max.get("cpu", 0)
    used, share = quota.used.get("cpu", 0), quota.runtime.get("cpu", 0)
    whole = max(share, used) if most >= UNBOUNDED or not most else max(most, used)
    if not whole:
        return ""
    filled, ends = round(WIDTH * used / whole), min(WIDTH - 1, round(WIDTH * share / whole))
    cells = ["#" if i < filled else "." for i in range(WIDTH)]
    cells[ends] = "|"
    return "".join(cells)


def _is_short(quota: QuotaTop) -> bool:
    """Whether pods of a quota wait that its share has no room for."""
    waiting = {key: amount - quota.used.get(key, 0) for key, amount in quota.request.items()}
    return any(
        amount > 0 and quota.request[key] > quota.runtime.get(key, amount + quota.request[key])
        for key, amount in waiting.items()
    )


async def _look(kubeconfig: str | None, context: str | None) -> list[QuotaTop]:
    from koord.api import kinds
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.offline.quotas import quotas_of

    try:
        async with Client.from_config(kubeconfig, context) as client:
            return quotas_of(await client.list(kinds.ELASTIC_QUOTAS))
    except NotFound:
        return []
    except ApiError as error:
        raise click.ClickException(str(error)) from None
