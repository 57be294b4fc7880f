"""Inputs of offline commands: manifests, the time and configurations; and the warnings to print about manifests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

if TYPE_CHECKING:
    from koord.api.configuration.features import SchedulerGate
    from koord.api.configuration.scheduler_config import SchedulerConfiguration
    from koord.api.text.manifest import Manifests
    from koord.cli.progress import Progress

MOST_WARNINGS: Final = 10
C = TypeVar("C")


def read_manifests(
    paths: Iterable[str | Path], *, namespace: str = "default", progress: Progress | None = None, strict: bool = False
) -> Manifests:
    """The objects in files, folders and on standard input. Unknown fields are faults; `strict`: also in objects
    that come from a cluster, which may be newer than koord."""
    from koord.api.text.manifest import read
    from koord.offline.field_names import misnamed_fields

    def reading(file: str) -> None:
        if progress is not None:
            progress.say(f"reading {file}")

    return read(paths, namespace=namespace, reading=reading, misnamed=misnamed_fields, strict=strict)


def moment(now: str | None) -> float:
    """The time from --now, or the current time."""
    from koord.api.text.timestamp import TimestampError, parse_timestamp

    if now is None:
        return time.time()
    try:
        return parse_timestamp(now)
    except TimestampError as error:
        raise click.BadParameter(str(error), param_hint="--now") from None


def scheduler_gates(text: str) -> Mapping[SchedulerGate, bool]:
    """The scheduler's --feature-gates. Warns about gates without effect."""
    from koord.api.configuration.features import SchedulerGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning

    gates = parse_gates(SchedulerGate, text)
    if idle := gates_warning(gates):
        click.echo(f"warning: {idle}", err=True)
    return gates


def scheduler_configuration(path: Path | None, manifests: Manifests) -> SchedulerConfiguration | None:
    """The scheduler's configuration, if one is given."""
    from koord.api.configuration.scheduler_config import SchedulerConfiguration

    return configuration_of(SchedulerConfiguration, "KubeSchedulerConfiguration", path, manifests)


def configuration_of(type_: type[C], kind: str, path: Path | None, manifests: Manifests) -> C | None:
    """The given configuration of a kind, from its own file or from the manifests; None if there is none."""
    from koord.api.configuration import config_file
    from koord.api.machinery.faults import Fault, Invalid

    configurations = []
    if path is not None:
        configurations.append((str(path), config_file.read(path.read_text(), str(path))))
    configurations += [(str(place), config_file.convert(data, str(place))) for place, data in manifests.configurations]
    chosen = [(place, configuration) for place, configuration in configurations if isinstance(configuration, type_)]
    if path is not None and not isinstance(configurations[0][1], type_):
        raise Invalid(str(path), [Fault("kind", f"must be {kind}")])
    if len(chosen) > 1:
        others = ", ".join(place for place, _ in chosen[1:])
        raise Invalid(chosen[0][0], [Fault("", f"is one of several of kind {kind}; the others: {others}")])
    return chosen[0][1] if chosen else None


def configuration_file(path: Path, type_: type[C], kind: str) -> C:
    """The configuration in a file."""
    from koord.api.configuration import config_file
    from koord.api.machinery.faults import Fault, Invalid

    configuration = config_file.read(path.read_text(), str(path))
    if not isinstance(configuration, type_):
        raise Invalid(str(path), [Fault("kind", f"must be {kind}")])
    return configuration


def say_of(manifests: Manifests, ignored: Mapping[str, int]) -> None:
    """Prints the warnings about manifests, and the kinds that are ignored."""
    for warning in manifests.warnings[:MOST_WARNINGS]:
        click.echo(f"warning: {warning}", err=True)
    if len(manifests.warnings) > MOST_WARNINGS:
        click.echo(f"warning: and {len(manifests.warnings) - MOST_WARNINGS} more like these", err=True)
    if ignored:
        kinds = ", ".join(f"{number} {kind}" for kind, number in ignored.items())
        click.echo(f"note: ignored, because they play no part yet: {kinds}", err=True)


def note(text: str) -> None:
    """Prints one line on standard error, for something that could not be read."""
    click.echo(f"note: {text}", err=True)


def everybody_answers(scheduler_name: str) -> str:
    """Offline, every scheduler counts as running."""
    return ""


def supposing(given: SchedulerConfiguration | None, unanswered: Callable[[str], str]) -> Callable[[str], str]:
    """The schedulers of a given configuration count as running."""
    supposed = {profile.scheduler_name for profile in given.profiles} if given is not None else set()
    return lambda scheduler_name: "" if scheduler_name in supposed else unanswered(scheduler_name)
