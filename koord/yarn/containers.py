"""A NodeManager's containers: which there are, and in which order they go when the node needs something back.

Opportunistic containers first, which YARN itself runs only as long as nobody else wants the place; then the youngest,
which lose least; an application's master last, since its application would begin anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from koord.api.kubernetes.pod import ResourceRequirements
from koord.api.machinery.struct import Struct
from koord.api.protocol.copilot import LABEL_APPLICATION, LABEL_EXECUTION, ContainerInfo
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds
from koord.yarn.amount import NOTHING, Amount, of_yarn

FINAL: Final = frozenset(
    {
        "KILLING",
        "DONE",
        "LOCALIZATION_FAILED",
        "CONTAINER_RESOURCES_CLEANINGUP",
        "CONTAINER_CLEANEDUP_AFTER_KILL",
        "EXITED_WITH_FAILURE",
        "EXITED_WITH_SUCCESS",
    }
)
OPPORTUNISTIC: Final = "OPPORTUNISTIC"
_ID: Final = re.compile(r"container_(?:e(?P<epoch>\d{1,18})_)?(\d{1,18})_(\d{1,18})_(\d{1,18})_(\d{1,18})", re.ASCII)
_FIRST: Final = 1


class YarnContainer(Struct):
    id: str
    needs: Amount = NOTHING
    state: str = "RUNNING"
    execution: str = "GUARANTEED"
    started_s: float = 0.0
    "Of its first process, since the epoch; 0 while it has none."

    @property
    def application(self) -> str:
        found = _ID.fullmatch(self.id)
        return f"application_{found[2]}_{found[3]}" if found else ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


def is_container_id(text: str) -> bool:
    """It becomes a part of paths."""
    return _ID.fullmatch(text) is not None


class NotListed(ValueError):
    """An answer that is no list of containers."""


def listed(answer: Any) -> list[YarnContainer]:
    """Of a NodeManager's `/ws/v1/node/containers`, what still runs. A name that is no container's is left out. Raises
    NotListed: whoever took something else for an empty list would end all that runs."""
    if not isinstance(answer, dict) or "containers" not in answer:
        raise NotListed
    inside = answer["containers"] or {}
    items = (inside.get("container") or []) if isinstance(inside, dict) else None
    if not isinstance(items, list | dict):
        raise NotListed
    found = []
    for each in [items] if isinstance(items, dict) else items:
        if not isinstance(each, dict) or not isinstance(each.get("id"), str):
            raise NotListed
        if not is_container_id(each["id"]):
            continue
        vcores, mib = each.get("totalVCoresNeeded"), each.get("totalMemoryNeededMB")
        container = YarnContainer(
            each["id"],
            of_yarn(vcores if isinstance(vcores, int) else 0, mib if isinstance(mib, int) else 0),
            str(each.get("state", "")),
            str(each.get("executionType") or "GUARANTEED"),
        )
        if not container.is_final:
            found.append(container)
    return found


def masters(containers: Iterable[YarnContainer]) -> set[str]:
    """Ids of applications' masters: the first container of an attempt. A ResourceManager that takes over counts anew
    in an epoch of its own, so of several firsts the one from before is the master."""
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    for each in containers:
        id_ = _ID.fullmatch(each.id)
        if id_ is None or int(id_[5]) != _FIRST or each.execution == OPPORTUNISTIC:
            continue
        attempt = id_[2], id_[3], id_[4]
        found[attempt] = min(found.get(attempt, (1 << 62, "")), (int(id_["epoch"] or 0), each.id))
    return {id_ for _, id_ in found.values()}


def release_order(containers: Iterable[YarnContainer]) -> list[YarnContainer]:
    """Who goes first comes first. One without a process has lost nothing yet."""
    all_ = list(containers)
    spared = masters(all_)
    return sorted(
        all_,
        key=lambda each: (
            each.id in spared,
            each.execution != OPPORTUNISTIC,
            each.started_s > 0,
            -each.started_s,
            each.id,
        ),
    )


def to_release(
    containers: Sequence[YarnContainer], amount: Amount, used: Mapping[str, Amount], leaving: Collection[str]
) -> list[str]:
    """Ids of those that have to go for an amount to be released. `used` by id; what it does not know counts as needed.

    Those in `leaving` were told to go and are still there: what they hold counts as released, nobody goes instead.
    """

    def frees(each: YarnContainer) -> Amount:
        return used.get(each.id, each.needs)

    released = NOTHING
    for each in containers:
        if each.id in leaving:
            released = released.plus(frees(each))
    chosen = []
    for each in release_order(containers):
        if amount.fits(released):
            break
        missing, own = amount.minus(released), frees(each)
        if each.id in leaving or missing.least(own) == NOTHING:
            continue
        chosen.append(each.id)
        released = released.plus(own)
    return chosen


def info(each: YarnContainer, directory: str) -> ContainerInfo:
    amounts: dict[str, str | int | float] = {
        "cpu": render("cpu", each.needs.cpu_milli),
        "memory": render("memory", each.needs.memory_bytes),
    }
    return ContainerInfo(
        name=each.id,
        uid=each.id,
        labels={LABEL_EXECUTION: each.execution, LABEL_APPLICATION: each.application},
        annotations={},
        create_timestamp=from_seconds(each.started_s) if each.started_s else "0001-01-01T00:00:00Z",
        cgroup_dir=f"{directory}/{each.id}",
        resources=ResourceRequirements(limits=amounts, requests=amounts),
    )
