"""Admission itself: what becomes of an object, and whether it may be stored.

`mutate` and `validate` are the two questions that an API server asks; `admit` asks both, as it does, for those who want
to know beforehand. The same request always has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koord.admission import typed
from koord.admission.json_patch import difference
from koord.admission.known import Known
from koord.admission.request import AdmissionAnswer, Gates, Json, Refused, Request
from koord.admission.rules import MUTATING, VALIDATING, Asked
from koord.api.kubernetes.pod import Pod

Observe = Callable[[str, bool], None]
"""Is told after each rule: its name, and whether it let the request pass."""

_NEW_POD = Request("CREATE", "pods")


def nobody(name: str, passed: bool) -> None:
    """For who does not want to know."""


def mutate(request: Request, known: Known, gates: Gates, seed: int = 0, observe: Observe = nobody) -> AdmissionAnswer:
    """The object as it is to be stored, and the patch that leads there."""
    answer = completed(request, known, gates, seed, observe)
    before, after = request.object, answer.object
    if before is None or after is None or after is before:
        return answer
    return replace(answer, patch=difference(before, after))


def completed(
    request: Request, known: Known, gates: Gates, seed: int = 0, observe: Observe = nobody
) -> AdmissionAnswer:
    """The object as it is to be stored, without the patch, for those who do not send one."""
    rules = [rule for rule in MUTATING if rule.concerns(request, gates)]
    before = request.object
    if not rules or before is None:
        return AdmissionAnswer(True, before)
    name = ""
    asked = Asked(request, known, gates, seed)
    try:
        asked.request = request = _in_shape(request)
        shaped = obj = request.object or {}
        for rule in rules:
            name = rule.name
            obj = rule.run(asked, obj)
            observe(name, True)
    except Refused as refusal:
        if name:
            observe(name, False)
        return _refusal(before, refusal, asked)
    return AdmissionAnswer(True, before if obj is shaped else obj, warnings=tuple(dict.fromkeys(asked.warnings)))


def validate(request: Request, known: Known, gates: Gates, observe: Observe = nobody) -> AdmissionAnswer:
    """Whether the object may be stored as it is."""
    asked = Asked(request, known, gates)
    if request.resource != "pods":
        try:
            asked.request = _in_shape(request)
        except Refused as refusal:
            return _refusal(request.object, refusal, asked)
    return _validated(asked, observe)


def admit(request: Request, known: Known, gates: Gates, seed: int = 0) -> AdmissionAnswer:
    """Both: the object as it is to be stored, if it may be."""
    mutated = mutate(request, known, gates, seed)
    if not mutated.allowed:
        return mutated
    validated = validate(replace(request, object=mutated.object), known, gates)
    warnings = tuple(dict.fromkeys((*mutated.warnings, *validated.warnings)))
    if not validated.allowed:
        return replace(validated, object=request.object, warnings=warnings)
    return replace(mutated, warnings=warnings)


def pod_denial(pod: Pod, known: Known, gates: Gates) -> str:
    """Why a new pod would be denied, for those who have it typed already; empty where it would not."""
    return _validated(Asked(_NEW_POD, known, gates, _pod=pod), nobody).message


def _validated(asked: Asked, observe: Observe) -> AdmissionAnswer:
    request = asked.request
    name = ""
    try:
        for rule in VALIDATING:
            if rule.concerns(request, asked.gates):
                is_pod = request.resource == "pods" and not request.subresource
                if is_pod and not rule.to_the_end and _is_going(asked):
                    continue
                name = rule.name
                faults = tuple(rule.run(asked))
                if faults:
                    raise Refused(faults)
                observe(name, True)
    except Refused as refusal:
        if name:
            observe(name, False)
        return _refusal(request.object, refusal, asked)
    return AdmissionAnswer(True, request.object, warnings=tuple(dict.fromkeys(asked.warnings)))


def _in_shape(request: Request) -> Request:
    """The request with objects of which rules can rely on the shape."""
    obj, old = request.object, request.old
    shaped = None if obj is None else typed.in_shape(request.resource, obj)
    # Rules for pods look at the old one as its type only.
    shaped_old = old if old is None or request.resource == "pods" else typed.in_shape(request.resource, old)
    return request if shaped is obj and shaped_old is old else replace(request, object=shaped, old=shaped_old)


def _is_going(asked: Asked) -> bool:
    """A pod that is being deleted must be able to lose its finalizers, whatever else is wrong with it."""
    return asked.request.operation == "UPDATE" and asked.pod.metadata.deletion_timestamp is not None


def _refusal(obj: Json | None, refusal: Refused, asked: Asked) -> AdmissionAnswer:
    warnings = tuple(dict.fromkeys(asked.warnings))
    return AdmissionAnswer(False, obj, code=refusal.code, message=str(refusal), warnings=warnings)
