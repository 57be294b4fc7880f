"""The webhook options of the manager, with the same names as in Koordinator's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from koord.api.protocol import names
from koord.cli.options import Number

if TYPE_CHECKING:
    from koord.admission.request import Gates
    from koord.manager.live.webhook_server import Webhooks

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_DELAY_S = 600.0


@dataclass(frozen=True, slots=True)
class WebhookFlags:
    webhook_address: str
    webhook_host: str
    shutdown_delay: float
    config_namespace: str
    slo_config_name: str
    node_strategy_name_need_check: bool
    scheduler_identities: str
    binding_admission_user_name: str
    binding_admission_namespaces: str
    binding_admission_exclude_namespaces: str
    binding_admission_bypass_labels: str
    binding_admission_bypass_annotations: str
    binding_admission_dry_run: bool

    def webhooks(self, gates: Gates, on_ready: Callable[[str], None], lease_namespace: str) -> Webhooks | None:
        """The webhooks to serve; None if there are none."""
        from dataclasses import replace

        from koord.admission.binding import BindingSettings, listed
        from koord.kube.health import parse_address
        from koord.manager.live.webhook_server import Webhooks, address_from, options_from

        address = self.webhook_address or address_from(os.environ)
        if not address:
            return None
        try:
            parse_address(address)
        except ValueError as error:
            raise click.UsageError(f"--webhook-address or $WEBHOOK_PORT: {error}") from None
        options = options_from(os.environ)
        return Webhooks(
            gates,
            address,
            replace(
                options,
                host=self.webhook_host or options.host,
                lease_namespace=lease_namespace,
                shutdown_delay_s=self.shutdown_delay,
            ),
            BindingSettings(
                user_names=listed(self.binding_admission_user_name),
                namespaces=listed(self.binding_admission_namespaces),
                excluded_namespaces=listed(self.binding_admission_exclude_namespaces),
                bypass_labels=listed(self.binding_admission_bypass_labels),
                bypass_annotations=listed(self.binding_admission_bypass_annotations),
                dry_run=self.binding_admission_dry_run,
            ),
            scheduler_identities=frozenset(listed(self.scheduler_identities)),
            slo_config=self.slo_config_name,
            config_namespace=self.config_namespace,
            strategy_names_required=self.node_strategy_name_need_check,
            on_ready=on_ready,
        )


def webhook_options(command: F) -> F:
    """--webhook-address and the related options: the command gets `webhook_flags`."""

    @wraps(command)
    def with_flags(**given: Any) -> Any:
        flags = WebhookFlags(**{field.name: given.pop(field.name) for field in fields(WebhookFlags)})
        return command(webhook_flags=flags, **given)

    for option in (
        click.option("--binding-admission-dry-run", is_flag=True, help="Let everybody bind, and only tell."),
        _listed("--binding-admission-bypass-annotations", "", "Annotations of pods that everybody may bind."),
        _listed(
            "--binding-admission-bypass-labels",
            names.LABEL_BINDING_ADMISSION_BYPASS,
            "Labels of pods that everybody may bind.",
        ),
        _listed(
            "--binding-admission-exclude-namespaces", names.NAMESPACE_KUBE_SYSTEM, "Where everybody may bind pods."
        ),
        _listed("--binding-admission-namespaces", "", "Where not everybody may bind pods; * is everywhere."),
        _listed(
            "--binding-admission-user-name",
            "",
            "Who may bind pods there: parts of user names. Needs the gate BindingAdmissionWebhook.",
        ),
        _listed(
            "--scheduler-identities",
            "",
            "Users and groups that may write what pods were given, beside koord's and Koordinator's schedulers.",
        ),
        click.option(
            "--node-strategy-name-need-check",
            type=bool,
            default=False,
            show_default=True,
            help="Demand a name for every node entry of slo-controller-config.",
        ),
        click.option(
            "--slo-config-name",
            default=names.CONFIGMAP_SLO_CONTROLLER,
            show_default=True,
            help="ConfigMap that is judged before it is stored.",
        ),
        click.option(
            "--config-namespace", default=names.NAMESPACE_KOORDINATOR, show_default=True, help="Its namespace."
        ),
        click.option(
            "--shutdown-delay",
            type=Number(0, LONGEST_DELAY_S),
            default=0.0,
            show_default=True,
            metavar="SECONDS",
            help="How long the webhooks answer after SIGTERM, until API servers call other replicas.",
        ),
        click.option(
            "--webhook-host",
            default="",
            metavar="HOST",
            help="Register the webhooks by a URL with this host, not by the service koordinator-webhook-service.",
        ),
        click.option(
            "--webhook-address",
            default="",
            metavar="HOST:PORT",
            help="Admit pods: serve the webhooks there, and register them; port 0 takes any free one. On a cluster"
            " 0.0.0.0:9876. Not served unless given, or $WEBHOOK_PORT is set.",
        ),
    ):
        with_flags = option(with_flags)
    return cast(F, with_flags)


def _listed(name: str, default: str, help_text: str) -> Callable[[F], F]:
    return click.option(name, default=default, show_default=bool(default), metavar="LIST", help=help_text)
