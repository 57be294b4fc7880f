"""`koord admit`: how admission would change or reject the objects in manifests. Needs no cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from koord.cli import structured
from koord.cli.inputs import read_manifests, say_of
from koord.cli.options import output_option

if TYPE_CHECKING:
    from koord.offline.admit import Admitted

_SIGNS = {"add": "+", "replace": "~", "remove": "-"}


@click.command(epilog="Example: koord admit -f profiles.yaml -f job.yaml -o yaml")
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File or folder of manifests, or - for standard input; repeatable.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of objects that name none.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides who gets a profile that is given by chance."
)
@click.option(
    "--feature-gates",
    "gates",
    default="",
    metavar="GATE=BOOL,...",
    help="The manager's feature gates, as in MultiQuotaTree=true. Webhooks are all asked, whether on or off.",
)
@output_option("text", "json", "yaml", "name", default="text")
def admit(paths: tuple[str, ...], namespace: str, seed: int, gates: str, output: str) -> int:
    """Show how admission would change objects, or why it would reject them.

    Profiles, namespaces, priority classes, quotas and configuration are taken from the same manifests. The exit code
    is 1 if an object would be rejected.
    """
    from koord.api.configuration.features import ManagerGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning
    from koord.offline.admit import admit_all

    switched = parse_gates(ManagerGate, gates)
    if idle := gates_warning(switched):
        click.echo(f"warning: {idle}", err=True)
    manifests = read_manifests(paths, namespace=namespace)
    results = admit_all(manifests, switched, seed)
    ignored = {name.rpartition(" ")[2]: number for name, number in manifests.unknown.items()}
    say_of(manifests, ignored)
    if output in ("json", "yaml"):
        structured.say(results, output)
    else:
        _print(results, names_only=output == "name")
    return 0 if all(result.allowed for result in results) else 1


def _print(results: list[Admitted], *, names_only: bool) -> None:
    for result in results:
        who = _who(result.object)
        if names_only:
            click.echo(who)
            continue
        if not result.allowed:
            click.echo(f"{who}: {click.style('denied', fg='red')}: {result.message}")
        else:
            number = len(result.patches)
            outcome = "as it is" if not number else "1 change" if number == 1 else f"{number} changes"
            click.echo(f"{who}: {click.style('allowed', fg='green')}, {outcome}")
        for line in _changes(result):
            click.echo(f"  {line}")
        for warning in result.warnings:
            click.echo(f"  warning: {warning}")


def _who(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    parts = (str(obj.get("kind", "")).lower(), metadata.get("namespace"), name)
    return "/".join(part for part in parts if part)


def _changes(admitted: Admitted) -> Iterator[str]:
    import msgspec

    for operation in admitted.patches:
        line = f"{_SIGNS[operation['op']]} {operation['path']}"
        yield line if operation["op"] == "remove" else f"{line}: {msgspec.json.encode(operation['value']).decode()}"
