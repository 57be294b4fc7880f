"""Why pods are pending, as data: for each pod the plugin that rejects most nodes, its reasons, and since when.

`GET /apis/v1/pending` lists them (`koord.scheduler.live.diagnosis`), and the console groups them. The texts of events
and conditions say the same in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from koord.api.machinery.struct import EMPTY
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.placement import Placement


class PendingPod(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    "NAMESPACE/NAME."
    uid: str
    code: str
    "Why: a reason of the condition PodScheduled, for example Unschedulable or QuotaExceeded."
    plugin: str
    "The plugin that rejects most nodes; empty if none does."
    nodes: int
    "How many nodes it rejects."
    reasons: Mapping[str, int] = EMPTY
    "Its reasons, with the number of nodes of each."
    plugins: Mapping[str, int] = EMPTY
    "All plugins that reject nodes, with the number of nodes of each."
    refusal: str = ""
    "Why the pod is rejected on every node, if it is."
    since_at_s: float = 0.0
    "Since when the same plugin rejects it, in seconds since 1970."


class PendingPods:
    """Of one scheduler, by uid of pod."""

    def __init__(self) -> None:
        self._pods: dict[str, PendingPod] = {}

    def nowhere(self, asks: Iterable[Ask], code: str, placement: Placement, now_s: float) -> None:
        plugins = {plugin: sum(reasons.values()) for plugin, reasons in placement.why_not.items()}
        plugin = max(sorted(plugins), key=plugins.__getitem__, default="")
        reasons = placement.why_not.get(plugin, EMPTY)
        for ask in asks:
            self._put(
                PendingPod(
                    ask.key,
                    ask.meta.uid,
                    code,
                    plugin,
                    plugins.get(plugin, 0),
                    dict(reasons),
                    plugins,
                    placement.refusal,
                    now_s,
                )
            )

    def held(self, ask: Ask, code: str, why: str, now_s: float) -> None:
        """A pod that is not tried, or could not be."""
        self._put(PendingPod(ask.key, ask.meta.uid, code, "", 0, refusal=why, since_at_s=now_s))

    def _put(self, pod: PendingPod) -> None:
        was = self._pods.get(pod.uid)
        if was is not None and (was.plugin, was.code) == (pod.plugin, pod.code):
            pod = msgspec.structs.replace(pod, since_at_s=was.since_at_s)
        self._pods[pod.uid] = pod

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def listed(self) -> list[PendingPod]:
        """Those that wait longest first."""
        return sorted(self._pods.values(), key=lambda pod: (pod.since_at_s, pod.pod))
