"""Names of the cluster's objects, for the shell to complete: pods, nodes and namespaces.

The command line being typed selects the cluster (--kubeconfig, --context, -n). If the cluster does not answer at once,
there are no completions: a shell must not hang on a key press.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

if TYPE_CHECKING:
    from koord.api.kinds import Kind

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]
WITHIN_S: Final = 2.0


def namespaces(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, "NAMESPACES"))


def nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting_with(incomplete, _names(ctx, "NODES"))


def explained(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What `koord explain` takes: a pod, or KIND/NAME."""
    kinds = {
        "node": "NODES",
        "podgroup": "POD_GROUPS",
        "quota": "ELASTIC_QUOTAS",
        "reservation": "RESERVATIONS",
        "deployment": "DEPLOYMENTS",
        "statefulset": "STATEFUL_SETS",
        "daemonset": "DAEMON_SETS",
        "job": "JOBS",
        "cronjob": "CRON_JOBS",
    }
    kind, slash, _ = incomplete.partition("/")
    namespace = str(ctx.params.get("namespace") or "default")
    if slash and kind in kinds:
        return _starting_with(incomplete, [f"{kind}/{name}" for name in _names(ctx, kinds[kind])])
    if slash:
        return _starting_with(incomplete, [f"{kind}/{name}" for name in _names(ctx, "PODS", kind)])
    return _starting_with(incomplete, [*_names(ctx, "PODS", namespace), *(f"{kind}/" for kind in kinds)])


def _starting_with(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names(ctx: click.Context, kind: str, namespace: str = "") -> list[str]:
    import asyncio

    from koord.api import kinds
    from koord.api.machinery.faults import BadInput
    from koord.kube.errors import ApiError

    try:
        return asyncio.run(_listed(ctx, getattr(kinds, kind), namespace))
    except (ApiError, BadInput, OSError, TimeoutError):
        return []


async def _listed(ctx: click.Context, kind: Kind[Any], namespace: str) -> list[str]:
    import asyncio

    from koord.kube.client import Client

    async with (
        asyncio.timeout(WITHIN_S),
        Client.from_config(ctx.params.get("kubeconfig"), ctx.params.get("context")) as client,
    ):
        brief = client.limited(timeout_s=WITHIN_S, attempts=1)
        return sorted(named.metadata.name for named in await brief.list(kind, namespace=namespace))
