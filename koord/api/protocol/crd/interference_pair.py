"""InterferencePair: a workload that slows another one down on the same node. An addition of koord.

The manager keeps these objects from what agents find, and the scheduler prefers nodes on which a pod has no partner.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.fields import Percent
from koord.api.text.timestamp import Timestamp


class PairedWorkload(Struct):
    namespace: Annotated[str, Meta(min_length=1, max_length=63)]
    "Namespace of the workload."
    kind: Annotated[str, Meta(min_length=1, max_length=63)]
    "Kind of the workload, for example Deployment. The topmost one: a Deployment, not its ReplicaSet."
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    "Name of the workload."

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind.lower()}/{self.name}"


class InterferencePairSpec(Struct):
    victim: PairedWorkload
    "The workload whose pods are slowed down."
    culprit: PairedWorkload
    "The workload whose pods slow them down."


class InterferencePairStatus(Struct):
    weight: Percent = 0
    "How strongly the scheduler keeps the two apart: points that a node loses, 0 to 100. Halves every three days."
    weight_when_seen: Percent = 0
    "The weight at lastSeen."
    seen: int = 0
    "How often agents found it so."
    first_seen: Timestamp | None = None
    "When an agent first found it so."
    last_seen: Timestamp | None = None
    "When an agent last judged it. The weight of a pair without it does not change."
    node: str = ""
    "Node on which it was last judged."
    signal: str = ""
    "What the victim suffered from, for example runQueueDelay."


class InterferencePair(Struct, kw_only=True):
    """A workload that slows another one down on the same node, as agents found. An addition of koord."""

    metadata: ObjectMeta = ObjectMeta()
    spec: InterferencePairSpec
    "Whom it is about."
    status: InterferencePairStatus = InterferencePairStatus()
    "What is known. Written by the manager."
