"""`koord up --demo`: the story of co-location, told on the cluster, shown, and added up at the end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from koord_minicluster.cli.hollow import Fleet, size_of
from koord_minicluster.demo.ledger import Ledger
from koord_minicluster.demo.scenario import NODES, RealNode, Scenario
from koord_minicluster.demo.settings import FIRST_S, LOAD_SPEED, colocation, descheduler, load, scheduler
from koord_minicluster.hollow.load_model import Course
from koord_minicluster.up.plan import LOCAL_NODE, choose_port

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord_minicluster.up.data_dir import DataDir
    from koord_minicluster.up.plan import UpOptions
    from koord_minicluster.up.run import Up

FEWEST_NODES: Final = 10
LEAST_LOOKS: Final = 2

How = Literal["screen", "lines", "nothing"]


@dataclass(slots=True)
class Demo:
    scenario: Scenario
    fleet: Fleet
    report: Path | None = None
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def asked_for(
        cls, nodes: int | None, fleet: Fleet, own: Mapping[str, object], report: Path | None, *, local_node: bool
    ) -> Demo:
        """What the command line means. `own`: options for what the demo brings itself, with what was given for them."""
        for option, value in own.items():
            if value:
                raise click.UsageError(f"{option} does not go with --demo, which brings its own")
        if nodes is not None and nodes < FEWEST_NODES:
            raise click.BadParameter(f"a demo needs at least {FEWEST_NODES} nodes, not {nodes}", param_hint="--nodes")
        if report is not None and not report.absolute().parent.is_dir():
            raise click.BadParameter(f"there is no directory {report.absolute().parent}", param_hint="--report")
        local = RealNode(LOCAL_NODE, sys.executable, choose_port(0, 0)) if local_node else None
        scenario = Scenario(nodes or NODES, fleet.seed, local)
        return cls(scenario, replace(fleet, load_speed=fleet.load_speed or LOAD_SPEED), report)

    def settled(self, options: UpOptions, data: DataDir) -> UpOptions:
        """With what the components read: it lies beside their state, and can be looked at."""
        folder = data.path / "demo"
        folder.mkdir(mode=0o700, exist_ok=True)
        files = {
            "load.csv": load(self.scenario),
            "scheduler.json": json.dumps(scheduler(), indent=2),
            "descheduler.json": json.dumps(descheduler(), indent=2),
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        speed = self.fleet.load_speed or LOAD_SPEED
        self.fleet = replace(self.fleet, load=folder / "load.csv", load_since=time.time() - FIRST_S / speed)
        return replace(
            options,
            fleet_args=self.fleet.arguments(),
            scheduler_config=folder / "scheduler.json",
            descheduler_config=folder / "descheduler.json",
            colocation=colocation(),
        )

    @property
    def course(self) -> Course:
        """The load's own time."""
        assert self.fleet.load_since is not None
        return Course(self.fleet.load_since, self.fleet.load_speed or LOAD_SPEED)

    async def show(self, up: Up, client: Client, how: How) -> None:
        """Tells the story until cancelled, and shows it."""
        from koord_minicluster.cli.up_demo_view import in_lines, on_screen
        from koord_minicluster.demo.live.telling import Telling
        from koord_minicluster.demo.live.watching import watching

        async with watching(up, client, self.scenario, self.ledger) as watched, asyncio.TaskGroup() as tasks:
            tasks.create_task(Telling(client, self.scenario).run(), name="demo/story")
            if how == "screen":
                await on_screen(watched, self.course, up)
            else:
                await in_lines(watched, self.course, is_silent=how == "nothing")

    def end(self) -> None:
        """Says what it came to, and what the same load would have come to without co-location."""
        from koord_minicluster.cli.up_demo_view import outcome_text
        from koord_minicluster.demo.simulated import Machines, simulate
        from koord_minicluster.demo.summary import TOLD_S, course, steady, summary
        from koord_minicluster.hollow.load_model import SeededLoad
        from koord_minicluster.hollow.load_replay import read_replay

        looks = self.ledger.looks
        counted = steady(looks)
        if len(counted) < LEAST_LOOKS:
            click.echo(
                f"It ended too soon for a summary: {TOLD_S:.0f} seconds after all services run, it has one.", err=True
            )
            return
        click.echo("working out what the same load gives without co-location ...", err=True)
        seeded = SeededLoad(self.scenario.seed, self.course)
        model = read_replay(load(self.scenario).splitlines(), "load", course=self.course, otherwise=seeded)
        began_s = self.ledger.began_s
        machines = Machines(*size_of(self.fleet))
        alone, done = simulate(self.scenario, model, began_s, looks[-1].time_s - began_s, machines)
        compared = [look for look in alone if look.time_s >= counted[0].time_s]
        result = summary(self.ledger, course(compared, done))
        click.echo(outcome_text(result, self.scenario, looks))
        if self.report is not None:
            from koord_minicluster.demo.page import page

            self.report.write_text(page(result, self.scenario.nodes, looks, alone, self.course), encoding="utf-8")
            click.echo(f"\nThe same with plots: {self.report}")
