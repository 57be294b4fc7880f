"""Nodes with Reservations on them are kept from autoscalers, which see pods and no Reservations.

With the gate ReservationsKeepNodes, a node with a Reservation gets the annotations that keep Cluster Autoscaler and
Karpenter from removing it. Annotations that others set are left alone. A further annotation lists koord's own, so that
exactly those are removed with the last Reservation, by any scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from koord.api.kinds import NODES
from koord.api.kubernetes.autoscaling import KEPT_NODE
from koord.api.protocol import names
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.reservation.reserve_pod import ENDED
from koord.scheduler.state.cluster import Cluster

LOOK_AGAIN_S: Final = 10.0
KEPT: Final = names.OWN_ANNOTATION_KEPT_FOR_RESERVATIONS


def holding(reservations: Iterable[Reservation]) -> frozenset[str]:
    """The nodes that Reservations have their room on."""
    statuses = (reservation.status for reservation in reservations)
    return frozenset(status.node_name for status in statuses if status.node_name and status.phase not in ENDED)


def change(annotations: Mapping[str, str], *, holds: bool) -> dict[str, str | None]:
    """What the annotations of a node have to become."""
    mark = annotations.get(KEPT)
    if holds and mark is None:
        new = {key: value for key, value in KEPT_NODE.items() if key not in annotations}
        return {**new, KEPT: ",".join(new)} if new else {}
    if not holds and mark is not None:
        return {KEPT: None, **{key: None for key in mark.split(",") if key in KEPT_NODE}}
    return {}


class KeptNodes:
    """Looks when a Reservation changes, and now and then: nodes come with what another scheduler wrote on them."""

    def __init__(self) -> None:
        self._again_s = 0.0
        self._sent: dict[str, tuple[str, Mapping[str, str | None]]] = {}
        "By node: the resource version, and the annotations that were sent."

    def writes(self, cluster: Cluster, reservations: Iterable[Reservation], *, touched: bool) -> Iterator[Patch]:
        if not touched and cluster.now_s < self._again_s:
            cluster.ask_again(self._again_s)
            return
        self._again_s = cluster.now_s + LOOK_AGAIN_S
        cluster.ask_again(self._again_s)
        held, sent = holding(reservations), self._sent
        self._sent = {}
        for node in cluster.nodes.values():
            meta = node.metadata
            wanted = change(meta.annotations, holds=meta.name in held)
            if not wanted:
                continue
            self._sent[meta.name] = meta.resource_version, wanted
            if sent.get(meta.name) != self._sent[meta.name]:
                yield Patch(NODES, meta.name, {"metadata": {"uid": meta.uid, "annotations": wanted}})
