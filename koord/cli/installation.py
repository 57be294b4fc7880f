"""What install, upgrade and uninstall share: options, settings, and how plans are printed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from koord.cli import structured

if TYPE_CHECKING:
    from koord.operate.install.live.cluster import Cluster
    from koord.operate.install.live.installing import Prepared
    from koord.operate.install.plan import Plan
    from koord.operate.install.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def settings_options(command: F) -> F:
    """The options for settings; an option that is not given is None or empty."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--image", metavar="IMAGE", help="Of all components; koord:VERSION unless given."),
        click.option("-n", "--namespace", metavar="NAME", help="Of the workloads; koordinator-system unless given."),
        click.option("--replicas", type=int, metavar="N", help="Of each Deployment; 2 unless given."),
        click.option(
            "--components",
            metavar="LIST",
            help="manager, scheduler, descheduler, agent; all of them unless given.",
        ),
        click.option("--with", "extras", multiple=True, metavar="NAME", help="A further part; repeatable."),
        click.option("--console", is_flag=True, help="The web console, too: the same as --with console."),
        click.option(
            "--feature-gates",
            "gates",
            multiple=True,
            metavar="COMPONENT:LIST",
            help="As in agent:BEMemoryEvict=true,CPUBurst=false; repeatable.",
        ),
        click.option("--scheduler-config", metavar="FILE", type=file, help="A KubeSchedulerConfiguration."),
        click.option("--descheduler-config", metavar="FILE", type=file, help="A DeschedulerConfiguration."),
        click.option("--pull-policy", type=click.Choice(["Always", "IfNotPresent", "Never"]), help="For the image."),
        click.option("--pull-secret", "pull_secrets", multiple=True, metavar="NAME", help="For the image; repeatable."),
        click.option(
            "--colocation",
            is_flag=True,
            default=None,
            help="Switch co-location on in a new slo-controller-config. Otherwise nothing is lent until koord"
            " colocation on.",
        ),
    ):
        command = option(command)
    return command


def changed(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with the given options applied."""
    from msgspec.structs import replace

    new: dict[str, Any] = {
        name: given[name]
        for name in ("image", "namespace", "replicas", "pull_policy", "colocation")
        if given.get(name) is not None
    }
    if given.get("components"):
        new["components"] = tuple(
            component.strip() for component in given["components"].split(",") if component.strip()
        )
    if extras := (*(given.get("extras") or ()), *(("console",) if given.get("console") else ())):
        new["extras"] = tuple(dict.fromkeys(extras))
    if given.get("pull_secrets"):
        new["pull_secrets"] = tuple(given["pull_secrets"])
    if given.get("gates"):
        new["gates"] = {**settings.gates, **_gates(given["gates"])}
    files = {"scheduler": given.get("scheduler_config"), "descheduler": given.get("descheduler_config")}
    texts = {name: _configuration(name, path) for name, path in files.items() if path is not None}
    if texts:
        new["configurations"] = {**settings.configurations, **texts}
    from koord.operate.install.extras import EXTRAS

    return replace(settings, **new).checked(frozenset(EXTRAS))


def _gates(given: Sequence[str]) -> dict[str, str]:
    gates_of: dict[str, str] = {}
    for gate in given:
        component, colon, text = gate.partition(":")
        if not colon or not text:
            raise click.BadParameter(f"{gate!r} is not COMPONENT:Gate=true", param_hint="--feature-gates")
        gates_of[component] = f"{gates_of[component]},{text}" if component in gates_of else text
    return gates_of


def _configuration(component: str, path: Path) -> str:
    """The text of a valid configuration file for the component."""
    from koord.api.configuration.descheduler_config import DeschedulerConfiguration
    from koord.api.configuration.scheduler_config import SchedulerConfiguration
    from koord.cli.inputs import configuration_file

    if component == "scheduler":
        configuration_file(path, SchedulerConfiguration, "KubeSchedulerConfiguration")
    else:
        configuration_file(path, DeschedulerConfiguration, "DeschedulerConfiguration")
    return path.read_text()


def on_cluster(kubeconfig: str | None, context: str | None, work: Callable[[Cluster], Awaitable[R]]) -> R:
    from koord.kube.client import Client
    from koord.operate.install.live.cluster import Cluster

    async def go() -> R:
        async with Client.from_config(kubeconfig, context, user_agent="koord-install") as client:
            return await work(Cluster(client))

    return asyncio.run(go())


def print_manifests(objects: Sequence[Mapping[str, Any]]) -> None:
    from koord.api.text.yaml import dump

    for manifest in objects:
        click.echo("---\n" + dump(dict(manifest)), nl=False)


async def print_diff(cluster: Cluster, prepared: Prepared) -> None:
    """Prints what would change, object by object, as a unified diff of YAML."""
    from koord.operate.install.difference import difference

    if not prepared.plan.changes:
        click.echo("nothing would change", err=True)
    for step in prepared.plan.changes:
        live = prepared.live.get(step.key)
        after = None
        if step.action == "patch":
            after = await cluster.apply(step.manifest, dry_run=True)
        elif step.action == "create":
            after = step.manifest
        click.echo(difference(step.key, live, after), nl=False)


_WORDS: Final = {"create": "created", "patch": "changed", "delete": "deleted", "nothing": "left as they are"}


def said_of(plan: Plan) -> str:
    counts = {word: len(keys) for word, keys in _outcome(plan).items()}
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number)


def say_installed(plan: Plan, settings: Settings, sentence: str, output: str) -> None:
    """Prints the result of an installation or upgrade: a sentence, or the outcome of each object."""
    if output == "table":
        click.echo(f"{sentence}: {said_of(plan)}")
        return
    outcome = {word.replace("left as they are", "unchanged"): keys for word, keys in _outcome(plan).items()}
    structured.say({"version": settings.version, "namespace": settings.namespace, **outcome}, output)


def _outcome(plan: Plan) -> dict[str, list[str]]:
    return {word: [str(step.key) for step in plan.steps if step.action == action] for action, word in _WORDS.items()}
