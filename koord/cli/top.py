"""`koord top nodes` and `koord top pods`: capacity, requests and usage, by priority band.

`koord top gangs` is in `top_gangs`, `koord top pending` in `top_pending`, `koord top cpus` in `top_cpus`,
`koord top devices` in `top_devices`, `koord top quotas` in `quota_tables`.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.cluster_names import nodes as node_names
from koord.cli.groups import Group
from koord.cli.options import kube_options, namespaces_option, output_option
from koord.cli.tables import heading, short, table

if TYPE_CHECKING:
    from koord.operate.top import NodeTop, PageCache, Top

SORTS: Final = ("name", "cpu", "memory", "requested-cpu", "requested-memory", "pods")
POD_SORTS: Final = ("name", "cpu", "memory", "requested-cpu", "requested-memory", "node")
_FILL: Final[Mapping[str, str]] = {"prod": "█", "mid": "▓", "batch": "▒", "free": "░", "none": "▪"}
_PLAIN: Final[Mapping[str, str]] = {"prod": "#", "mid": "=", "batch": "+", "free": "-", "none": "*"}
_COLOURS: Final = {"prod": "green", "mid": "cyan", "batch": "yellow", "free": "magenta", "none": "white"}
_BARS: Final = 4
LEAST_BAR, MOST_BAR = 4, 24
MOST_NAMED: Final = 5
"""Silent nodes that are named; the rest are counted."""
WATCH_S: Final = 2.0


watch_option = click.option("-w", "--watch", is_flag=True, help=f"Again every {WATCH_S:g} seconds, until Ctrl-C.")


def _repeated(watch: bool, show: Callable[[], int]) -> int:
    """Shows once, or repeatedly: a terminal is cleared each time, and in a pipe an empty line separates the rounds."""
    code = 0 if watch else show()
    first = True
    while watch:
        if sys.stdout.isatty():
            click.clear()
        elif not first:
            click.echo()
        code, first = show(), False
        sys.stdout.flush()
        time.sleep(WATCH_S)
    return code


@click.group(cls=Group, invoke_without_command=True, epilog="Example: koord top nodes --sort requested-cpu")
@click.pass_context
def top(ctx: click.Context) -> None:
    """Show capacity, requests and usage of nodes and pods, by priority band: prod, mid, batch, free.

    Without a subcommand, shows nodes. `gangs` are jobs whose pods are placed together.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(nodes)


@top.command(epilog="Example: koord top nodes --sort cpu -o wide")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="The fullest first.")
@click.option("--bars/--no-bars", default=None, help="Draw bars; otherwise on a terminal only.")
@watch_option
@click.option("--all", "everything", is_flag=True, help="All nodes, also where the terminal is too small for them.")
@kube_options
@output_option("table", "wide", "json", "yaml")
def nodes(
    sort: str = "name",
    bars: bool | None = None,
    watch: bool = False,
    everything: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    output: str = "table",
) -> int:
    """Show nodes: capacity, requests and usage; and for each band what it may request (LENT), uses and has left. On a
    terminal, bars show the bands of a node; -o wide has columns of each band instead."""
    return _repeated(watch, lambda: _show_nodes(sort, bars, everything, kubeconfig, context, output))


def _show_nodes(
    sort: str, bars: bool | None, everything: bool, kubeconfig: str | None, context: str | None, output: str
) -> int:
    from koord.operate.top import SORTS as SORTED
    from koord.operate.top import for_programs

    usage = asyncio.run(_look(kubeconfig, context))
    if output in ("json", "yaml"):
        structured.say(for_programs(usage), output)
        return 0
    ordered = sorted(usage.nodes, key=lambda node_top: (*SORTED[sort](node_top), node_top.name))
    is_terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size((100, 30))
    drawn = is_terminal if bars is None else bars
    shown = ordered
    above = _picture(usage, size.columns, drawn)
    lines = size.lines - len(above.splitlines()) - 5
    if is_terminal and not everything and len(ordered) > lines:
        shown = ordered[: max(3, lines - 1)]
    click.echo(above)
    if shown:
        most = None if bars else size.columns
        click.echo("\n" + node_table(shown, most, drawn, wide=output == "wide"))
    if len(shown) < len(ordered):
        click.echo(f"and {counted(len(ordered) - len(shown), 'more node')}: --all shows them, --sort other ones first")
    return 0


