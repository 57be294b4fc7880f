"""How much is "25%" of ten pods? A number stands for itself, a percentage for its part of a total.

The direction of rounding is the caller's: what allows more pods rounds up, what allows fewer available ones rounds
down, so that both limits err on the side of availability.
"""

from __future__ import annotations

from koord.api.text.whole_number import natural_number


def share(value: int | str, total: int, *, round_up: bool) -> int:
    """`value` (3, "3" is no number here, "25%") of `total`. ValueError where it is neither."""
    if isinstance(value, int):
        return value
    percent = natural_number(value.removesuffix("%"))
    if not value.endswith("%") or percent is None:
        raise ValueError(f"{value[:40]!r} is neither a number nor a percentage such as 25%")
    product = percent * total
    return -(-product // 100) if round_up else product // 100
