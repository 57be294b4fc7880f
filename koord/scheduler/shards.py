"""Several schedulers share a cluster: which of them has a node, and which has a pod.

Each has a *shard*, the k-th of n. A node is in one shard, by the pool that it is in, so no two schedulers give out the
same room. A pod is in one shard at a time: at first by the pool that it selects, or by its gang, quota or name. A
scheduler that finds no place for a pod hands it over to the next shard by a note on the pod, which the API server
takes only if the pod is unchanged: of two schedulers that disagree, one loses, and looks again.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names

MOST: Final = 64
_TEXT: Final = re.compile(r"([1-9]\d?)/([1-9]\d?)")
_LEASE: Final = re.compile(r"([1-9]\d?)-of-([1-9]\d?)")
_numbers: Final = {str(number): number for number in range(1, MOST + 1)}
_TOGETHER: Final = (names.LABEL_POD_GROUP, names.LABEL_POD_GROUP_NAME, names.LABEL_QUOTA_NAME)
"""Labels of pods that belong into one shard: a gang is placed whole, and a quota is added up by one scheduler."""


class InvalidShard(BadInput):
    """An option that names no shard."""


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    "From 1 on."
    of: int
    pool_label: str = ""
    "The label whose value is a node's pool. Without one, and without that label, each node is a pool of its own."

    def __str__(self) -> str:
        return f"{self.number}-of-{self.of}"

    def has_node(self, node: Node) -> bool:
        labels = node.metadata.labels
        return self._dealt(labels.get(self.pool_label) or node.metadata.name) == self.number

    def has_pod(self, pod: Pod) -> bool:
        return self._shards_of(pod)[-1] == self.number

    def handed_over(self, pod: Pod, *, again: bool) -> str | None:
        """The note that hands a pod over for which this shard has no place: its shards so far, the next one last. None:
        it stays. Once all shards had it, it is back in its first one; `again`: all are tried again."""
        shards = self._shards_of(pod)
        if len(shards) > self.of:
            if not again:
                return None
            shards = shards[-1:]
        untried = [number for number in self._in_turn(shards[0]) if number not in shards]
        following = untried[0] if untried else shards[0]
        return ",".join(map(str, (*shards, following))) if self.of > 1 else None

    def _in_turn(self, first: int) -> list[int]:
        return [(first - 1 + i) % self.of + 1 for i in range(self.of)]

    def _shards_of(self, pod: Pod) -> tuple[int, ...]:
        """The shards that a pod has been in, the present one last. A note of other shards does not count."""
        note = pod.metadata.annotations.get(names.OWN_ANNOTATION_SHARDS, "")
        noted = tuple(_numbers.get(part, 0) for part in note.split(",", self.of + 1)[: self.of + 1])
        if all(1 <= number <= self.of for number in noted):
            return noted
        return (self._first(pod),)

    def _first(self, pod: Pod) -> int:
        if pool := pod.spec.node_selector.get(self.pool_label):
            return self._dealt(pool)
        return self._dealt(_together(pod.metadata) or pod.metadata.key)

    def _dealt(self, text: str) -> int:
        return zlib.crc32(text.encode()) % self.of + 1


def _together(meta: ObjectMeta) -> str:
    gang = meta.annotations.get(names.ANNOTATION_GANG_NAME, "")
    name = gang or next((meta.labels[key] for key in _TOGETHER if key in meta.labels), "")
    return f"{meta.namespace}/{name}" if name else ""


def is_otherwise(lease: str, base: str, shard: Shard | None) -> bool:
    """Whether a lease is that of a scheduler that divides the cluster in another way, or not at all. `base`: the lease
    of a scheduler without shards."""
    if lease == base:
        return shard is not None
    match = _LEASE.fullmatch(lease.removeprefix(f"{base}-")) if lease.startswith(f"{base}-") else None
    return match is not None and (shard is None or int(match[2]) != shard.of)


def parse(text: str, pool_label: str = "") -> Shard:
    """`2/4` is the second of four."""
    match = _TEXT.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) <= MOST:
        raise InvalidShard(f"--shard must be K/N with K from 1 to N and N up to {MOST}, as in 2/4, not {text!r}")
    return Shard(int(match[1]), int(match[2]), pool_label)
