"""Taints and tolerations: which of a node's taints keep a pod off it, or drive it away?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.words import TaintEffect, TolerationOperator
from koord.api.machinery.faults import Fault

EFFECTS: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NO_EXECUTE)
OPERATORS: Final = tuple(TolerationOperator)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint. Without an effect it covers all effects, without a key (Exists) all keys."""
    if toleration.effect not in (TaintEffect.ALL, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case TolerationOperator.EXISTS:
            return True
        case TolerationOperator.EQUAL | "":
            return toleration.key == taint.key and toleration.value == taint.value
        case TolerationOperator.LESS | TolerationOperator.GREATER:
            return _compares(toleration, taint.value)
        case _:
            return False


def _compares(toleration: Toleration, value: str) -> bool:
    """Lt and Gt compare the taint's value with the toleration's, as integers."""
    try:
        have, bound = int(value), int(toleration.value)
    except ValueError:
        return False
    return have < bound if toleration.operator is TolerationOperator.LESS else have > bound


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Sequence[str] = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE),
) -> Taint | None:
    """The first taint with one of the effects that nothing tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def taint_faults(taints: Sequence[Taint]) -> Iterator[Fault]:
    """What an API server would refuse of a node's taints."""
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        if not taint.key:
            yield Fault(f"[{i}].key", "is required")
        if taint.effect not in EFFECTS:
            yield Fault(f"[{i}].effect", f"must be one of {', '.join(EFFECTS)}, not {str(taint.effect)[:60]!r}")
        elif (taint.key, taint.effect) in seen:
            yield Fault(f"[{i}]", f"there is another taint with key {taint.key} and effect {taint.effect}")
        seen.add((taint.key, taint.effect))


def toleration_faults(tolerations: Sequence[Toleration]) -> Iterator[Fault]:
    """What an API server would refuse of a pod's tolerations: they cover nothing, or not what they seem to."""
    for i, toleration in enumerate(tolerations):
        at, operator = f"[{i}]", toleration.operator or TolerationOperator.EQUAL
        if operator not in OPERATORS:
            yield Fault(f"{at}.operator", f"must be one of {', '.join(OPERATORS)}, not {str(operator)[:60]!r}")
        elif not toleration.key and operator is not TolerationOperator.EXISTS:
            yield Fault(f"{at}.operator", f"must be Exists where no key is given, not {operator}")
        if operator is TolerationOperator.EXISTS and toleration.value:
            yield Fault(f"{at}.value", "must be empty where the operator is Exists")
        if toleration.effect and toleration.effect not in EFFECTS:
            yield Fault(f"{at}.effect", f"must be one of {', '.join(EFFECTS)}, not {str(toleration.effect)[:60]!r}")
        elif toleration.toleration_seconds is not None and toleration.effect != TaintEffect.NO_EXECUTE:
            yield Fault(f"{at}.effect", "must be NoExecute where tolerationSeconds is given")
