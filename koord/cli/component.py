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
    """Options that every component takes."""

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
        common = Common(**{field.name: given.pop(field.name) for field in fields(Common)})
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
    """--leader-elect and --namespace of its lease. `unless_said`: the default if the configuration has no value."""

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
    """Runs a component that talks to an API server until a signal arrives. Returns the exit code.

    `measured` receives the served metrics, so that a component can add its own; `served` receives the server, so that
    it can add paths. `warning` is logged once, at the start. `is_small`: the component runs on every node.
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
        # An invalid kubeconfig is a usage error, and is reported before the component starts.
        locate(common.kubeconfig, common.context)
    tls = _certificate(common, name)

    async def main() -> None:
        from koord import __version__
        from koord.kube.client import Client

        config = await located(common.kubeconfig, common.context, wait=supervised)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(config, user_agent=f"koord-{name}/{__version__}"))
            endpoints: dict[str, str] = {}
            done = await _serve_health(stack, common.metrics_address, tls, client, endpoints, measured, served)
            if supervised:
                await server_is_up(client)

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
    """Runs a component that has a configuration file. `work` gets the client, the metrics if any are served, and
    a function to call when it is ready; `settings` serves the settings in force over HTTP."""
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
    """The configuration with its lease in `namespace`, if one is given."""
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
    """Runs a node process, which needs no API server, until a signal. `work` gets a function to call when it serves."""
    from koord.kube import shell, tether

    ready = (lambda: tether.say_ready({})) if start(log_format) else (lambda: None)
    return shell.run_component(lambda: work(ready), name=name)


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Imports inside this block need an extra of koord: if one fails, the error names the extra."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(f"{error}: install koord with its extra `{extra}`") from None


def start(log_format: str) -> bool:
    """Sets up logs and the tether. Returns whether this process has a supervisor."""
    from koord.kube import tether
    from koord.kube.logs import setup_logging

    setup_logging(format="json" if log_format == "json" else "text")
    if tether.is_supervised():
        tether.hold()
        return True
    return False


async def located(kubeconfig: str | None, context: str | None, *, wait: bool) -> ClusterConfig:
    """The cluster to use. Under a supervisor the kubeconfig may not exist yet, since components start together."""
    import asyncio
    import time

    from koord.kube.locate import locate

    if wait and kubeconfig:
        deadline = time.monotonic() + SERVER_WITHIN_S
        # Checking for a file is instant, and no notification of its creation would be cheaper.
        while not os.path.exists(kubeconfig) and time.monotonic() < deadline:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(ASK_AGAIN_S)
    return locate(kubeconfig, context)


async def server_is_up(client: Client) -> None:
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
    """The certificate to serve with. An address outside loopback needs one."""
    if not common.metrics_address:
        return None
    from koord.kube.health import parse_address
    from koord.kube.serving_tls import ServingTls

    try:
        address = parse_address(common.metrics_address)
        if common.tls_cert_file is not None and common.tls_private_key_file is not None:
            return ServingTls(common.tls_cert_file, common.tls_private_key_file)
        if common.tls_self_signed:
            return self_signed(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not address.loopback:
        hint = "give --tls-cert-file and --tls-private-key-file, or --tls-self-signed, or an address on 127.0.0.1"
        raise click.UsageError(f"--metrics-address {common.metrics_address} is not on loopback and needs TLS: {hint}")
    return None


def self_signed(name: str) -> ServingTls:
    """A separate process makes the certificate: loading the library here would cost memory on every node."""
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
    """Serves health where asked to. Returns a function to call when the component is ready."""
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
