"""The agent of a real node as a service of systemd's: rounds, until it is ended, over the pods that a test made."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.host.layout import qos_dir
from koord.api.kubernetes.words import KubeQoS
from tests.agent.real_node import DRIVER, RealNode
from tests.agent.slices import WITHIN_S, systemctl

UNIT = "koord-agent.service"
EVERY_S = 0.2
_KNOWN = "node.pickle"


@contextmanager
def running(node: RealNode) -> Iterator[None]:
    """Restarted whenever it ends, as a service is that nodes depend on."""
    known = (node.cgroups.version, node.cores, node.slo, node.gates, node.annotations, node.pods)
    (node.state_dir / _KNOWN).write_bytes(pickle.dumps(known))
    properties = {
        "Restart": "always", "RestartSec": "100ms", "StartLimitIntervalSec": "0", "WorkingDirectory": "/work",
        "StandardOutput": "file:/dev/console", "StandardError": "inherit",
    }  # fmt: skip
    surroundings = {name: text for name, text in os.environ.items() if name.startswith(("KOORD_TEST_", "PATH"))}
    command = [
        "systemd-run", "--quiet", "--collect", f"--unit={UNIT}",
        *(f"--property={name}={value}" for name, value in properties.items()),
        *(f"--setenv={name}={text}" for name, text in surroundings.items()),
        sys.executable, "-m", "tests.agent.service", str(node.state_dir),
    ]  # fmt: skip
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=WITHIN_S, check=True)
    try:
        yield
    finally:
        systemctl("stop", UNIT)


def main(state_dir: Path) -> None:
    version, cores, slo, gates, annotations, pods = pickle.loads((state_dir / _KNOWN).read_bytes())  # own
    cgroups = Cgroups(Files("/"), version)
    cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, DRIVER))
    node = RealNode(cgroups, state_dir, cores, None, slo, gates, annotations, pods)
    while True:
        node.rounds(1, EVERY_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
