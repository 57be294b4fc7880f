"""Which part of page cache counts as used memory, and how much page cache there is.

    usageWithoutPageCache  none of it
    usageWithHotPageCache  what was used in the last minutes; without a source that tells it, none
    usageWithPageCache     all

The same part counts for the node, the system, pods, containers and host applications: their figures add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.api.protocol.crd.node_metric import PageCacheUsage
from koord.api.text.quantity import render

PAGE_CACHE: Final = "pageCache"
"""The extension of a pod's metrics that has its page cache, and that of its containers."""

Part = Literal["none", "hot", "all"]
_PARTS: Final[dict[str, Part]] = {"usageWithHotPageCache": "hot", "usageWithPageCache": "all"}


@dataclass(frozen=True, slots=True)
class CountedMemory:
    """Bytes on average over a window; None where nothing was measured."""

    samples: Samples
    part: Part
    now_s: float
    window_s: float

    @property
    def of_node(self) -> Series:
        return {
            "none": names.NODE_MEMORY,
            "hot": names.NODE_MEMORY_HOT,
            "all": names.NODE_MEMORY_WITH_CACHE,
        }[self.part]

    @property
    def of_system(self) -> Series:
        return {
            "none": names.SYSTEM_MEMORY,
            "hot": names.SYSTEM_MEMORY_HOT,
            "all": names.SYSTEM_MEMORY_WITH_CACHE,
        }[self.part]

    def of_pod(self, uid: str) -> float | None:
        return self._counted(names.pod_memory(uid), names.pod_page_cache(uid), names.pod_cold(uid))

    def of_container(self, container_id: str) -> float | None:
        own, cache = names.container_memory(container_id), names.container_page_cache(container_id)
        return self._counted(own, cache, names.container_cold(container_id))

    def of_application(self, name: str) -> float | None:
        own, cache = names.host_application_memory(name), names.host_application_page_cache(name)
        return self._counted(own, cache, names.host_application_cold(name))

    def page_cache(self) -> PageCacheUsage | None:
        used, with_cache = self._mean(names.NODE_MEMORY), self._mean(names.NODE_MEMORY_WITH_CACHE)
        if used is None or with_cache is None:
            return None
        cold = self._mean(names.NODE_COLD)
        return PageCacheUsage(
            total=_bytes(max(with_cache - used, 0.0)), cold=None if cold is None else _bytes(cold), counted=self.part
        )

    def page_cache_of(self, pod: AgentPod) -> dict[str, Any]:
        """Nothing where it was not measured."""
        page_cache = self._told(names.pod_page_cache(pod.uid), names.pod_cold(pod.uid))
        if page_cache and len(pod.containers) > 1:
            own = {
                container.name: cache_of_container
                for container in pod.containers
                if (
                    cache_of_container := self._told(
                        names.container_page_cache(container.id), names.container_cold(container.id)
                    )
                )
            }
            page_cache |= {"containers": own} if own else {}
        return page_cache

    def _told(self, cache: Series, cold: Series) -> dict[str, Any]:
        total, unused = self._mean(cache), self._mean(cold)
        if total is None:
            return {}
        return {"total": _bytes(total)} | ({} if unused is None else {"cold": _bytes(unused)})

    def _counted(self, memory: Series, cache: Series, cold: Series) -> float | None:
        used = self._mean(memory)
        if used is None or self.part == "none":
            return used
        page_cache = self._mean(cache)
        if page_cache is None:
            return None
        unused = (self._mean(cold) or 0.0) if self.part == "hot" else 0.0
        return used + max(page_cache - unused, 0.0)

    def _mean(self, series: Series) -> float | None:
        return self.samples.mean(series, self.now_s, self.window_s)


def counted_memory(samples: Samples, policy: str, now_s: float, window_s: float) -> CountedMemory:
    part = _PARTS.get(policy, "none")
    if part == "hot" and samples.mean(names.NODE_MEMORY_HOT, now_s, window_s) is None:
        part = "none"
    return CountedMemory(samples, part, now_s, window_s)


def _bytes(amount: float) -> str:
    return render("memory", int(amount))
