"""`koord colocation policy`: shows the policy that nodes lend by, and switches it after a preview."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Literal

import click

from koord.api.configuration.lending_policies import ADAPTIVE, CALCULATE_POLICIES, PEERS
from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.options import kube_options, output_option, pool_option
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.api.text.selector import LabelMatcher
    from koord.manager.policy_switch import PolicyChoice
    from koord.offline.policy_preview import NodePolicyPreview, PolicyPreview
    from koord.operate.live.policies import PolicyResult

MOST_NODES: Final = 20
MOST_PODS: Final = 10
GIB: Final = 1 << 30


@click.command(epilog="Example: koord colocation policy adaptive -l pool=batch --dry-run")
@click.argument("name", required=False, metavar="[POLICY]")
@pool_option
@click.option(
    "--resource",
    type=click.Choice(["cpu", "memory"]),
    help="Switch only the policy of this resource. Without it, of both.",
)
@click.option(
    "--mark",
    type=click.IntRange(1, 100),
    metavar="PERCENT",
    help="With adaptive: CPU usage of a node that batch pods must not exceed. 85 where nothing is configured.",
)
@click.option("--dry-run", is_flag=True, help="Only show what nodes would lend; nothing is written.")
@click.option("--yes", is_flag=True, help="Switch without asking; needed where there is no terminal.")
@kube_options
@output_option("table", "json", "yaml")
def policy(
    name: str | None,
    selector: str,
    resource: Literal["cpu", "memory"] | None,
    mark: int | None,
    dry_run: bool,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show the policy that nodes lend by, or switch it: adaptive, usage, maxUsageRequest, or request (memory only).

    Before the switch it shows what each node lends now and would lend, and asks. Nothing restarts. To switch gradually:
    koord colocation rollout start adaptive.

    The exit code is 1 if the user answered no to the question.
    """
    from koord.api.text.selector import parse_labels
    from koord.operate.live import colocation, policies

    pool = parse_labels(selector) if selector else None
    scope = colocation.Scope(pool=pool)
    if name is None:
        for given, flag in ((resource, "--resource"), (mark, "--mark"), (dry_run, "--dry-run"), (yes, "--yes")):
            if given:
                raise click.UsageError(f"{flag} goes with a POLICY to switch to: {', '.join(CALCULATE_POLICIES)}")
        _say(colocation.run(lambda client: policies.look(client, scope), kubeconfig, context), output)
        return 0
    choice = _choice(name, resource, mark)
    outlook = _preview(choice, pool, kubeconfig, context)
    if not dry_run and not yes and not sys.stdin.isatty():
        raise click.UsageError(
            "it asks before it switches, and there is no terminal to ask on: add --yes, or --dry-run to see what would"
            " change"
        )
    if output == "table" or not (dry_run or yes):
        click.echo(outlook_table(outlook, adaptive=choice.name == ADAPTIVE), err=output != "table")
    if dry_run:
        if output != "table":
            structured.say(outlook, output)
        click.echo("note: this was a dry run: nothing was changed", err=True)
        return 0
    if not yes and not _agreed(choice, scope):
        click.echo("nothing was changed", err=True)
        return 1
    colocation.run(lambda client: policies.switch(client, pool, choice), kubeconfig, context)
    if output == "table":
        verb = "is" if len(choice.resources) == 1 else "are"
        click.echo(f"{_what(choice)} {verb} lent by {choice.name} for {scope}; the manager publishes the new amounts")
        if choice.name in PEERS:
            click.echo(f"note: nodes report by {choice.name} within a few minutes, and lend by usage until then")
        if not outlook.nodes:
            click.echo("note: there is no matching node now", err=True)
    else:
        _say(colocation.run(lambda client: policies.look(client, scope), kubeconfig, context), output)
    return 0


def _choice(name: str, resource: Literal["cpu", "memory"] | None, mark: int | None) -> PolicyChoice:
    from koord.manager.policy_switch import PolicyChoice

    if name == "request" and resource is None:
        raise click.UsageError("request is a policy of memory alone: add --resource memory")
    return PolicyChoice(name, ("cpu", "memory") if resource is None else (resource,), mark)


