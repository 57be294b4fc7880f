"""Values that are a count or a percentage: 3, "25%"."""

from __future__ import annotations

from koord.api.text import formats
from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver.builtin.checks import Faults, add_all
from koord_minicluster.apiserver.status import invalid


def validate_int_or_percent(faults: Faults, value: int | str, path: str) -> None:
    if isinstance(value, str):
        add_all(faults, path, value, formats.percent(value))
    elif value < 0:
        faults.append(invalid(path, value, "must be greater than or equal to 0"))


def number_of(value: int | str) -> int:
    """The count, or the figure before the percent sign; 0 for what is neither."""
    if isinstance(value, int):
        return value
    figure = value.removesuffix("%")
    return whole_number(figure) if figure.isdecimal() and figure.isascii() else 0


def below_all(faults: Faults, value: int | str, path: str) -> None:
    if isinstance(value, str) and not formats.percent(value) and number_of(value) > 100:
        faults.append(invalid(path, value, "must not be greater than 100%"))
