"""A NodeManager's containers: which there are, and in which order they go when the node needs something back.

Opportunistic containers first, which YARN itself runs only in unused places; then the youngest,
which lose least; an application's master last, since its application would start again.
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
        match = _ID.fullmatch(self.id)
        return f"application_{match[2]}_{match[3]}" if match else ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


def is_container_id(text: str) -> bool:
    """It becomes a part of paths."""
    return _ID.fullmatch(text) is not None


class NotListed(ValueError):
    """An answer that does not list containers."""


def listed(answer: Any) -> list[YarnContainer]:
    """Of a NodeManager's `/ws/v1/node/containers`, what still runs. A name that is no container's is left out. Raises
    NotListed: taken for an empty list, another answer would end all that runs."""
    if not isinstance(answer, dict) or "containers" not in answer:
        raise NotListed
    inside = answer["containers"] or {}
    items = (inside.get("container") or []) if isinstance(inside, dict) else None
    if not isinstance(items, list | dict):
        raise NotListed
    containers = []
    for item in [items] if isinstance(items, dict) else items:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            raise NotListed
        if not is_container_id(item["id"]):
            continue
        vcores, mib = item.get("totalVCoresNeeded"), item.get("totalMemoryNeededMB")
        container = YarnContainer(
            item["id"],
            of_yarn(vcores if isinstance(vcores, int) else 0, mib if isinstance(mib, int) else 0),
            str(item.get("state", "")),
            str(item.get("executionType") or "GUARANTEED"),
        )
        if not container.is_final:
            containers.append(container)
    return containers


def masters(containers: Iterable[YarnContainer]) -> set[str]:
    """Ids of applications' masters: the first container of an attempt. A ResourceManager that takes over counts from
    one in an epoch of its own, so of several firsts the one from before is the master."""
    firsts: dict[tuple[str, ...], tuple[int, str]] = {}
    for container in containers:
        id_ = _ID.fullmatch(container.id)
        if id_ is None or int(id_[5]) != _FIRST or container.execution == OPPORTUNISTIC:
            continue
        attempt = id_[2], id_[3], id_[4]
        firsts[attempt] = min(firsts.get(attempt, (1 << 62, "")), (int(id_["epoch"] or 0), container.id))
    return {id_ for _, id_ in firsts.values()}


def release_order(containers: Iterable[YarnContainer]) -> list[YarnContainer]:
    """In the order in which they are ended. A container without a process loses nothing."""
    all_ = list(containers)
    spared = masters(all_)
    return sorted(
        all_,
        key=lambda container: (
            container.id in spared,
            container.execution != OPPORTUNISTIC,
            container.started_s > 0,
            -container.started_s,
            container.id,
        ),
    )


def to_release(
    containers: Sequence[YarnContainer], amount: Amount, used: Mapping[str, Amount], leaving: Collection[str]
) -> list[str]:
    """Ids of those that have to go for an amount to be released. `used` by id; what it does not know counts as needed.

    Those in `leaving` are ending: what they hold counts as released, and no other container is ended for it.
    """

    def frees(container: YarnContainer) -> Amount:
        return used.get(container.id, container.needs)

    released = NOTHING
    for container in containers:
        if container.id in leaving:
            released = released.plus(frees(container))
    chosen = []
    for container in release_order(containers):
        if amount.fits(released):
            break
        missing, own = amount.minus(released), frees(container)
        if container.id in leaving or missing.least(own) == NOTHING:
            continue
        chosen.append(container.id)
        released = released.plus(own)
    return chosen


def info(container: YarnContainer, directory: str) -> ContainerInfo:
    amounts: dict[str, str | int | float] = {
        "cpu": render("cpu", container.needs.cpu_milli),
        "memory": render("memory", container.needs.memory_bytes),
    }
    return ContainerInfo(
        name=container.id,
        uid=container.id,
        labels={LABEL_EXECUTION: container.execution, LABEL_APPLICATION: container.application},
        annotations={},
        create_timestamp=from_seconds(container.started_s) if container.started_s else "0001-01-01T00:00:00Z",
        cgroup_dir=f"{directory}/{container.id}",
        resources=ResourceRequirements(limits=amounts, requests=amounts),
    )
