"""One simulated run, measured in a process of its own: one line of JSON.

The cluster is made from formulas, so that the figures need no traces: services and the batch pods of a day are 30 a
node. The policy is `adaptive`. CPU seconds are those of the run, without the making of its input; the peak is that of
the whole process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from koord.sim.live.traces import cluster_of
from koord.sim.policies.registry import DEFAULT, POLICIES
from koord.sim.run import run
from koord.sim.scenario import Scenario, from_data
from koord_bench.children import status_kb
from koord_bench.harness import Figures

PODS_PER_NODE: Final = 30
SEED: Final = 1


def scenario(nodes: int, hours: int, pods: int | None = None, *, descheduler: bool = False) -> Scenario:
    """`pods`: services and batch pods together."""
    batch: dict[str, Any] = {"shortest": "5m", "cores": [1, 2, 4, 8]}
    data: dict[str, Any] = {
        "name": "scale",
        "duration": f"{hours}h",
        "cluster": {"nodes": nodes, "serviceCores": {"least": 0.3, "most": 4.0}},
        "batch": batch if pods is None else {**batch, "pods": pods},
    }
    if descheduler:
        data["descheduler"] = {"every": "10m"}
    return from_data(data, "scale")


def measure(nodes: int, hours: int, *, descheduler: bool) -> Figures:
    services = len(cluster_of(scenario(nodes, hours), Path(), SEED).services.ids)
    arriving = (PODS_PER_NODE * nodes - services) * hours // 24
    played = scenario(nodes, hours, services + arriving, descheduler=descheduler)
    cluster = cluster_of(played, Path(), SEED)
    began_s = time.process_time()
    outcome = run(played, cluster, {"": POLICIES[DEFAULT]}, seed=SEED)
    return {
        "cpu_s": time.process_time() - began_s,
        "peak_mib": status_kb("VmHWM") / 1024,
        "pods": float(len(cluster.services.ids) + outcome.totals.arrived),
        "finished": float(outcome.totals.finished),
        "moved": float(outcome.totals.moved),
    }


if __name__ == "__main__":
    figures = measure(int(sys.argv[1]), int(sys.argv[2]), descheduler=sys.argv[3] == "descheduler")
    sys.stdout.write(json.dumps(figures) + "\n")
