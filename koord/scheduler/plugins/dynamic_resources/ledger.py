"""The ledger of devices: what drivers publish, which claims there are, and which devices each claim has.

Devices are held by claims, not by pods: a pod that goes frees nothing. A claim has what its status says. A claim whose
pod was just placed has what the search chose, in flight, until its status says so, or the placement is taken back. Its
claims are a pod's note, so that what is in flight follows the pod through transactions, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import msgspec

from koord.api.kubernetes.dynamic_resources import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from koord.api.kubernetes.pod import Pod
from koord.scheduler.plugins.dynamic_resources.pools import (
    DeviceId,
    Pool,
    PoolId,
    SlicedDevice,
    in_order,
    pool_for,
)
from koord.scheduler.plugins.dynamic_resources.usage import Usage
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Reason, Row

NAME: Final = "DynamicResources"
_EXACT: Final = int(Reason.EXACT)


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim of a placed pod. `allocation`: what the claim gets by this placement; None: it had it before."""

    key: str
    uid: str
    allocation: AllocationResult | None = None


Uses: TypeAlias = tuple[ClaimUse, ...]
"""The note of a pod."""


class Ledger(Notes):
    name = NAME
    from_pod = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.claims: dict[str, ResourceClaim] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.usage = Usage()
        self.class_version = 0
        "Counts changes of classes."
        self._pending: dict[str, str] = {}
        "Uids and keys of pods with claims that wait for a node."
        self._let_go: set[str] = set()
        "Uids of pods whose placement was taken back: claims may be reserved for them still."
        self._reserved: dict[str, set[str]] = {}
        "By uid of a consumer, the claims that are reserved for it."
        self._held: dict[str, AllocationResult] = {}
        "By uid of a claim, what counts for it."
        self._in_flight: dict[str, dict[str, AllocationResult]] = {}
        "By uids of claim and pod."
        self._confirmed: set[tuple[str, str]] = set()
        "Uids of claims and pods: what was in flight stood in the claim's status, which counts from then on."
        self._specs: dict[str, bytes] = {}
        self._pools: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._pools_of_node: dict[str, set[PoolId]] = {}
        self._wide_pools: set[PoolId] = set()
        "Pools with slices that are not for one node by its name."
        self._devices: dict[str, tuple[SlicedDevice, ...]] = {}
        self._seen_by: dict[Row, list[Pool]] = {}

    # What is on the cluster

    def put_claim(self, claim: ResourceClaim) -> None:
        key, uid = claim.metadata.key, claim.metadata.uid
        old = self.claims.get(key)
        if old is not None and old.metadata.uid != uid:
            self.remove_claim(old)
        self.claims[key] = claim
        if old is None or old.spec != claim.spec:
            self._specs[key] = _encode(claim.spec)
        if claim.status.allocation is not None:
            self._confirmed.update((uid, pod) for pod in self._in_flight.get(uid, ()))
        self._index_consumers(old, -1)
        self._index_consumers(claim, +1)
        self._recount(claim)

    def try_spec(self, claim: ResourceClaim) -> Callable[[], None]:
        """As if a claim asked for this, until the returned function is called."""
        key = claim.metadata.key
        before = self.claims[key], self._specs[key]
        self.claims[key], self._specs[key] = claim, _encode(claim.spec)

        def take_back() -> None:
            self.claims[key], self._specs[key] = before

        return take_back

    def try_released(self, keys: Sequence[str]) -> Callable[[], None]:
        """As if some claims had no devices, until the returned function is called."""
        claims = [self.claims[key] for key in keys if key in self.claims]
        for claim in claims:
            self._count(claim.metadata.uid, claim.metadata.key, None)

        def take_back() -> None:
            for claim in claims:
                self._recount(claim)

        return take_back

    def remove_claim(self, claim: ResourceClaim) -> None:
        kept = self.claims.get(claim.metadata.key)
        if kept is None or kept.metadata.uid != claim.metadata.uid:
            return
        del self.claims[claim.metadata.key]
        self._specs.pop(claim.metadata.key, None)
        self._index_consumers(kept, -1)
        self._in_flight.pop(claim.metadata.uid, None)
        self._confirmed = {pair for pair in self._confirmed if pair[0] != claim.metadata.uid}
        self._count(claim.metadata.uid, claim.metadata.key, None)

    def put_class(self, class_: DeviceClass) -> None:
        self.classes[class_.metadata.name] = class_
        self.class_version += 1

    def remove_class(self, class_: DeviceClass) -> None:
        if self.classes.pop(class_.metadata.name, None) is not None:
            self.class_version += 1

    def put_slice(self, slice_: ResourceSlice) -> None:
        old = self.slices.get(slice_.metadata.name)
        if old is not None:
            self._index(old, -1)
        self.slices[slice_.metadata.name] = slice_
        self._index(slice_, +1)

    def remove_slice(self, slice_: ResourceSlice) -> None:
        old = self.slices.pop(slice_.metadata.name, None)
        if old is not None:
            self._index(old, -1)

    def put_rule(self, rule: DeviceTaintRule) -> None:
        self.rules[rule.metadata.name] = rule
        self._forget_devices()

    def remove_rule(self, rule: DeviceTaintRule) -> None:
        if self.rules.pop(rule.metadata.name, None) is not None:
            self._forget_devices()

    def put_pod(self, pod: Pod) -> None:
        waits = pod.spec.resource_claims and not pod.spec.node_name and not pod.is_finished
        if waits and pod.metadata.deletion_timestamp is None:
            self._pending[pod.metadata.uid] = pod.metadata.key
        else:
            self.remove_pod(pod)

    def remove_pod(self, pod: Pod) -> None:
        self._pending.pop(pod.metadata.uid, None)
        self._let_go.discard(pod.metadata.uid)

    # What is known of it

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        """Whether a placed pod uses a claim, and its binding is not seen yet."""
        return claim.metadata.uid in self._in_flight

    def take_stale_reservations(self) -> list[tuple[ResourceClaim, str]]:
        """Claims that are reserved for pods which wait again, and the uids of these."""
        stale = []
        for uid in sorted(self._let_go & self._reserved.keys()):
            key = self._pending.get(uid)
            if key is None or key in self.cluster.pods:
                continue
            self._let_go.discard(uid)
            stale += [(self.claims[claim], uid) for claim in sorted(self._reserved[uid])]
        return stale

    def spec_of(self, key: str) -> bytes:
        """What a claim asks for, for comparison."""
        return self._specs[key]

    def allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        """What a claim has, or will have once its pod is bound."""
        return self._held.get(claim.metadata.uid)

    def pools(self, row: Row) -> list[Pool]:
        """The pools that a node can use, in the order in which they are tried."""
        pools = self._seen_by.get(row)
        if pools is None:
            node = self.cluster.nodes.get(row)
            if node is None:
                return []
            ids = self._pools_of_node.get(node.metadata.name, set()) | self._wide_pools
            seen = (pool_for(pool_id, self._slices(pool_id), node, self._sliced) for pool_id in sorted(ids))
            pools = self._seen_by[row] = in_order(pool for pool in seen if pool is not None)
        return pools

    # The state's changes

    def node_put(self, row: Row) -> None:
        self._seen_by.pop(row, None)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """Devices do not depend on what a node gives of other resources."""

    def node_removed(self, row: Row) -> None:
        self._seen_by.pop(row, None)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        if sign > 0:
            self._let_go.discard(record.uid)
        elif record.uid in self._pending:
            self._let_go.add(record.uid)
        for use in cast(Uses, note):
            if use.allocation is None:
                continue
            pods = self._in_flight.setdefault(use.uid, {})
            if sign > 0:
                pods[record.uid] = use.allocation
            else:
                pods.pop(record.uid, None)
            if not pods:
                del self._in_flight[use.uid]
            claim = self.claims.get(use.key)
            if claim is not None and claim.metadata.uid == use.uid:
                self._recount(claim)

    def words(self, note: object) -> str:
        return ", ".join(
            f"{use.key}: {devices_told(use.allocation)}" for use in cast(Uses, note) if use.allocation is not None
        )

    # Inside

    def _index_consumers(self, claim: ResourceClaim | None, sign: int) -> None:
        if claim is None:
            return
        for consumer in claim.status.reserved_for:
            if sign > 0:
                self._reserved.setdefault(consumer.uid, set()).add(claim.metadata.key)
            else:
                self._reserved[consumer.uid].discard(claim.metadata.key)
                if not self._reserved[consumer.uid]:
                    del self._reserved[consumer.uid]

    def _recount(self, claim: ResourceClaim) -> None:
        """Count what a claim has now."""
        uid = claim.metadata.uid
        allocation = claim.status.allocation
        if allocation is None:
            in_flight = self._in_flight.get(uid, {})
            allocation = next((in_flight[pod] for pod in in_flight if (uid, pod) not in self._confirmed), None)
        self._count(uid, claim.metadata.key, allocation)

    def _count(self, uid: str, key: str, allocation: AllocationResult | None) -> None:
        old = self._held.get(uid)
        if old == allocation:
            return
        devices: list[DeviceId] = []
        if old is not None:
            devices += self.usage.count(key, old, -1)
            del self._held[uid]
        if allocation is not None:
            devices += self.usage.count(key, allocation, +1)
            self._held[uid] = allocation
        for pool_id in dict.fromkeys(device.pool_id for device in devices):
            self._touch(pool_id)

    def _touch(self, pool_id: PoolId) -> None:
        """Nodes that use a pool are judged again."""
        for row in self._rows_with(pool_id):
            self.cluster.table.touch(row, _EXACT)

    def _rows_with(self, pool_id: PoolId) -> Iterable[Row]:
        row_of = self.cluster.table.row_of
        if pool_id in self._wide_pools:
            return list(row_of.values())
        names = {slice_.spec.node_name for slice_ in self._pools.get(pool_id, {}).values()}
        return [row_of[name] for name in sorted(names) if name in row_of]

    def _index(self, slice_: ResourceSlice, sign: int) -> None:
        """A slice came, or goes. All nodes that use its pool look again."""
        name, spec = slice_.metadata.name, slice_.spec
        pool_id = PoolId(spec.driver, spec.pool.name)
        self._devices.pop(name, None)
        before = set(self._rows_with(pool_id))
        slices = self._pools.setdefault(pool_id, {})
        if sign > 0:
            slices[name] = slice_
        else:
            del slices[name]
        nodes = {other.spec.node_name for other in slices.values()}
        self._pools_of_node.setdefault(spec.node_name, set()).add(pool_id)
        if spec.node_name not in nodes:
            self._pools_of_node[spec.node_name].discard(pool_id)
        self._wide_pools.discard(pool_id)
        if any(not other.spec.node_name for other in slices.values()):
            self._wide_pools.add(pool_id)
        if not slices:
            del self._pools[pool_id]
        for row in sorted(before | set(self._rows_with(pool_id))):
            self._seen_by.pop(row, None)
            self.cluster.table.touch(row, _EXACT)

    def _forget_devices(self) -> None:
        """Taints of devices may be others."""
        self._devices.clear()
        self._seen_by.clear()
        for row in list(self.cluster.table.row_of.values()):
            self.cluster.table.touch(row, _EXACT)

    def _slices(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        slices = self._pools.get(pool_id, {})
        return [slices[name] for name in sorted(slices)]

    def _sliced(self, slice_: ResourceSlice) -> tuple[SlicedDevice, ...]:
        devices = self._devices.get(slice_.metadata.name)
        if devices is None:
            rules = list(self.rules.values())
            devices = tuple([SlicedDevice(device, slice_, rules) for device in slice_.spec.devices])
            self._devices[slice_.metadata.name] = devices
        return devices


def devices_told(allocation: AllocationResult) -> str:
    """The devices of an allocation, for people."""
    return ", ".join(f"{result.pool}/{result.device}" for result in allocation.devices.results)


_encode: Final = msgspec.msgpack.Encoder(enc_hook=dict).encode
