"""`koord crds`: prints the CustomResourceDefinitions of koord's kinds, ready for `kubectl apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord.cli import structured

if TYPE_CHECKING:
    from koord.api.protocol.crd.definitions import Definition


@click.command(epilog="Example: koord crds | kubectl apply --server-side -f -")
@click.option(
    "--name", "names", multiple=True, metavar="KIND", help="Only this kind, by kind, plural or short name; repeatable."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print the result.",
)
def crds(names: tuple[str, ...], output: str) -> None:
    """Print the CustomResourceDefinitions of koord's kinds."""
    from koord.api.protocol.crd.definitions import DEFINITIONS, manifest

    chosen = [_named(name) for name in names] if names else list(DEFINITIONS)
    manifests = [manifest(definition) for definition in dict.fromkeys(chosen)]
    if output == "json":
        only = manifests[0] if len(names) == 1 else {"apiVersion": "v1", "kind": "List", "items": manifests}
        structured.say(only, output)
        return
    from koord.api.text.yaml import dump

    for document in manifests:
        click.echo("---\n" + dump(document), nl=False)


def _named(name: str) -> Definition:
    from koord.api.protocol.crd.definitions import DEFINITIONS, find

    definition = find(name)
    if definition is None:
        kinds = ", ".join(definition.kind.kind for definition in DEFINITIONS)
        raise click.BadParameter(f"{name!r} is no kind of koord's. Kinds are {kinds}.", param_hint="--name")
    return definition
