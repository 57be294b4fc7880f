"""Pods that ask for notice, and a store of one pod that takes patches as an API server does."""

from __future__ import annotations

from typing import Any

from msgspec import convert, to_builtins

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_NOTICE, EVICTION_READY
from koord.api.protocol.eviction_notice import Asker

START_S = 1_800_000_000.0
SCHEDULER = Asker("koord-scheduler", "PreemptionByScheduler", "preempting for a more important pod", "shop/high")
DESCHEDULER = Asker("koord-descheduler", "LowNodeLoad", "node n1 is overutilized", "shop/move-1")
AGENT = Asker("koord-agent", "BEMemoryEvict", "memory usage is 75%")


def pod(notice: str | None = "5m", *, phase: str = "Running", **annotations: str) -> Pod:
    said: dict[str, str] = {**({} if notice is None else {EVICTION_NOTICE.key: notice}), **annotations}
    meta = {"name": "train", "namespace": "shop", "uid": "u1", "resourceVersion": "1", "annotations": said}
    return convert({"metadata": meta, "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": phase}}, Pod)


class Stale(Exception):
    """The patch is for another version."""


def patched(given: Pod, patch: Any) -> Pod:
    """As the API server has it after the patch."""
    meta = patch["metadata"]
    if meta["resourceVersion"] != given.metadata.resource_version or meta["uid"] != given.metadata.uid:
        raise Stale
    found = to_builtins(given, builtin_types=())
    texts = {**found["metadata"].get("annotations", {}), **meta["annotations"]}
    found["metadata"]["annotations"] = {key: text for key, text in texts.items() if text is not None}
    found["metadata"]["resourceVersion"] = str(int(given.metadata.resource_version) + 1)
    found["status"]["conditions"] = patch["status"]["conditions"]
    return convert(found, Pod)


def annotated(given: Pod, key: str = EVICTION_READY.key, text: str = "true") -> Pod:
    found = to_builtins(given, builtin_types=())
    found["metadata"].setdefault("annotations", {})[key] = text
    found["metadata"]["resourceVersion"] = str(int(given.metadata.resource_version) + 1)
    return convert(found, Pod)
