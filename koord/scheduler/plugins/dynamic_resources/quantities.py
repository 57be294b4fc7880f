"""Consumable capacity: how much of a device a request takes, by the policy of each capacity.

    not requested         the policy's default, else all of it
    validRange            max(min, request), rounded up to min + n * step
    validValues           the smallest value that is at least the request
    no policy             the request

Amounts are exact: integers in billionths, which is the finest that a quantity can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.kubernetes.dynamic_resources import CapacityRange, CapacityRequestPolicy, Device, DeviceCapacity
from koord.api.text.quantity import Number, from_milli, from_value, parse

ONE: Final = 10**9
_MILLI: Final = 10**6
_MOST: Final = (2**63 - 1) * ONE


def exact(quantity: Number) -> int:
    """A quantity in billionths."""
    mantissa, exponent, _ = parse(quantity)
    # No quantity is finer than a billionth.
    return mantissa * int(10 ** (exponent + 9))


def written(amount: int, like: Number) -> str:
    """An amount as a quantity in the format of another one."""
    whole, rest = divmod(amount, ONE)
    if rest:
        return from_milli(-(-amount // _MILLI))
    return from_value(whole, binary=parse(like).format == "BinarySI")


def consumed(device: Device, requests: Mapping[str, Number]) -> dict[str, int] | None:
    """What a request takes of each capacity of a device. None: it names a capacity that the device does not have, or
    an amount that the policy does not allow, or more than there is."""
    if requests and not requests.keys() <= device.capacity.keys():
        return None
    amounts: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        amount = _of_capacity(capacity, requests.get(name))
        if amount is None or not 0 <= amount <= _MOST or amount > exact(capacity.value):
            return None
        amounts[name] = amount
    return amounts


def _of_capacity(capacity: DeviceCapacity, request: Number | None) -> int | None:
    policy = capacity.request_policy
    if request is None:
        return exact(capacity.value if policy is None or policy.default is None else policy.default)
    amount = exact(request)
    return amount if policy is None else _by_policy(policy, amount)


def _by_policy(policy: CapacityRequestPolicy, amount: int) -> int | None:
    default = None if policy.default is None else exact(policy.default)
    if amount == default:
        return amount
    if policy.valid_range is not None:
        return _in_range(policy.valid_range, amount)
    if policy.valid_values:
        return min((value for value in map(exact, policy.valid_values) if value >= amount), default=None)
    return amount


def _in_range(valid: CapacityRange, amount: int) -> int | None:
    bounds = [None if bound is None else exact(bound) for bound in (valid.min, valid.max, valid.step)]
    least, most, step = bounds
    unit = _MILLI if all(bound is None or bound % _MILLI == 0 for bound in bounds) else ONE
    if least is not None:
        amount = max(amount, least)
        if step:
            least, step = _rounded_up(least, unit), _rounded_up(step, unit)
            amount = least + _rounded_up(_rounded_up(amount, unit) - least, step)
    return None if most is not None and amount > most else amount


def _rounded_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
