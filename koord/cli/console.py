"""`koord console`: the web console of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koord.cli.component import log_format_option
from koord.cli.options import kube_options

if TYPE_CHECKING:
    from koord.kube.cluster_config import ClusterConfig
    from koord.kube.health import Address
    from koord.kube.serving_tls import ServingTls
    from koord.operate.live.prometheus import Prometheus


@click.command(
    epilog="""\b
Example: koord console
         koord console --address 127.0.0.1:8080 --context eu-1
         koord console --address 0.0.0.0:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key"""
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Serve there; port 0 takes any free one. An address that is not on loopback needs TLS.",
)
@click.option(
    "--tls-cert-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Serve with this certificate.",
)
@click.option(
    "--tls-private-key-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The key of that certificate.",
)
@click.option(
    "--tls-self-signed",
    is_flag=True,
    help="Serve with a certificate made at the start, for a proxy or a Service in front that does not check it.",
)
@click.option(
    "--sign-in",
    type=click.Choice(["link", "token"]),
    help="link: the printed link signs in as the user of the kubeconfig; only on loopback, and the default"
    " there. token: viewers sign in with bearer tokens of their own; the default elsewhere.",
)
@click.option(
    "--link-file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Keep the link there."
)
@click.option(
    "--scheduler",
    "scheduler_url",
    metavar="URL",
    default="",
    help="Address of the schedulers' health endpoint, where the leader lists why pods are pending; all addresses of"
    " the host name are asked. Known beside a koord up.",
)
@click.option(
    "--prometheus",
    "prometheus_url",
    metavar="URL",
    default="",
    help="A Prometheus that scrapes koord: bands and worth over more time than the console has seen.",
)
@click.option(
    "--prometheus-token-file",
    "prometheus_token_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Has a bearer token for it.",
)
@click.option(
    "--prometheus-ca",
    "prometheus_ca",
    type=click.Path(exists=True, dir_okay=False),
    help="Authority of its certificate.",
)
@click.option("--grafana", "grafana_url", metavar="URL", default="", help="Link to the boards of this Grafana.")
@click.option(
    "--recording",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="What koord sim record has recorded: previews of settings also say what they would have changed then.",
)
@log_format_option
@kube_options
def console(
    address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    tls_self_signed: bool,
    sign_in: str | None,
    link_file: Path | None,
    scheduler_url: str,
    prometheus_url: str,
    prometheus_token_file: Path | None,
    prometheus_ca: str | None,
    grafana_url: str,
    recording: Path | None,
    log_format: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Serve the web console: what the cluster lends, uses and holds back, what is pending and why; with a switch.

    Prints a link. On loopback, the link signs in once, and acts are done as the user of the kubeconfig. Elsewhere,
    viewers sign in with bearer tokens, and every viewer sees and does what its own rights allow.
    """
    from koord.cli.component import start
    from koord.cli.status import beside
    from koord.kube import (
        lean,  # noqa: F401 - before anything else imports aiohttp
        shell,
        tether,
    )

    for name, url in (
        ("--scheduler", scheduler_url),
        ("--prometheus", prometheus_url),
        ("--grafana", grafana_url),
    ):
        if url and not url.startswith(("http://", "https://")):
            raise click.UsageError(f"{name} {url}: must be a URL, for example https://grafana.example.com")
    where, tls = _served_at(address, tls_cert_file, tls_private_key_file, tls_self_signed, sign_in)
    prometheus, report_options = _prometheus(prometheus_url, prometheus_token_file, prometheus_ca)
    supervised = start(log_format)

    async def main() -> None:
        from koord import __version__
        from koord.cli.component import located, server_is_up
        from koord.console.live.run import ConsoleOptions, run
        from koord.kube.client import Client

        config = await located(kubeconfig, context, wait=supervised)
        async with Client(config, user_agent=f"koord-console/{__version__}") as client:
            if supervised:
                await server_is_up(client)

            def ready(link: str) -> None:
                if supervised:
                    tether.say_ready({"console": link.partition("/?")[0]})
                else:
                    click.echo(f"console: {link}")

            options = ConsoleOptions(
                address=where,
                cluster=name_of(config, context, beside(kubeconfig)),
                kubeconfig=kubeconfig,
                context=context,
                tls=tls,
                by_token=sign_in == "token",
                data_dir=beside(kubeconfig),
                scheduler_url=scheduler_url.rstrip("/"),
                grafana_url=grafana_url.rstrip("/"),
                prometheus=prometheus,
                report_options=report_options,
                recording=recording,
                link_file=link_file,
                on_link=lambda link: None if supervised else click.echo(f"the next link: {link}"),
            )
            await run(client, options, ready)

    return shell.run_component(main, name="console")


def _prometheus(url: str, token_file: Path | None, ca: str | None) -> tuple[Prometheus | None, tuple[str, ...]]:
    """A Prometheus, and how koord report reads the same."""
    from koord.operate.live.prometheus import Prometheus

    if not url:
        return None, ()
    token = token_file.read_text().strip() if token_file is not None else ""
    options = {"": url, "-token-file": token_file, "-ca": ca}
    words = tuple(f"--prometheus{name}={value}" for name, value in options.items() if value)
    return Prometheus(url, token=token, ca=ca), words


def name_of(config: ClusterConfig, context: str | None, data_dir: Path | None) -> str:
    """The name of a cluster for people: the context that leads to it, or its address; of a koord up, `local`."""
    if data_dir is not None:
        return "local"
    if context:
        return context
    origin, _, rest = config.origin.partition("context ")
    return rest.partition(" of ")[0] if rest and not origin else config.server.partition("://")[2]


def _served_at(
    address: str, cert_file: str | None, key_file: str | None, is_self_signed: bool, sign_in: str | None
) -> tuple[Address, ServingTls | None]:
    from koord.cli.component import self_signed
    from koord.kube.health import parse_address
    from koord.kube.serving_tls import ServingTls

    if (cert_file is None) != (key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if is_self_signed and cert_file is not None:
        raise click.UsageError("--tls-self-signed makes a certificate, and --tls-cert-file gives one: choose")
    try:
        where = parse_address(address)
        tls = ServingTls(cert_file, key_file) if cert_file and key_file else None
        if is_self_signed:
            tls = self_signed("console")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not where.loopback and tls is None:
        raise click.UsageError(
            f"--address {address} is not on loopback and needs TLS: give --tls-cert-file and --tls-private-key-file,"
            " or --tls-self-signed behind a proxy"
        )
    if not where.loopback and sign_in == "link":
        raise click.UsageError("--sign-in link is only for loopback: elsewhere viewers sign in with tokens")
    return where, tls
