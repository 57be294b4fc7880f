"""`koord agent --once`: one round on a host for the pods in manifests, written or only printed (dry run)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koord.cli import structured
from koord.cli.inputs import read_manifests, say_of
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.agent.once import Once
    from koord.api.configuration.features import AgentGate
    from koord.api.kubernetes.node import Node
    from koord.api.text.manifest import Manifests


def run_once(
    host_root: str,
    cgroup_root: str,
    state_dir: Path,
    node_name: str,
    gates: Mapping[AgentGate, bool],
    paths: tuple[str, ...],
    output: str,
    *,
    dry_run: bool,
) -> int:
    """A real round is recorded like a daemon's, so `koord agent restore` can undo it. A dry run reads no record."""
    from koord.agent.once import OnceError, once
    from koord.api import kinds
    from koord.api.kubernetes.runnable import RunnablePod
    from koord.api.machinery.codec import convert
    from koord.api.text.timestamp import from_seconds

    if not Path(host_root).is_dir():
        raise OnceError(f"--host-root {host_root}: there is no such folder")
    manifests = read_manifests(paths).require_valid()
    say_of(manifests, {})
    node = _node(manifests, node_name)
    name = node.metadata.name if node else node_name

    def own(objects: list[Any]) -> Any:
        return next((candidate for candidate in objects if not name or candidate.metadata.name == name), None)

    slo, metric = own(manifests.of(kinds.NODE_SLOS)), own(manifests.of(kinds.NODE_METRICS))
    pods = [convert(RunnablePod, item.data) for item in manifests.items if item.kind is kinds.PODS]
    at = from_seconds(time.time())
    carried_out = partial(
        once, host_root, cgroup_root, node, slo.spec if slo else None, pods, metric, gates,
        now_s=time.monotonic(), update_time=at, wait=time.sleep,
    )  # fmt: skip
    outcome = carried_out() if dry_run else _recorded(carried_out, host_root, cgroup_root, state_dir, at)
    if output != "table":
        structured.say(outcome, output)
    else:
        _print(outcome, state_dir, host_root)
    for absent in outcome.absent:
        click.echo(f"note: pod {absent.pod} is left out: {absent.why}", err=True)
    if slo is None:
        click.echo("note: no NodeSLO is given for the node, so nothing is wanted of it", err=True)
    return 1 if outcome.refused and not dry_run else 0


def _node(manifests: Manifests, node_name: str) -> Node | None:
    from koord.agent.once import OnceError
    from koord.api import kinds

    nodes = manifests.of(kinds.NODES)
    names = ", ".join(node.metadata.name for node in nodes)
    chosen = [node for node in nodes if not node_name or node.metadata.name == node_name]
    if len(chosen) > 1:
        raise OnceError(f"one host is one node, and there are several: {names}. Say which by --node-name.")
    if nodes and not chosen:
        raise OnceError(f"--node-name {node_name}: there is no such Node among the manifests, which have {names}")
    return chosen[0] if chosen else None


def _recorded(carried_out: Any, host_root: str, cgroup_root: str, state_dir: Path, at: str) -> Once:
    from koord.agent.executor.audit import Audit
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.files import Files
    from koord.agent.live.holding import held
    from koord.agent.live.keeping import AUDIT, whole_ledger, write_ledger

    with held(state_dir, Cgroups.of(Files(host_root), cgroup_root), "koord agent --once", at):
        ledger = whole_ledger(state_dir)
        outcome: Once = carried_out(ledger=ledger, save=lambda text: write_ledger(state_dir, text))
        audit = Audit(state_dir / AUDIT)
        for write in outcome.writes:
            kind = "restore" if write.is_restore else "write"
            audit.add(at, kind, write.by, write.why, file=write.file, old=write.old, value=write.value)
    return outcome


def _print(outcome: Once, state_dir: Path, host_root: str) -> None:
    if outcome.writes:
        rows = [("FILE", "FROM", "TO", "BY", "WHY")]
        rows += [(write.file, write.old, write.value, write.by, write.why) for write in outcome.writes]
        click.echo(table(rows))
    for eviction in outcome.evictions:
        click.echo(f"would evict {eviction.pod}: {eviction.by}: {eviction.why}")
    for refusal in outcome.refused:
        click.echo(f"refused: {refusal}", err=True)
    click.echo(_summary(outcome, state_dir, host_root), err=True)


def _summary(outcome: Once, state_dir: Path, host_root: str) -> str:
    count = f"{len(outcome.writes)} {'file' if len(outcome.writes) == 1 else 'files'}"
    if outcome.dry_run:
        if outcome.writes:
            return f"dry run: {count} would be written, nothing was"
        if outcome.absent and not outcome.pods:
            return "nothing to write: none of the pods is on this host"
        return "nothing to write: the host is as it should be"
    evicts = "; --once evicts no pod, a running agent would" if outcome.evictions else ""
    if not outcome.writes:
        return f"nothing was written{evicts}"
    roots = f"--state-dir {state_dir}" + ("" if host_root == "/" else f" --host-root {host_root}")
    return f"{count} written; koord agent restore {roots} puts back what was there{evicts}"
