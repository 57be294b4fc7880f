"""What the commands that run one component share: options, logs, health endpoint, and the line to a supervisor."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from koord.cli.options import SocketPath, kube_options

if TYPE_CHECKING:
    from koord.api.configuration.descheduler_config import DeschedulerConfiguration
    from koord.api.configuration.scheduler_config import SchedulerConfiguration
    from koord.kube.client import Client
    from koord.kube.cluster_config import ClusterConfig
    from koord.kube.health import HealthServer
    from koord.kube.metrics import Metrics
    from koord.kube.serving_tls import ServingTls
    from koord.kube.settings_paths import SettingsPaths

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", "DeschedulerConfiguration", "SchedulerConfiguration")
Ready = Callable[[Mapping[str, str]], None]
"""Called by a component when it serves, with its endpoints."""

SERVER_WITHIN_S = 60.0
ASK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Common:
    """What every component is told."""

    kubeconfig: str | None
    context: str | None
    metrics_address: str
    tls_cert_file: str | None
    tls_private_key_file: str | None
    tls_self_signed: bool
    log_format: str


def component_options(command: F) -> F:
    """--kubeconfig, --context, --metrics-address and its certificate, --log-format: the command gets a `Common`."""

    @wraps(command)
    def with_common(**given: Any) -> Any:
        common = Common(**{each.name: given.pop(each.name) for each in fields(Common)})
        if (common.tls_cert_file is None) != (common.tls_private_key_file is None):
            raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
        if common.tls_self_signed and common.tls_cert_file is not None:
            raise click.UsageError("--tls-self-signed makes a certificate, and --tls-cert-file gives one: choose")
        return command(common=common, **given)

    file = click.Path(exists=True, dir_okay=False)
    for option in (
        log_format_option,
        click.option(
            "--tls-self-signed",
            is_flag=True,
            help="Serve with a certificate made at the start, for callers that do not check it, such as kubelet.",
        ),
        click.option("--tls-private-key-file", metavar="FILE", type=file, help="The key of that certificate."),
        click.option(
            "--tls-cert-file",
            metavar="FILE",
            type=file,
            help="Serve with this certificate. An address other than loopback needs it, or --tls-self-signed.",
        ),
        click.option(
            "--metrics-address",
            metavar="HOST:PORT",
            default="",
            help="Serve /livez, /readyz and /metrics there; port 0 takes any free one. Not served unless given. All but"
            " health is for callers whom the API server knows by their token and allows.",
        ),
        kube_options,
    ):
        with_common = option(with_common)
    return cast(F, with_common)


def election_options(unless_said: str) -> Callable[[F], F]:
    """--leader-elect and --namespace of its lease. `unless_said`: what counts if the configuration says nothing."""

    def add(command: F) -> F:
        elect = click.option(
            "--leader-elect/--no-leader-elect",
            default=None,
            show_default=f"what FILE says, else {unless_said}",
            help="Work only while holding a lease, so that several can run.",
        )
        lease = click.option("--namespace", show_default="that of the configuration", help="Namespace of the lease.")
        return elect(lease(command))

    return add


def run_component(
    name: str,
    work: Callable[[Client, Ready], Awaitable[None]],
    common: Common,
    *,
    warning: str | None = None,
    measured: Callable[[Metrics], None] = lambda metrics: None,
    served: Callable[[HealthServer], None] = lambda server: None,
    is_small: bool = False,
) -> int:
    """Runs a component that talks to an API server, until a signal; the exit code.

    `measured` gets the metrics that are served, for a component that has its own to add; `served` the server itself,
    for one that has paths of its own. `warning` is logged once, at the start. `is_small`: every node has one of it.
    """
    from koord.kube import (
        lean,  # noqa: F401 - before anything else imports aiohttp
        shell,
        tether,
    )
    from koord.kube.locate import locate

    supervised = start(common.log_format)
    if warning:
        logging.getLogger(f"koord.{name}").warning(warning)
    if not supervised:
        # What is wrong with it is bad usage, and told as such.
        locate(common.kubeconfig, common.context)
    tls = _certificate(common, name)

    async def main() -> None:
        from koord import __version__
        from koord.kube.client import Client

        config = await _config(common.kubeconfig, common.context, wait=supervised)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(config, user_agent=f"koord-{name}/{__version__}"))
            endpoints: dict[str, str] = {}
            done = await _serve_health(stack, common.metrics_address, tls, client, endpoints, measured, served)
            if supervised:
                await _server_is_up(client)

            def ready(own: Mapping[str, str]) -> None:
                done()
                if supervised:
                    tether.say_ready({**endpoints, **own})

            await work(client, ready)

    return shell.run_component(main, name=name, is_small=is_small)


def run_configured(
    name: str,
    work: Callable[[Client, Metrics | None, Callable[[], None]], Awaitable[None]],
    common: Common,
    settings: SettingsPaths,
    *,
    warnings: Iterable[str | None] = (),
) -> int:
    """Runs a component that goes by a configuration file. `work` gets the client, the metrics if any are served, and
    what to call when it is ready; `settings` answers for what is in force."""
    measured: list[Metrics] = []

    async def main(client: Client, ready: Ready) -> None:
        await work(client, measured[0] if measured else None, lambda: ready({}))

    return run_component(
        name,
        main,
        common,
        warning="; ".join(filter(None, warnings)),
        measured=measured.append,
        served=lambda server: server.add_paths(settings.handle),
    )


def led_in(config: C, namespace: str | None) -> C:
    """A configuration whose lease is in a namespace, where one is said."""
    from msgspec.structs import replace

    if not namespace:
        return config
    return replace(config, leader_election=replace(config.leader_election, resource_namespace=namespace))


log_format_option = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the logs."
)
agent_socket_option = click.option(
    "--agent-socket",
    type=SocketPath(),
    default="/var/run/koord/hooks.sock",
    show_default=True,
    metavar="SOCKET",
    help="Where koord's agent answers (its --hooks-socket).",
)


def run_on_node(name: str, work: Callable[[Callable[[], None]], Awaitable[None]], log_format: str) -> int:
    """A process of a node that needs no API server, until it is stopped. `work` gets whom to tell that it serves."""
    from koord.kube import shell, tether

    ready = (lambda: tether.say_ready({})) if start(log_format) else (lambda: None)
    return shell.run_component(lambda: work(ready), name=name)


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """What is imported in here comes with an extra of koord's."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(f"{error}: install koord with its extra `{extra}`") from None


