"""Admission of ConfigMaps: slo-controller-config must make sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from koord.admission import slo_config
from koord.admission.hook import Hook, only_in
from koord.admission.plain import part
from koord.admission.resource import AdmissionResource
from koord.admission.rule import WRITES, RuleContext, Validating
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.core import ConfigMap
from koord.api.machinery.faults import Fault
from koord.api.protocol import names


def _hooks(namespace: str) -> Iterator[Hook]:
    yield Hook(
        name="vconfigmap.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_CONFIGMAP,
        mutating=False,
        gate=ManagerGate.CONFIG_MAP_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="configmaps",
        object_type="configmap",
        fails_closed=False,
        timeout_s=2,
        namespace_selector=only_in(namespace, names.NAMESPACE_KOORDINATOR),
    )


def _slo_config(context: RuleContext) -> Iterator[Fault]:
    request, facts = context.request, context.facts
    metadata = part(request.object or {}, "metadata")
    who = (metadata.get("namespace") or request.namespace, metadata.get("name") or request.name)
    if who != (facts.config_namespace, facts.slo_config_name):
        return
    old: Any = part(request.old or {}, "data") if request.operation == "UPDATE" else None
    refusal, warnings = slo_config.verdict(
        part(request.object or {}, "data"), old, facts.node_labels, names_required=facts.strategy_names_required
    )
    context.warnings += warnings
    if refusal:
        yield Fault("", refusal)


RESOURCE: Final = AdmissionResource(
    "configmaps",
    ConfigMap,
    _hooks,
    validating=(Validating("SLOConfig", "configmaps", WRITES, run=_slo_config),),
)
