"""The ReplicaSet loop."""

from __future__ import annotations

from koord.api.kinds import PODS, REPLICA_SETS
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.workloads import ReplicaSet
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord_minicluster.controllers import replica_set
from koord_minicluster.controllers.actions import Create, Delete, Tell
from koord_minicluster.controllers.live.cluster import MANAGER, Cluster, about, refused, soon
from koord_minicluster.controllers.status_patch import status_change, status_patch


def selector_of(rs: ReplicaSet) -> LabelMatcher:
    return compile_labels(rs.spec.selector, absent=NOTHING)


class ReplicaSetLoop:
    def __init__(self, cluster: Cluster, *, workers: int = 4) -> None:
        self._cluster = cluster
        self._sets = cluster.view(REPLICA_SETS)
        self._pods = cluster.view(PODS)
        self.controller: Controller[str] = Controller("replica-set", self._reconcile, workers=workers)
        self.controller.watch(self._sets, lambda delta: (delta.key,))
        self.controller.watch(
            self._pods, lambda delta: soon(self.controller, cluster.managers(REPLICA_SETS, delta, selector_of))
        )

    async def _reconcile(self, key: str) -> Requeue | None:
        rs = self._sets.get(key)
        if rs is None:
            return None
        now_s = self._cluster.clock.now()
        pods = await self._cluster.claim(REPLICA_SETS, rs, selector_of(rs), PODS)
        changes = replica_set.scale(rs, pods, self._related(rs, pods), now_s)
        failure: tuple[str, str] | None = None
        error: ApiError | None = None
        try:
            await self._carry_out(rs, changes)
        except ApiError as refusal:
            if refused(refusal):
                return None
            error = refusal
            failure = ("FailedDelete" if changes and isinstance(changes[0], Delete) else "FailedCreate", str(refusal))
            self._cluster.writer.tell(about(REPLICA_SETS, rs), Tell(*failure, type="Warning"))
        if changes:
            pods = self._pods.by_index(MANAGER, rs.metadata.uid)
        status = replica_set.status(rs, pods, failure, now_s)
        for patch in status_patch(REPLICA_SETS, rs.metadata, status_change(rs.status, status)):
            try:
                await self._cluster.writer.patch(patch)
            except (NotFound, Conflict):
                return None
        if error is not None:
            raise error
        if len(changes) >= replica_set.BURST:
            return Requeue(0.0)
        wait_s = replica_set.look_again_in_s(rs, pods, now_s)
        return None if wait_s is None else Requeue(wait_s)

    async def _carry_out(self, rs: ReplicaSet, changes: list[Create] | list[Delete]) -> None:
        creates = [change for change in changes if isinstance(change, Create)]
        deletes = [change for change in changes if isinstance(change, Delete)]
        writer = self._cluster.writer
        await writer.create_all(creates, about(REPLICA_SETS, rs))
        await writer.delete_all(deletes)
        for change in deletes:
            writer.tell(about(REPLICA_SETS, rs), Tell("SuccessfulDelete", f"Deleted pod: {change.name}"))

    def _related(self, rs: ReplicaSet, own: list[Pod]) -> list[Pod]:
        """Pods of all ReplicaSets of the same owner: a rollout spreads over nodes as one."""
        owner = rs.metadata.controller
        if owner is None:
            return own
        siblings = self._sets.by_index(MANAGER, owner.uid)
        return [pod for sibling in siblings for pod in self._pods.by_index(MANAGER, sibling.metadata.uid)]