def _preview(
    choice: PolicyChoice, pool: LabelMatcher | None, kubeconfig: str | None, context: str | None
) -> PolicyPreview:
    from koord.api.configuration.slo_config_types import COLOCATION
    from koord.api.kinds import NODES
    from koord.api.text.manifest import Manifests
    from koord.manager.policy_switch import require_effect
    from koord.offline.live import snapshot
    from koord.offline.policy_preview import policy_preview
    from koord.operate.live import colocation, policies

    data = colocation.run(policies.stored, kubeconfig, context)
    text, config = policies.configured(data, choice, pool)
    with Progress() as progress:
        manifests = snapshot.lending(kubeconfig, context, lambda kind: progress.say(f"listing {kind}"))
    outlook = policy_preview(manifests, {COLOCATION: text}, pool, time.time())
    metas = [node.metadata for node in Manifests(tuple(manifests), (), (), {}).of(NODES)]
    chosen = [(meta.name, meta.labels) for meta in metas if meta.name in outlook.nodes]
    require_effect(config, choice, chosen, of_pool=pool is not None)
    return outlook


def _agreed(choice: PolicyChoice, scope: object) -> bool:
    click.echo(f"Lend {_what(choice)} by {choice.name} on {scope}? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _what(choice: PolicyChoice) -> str:
    return " and ".join(choice.resources)


def _say(result: PolicyResult, output: str) -> None:
    if output != "table":
        structured.say(result, output)
        return
    rows = [("CPU", "MEMORY", "SAFETY MARK", "NODES", "LEARNED", "SET IN")]
    for group in result.pools:
        mark = "-" if group.cpu_safety_mark_percent is None else f"{group.cpu_safety_mark_percent}%"
        rows.append(
            (group.cpu, group.memory, mark, _some(group.nodes), f"{group.learned} of {len(group.nodes)}", group.set_in)
        )
    click.echo(table(rows))
    for fault in result.configuration:
        click.echo(f"note: {fault}", err=True)


def _some(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes) if len(nodes) <= 3 else f"{', '.join(nodes[:2])} and {len(nodes) - 2} more"


def outlook_table(outlook: PolicyPreview, *, adaptive: bool = False) -> str:
    """`adaptive`: the change is to the policy that learns."""
    rows = [("NODE", "BATCH-CPU", "BATCH-MEMORY", "WHY")]
    for name, node in list(outlook.nodes.items())[:MOST_NODES]:
        why = node.why or ("" if node.has_learned or not adaptive else "nothing learned yet: by usage at first")
        rows.append((name, _cpu(node), _memory(node), why or "-"))
    lines = [table(rows)]
    if len(outlook.nodes) > MOST_NODES:
        lines.append(f"and {counted(len(outlook.nodes) - MOST_NODES, 'more node')} (all of them with -o json)")
    before, after = (
        (sum(amounts) for amounts in zip(*map(_cpus, outlook.nodes.values()), strict=True)) if outlook.nodes else (0, 0)
    )
    lines.append(f"in all: {before / 1000:g} -> {after / 1000:g} CPUs on {counted(len(outlook.nodes), 'node')}")
    lines += [f"  {gone.pod} on {gone.node} would be evicted: {gone.why}" for gone in outlook.evictions[:MOST_PODS]]
    return "\n".join(lines)


def _cpus(node: NodePolicyPreview) -> tuple[int, int]:
    return node.batch_cpu_before or 0, node.batch_cpu_after or 0


def _cpu(node: NodePolicyPreview) -> str:
    before, after = (
        "none" if amount is None else f"{amount / 1000:g}" for amount in (node.batch_cpu_before, node.batch_cpu_after)
    )
    return f"{before} -> {after}"


def _memory(node: NodePolicyPreview) -> str:
    before, after = (
        "none" if amount is None else f"{amount / GIB:.1f}Gi"
        for amount in (node.batch_memory_before, node.batch_memory_after)
    )
    return f"{before} -> {after}"
