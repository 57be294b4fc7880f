"""`koord report`: what was lent, used, evicted and saved, as a table, CSV, JSON or a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koord.cli import structured
from koord.cli.options import Number, kube_options
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.api.kubernetes.pod import Pod
    from koord.api.protocol.crd.recommendation import Recommendation
    from koord.kube.client import Client
    from koord.operate.sizing import Sizing
    from koord.operate.worth import By, Entry, NodeSize, Worth

BYS: tuple[By, ...] = ("namespace", "quota", "workload")
API_WITHIN_S = 10.0
_COLUMNS = (
    *("namespace", "quota", "workload", "core_hours_lent", "core_hours_used", "gib_hours_lent", "gib_hours_used"),
    *("evicted", "node_hours_saved"),
)


@click.command(
    epilog="""\b
Example: koord report --since 7d --prometheus http://localhost:9090
         koord report --since 12h -o html > report.html
         koord report --prometheus http://localhost:9090 --node-price 1.2 -o csv

\b
Lent is what pods requested of batch and mid resources while they ran, in core-hours and GiB-hours. Saved is that as
hours of nodes that would otherwise be needed. Without --prometheus the API is asked, which has no history."""
)
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="How far back, as in 7d, 12h or 90m.")
@click.option("--prometheus", "url", default="", metavar="URL", help="A Prometheus that scrapes koord.")
@click.option(
    "--prometheus-token-file",
    "token_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Has a bearer token for it.",
)
@click.option(
    "--prometheus-ca", "ca", type=click.Path(exists=True, dir_okay=False), help="Authority of its certificate."
)
@click.option("--by", type=click.Choice(BYS), help="Only this table.")
@click.option(
    "--node-cpu",
    default=32.0,
    show_default=True,
    type=Number(min=0.1),
    help="Cores of a node to compare with.",
)
@click.option(
    "--node-memory", default=128.0, show_default=True, type=Number(min=0.1), metavar="GIB", help="Its memory."
)
@click.option("--node-price", type=Number(min=0), help="Its price for an hour.")
@kube_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "csv", "json", "yaml", "html")),
    default="table",
    show_default=True,
    help="How to print the result.",
)
def report(
    since: str,
    url: str,
    token_file: Path | None,
    ca: str | None,
    by: By | None,
    node_cpu: float,
    node_memory: float,
    node_price: float | None,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show what co-location was worth: lent, used, evicted and saved, by namespace, quota and workload."""
    from koord.operate.page import page
    from koord.operate.since import parse
    from koord.operate.worth import NodeSize

    try:
        window_s = parse(since)
    except ValueError as error:
        raise click.UsageError(f"--since {error}") from None
    node = NodeSize(node_cpu, node_memory, node_price)
    with Progress() as progress:
        progress.say("asking Prometheus" if url else "looking at the cluster")
        now_s = time.time()
        if url:
            measured = _from_prometheus(url, token_file, ca, now_s, window_s)
            sizings, note = _right_sizing(kubeconfig, context)
        else:
            measured, sizings, note = _from_the_api(kubeconfig, context, now_s, window_s)
        noted = replace(measured, notes=(*measured.notes, *((note,) if note else ())))
    if output == "html":
        click.echo(page(noted, node, sizings), nl=False)
    elif output == "csv":
        click.echo(_csv(noted, node), nl=False)
    elif output in ("json", "yaml"):
        structured.say(_structured(noted, node, sizings), output)
    else:
        _print(noted, node, (by,) if by else BYS, sizings)
    return 0


def _from_prometheus(url: str, token_file: Path | None, ca: str | None, now_s: float, window_s: float) -> Worth:
    from koord.operate.live.prometheus import Prometheus
    from koord.operate.worth import of_series

    token = token_file.read_text().strip() if token_file is not None else ""
    return of_series(Prometheus(url, token=token, ca=ca).recorded(now_s - window_s, now_s))


