"""What users say that losing a pod costs."""

from __future__ import annotations

from typing import Final

from koord.api.kubernetes.pod import Pod

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST_RANGE: Final = 2**31


def deletion_cost(pod: Pod) -> int:
    """What a user says that losing this pod costs; 0 where nothing, or nothing sensible, is said."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    digits = text.removeprefix("-")
    # A sign and leading zeros are refused by the API; here they mean nothing.
    if not digits.isascii() or not digits.isdigit() or (len(digits) > 1 and digits[0] == "0") or text == "-0":
        return 0
    cost = int(text) if len(digits) <= 10 else _COST_RANGE
    return cost if -_COST_RANGE <= cost < _COST_RANGE else 0
