"""RDMA cards, as sysfs shows them: network cards that the kernel's InfiniBand side knows, with virtual functions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from koord.agent.devices.inventory import RdmaCard
from koord.agent.devices.pci import DEVICES
from koord.agent.host.files import Files

NETWORK: Final = "0x02"
_NUMBERED: Final = re.compile(r"[a-z0-9]+_([0-9]{1,9})", re.ASCII)


def cards(files: Files) -> tuple[RdmaCard, ...]:
    """By minor. A card whose name has no number, as administrators may rename it, or one that another driver's card has
    already (mlx4_0 beside mlx5_0), is numbered after the others."""
    numbered: list[RdmaCard] = []
    unnumbered: list[RdmaCard] = []
    taken: set[int] = set()
    for bus_id in files.names(DEVICES):
        card = _card(files, bus_id)
        if card is not None:
            (unnumbered if card.minor < 0 or card.minor in taken else numbered).append(card)
            taken.add(card.minor)
    taken.discard(-1)
    free = (
        number for number in range(len(numbered) + len(unnumbered) + max(taken, default=0) + 1) if number not in taken
    )
    numbered += [replace(card, minor=next(free)) for card in unnumbered]
    return tuple(sorted(numbered, key=lambda card: card.minor))


def _card(files: Files, bus_id: str) -> RdmaCard | None:
    own = f"{DEVICES}/{bus_id}"
    if not files.text_if_any(f"{own}/class").startswith(NETWORK) or files.exists(f"{own}/physfn"):
        return None
    names = files.names(f"{own}/infiniband")
    if not names:
        return None
    # The card itself is made before its virtual functions and has the first name.
    name = min(names, key=lambda name: (len(name), name))
    number = _NUMBERED.fullmatch(name)
    functions = {other: _verbs(files, other) for other in _functions(files, own)}
    return RdmaCard(
        name=name,
        minor=int(number[1]) if number else -1,
        bus_id=bus_id,
        verbs=_verbs(files, bus_id),
        functions=functions,
        is_active=_is_active(files, f"{own}/infiniband/{name}/ports"),
    )


def _functions(files: Files, own: str) -> Iterator[str]:
    for name in files.names(own):
        if name.startswith("virtfn"):
            bus_id = os.path.basename(os.path.realpath(files.path(f"{own}/{name}")))
            # A function that is removed at this moment leaves a dangling link.
            if files.exists(f"{DEVICES}/{bus_id}"):
                yield bus_id


def _verbs(files: Files, bus_id: str) -> str:
    verbs = files.names(f"{DEVICES}/{bus_id}/infiniband_verbs")
    return f"infiniband/{verbs[0]}" if verbs else ""


def _is_active(files: Files, ports: str) -> bool:
    names = files.names(ports)
    return bool(names) and all("ACTIVE" in files.text_if_any(f"{ports}/{port}/state") for port in names)
