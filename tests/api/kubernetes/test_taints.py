"""Which toleration covers which taint; as Kubernetes has it."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.taints import tolerates, untolerated
from koord.api.machinery.codec import convert


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        ({"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}, ("a", "1", "NoSchedule"), True),
        ({"key": "a", "value": "1"}, ("a", "1", "NoExecute"), True),
        ({"key": "a", "value": "2"}, ("a", "1", "NoExecute"), False),
        ({"key": "a", "operator": "Exists"}, ("a", "1", "NoExecute"), True),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, ("a", "1", "NoExecute"), False),
        ({"operator": "Exists"}, ("anything", "1", "NoExecute"), True),
        ({"key": "b", "operator": "Exists"}, ("a", "1", "NoExecute"), False),
        ({"key": "gen", "operator": "Gt", "value": "5"}, ("gen", "7", "NoSchedule"), True),
        ({"key": "gen", "operator": "Lt", "value": "5"}, ("gen", "7", "NoSchedule"), False),
        ({"key": "gen", "operator": "Gt", "value": "x"}, ("gen", "7", "NoSchedule"), False),
    ],
)
def test_which_toleration_covers_which_taint(
    toleration: dict[str, str], taint: tuple[str, str, str], covered: bool
) -> None:
    key, value, effect = taint
    meant = convert(Taint, {"key": key, "value": value, "effect": effect})
    tolerated = convert(Toleration, toleration)
    assert tolerates(tolerated, meant) is covered
    assert (untolerated((meant,), (tolerated,)) is None) is covered


def test_an_effect_that_is_not_asked_about_is_no_obstacle() -> None:
    taint = convert(Taint, {"key": "a", "effect": "PreferNoSchedule"})
    assert untolerated((taint,), ()) is None
    assert untolerated((taint,), (), ("PreferNoSchedule",)) is taint
