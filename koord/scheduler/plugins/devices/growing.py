"""Devices of a pod that keeps what it has and gets more: a reservation that grows.

The devices are chosen again, its own first. If that would give one up, only the missing ones are chosen, near those
that it has, and all of them together are checked once more: links, switches and scopes hold for the whole set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.allocate import Grants, Score, allocate
from koord.scheduler.plugins.devices.grants import Grant, Granted
from koord.scheduler.plugins.devices.requests import GPU, Wanted
from koord.scheduler.plugins.devices.room import Room


def allocate_more(
    room: Room, wanted: Wanted, score_in: Callable[[Room], Score], having: Granted, key: str
) -> Grants | Objection:
    """As `allocate`: all devices that a pod has afterwards. `room`: without what it has; `key`: the pod's."""
    own = frozenset((type_, grant.minor) for type_, grants in having.by_type for grant in grants)
    room = replace(room, preferred=own)
    grants = allocate(room, wanted, score_in(room))
    if isinstance(grants, Objection) or has_all(grants, having):
        return grants
    usage = deepcopy(room.usage)
    usage.count(having, key, +1)
    mates = room.mates | {minor for type_, minor in own if type_ == GPU}
    beside = replace(room, usage=usage, mates=mates, preferred=frozenset())
    more = allocate(beside, _missing(wanted, having), score_in(beside))
    if isinstance(more, Objection):
        return more
    room = replace(room, most={type_: _both(room, wanted, type_, having, more) for type_ in {*more, *dict(own)}})
    grants = allocate(room, wanted, score_in(room))
    if isinstance(grants, Objection) or has_all(grants, having):
        return grants
    return Objection("node(s) no devices beside those that it has")


def has_all(offered: Grants, having: Granted) -> bool:
    """Whether nothing of what it has is given up."""
    for type_, grants in having.by_type:
        after = {grant.minor: grant for grant in offered.get(type_, ())}
        for grant in grants:
            same = after.get(grant.minor)
            if same is None or not set(grant.vfs) <= set(same.vfs):
                return False
            amounts = dict(same.amounts)
            if any(amount > amounts.get(name, 0) for name, amount in grant.amounts):
                return False
    return True


def _missing(wanted: Wanted, having: Granted) -> Wanted:
    """The devices that it lacks."""
    asked = [(request, request.count - len(having.of(request.type))) for request in wanted.requests]
    less = tuple(replace(request, count=count) for request, count in asked if request.count and count > 0)
    types = {request.type for request in less}
    joint = tuple(type_ for type_ in wanted.joint if type_ in types)
    return replace(wanted, requests=less, joint=joint if len(joint) > 1 else (), partition=None)


def _both(room: Room, wanted: Wanted, type_: str, having: Granted, more: Grants) -> Mapping[int, Grant]:
    """What it has and what is new, of one type: no other devices, and of its own the same virtual functions."""
    request = wanted.of(type_)
    amounts = {} if request is None else request.amounts
    minors = {grant.minor: grant.vfs for grant in more.get(type_, ())} | {
        grant.minor: grant.vfs for grant in having.of(type_)
    }
    by_minor = {}
    for minor, vfs in minors.items():
        unit = room.machine.unit(type_, minor)
        total = {} if unit is None else unit.total
        by_minor[minor] = Grant(minor, tuple(sorted({**amounts, **total}.items())), vfs=vfs)
    return by_minor
