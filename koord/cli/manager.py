"""`koord manager`: decides what nodes lend, how they measure and protect, on any API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from koord.cli.component import Common, Ready, component_options, run_component
from koord.cli.webhook_options import WebhookFlags, webhook_options

if TYPE_CHECKING:
    from koord.kube.client import Client
    from koord.kube.health import HealthServer
    from koord.kube.metrics import Metrics


@click.command(
    epilog="""\b
Example: koord manager --metrics-address 127.0.0.1:8080 --webhook-address 0.0.0.0:9876

\b
The ConfigMap koordinator-system/slo-controller-config says what is lent; without it, nothing is. A change takes effect
at once; a section that cannot be read not at all, and the ConfigMap says so in an event and in the annotation
koordinator.sh/config-conditions."""
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Decide only while holding the lease koordinator-manager, so that several can run.",
)
@click.option("--namespace", default="koordinator-system", show_default=True, help="Namespace of the lease.")
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="LIST",
    help="nodemetric, noderesource, nodeslo, quotaprofile, recommendation, interferencepair, rollout, colocationprofile"
    " (with its gate); * is all, -NAME not one.",
)
@click.option(
    "--noderesource-plugins",
    default="*",
    show_default=True,
    metavar="LIST",
    help="CPUNormalization, ResourceAmplification, MidResource, BatchResource, GPUDeviceResource, RDMADeviceResource.",
)
@click.option("--feature-gates", default="", metavar="LIST", help="As in EnableSyncGPUSharedResource=true.")
@webhook_options
@component_options
def manager(
    leader_elect: bool,
    namespace: str,
    controllers: str,
    noderesource_plugins: str,
    feature_gates: str,
    webhook_flags: WebhookFlags,
    common: Common,
) -> int:
    """Decide what nodes lend to batch and mid pods, how they measure it, and how they protect services."""
    from koord.api.configuration.features import ManagerGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning
    from koord.manager.live.run import ManagerOptions, choose_controllers
    from koord.manager.node_resource.plugins import choose

    gates = parse_gates(ManagerGate, feature_gates)
    serving: dict[str, str] = {}
    callbacks: list[Callable[[], None]] = []

    def webhooks_serve(url: str) -> None:
        serving["webhooks"] = url
        callbacks[0]()

    webhooks = webhook_flags.webhooks(gates, webhooks_serve, namespace if leader_elect else "")
    options = ManagerOptions(
        beside=(webhooks.run,) if webhooks is not None else (),
        elect=leader_elect,
        namespace=namespace,
        controllers=choose_controllers(_names(controllers)),
        waiting_pods=gates[ManagerGate.COLOCATION_PROFILE_CONTROLLER],
        plugins=choose(_names(noderesource_plugins), gpu_shared=gates[ManagerGate.ENABLE_SYNC_GPU_SHARED_RESOURCE]),
    )
    measured: list[Metrics] = []

    async def work(client: Client, ready: Ready) -> None:
        from koord.manager.live.run import run

        waiting = {"controllers", "webhooks"} if webhooks is not None else {"controllers"}

        def done(part: str) -> None:
            waiting.discard(part)
            if not waiting:
                ready(serving)

        callbacks.append(lambda: done("webhooks"))
        metrics = measured[0] if measured else None
        await run(client, options=options, metrics=metrics, on_ready=lambda: done("controllers"))

    def served(server: HealthServer) -> None:
        server.add_metrics_paths("/all-metrics", "/internal-metrics", "/external-metrics")
        if webhooks is not None:
            server.add_ready("webhooks", webhooks.check)

    return run_component("manager", work, common, warning=gates_warning(gates), measured=measured.append, served=served)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
