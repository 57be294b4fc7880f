"""On cgroup v1 no quota can be larger than one above it: what is wanted of a QoS class as a whole comes first.

Otherwise the kernel refuses whichever is written later. A strategy that holds a single pod and one that holds all of
best effort know nothing of each other, so the pod's is cut to what they have together, also where one of the two was
written in an earlier round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from koord.agent.executor.ledger import Entry, Ledger
from koord.agent.executor.write import Spot, Write
from koord.agent.host.convert import PERIOD_US, UNLIMITED
from koord.agent.host.knobs import CPU_PERIOD, CPU_QUOTA, CPU_QUOTA_IN_LONG_PERIODS, Knob, Value


def fitted(wanted: dict[Spot, Write], ledger: Ledger, ran: Collection[str]) -> dict[Spot, Write]:
    """Of cgroup v1. `ran`: the strategies whose wishes these are: what they no longer want is put back, and not cut."""
    fitting = wanted
    for directory in {_class_of(spot.directory) for spot in wanted if spot.knob == CPU_QUOTA.name}:
        own = Spot(CPU_QUOTA.name, directory)
        write, before = wanted.get(own), ledger.get(own)
        if write is not None:
            most = write.value
        elif before is not None and before.by not in ran:
            most = _written(before, ledger)
        else:
            continue
        if not isinstance(most, int) or most == UNLIMITED:
            continue
        inside = {spot: write for spot, write in wanted.items() if _is_below(spot, own)}
        cut = {spot: replace(write, value=most) for spot, write in inside.items() if _is_more(write.value, most)}
        for entry in ledger if write is not None else ():
            if entry.by in ran or entry.spot in inside or not _is_below(entry.spot, own):
                continue
            if _is_more(_written(entry, ledger), most):
                knob, why = _counted_by(entry, ledger), f"as much as {directory} has together"
                cut[entry.spot] = Write(knob, entry.directory, most, entry.by, why, own=entry.own)
        fitting = {**fitting, **cut}
    return fitting


def _class_of(directory: str) -> str:
    """The directory of its QoS class; of a Guaranteed pod, its own."""
    return "/".join(directory.split("/")[:2])


def _is_below(spot: Spot, above: Spot) -> bool:
    return spot.knob == above.knob and spot.directory.startswith(f"{above.directory}/")


def _is_more(value: Value, most: int) -> bool:
    """No limit at all is the parent's."""
    return isinstance(value, int) and value > most


def _written(entry: Entry, ledger: Ledger) -> Value:
    """The largest that the agent may have written: one that was killed left one or another."""
    place = _counted_by(entry, ledger).v1
    assert place is not None
    values = [value for text in entry.wrote if isinstance(value := place.form.read(text), int)]
    return UNLIMITED if UNLIMITED in values else max(values, default=UNLIMITED)


def _counted_by(entry: Entry, ledger: Ledger) -> Knob:
    period = ledger.get(Spot(CPU_PERIOD.name, entry.directory))
    is_long = period is not None and str(PERIOD_US) not in period.wrote
    return CPU_QUOTA_IN_LONG_PERIODS if is_long else CPU_QUOTA