def _from_the_api(
    kubeconfig: str | None, context: str | None, now_s: float, window_s: float
) -> tuple[Worth, list[Sizing], str]:
    import asyncio

    from koord.api import kinds
    from koord.api.kinds import Kind
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, Forbidden, NotFound
    from koord.operate.estimate import of_objects

    lacking: list[str] = []

    async def all_of(client: Client, kind: Kind[Any]) -> list[Any]:
        try:
            return list(await client.list(kind))
        except NotFound:
            # koord's kinds are not installed, so there are no measurements.
            return []
        except Forbidden:
            lacking.append(f"list {kind.plural}{f'.{kind.group}' if kind.group else ''}")
            return []

    async def look() -> tuple[Worth, list[Sizing], str]:
        async with Client.from_config(kubeconfig, context) as client:
            wanted = (kinds.PODS, kinds.NODES, kinds.NODE_METRICS, kinds.EVENTS)
            pods, nodes, metrics, events = [await all_of(client, kind) for kind in wanted]
            recommendations, note = await _recommendations(client)
        if lacking:
            raise click.ClickException(
                f"you may not read all that a report takes; missing rights: {', '.join(lacking)}"
            )
        return of_objects(pods, nodes, metrics, events, now_s, window_s), _sizings(recommendations, pods), note

    try:
        return asyncio.run(look())
    except ApiError as error:
        raise click.ClickException(str(error)) from None


def _right_sizing(kubeconfig: str | None, context: str | None) -> tuple[list[Sizing], str]:
    """What the cluster's Recommendations would save, or why that is unknown. Errors are not raised, since a report from
    Prometheus needs no cluster."""
    import asyncio

    from koord.api.kinds import PODS
    from koord.api.machinery.faults import BadInput
    from koord.kube.client import Client
    from koord.kube.errors import ApiError

    async def look() -> tuple[list[Sizing], str]:
        async with asyncio.timeout(API_WITHIN_S), Client.from_config(kubeconfig, context) as whole:
            client = whole.limited(attempts=1)
            recommendations, note = await _recommendations(client)
            pods = list(await client.list(PODS)) if recommendations else []
        return _sizings(recommendations, pods), note

    try:
        return asyncio.run(look())
    except TimeoutError:
        why = f"no answer within {API_WITHIN_S:g} s"
    except (ApiError, BadInput, OSError) as error:
        why = str(error)
    return [], f"what right-sizing would save is not known, since the cluster cannot be asked: {why}"


async def _recommendations(client: Client) -> tuple[list[Recommendation], str]:
    """The Recommendations. A user without access to them still gets the rest of the report."""
    from koord.api.kinds import RECOMMENDATIONS
    from koord.kube.errors import Forbidden, NotFound

    try:
        return list(await client.list(RECOMMENDATIONS)), ""
    except NotFound:
        return [], ""
    except Forbidden:
        kind = f"{RECOMMENDATIONS.plural}.{RECOMMENDATIONS.group}"
        return [], f"what right-sizing would save is not known: you may not list {kind}"


def _sizings(recommendations: Sequence[Recommendation], pods: Sequence[Pod]) -> list[Sizing]:
    """Largest first; workloads whose requests are right are left out."""
    from koord.offline.recommend import advised
    from koord.operate.sizing import Sizing
    from koord.operate.worth import GIB

    by_workload: dict[str, dict[str, int]] = {}
    for row in advised(recommendations, pods):
        name = f"{row.namespace}/{row.workload or f'selector of {row.recommendation}'}"
        saved = by_workload.setdefault(name, {})
        for resource, amount in row.saving.items():
            saved[resource] = saved.get(resource, 0) + amount
    sizings = [
        Sizing(name, saved.get("cpu", 0) / 1000, saved.get("memory", 0) / GIB) for name, saved in by_workload.items()
    ]
    return sorted(
        (sizing for sizing in sizings if sizing.cores or sizing.gib),
        key=lambda sizing: (-sizing.cores, sizing.workload),
    )


