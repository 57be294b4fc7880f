"""`koord sim`: a cluster in virtual time, run by the decision code that runs live."""

from __future__ import annotations

import click

from koord.cli.groups import Group
from koord.cli.sim_calibrate import calibrate
from koord.cli.sim_compare import compare
from koord.cli.sim_policies import policies
from koord.cli.sim_record import record
from koord.cli.sim_run import run
from koord.cli.sim_sweep import sweep
from koord.cli.sim_what_if import what_if


@click.group(cls=Group, epilog="Example: koord sim run --report out.html")
def sim() -> None:
    """Say what co-location would bring on a cluster, and what it would cost services: simulation on traces.

    A scenario says what the cluster is: nodes, services with their usage over time, batch pods, settings and what
    goes wrong. The scheduler, lending, suppression and evictions are decided by the same code as live.
    """


for command in (run, compare, sweep, what_if, policies, record, calibrate):
    sim.add_command(command)