def start(log_format: str) -> bool:
    """Sets logs and the tether up. Whether this process has a supervisor."""
    from koord.kube import tether
    from koord.kube.logs import setup_logging

    setup_logging(format="json" if log_format == "json" else "text")
    if tether.is_supervised():
        tether.hold()
        return True
    return False


async def _config(kubeconfig: str | None, context: str | None, *, wait: bool) -> ClusterConfig:
    """Which cluster. Under a supervisor, the file may be on its way: components start together."""
    import asyncio
    import time

    from koord.kube.locate import locate

    if wait and kubeconfig:
        deadline = time.monotonic() + SERVER_WITHIN_S
        # Looking at a file is instant; nothing tells of its coming that would cost less.
        while not os.path.exists(kubeconfig) and time.monotonic() < deadline:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(ASK_AGAIN_S)
    return locate(kubeconfig, context)


async def _server_is_up(client: Client) -> None:
    import asyncio
    import time

    from koord.kube.errors import ApiError

    began = time.monotonic()
    once = client.limited(timeout_s=5.0, attempts=1)
    while True:
        try:
            await once.raw("GET", "/readyz", accept="*/*")
        except ApiError:
            if time.monotonic() - began > SERVER_WITHIN_S:
                raise
            await asyncio.sleep(ASK_AGAIN_S)
        else:
            return


def _certificate(common: Common, name: str) -> ServingTls | None:
    """What to serve with. An address that others can reach needs it."""
    if not common.metrics_address:
        return None
    from koord.kube.health import parse_address
    from koord.kube.serving_tls import ServingTls

    try:
        address = parse_address(common.metrics_address)
        if common.tls_cert_file is not None and common.tls_private_key_file is not None:
            return ServingTls(common.tls_cert_file, common.tls_private_key_file)
        if common.tls_self_signed:
            return _self_signed(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not address.loopback:
        hint = "give --tls-cert-file and --tls-private-key-file, or --tls-self-signed, or an address on 127.0.0.1"
        raise click.UsageError(f"--metrics-address {common.metrics_address} is not on loopback and needs TLS: {hint}")
    return None


def _self_signed(name: str) -> ServingTls:
    """Made by a process of its own: this one stays without the library, as every node pays for it."""
    import subprocess
    import tempfile

    from koord.kube.certificates import own
    from koord.kube.program import own_program
    from koord.kube.serving_tls import ServingTls

    folder = tempfile.TemporaryDirectory(prefix="koord-tls-")
    subprocess.run([*own_program("koord.kube.certificates.own"), folder.name, f"koord-{name}"], check=True)
    return ServingTls(f"{folder.name}/{own.CERTIFICATE}", f"{folder.name}/{own.KEY}", keeps=folder)


async def _serve_health(
    stack: AsyncExitStack,
    address: str,
    tls: ServingTls | None,
    client: Client,
    endpoints: dict[str, str],
    measured: Callable[[Metrics], None],
    served: Callable[[HealthServer], None],
) -> Callable[[], None]:
    """Serves health where asked to. Returns what is to be called when the component is ready."""
    if not address:
        return lambda: None
    from koord.kube.authorize import Authorizer
    from koord.kube.callers import trust_clients
    from koord.kube.health import HealthServer
    from koord.kube.metrics import Metrics

    metrics = Metrics()
    measured(metrics)
    client.observe(metrics.requests(client.config.server))
    working: list[bool] = []
    server = HealthServer(address, metrics=metrics, tls=tls, authorizer=Authorizer(client))
    if tls is not None:
        await trust_clients(client.limited(timeout_s=5.0, attempts=1), tls.context)
    served(server)
    server.add_ready("started", lambda: None if working else "still starting")
    await stack.enter_async_context(server)
    endpoints["health"] = f"{'http' if tls is None else 'https'}://{server.address.host}:{server.port}"
    return lambda: working.append(True)
