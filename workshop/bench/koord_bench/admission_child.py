"""The webhook server alone, for `koord_bench.admission`: no API server, a cluster that does not change.

Prints its port and its CA bundle as one line of JSON, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time

from aiohttp import web

from koord.admission.cluster_facts import ClusterFacts, shipped_priority_classes
from koord.admission.hooks import hooks
from koord.admission.profiles import compile_profiles
from koord.admission.request import Request
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile
from koord.kube.metrics import Metrics
from koord.kube.shell import loop_factory
from koord.manager.live.certificates import Material, load, renewed
from koord.manager.live.webhook_reviews import Reviews

PROFILES = 10


def cluster_facts() -> ClusterFacts:
    """A cluster with ten profiles; one of them is for the namespace `jobs`."""
    batch = {"qosClass": "BE", "priorityClassName": "koord-batch", "labels": {"given": "yes"}}
    specs = [{"namespaceSelector": {"matchLabels": {"colocation": "on"}}, **batch}]
    specs += [{"selector": {"matchLabels": {"team": f"t{i}"}}, **batch} for i in range(1, PROFILES)]
    profiles = [
        convert(ClusterColocationProfile, {"metadata": {"name": f"p{i}"}, "spec": spec}) for i, spec in enumerate(specs)
    ]
    return ClusterFacts(
        namespaces={"jobs": {"colocation": "on"}, "shop": {}},
        profiles=compile_profiles(profiles),
        priority_classes=shipped_priority_classes(),
    )


class _FixedCluster:
    """A cluster that does not change."""

    def __init__(self) -> None:
        self._known = cluster_facts()

    async def for_request(self, request: Request, namespace: str) -> ClusterFacts:
        return self._known


async def serve() -> None:
    gates = parse_gates(ManagerGate)
    reviews = Reviews(_FixedCluster(), gates, hooks(gates), Metrics(process=False))
    material = renewed(Material(), ("localhost", "127.0.0.1"), time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, material)
    runner = web.ServerRunner(web.Server(reviews.handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    address = {"port": runner.addresses[0][1], "bundle": material.bundle.decode()}
    sys.stdout.write(json.dumps(address) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner_:
        runner_.run(serve())
