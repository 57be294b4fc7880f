"""Admission itself: what becomes of an object, and whether it may be stored.

An API server calls `mutate` and `validate`. `admit` does both, to predict the answer of a server. The same request
always has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koord.admission import typed
from koord.admission.cluster_facts import ClusterFacts
from koord.admission.json_patch import difference
from koord.admission.request import AdmissionAnswer, Gates, Json, Refused, Request
from koord.admission.resources import BY_NAME, MUTATING, VALIDATING
from koord.admission.rule import RuleContext
from koord.api.kubernetes.pod import Pod

Observe = Callable[[str, bool], None]
"""Called after each rule with its name and whether the request passed."""

_NEW_POD = Request("CREATE", "pods")


def ignore(name: str, passed: bool) -> None:
    """The default observer."""


def mutate(
    request: Request, facts: ClusterFacts, gates: Gates, seed: int = 0, observe: Observe = ignore
) -> AdmissionAnswer:
    """The object to be stored, and the patch that leads there."""
    answer = completed(request, facts, gates, seed, observe)
    before, after = request.object, answer.object
    if before is None or after is None or after is before:
        return answer
    return replace(answer, patch=difference(before, after))


def completed(
    request: Request, facts: ClusterFacts, gates: Gates, seed: int = 0, observe: Observe = ignore
) -> AdmissionAnswer:
    """The object to be stored, without the patch, for callers that do not send one."""
    rules = [rule for rule in MUTATING if rule.concerns(request, gates)]
    before = request.object
    if not rules or before is None:
        return AdmissionAnswer(True, before)
    name = ""
    context = RuleContext(request, facts, gates, seed)
    try:
        context.request = request = _in_shape(request)
        shaped = obj = request.object or {}
        for rule in rules:
            name = rule.name
            obj = rule.run(context, obj)
            observe(name, True)
    except Refused as refusal:
        if name:
            observe(name, False)
        return _refusal(before, refusal, context)
    return AdmissionAnswer(True, before if obj is shaped else obj, warnings=tuple(dict.fromkeys(context.warnings)))


def validate(request: Request, facts: ClusterFacts, gates: Gates, observe: Observe = ignore) -> AdmissionAnswer:
    """Whether the object may be stored unchanged."""
    context = RuleContext(request, facts, gates)
    if request.resource != "pods":
        try:
            context.request = _in_shape(request)
        except Refused as refusal:
            return _refusal(request.object, refusal, context)
    return _validated(context, observe)


def admit(request: Request, facts: ClusterFacts, gates: Gates, seed: int = 0) -> AdmissionAnswer:
    """Both: the object to be stored, if it is allowed."""
    mutated = mutate(request, facts, gates, seed)
    if not mutated.allowed:
        return mutated
    validated = validate(replace(request, object=mutated.object), facts, gates)
    warnings = tuple(dict.fromkeys((*mutated.warnings, *validated.warnings)))
    if not validated.allowed:
        return replace(validated, object=request.object, warnings=warnings)
    return replace(mutated, warnings=warnings)


def pod_denial(pod: Pod, facts: ClusterFacts, gates: Gates) -> str:
    """Why a new pod would be denied, for callers that have it typed already; empty if it would be admitted."""
    return _validated(RuleContext(_NEW_POD, facts, gates, _pod=pod), ignore).message


def _validated(context: RuleContext, observe: Observe) -> AdmissionAnswer:
    request = context.request
    name = ""
    try:
        for rule in VALIDATING:
            if rule.concerns(request, context.gates):
                is_pod = request.resource == "pods" and not request.subresource
                if is_pod and not rule.to_the_end and _is_going(context):
                    continue
                name = rule.name
                faults = tuple(rule.run(context))
                if faults:
                    raise Refused(faults)
                observe(name, True)
    except Refused as refusal:
        if name:
            observe(name, False)
        return _refusal(request.object, refusal, context)
    return AdmissionAnswer(True, request.object, warnings=tuple(dict.fromkeys(context.warnings)))


def _in_shape(request: Request) -> Request:
    """The request with objects whose shape rules can rely on."""
    obj, old, resource = request.object, request.old, BY_NAME.get(request.resource)
    if resource is None:
        return request
    shaped = None if obj is None else typed.in_shape(resource.type, obj)
    # Rules for pods use the old pod only as its type.
    shaped_old = old if old is None or request.resource == "pods" else typed.in_shape(resource.type, old)
    return request if shaped is obj and shaped_old is old else replace(request, object=shaped, old=shaped_old)


def _is_going(context: RuleContext) -> bool:
    """A pod that is being deleted must be able to lose its finalizers, whatever else is wrong with it."""
    return context.request.operation == "UPDATE" and context.pod.metadata.deletion_timestamp is not None


def _refusal(obj: Json | None, refusal: Refused, context: RuleContext) -> AdmissionAnswer:
    warnings = tuple(dict.fromkeys(context.warnings))
    return AdmissionAnswer(False, obj, code=refusal.code, message=str(refusal), warnings=warnings)
