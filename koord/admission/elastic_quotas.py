"""Admission of ElasticQuotas: defaults, the quota tree, and which quotas may be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord.admission import quota_objects, typed
from koord.admission.hook import NOT_CLEANED_UP, Hook, apart, is_cleaned_up
from koord.admission.plain import part
from koord.admission.quota_topology import QuotaTopology
from koord.admission.request import Json
from koord.admission.resource import AdmissionResource, Lookup
from koord.admission.rule import CREATE, DELETE, WRITES, Mutating, RuleContext, Validating
from koord.api import kinds
from koord.api.configuration.features import ManagerGate
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota


def _hooks(namespace: str) -> Iterator[Hook]:
    mutate = Hook(
        name="melasticquota.koordinator.sh",
        path=names.WEBHOOK_MUTATE_ELASTIC_QUOTA,
        mutating=True,
        gate=ManagerGate.ELASTIC_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
    )
    yield from apart(mutate, namespace)
    validate = Hook(
        name="velasticquota.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_ELASTIC_QUOTA,
        mutating=False,
        gate=ManagerGate.ELASTIC_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
        conditions=NOT_CLEANED_UP,
    )
    yield from apart(validate, namespace)


def _completed_quota(context: RuleContext, quota: Json) -> Json:
    return quota_objects.completed(quota, context.facts.quotas)


def _quota(context: RuleContext) -> Iterator[Fault]:
    request, facts = context.request, context.facts
    new = typed.typed(ElasticQuota, _placed(context, request.object))
    old = typed.typed(ElasticQuota, _placed(context, request.old)) if request.operation == "UPDATE" else None
    rules = quota_objects.QuotaRules(
        keys_may_differ=context.gates[ManagerGate.ELASTIC_QUOTA_ENABLE_UPDATE_RESOURCE_KEY],
        keeps=context.gates[ManagerGate.ELASTIC_QUOTA_GUARANTEE_USAGE],
    )
    return quota_objects.faults(new, old, facts.quotas, facts.quota_pods, rules, facts.namespace_denials)


def _quota_goes(context: RuleContext) -> Iterable[Fault]:
    if context.namespace in context.facts.leaving or is_cleaned_up(context.request):
        # It is deleted with its namespace or its owner. A refusal would only delay that.
        return ()
    old = typed.typed(ElasticQuota, _placed(context, context.request.old))
    return quota_objects.deletion_faults(old, context.facts.quotas, context.facts.quota_pods)


def _placed(context: RuleContext, obj: Json | None) -> Json:
    """An object that names its namespace, which may be in the request alone."""
    metadata = part(obj or {}, "metadata")
    if metadata.get("namespace") or not context.request.namespace:
        return obj or {}
    return {**(obj or {}), "metadata": {**metadata, "namespace": context.request.namespace}}


RESOURCE: Final = AdmissionResource(
    "elasticquotas",
    ElasticQuota,
    _hooks,
    mutating=(Mutating("ElasticQuota", "elasticquotas", CREATE, run=_completed_quota),),
    validating=(
        Validating("ElasticQuota", "elasticquotas", WRITES, run=_quota),
        Validating("ElasticQuota", "elasticquotas", DELETE, run=_quota_goes),
    ),
    lookups=(Lookup("quotas", (kinds.ELASTIC_QUOTAS,), QuotaTopology.of, by_object=True),),
)