def _print(worth_report: Worth, node: NodeSize, shown: tuple[By, ...], sizings: Sequence[Sizing]) -> None:
    right = frozenset(range(1, 8))
    for by in shown:
        lines = [
            (by.upper(), "CORE-H LENT", "USED", "GIB-H LENT", "USED", "EVICTED", "NODE-H SAVED", *_price_head(node))
        ]
        lines += [_line(name, entry, worth_report, node) for name, entry in worth_report.by(by).items()]
        lines.append(_line("all", worth_report.total, worth_report, node))
        click.echo(table(lines, right=right))
        click.echo()
    of_nodes = worth_report.published
    nobody = max(0.0, of_nodes.core_hours - worth_report.total.lent.core_hours)
    click.echo(
        f"nodes offered {of_nodes.core_hours:.2f} core-hours and {of_nodes.gib_hours:.2f} GiB-hours;"
        f" nobody requested {nobody:.2f} core-hours of it"
    )
    if sizings:
        click.echo(f"\n{_sizing_table(sizings, node)}")
    for note in (f"from {worth_report.source}", *worth_report.notes):
        click.echo(f"note: {note}", err=True)


def _sizing_table(sizings: Sequence[Sizing], node: NodeSize) -> str:
    from koord.operate.sizing import nodes, summed

    whole = summed(sizings)
    lines = [("RIGHT-SIZING WOULD SAVE", "CORES", "GIB", "NODES")]
    for sizing in (*sizings, whole):
        lines.append(
            (sizing.workload, f"{sizing.cores:z.2f}", f"{sizing.gib:z.2f}", f"{nodes(whole, sizing, node):z.2f}")
        )
    return table(lines, right=frozenset((1, 2, 3)))


def _price_head(node: NodeSize) -> tuple[str, ...]:
    return () if node.price is None else ("WORTH",)


def _line(name: str, entry: Entry, worth_report: Worth, node: NodeSize) -> tuple[str, ...]:
    hours = worth_report.node_hours(entry, node)
    worth = () if node.price is None else (f"{hours * node.price:.2f}",)
    figures = (entry.lent.core_hours, entry.used.core_hours, entry.lent.gib_hours, entry.used.gib_hours)
    return (name, *(f"{figure:.2f}" for figure in figures), str(entry.evicted), f"{hours:.2f}", *worth)


def _figures(entry: Entry, worth_report: Worth, node: NodeSize) -> dict[str, Any]:
    hours = worth_report.node_hours(entry, node)
    return {
        "lent": {"coreHours": entry.lent.core_hours, "gibHours": entry.lent.gib_hours},
        "used": {"coreHours": entry.used.core_hours, "gibHours": entry.used.gib_hours},
        "evicted": entry.evicted,
        "saved": {"nodeHours": hours, **({} if node.price is None else {"cost": hours * node.price})},
    }


def _structured(worth_report: Worth, node: NodeSize, sizings: Sequence[Sizing]) -> dict[str, Any]:
    from koord.api.text.timestamp import from_seconds as timestamp
    from koord.operate.sizing import nodes, summed

    whole = summed(sizings)

    def sized(sizing: Sizing) -> dict[str, float]:
        return {"cores": sizing.cores, "gib": sizing.gib, "nodes": nodes(whole, sizing, node)}

    parts = {
        f"{by}s": [{by: name, **_figures(entry, worth_report, node)} for name, entry in worth_report.by(by).items()]
        for by in BYS
    }
    return {
        "from": timestamp(worth_report.from_s),
        "until": timestamp(worth_report.until_s),
        "source": worth_report.source,
        "notes": list(worth_report.notes),
        "offered": {"coreHours": worth_report.published.core_hours, "gibHours": worth_report.published.gib_hours},
        "total": _figures(worth_report.total, worth_report, node),
        **parts,
        "rightSizing": {
            "total": sized(whole),
            "workloads": [{"workload": sizing.workload, **sized(sizing)} for sizing in sizings],
        },
    }


def _csv(worth_report: Worth, node: NodeSize) -> str:
    import csv
    import io

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_COLUMNS, *(() if node.price is None else ("worth",))])
    for charged, entry in sorted(worth_report.entries.items()):
        hours = worth_report.node_hours(entry, node)
        worth = () if node.price is None else (f"{hours * node.price:.6f}",)
        figures = (entry.lent.core_hours, entry.used.core_hours, entry.lent.gib_hours, entry.used.gib_hours)
        rows.writerow([*charged, *(f"{figure:.6f}" for figure in figures), entry.evicted, f"{hours:.6f}", *worth])
    return text.getvalue()
