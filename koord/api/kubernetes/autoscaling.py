"""What Cluster Autoscaler and Karpenter write and read on nodes and pods.

Both put a taint on a node before they take it away, and both leave pods alone that say so in an annotation. Their
names are kept here, so that components that move pods understand what was said to either of them.
"""

from __future__ import annotations

from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.text.duration import DurationError, parse_duration
from koord.api.text.timestamp import TimestampError, parse_timestamp

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SCALE_UP_DELAY: Final = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
"""On pods, and on nodes. Besides true, a pod may say for how long after its start."""
KEPT_NODE: Final = {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true"}
"""What keeps both from taking a node away."""

GOING: Final = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"})
"""Taints of nodes that are being taken away; the last is what Karpenter wrote before its version 1."""


def going(node: Node) -> str | None:
    """The taint of an autoscaler that is about to remove this node."""
    return next((taint.key for taint in node.spec.taints if taint.key in GOING), None)


def is_kept(meta: ObjectMeta) -> str | None:
    """The annotation of a pod that asks not to be moved, for as long as it lives."""
    if meta.annotations.get(SAFE_TO_EVICT) == "false":
        return f"{SAFE_TO_EVICT}: false"
    return f"{DO_NOT_DISRUPT}: true" if meta.annotations.get(DO_NOT_DISRUPT) == "true" else None


def is_kept_now(pod: Pod, now_s: float) -> str | None:
    """The annotation of a pod that asks not to be moved for a time after its start. An invalid duration is ignored, as
    by Karpenter; a pod that has not started is kept."""
    text = pod.metadata.annotations.get(DO_NOT_DISRUPT, "")
    if not text or text in ("true", "false"):
        return None
    try:
        kept_s = parse_duration(text)
        started = pod.status.start_time
        age_s = now_s - parse_timestamp(started) if started else 0.0
    except (DurationError, TimestampError):
        return None
    return f"{DO_NOT_DISRUPT}: {text}" if age_s < kept_s else None