@top.command(epilog="Example: koord top pods -n shop --sort cpu")
@namespaces_option("pods")
@click.option("--sort", type=click.Choice(POD_SORTS), default="name", show_default=True, help="The largest first.")
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def pods(namespace: str, sort: str, watch: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show pods: their band, node, requests and usage."""
    return _repeated(watch, lambda: _show_pods(namespace, sort, kubeconfig, context, output))


def _show_pods(namespace: str, sort: str, kubeconfig: str | None, context: str | None, output: str) -> int:
    from msgspec.structs import replace

    from koord.operate.top import POD_SORTS as SORTED
    from koord.operate.top import pods_for_programs

    usage = asyncio.run(_look(kubeconfig, context))
    chosen = [pod for pod in usage.pods if not namespace or pod.key.startswith(f"{namespace}/")]
    ordered = sorted(chosen, key=lambda pod: (*SORTED[sort](pod), pod.key))
    if output in ("json", "yaml"):
        structured.say(pods_for_programs(replace(usage, pods=tuple(ordered))), output)
        return 0
    if not ordered:
        click.echo("there are no pods" + (f" in {namespace}" if namespace else ""))
        return 0
    caches = any(pod.page_cache is not None for pod in ordered)
    heads = ("POD", "BAND", "NODE", "CPU", "USED", "MEMORY", "USED", *(("PAGE CACHE",) if caches else ()))
    rows: list[tuple[str, ...]] = [heads]
    for pod in ordered:
        used = pod.used or {}
        cells = [
            cell
            for name in ("cpu", "memory")
            for cell in (short(name, pod.requested[name]), short(name, used[name]) if used else "-")
        ]
        cells += [_cache_cell(pod.page_cache)] if caches else []
        rows.append((pod.key, pod.band, pod.node or "-", *cells))
    click.echo(table(rows, right=frozenset(range(3, len(heads))), colours=_COLOURS))
    return 0


@top.command(epilog="Example: koord top gangs -n shop")
@namespaces_option("gangs")
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def gangs(namespace: str, watch: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show gangs: how many pods each needs, has, and has on nodes, and how long its oldest pending pod has waited.
    `koord explain podgroup/NAME` explains why."""
    from koord.cli.top_gangs import show_gangs

    return _repeated(watch, lambda: show_gangs(namespace, kubeconfig, context, output))


@top.command(epilog="Example: koord top pending -n research")
@namespaces_option("pending pods")
@click.option(
    "--scheduler",
    "scheduler_url",
    metavar="URL",
    default="",
    help="Address of the schedulers' health endpoint, where the leader lists reasons. Known beside a koord up.",
)
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def pending(
    namespace: str, scheduler_url: str, watch: bool, kubeconfig: str | None, context: str | None, output: str
) -> int:
    """Show why pods are pending: each reason with its pods, then the pods, those that wait longest first.

    The plugin and its nodes come from the scheduler. Where it cannot be asked, the reason of the pod's condition
    counts.
    """
    from koord.cli.top_pending import show_pending

    url = scheduler_url.rstrip("/")
    return _repeated(watch, lambda: show_pending(namespace, url, kubeconfig, context, output))


@top.command(epilog="Example: koord top quotas --bars")
@click.option("--bars/--no-bars", default=None, help="Draw bars; otherwise on a terminal only.")
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def quotas(bars: bool | None, watch: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show the trees of elastic quotas: what each uses, requests and may use (RUNTIME), and its min and max.

    In a bar, # is usage and | the end of the share. `koord explain POD` shows what a pod of a full quota waits for.
    """
    from koord.cli.quota_tables import show_quotas

    return _repeated(watch, lambda: show_quotas(bars, kubeconfig, context, output))


@top.command(epilog="Example: koord top cpus --node n1")
@click.option("--node", default="", shell_complete=node_names, help="Only this node.")
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def cpus(node: str, watch: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show the CPUs of every NUMA node: how many are free, how many of those in whole cores, and which pods hold some.
    `koord explain node/NAME` draws them."""
    from koord.cli.top_cpus import show

    return _repeated(watch, lambda: show(node, kubeconfig, context, output))


@top.command(epilog="Example: koord top devices --node gpu-a")
@click.option("--node", default="", shell_complete=node_names, help="Only devices of this node.")
@click.option("--free", is_flag=True, help="Only devices that have room.")
@watch_option
@kube_options
@output_option("table", "json", "yaml")
def devices(node: str, free: bool, watch: bool, kubeconfig: str | None, context: str | None, output: str) -> int:
    """Show GPUs, RDMA cards and FPGAs: where they are attached, and which pods hold how much of each."""
    from koord.cli.top_devices import show

    return _repeated(watch, lambda: show(node, free, kubeconfig, context, output))


async def _look(kubeconfig: str | None, context: str | None) -> Top:
    from koord.api import kinds
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.operate.top import NO_USAGE, from_metrics_server, from_node_metrics, top_of

    try:
        async with Client.from_config(kubeconfig, context) as client:
            all_nodes, all_pods = await client.list(kinds.NODES), await client.list(kinds.PODS)
            usage = NO_USAGE
            # Not every cluster has koord's agents.
            with suppress(NotFound):
                usage = from_node_metrics(await client.list(kinds.NODE_METRICS))
            if not usage.nodes:
                try:
                    paths = [f"/apis/metrics.k8s.io/v1beta1/{name}" for name in ("nodes", "pods")]
                    usage = from_metrics_server(*[(await client.raw("GET", path))[2] for path in paths])
                except ApiError:
                    usage = NO_USAGE  # No metrics server either; a broken one must not hide the rest.
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    return top_of(all_nodes, all_pods, usage if usage.nodes else NO_USAGE)


def bar(parts: Sequence[tuple[str, float]], width: int, fill: Mapping[str, str] = _FILL) -> str:
    """Shares of a whole, by band. An arrow marks a sum above the whole."""
    text, done, total = "", 0, 0.0
    for band, share in parts:
        total += share
        until = min(width, round(total * width))
        text += click.style(fill[band] * (until - done), fg=_COLOURS[band]) if until > done else ""
        done = max(done, until)
    if total > 1.0 + 1 / width:
        return text + ">"
    return text + ("·" if fill is _FILL else ".") * (width - done) + " "


def _picture(usage: Top, columns: int, drawn: bool) -> str:
    """One line for all nodes together."""
    from koord.operate.top import in_all

    whole = in_all(usage)
    waiting = sum(1 for pod in usage.pods if not pod.node)
    not_ready = sum(1 for node in usage.nodes if not node.ready)
    nodes = counted(len(usage.nodes), "node") + (f" ({not_ready} not ready)" if not_ready else "")
    counts = f"{nodes}, {counted(whole.pods, 'pod')}"
    counts += f", {waiting} without a node" if waiting else ""
    source_words = f"usage from {usage.source}" if usage.source else "nobody reports usage"
    lines = [f"{heading(counts)}   {source_words}"]
    if usage.silent:
        some = ", ".join(usage.silent[:MOST_NAMED]) + (", ..." if len(usage.silent) > MOST_NAMED else "")
        lines.append(f"not in what is used: {counted(len(usage.silent), 'node')} without a report ({some})")
    width = max(LEAST_BAR, min(60, columns - 50))
    for name in ("cpu", "memory"):
        for what, parts, number in (
            ("requested", _requested(whole, name), whole.requested_in_all(name)),
            ("used", _used(whole, name), (whole.used or {}).get(name)),
        ):
            share = "-" if number is None else f"{whole.share(number, name):.0%}"
            amount = "-" if number is None else f"{short(name, number)} of {short(name, whole.allocatable[name])}"
            drawing = f"   {bar(parts, width, _fill())}" if drawn else ""
            lines.append(f"{name:<7}{what:<11}{share:>5}   {amount:<18}{drawing}".rstrip())
    lines += ["", _bands(whole)]
    if drawn:
        lines.append("   ".join(click.style(f"{_fill()[band]} {_word(band)}", fg=_COLOURS[band]) for band in _FILL))
    return "\n".join(lines)


def _bands(whole: NodeTop) -> str:
    """What each band may request, uses and has left, over all nodes."""
    rows: list[Sequence[str]] = [("BAND", *(f"{name} {word}" for name in ("CPU", "MEMORY") for word in _WORDS))]
    for band in _FILL:
        if band in ("prod", *whole.lent_by_band) or _is_there(whole, band):
            cells = [cell for name in ("cpu", "memory") for cell in _band_cells(whole, band, name)]
            rows.append((_word(band), *cells))
    return table(rows, right=frozenset(range(1, 7)), colours=_COLOURS)


_WORDS: Final = ("LENT", "USED", "LEFT")


def _band_cells(node: NodeTop, band: str, name: str) -> list[str]:
    has, left = node.has(band, name), node.left(band, name)
    used = None if node.used is None else node.used_by_band[band][name]
    return ["-" if amount is None else _signed(name, amount) for amount in (has, used, left)]


def _signed(name: str, number: int) -> str:
    return short(name, number) if number >= 0 else f"-{short(name, -number)}"


def node_table(shown: Sequence[NodeTop], most: int | None, drawn: bool, *, wide: bool = False) -> str:
    """One line per node. Bars are drawn if the lines with them are no longer than `most`."""
    bands = [
        band
        for band in _FILL
        if wide and any(band == "prod" or band in node.lent_by_band or _is_there(node, band) for node in shown)
    ]
    heads = ["NODE", "PODS"]
    for name in ("CPU", "MEMORY"):
        heads += [name, "REQUESTED", "USED"]
        heads += [f"{_word(band).upper()} {word}" for band in bands for word in _WORDS]
        if name == "MEMORY" and wide and any(node.page_cache is not None for node in shown):
            heads += ["PAGE CACHE"]
        heads += ["YARN"] if any(node.yarn["cpu"] or node.yarn["memory"] for node in shown) else []

    def rows_with(width: int) -> list[Sequence[str]]:
        rows: list[Sequence[str]] = [heads]
        for node in shown:
            mark = " (cordoned)" if node.cordoned else "" if node.ready else " (not ready)"
            extra = frozenset(heads)
            cells = [cell for name in ("cpu", "memory") for cell in _cells(node, name, width, bands, extra)]
            rows.append((f"{node.name}{mark}", str(node.pods), *cells))
        return rows

    if drawn:
        # Bars fill the rest of the terminal; if there is too little room, they are left out.
        narrow = max(len(click.unstyle(line)) for line in _drawn_table(rows_with(LEAST_BAR)).splitlines())
        room = shutil.get_terminal_size((100, 30)).columns - narrow if most is None else most - narrow
        if room >= 0 or most is None:
            # Bars contain colour codes, so their string length is not their visible width.
            return _drawn_table(rows_with(min(MOST_BAR, LEAST_BAR + max(0, room) // _BARS)))
    return table(rows_with(0), right=frozenset(range(1, len(heads))))


def _is_there(node: NodeTop, band: str) -> bool:
    return any(by_band[band][name] for by_band in (node.requested, node.used_by_band) for name in ("cpu", "memory"))


def _cells(node: NodeTop, name: str, width: int, bands: Sequence[str], heads: Collection[str]) -> list[str]:
    has, asked = node.allocatable[name], node.requested_in_all(name)
    cells = [short(name, has), _share(f"{node.share(asked, name):.0%}", _requested(node, name), width)]
    used = "-" if node.used is None else f"{node.share(node.used[name], name):.0%}"
    cells.append(_share(used, _used(node, name), width))
    cells += [cell for band in bands for cell in _band_cells(node, band, name)]
    if name == "memory" and "PAGE CACHE" in heads:
        cells.append(_cache_cell(node.page_cache))
    return [*cells, short(name, node.yarn[name])] if "YARN" in heads else cells


def _cache_cell(cache: PageCache | None) -> str:
    """The page cache, apart from usage: the kernel can reclaim it."""
    if cache is None:
        return "-"
    cold = "" if cache.cold is None else f" ({short('memory', cache.cold)} cold)"
    return f"{short('memory', cache.total)}{cold}"


def _share(text: str, parts: Sequence[tuple[str, float]], width: int) -> str:
    return f"{text:>4} {bar(parts, width, _fill())}" if width else text


def _drawn_table(rows: Sequence[Sequence[str]]) -> str:
    plain = [[click.unstyle(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in plain) for i in range(len(rows[0]))]
    lines = []
    for row, bare in zip(rows, plain, strict=True):
        cells = zip(row, bare, widths, strict=True)
        lines.append("  ".join(cell + " " * (width - len(text)) for cell, text, width in cells))
    return "\n".join(line.rstrip() for line in lines)


def _requested(node: NodeTop, name: str) -> list[tuple[str, float]]:
    return [(band, node.share(node.requested[band][name], name)) for band in _FILL]


def _used(node: NodeTop, name: str) -> list[tuple[str, float]]:
    """By band; usage outside pods, or without a band, comes last."""
    if node.used is None:
        return []
    parts = {band: node.share(node.used_by_band[band][name], name) for band in _FILL}
    parts["none"] = max(0.0, node.share(node.used[name], name) - sum(parts[band] for band in parts if band != "none"))
    return list(parts.items())


def _word(band: str) -> str:
    return "other" if band == "none" else band


def _fill() -> Mapping[str, str]:
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower()
    return _FILL if encoding.startswith("utf") else _PLAIN
