"""`koord chaos stories`: plays stories by their seeds, and shortens and prints those that break a promise."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from koord.cli.progress import Progress
from koord_chaos.stories.play import Broken, play, replay, shortest
from koord_chaos.stories.recorded import read, write

AT_ONCE: Final = 20
"""Stories that a process plays between two reports."""


class Seeds(click.ParamType[range]):
    """`17`, or `0:1000` for the seeds from 0 to 999."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        match = re.fullmatch(r"(\d+)(?::(\d+))?", value)
        seeds = range(int(match[1]), int(match[2] or int(match[1]) + 1)) if match else range(0)
        if not seeds:
            self.fail(
                f"{value!r} has no seeds: write a seed as in 17, or the first and the end as in 0:1000", param, ctx
            )
        return seeds


@dataclass(frozen=True)
class Failure:
    seed: int
    message: str
    story: str
    "Shortened, as JSON."


@click.command(epilog="Example: koord chaos stories --seeds 0:1000")
@click.option("--seeds", type=Seeds(), default="0:100", show_default=True, metavar="FIRST:END", help="Stories to play.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default="number of CPUs",
    help="Stories to play at once.",
)  # fmt: skip
@click.option(
    "--repeat", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Play the story that a failed run left.",
)  # fmt: skip
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Append a line of JSON for each part of the seeds.",
)  # fmt: skip
def stories(seeds: range, jobs: int, repeat: Path | None, record: Path | None) -> int:
    """Play stories in memory and print those that break a promise; exit code 1 if there are any.

    A story that breaks a promise is shortened, and written into a file that --repeat plays again.
    """
    if repeat is not None:
        return _repeat(repeat)
    broken = played = 0
    with Progress() as progress:
        for part, failures in _play_all(seeds, jobs):
            played += len(part)
            if record is not None:
                played_part = {"first": part.start, "end": part.stop, "broken": len(failures)}
                with record.open("a") as file:
                    file.write(json.dumps(played_part) + "\n")
            progress.say(f"{played} of {len(seeds)} stories, {broken} broken")
            for failure in failures:
                broken += 1
                path = Path(f"koord-chaos-story-{failure.seed}.json")
                path.write_text(failure.story)
                click.echo(f"{failure.message}\n\nrepeat it: koord chaos stories --repeat {path}\n")
    click.echo(f"{len(seeds)} stories, {broken} broken")
    return int(bool(broken))


def _play_all(seeds: range, jobs: int) -> Iterator[tuple[range, list[Failure]]]:
    parts = [seeds[i : i + AT_ONCE] for i in range(0, len(seeds), AT_ONCE)]
    if jobs == 1 or len(parts) == 1:
        yield from ((part, _play_some(part)) for part in parts)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(parts, pool.map(_play_some, parts), strict=True)


def _play_some(seeds: range) -> list[Failure]:
    failures = []
    for seed in seeds:
        try:
            play(seed)
        except Broken as broken:
            failures.append(_shortened(seed, broken))
    return failures


def _shortened(seed: int, broken: Broken) -> Failure:
    story = asyncio.run(shortest(broken))
    try:
        replay(story)
    except Broken as error:
        return Failure(seed, str(error), write(story))
    return Failure(seed, str(broken), write(broken.story))


def _repeat(path: Path) -> int:
    try:
        replay(read(path.read_text(), str(path)))
    except Broken as broken:
        click.echo(str(broken))
        return 1
    click.echo("the story breaks no promise")
    return 0
