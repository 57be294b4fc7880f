"""`koord recommend`: what workloads should request, compared with what they do, as a table, JSON, or a patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from koord.cli import structured
from koord.cli.inputs import read_manifests, say_of
from koord.cli.options import kube_options, manifest_option, namespaces_option, output_option
from koord.cli.progress import Progress
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.api.text.manifest import Manifests
    from koord.offline.recommend import Advice


@click.command(
    epilog="""\b
Example: koord recommend -n shop
         koord recommend -f recommendations.yaml -f workloads/
         koord recommend -n shop -o yaml |
           kubectl apply --server-side --field-manager koord --force-conflicts -f -

\b
Without -f a cluster is asked. A Recommendation object says which workload is meant; the manager fills it in. Within
10% of what is requested nothing is changed."""
)
@click.argument("workload", default="", metavar="[WORKLOAD]")
@manifest_option
@namespaces_option("workloads")
@kube_options
@output_option("table", "json", "yaml")
def recommend(
    workload: str,
    paths: tuple[str, ...],
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show what workloads should request according to their usage, and what that saves.

    WORKLOAD selects one, for example deployment/web or web; otherwise all are shown.
    `-o yaml` prints a patch for workloads whose requests should change, `-o json` all figures.
    """
    import msgspec

    from koord.api import kinds
    from koord.offline.recommend import advice, total
    from koord.offline.recommend_patch import patch

    manifests = _found(paths, namespace, kubeconfig, context)
    rows = advice(manifests, namespace, workload)
    saved = total(rows)
    if not rows and (workload or output == "table"):
        where = (f" for {workload}" if workload else "") + (f" in namespace {namespace}" if namespace else "")
        click.echo(f"there is no Recommendation{where}: create one for each workload to be looked at", err=True)
        return 1 if workload else 0
    if output == "json":
        structured.say({"recommendations": msgspec.to_builtins(rows), "saving": saved}, output)
    elif output == "yaml":
        items, left_out = patch(manifests.of(kinds.RECOMMENDATIONS), rows)
        click.echo(f"# {_saving(saved)}")
        for line in left_out:
            click.echo(f"# left out: {line}")
        structured.say({"apiVersion": "v1", "kind": "List", "items": items}, output)
    else:
        click.echo(_table(rows))
        click.echo(_saving(saved))
    return 0


def _found(paths: tuple[str, ...], namespace: str, kubeconfig: str | None, context: str | None) -> Manifests:

    with Progress() as progress:
        if paths:
            manifests = read_manifests(paths, namespace=namespace or "default", progress=progress).require_valid()
            say_of(manifests, {})
            return manifests
        from koord.api import kinds
        from koord.offline.live.snapshot import listed
        from koord.offline.recommend import WITH_TEMPLATE

        progress.say("looking at the cluster")
        manifests = read_manifests(()).with_items(
            tuple(listed(kubeconfig, context, [kinds.RECOMMENDATIONS], namespace))
        )
        targets = [recommendation.spec.target.workload for recommendation in manifests.of(kinds.RECOMMENDATIONS)]
        named = {target.kind for target in targets if target is not None}
        # A user may have access to the requested workloads and no others.
        wanted = [kinds.PODS, *(kind for kind in WITH_TEMPLATE if kind.kind in named)]
        return manifests.with_items((*manifests.items, *listed(kubeconfig, context, wanted, namespace)))


def _table(rows: Sequence[Advice]) -> str:
    lines = [("NAMESPACE", "WORKLOAD", "CONTAINER", "PODS", "CPU", "MEMORY", "SAVES", "CONFIDENCE", "NOTE")]
    for row in rows:
        saves = ", ".join(_amount(name, amount) for name, amount in row.saving.items())
        lines.append(
            (
                row.namespace,
                row.workload or f"selector of {row.recommendation}",
                row.container or "-",
                str(row.pods),
                _change(row, "cpu"),
                _change(row, "memory"),
                saves or "-",
                f"{row.confidence}%" if row.container else "-",
                row.note,
            )
        )
    return table(lines)


def _change(row: Advice, resource: str) -> str:
    if resource not in row.target:
        return "-"
    now = _amount(resource, row.requests[resource]) if resource in row.requests else "nothing"
    verdict = row.verdict[resource]
    return f"{now} (keep)" if verdict == "keep" else f"{now} -> {_amount(resource, row.target[resource])}"


def _amount(resource: str, amount: int) -> str:
    from koord.cli.explain_node import bytes_said

    return f"{amount / 1000:g} cores" if resource == "cpu" else bytes_said(amount)


def _saving(saved: dict[str, int]) -> str:
    said = [_said(name, amount) for name, amount in saved.items() if amount]
    return f"following all of it {' and '.join(said)}" if said else "nothing to change"


def _said(resource: str, amount: int) -> str:
    what = "CPU" if resource == "cpu" else "memory"
    figure = _amount(resource, abs(amount))
    return f"saves {figure} of {what}" if amount > 0 else f"needs {figure} more of {what}"
