"""Writes down what a real API server says that it serves: python -m tests.minicluster.apiserver.record_discovery"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from koord_minicluster.apiserver.builtin.resources import builtin_resources
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.bodies.record import RealServer

DATA = Path(__file__).parent / "data" / "discovery.json"


def discovered(server: RealServer) -> dict[str, Any]:
    groups = sorted({(r.group, r.version) for r in builtin_resources() if r.group != "metrics.k8s.io"})
    lists = {}
    for group, version in groups:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        lists[path] = server.send("GET", path)[1]
    return {"lists": lists, "groups": {g: server.send("GET", f"/apis/{g}")[1] for g, _ in groups if g}}


def main() -> None:
    with ControlPlane() as plane:
        server = RealServer(plane)
        version = server.send("GET", "/version")[1]["gitVersion"]
        recorded = {"server": version, "date": time.strftime("%Y-%m-%d", time.gmtime()), **discovered(server)}
    DATA.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
