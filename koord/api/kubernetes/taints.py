"""Taints and tolerations: which of a node's taints keep a pod off it, or drive it away?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.words import TaintEffect, TolerationOperator


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
