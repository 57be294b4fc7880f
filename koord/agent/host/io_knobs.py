"""What can be set on a cgroup for one disk: limits, weight, and how the disk is measured.

One file has a line for every disk, so a knob here is one disk's line, and is named by both: `io.max rbps 8:0`. Zero is
no limit, on both versions. A disk without a line has what holds for all disks, and gets that back by the kernel's words
for it (`default`, `ctrl=auto`): a line with the same numbers would hold it there when the others change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from koord.agent.host.knobs import Form, Knob, Place, Present, Value

_NAME: Final = re.compile(r"(?P<what>[a-z.]+(?: [a-z]+)?) (?P<disk>[0-9]{1,7}:[0-9]{1,7})")
_V1_LIMITS: Final = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}
LIMITS: Final = tuple(_V1_LIMITS)
"""Bytes and operations a second, read and written."""
MOST: Final = {"rbps": 2**63 - 1, "wbps": 2**63 - 1, "riops": 2**32 - 1, "wiops": 2**32 - 1}
"""From there on, a number stands for no limit."""
NO_LIMIT: Final = 0
USUAL_WEIGHT: Final = 100
AUTO: Final = "ctrl=auto"
NO_COST: Final = f"enable=0 {AUTO}"
_DEFAULT: Final = "default"
_AS_OTHERS: Final = 0
"""A disk without a weight of its own."""


@lru_cache(1024)
def io_limit(what: str, disk: str) -> Knob:
    """`what` is one of LIMITS."""
    v1 = Place(_V1_LIMITS[what], _limit_on_v1(disk), "blkio", Present.KUBEPODS)
    v2 = Place("io.max", _limit_on_v2(what, disk), "", Present.TARGET)
    return Knob(f"io.max {what} {disk}", v1, v2, 0)


@lru_cache(1024)
def io_weight(disk: str) -> Knob:
    """Against others that use the disk."""
    v1 = Place("blkio.cost.weight", _weight(disk), "blkio", Present.KUBEPODS)
    return Knob(f"io.weight {disk}", v1, Place("io.weight", _weight(disk), "", Present.TARGET), 1, 100)


@lru_cache(256)
def io_cost_qos(disk: str) -> Knob:
    """From when on the disk counts as busy. Of the root alone."""
    return _text_knob("io.cost.qos", disk, _settings(disk, NO_COST))


@lru_cache(256)
def io_cost_model(disk: str) -> Knob:
    """What the disk can do. Of the root alone."""
    return _text_knob("io.cost.model", disk, _settings(disk, AUTO))


def io_knob(name: str) -> Knob | None:
    """By its name; None for what is none of these."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    what, disk = match["what"], match["disk"]
    if what == "io.weight":
        return io_weight(disk)
    if what == "io.cost.qos":
        return io_cost_qos(disk)
    if what == "io.cost.model":
        return io_cost_model(disk)
    file, _, limit = what.partition(" ")
    return io_limit(limit, disk) if file == "io.max" and limit in LIMITS else None


def _text_knob(file: str, disk: str, form: Form) -> Knob:
    v1 = Place(f"blk{file}", form, "blkio", Present.TARGET)
    return Knob(f"{file} {disk}", v1, Place(file, form, "", Present.TARGET))


def _line(text: str, disk: str) -> str | None:
    """What a file, or what was written, says of a disk."""
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == disk:
            return rest.strip()
    return None


def _limit_on_v1(disk: str) -> Form:
    def read(text: str) -> int:
        return int(_line(text, disk) or NO_LIMIT)

    return Form(lambda value: f"{disk} {value}", read, shown=_shown(disk, str(NO_LIMIT)))


def _limit_on_v2(what: str, disk: str) -> Form:
    def write(value: Value) -> str:
        return f"{disk} {what}={'max' if value == NO_LIMIT else value}"

    def read(text: str) -> int:
        limit = _pairs(_line(text, disk) or "").get(what, "max")
        return NO_LIMIT if limit == "max" else int(limit)

    def shown(text: str) -> str:
        return write(read(text))

    return Form(write, read, shown=shown)


def _weight(disk: str) -> Form:
    def read(text: str) -> int:
        own = _line(text, disk) or _DEFAULT
        return _AS_OTHERS if own == _DEFAULT else int(own)

    def write(value: Value) -> str:
        return f"{disk} {_DEFAULT if value == _AS_OTHERS else value}"

    return Form(write, read, shown=lambda text: write(read(text)))


def _pairs(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split() if "=" in part)


def _shown(disk: str, nothing: str) -> Callable[[str], str]:
    """A disk without a line is as if its line said that there is nothing."""
    return lambda text: f"{disk} {_line(text, disk) or nothing}"


def _settings(disk: str, nothing: str) -> Form:
    """Values are the text after the disk: `enable=1 ctrl=user rpct=95`. The kernel shows more than was written, and
    writes numbers its own way. Those that it chose itself must not be written: each of them would make it `ctrl=user`.
    """

    def shown(text: str) -> str:
        own = _line(text, disk) or nothing
        if AUTO in own.split():
            own = " ".join(word for word in own.split() if word == AUTO or word.startswith("enable="))
        return f"{disk} {own}"

    def alike(one: str, other: str) -> bool:
        first, second = _pairs(one), _pairs(other)
        return all(_number(first[key]) == _number(second[key]) for key in first.keys() & second.keys())

    return Form(
        lambda value: f"{disk} {value}",
        lambda text: _line(text, disk) or nothing,
        shown=shown,
        alike=alike,
    )


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
