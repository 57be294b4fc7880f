"""The StatefulSet loop."""

from __future__ import annotations

from functools import partial

from koord.api.kinds import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from koord.api.kubernetes.workloads import StatefulSet
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels
from koord.api.workloads.stateful_pods import claim_name, ordinals
from koord.kube.controller import Controller, Requeue
from koord_minicluster.controllers import stateful_set as decisions
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import Cluster, about, soon
from koord_minicluster.controllers.live.revisions import collided


def selector_of(set_: StatefulSet) -> LabelMatcher:
    return compile_labels(set_.spec.selector, absent=NOTHING)


class StatefulSetLoop:
    def __init__(self, cluster: Cluster, *, workers: int = 4) -> None:
        self._cluster = cluster
        self._sets = cluster.view(STATEFUL_SETS)
        self._claims = cluster.view(PERSISTENT_VOLUME_CLAIMS)
        self.controller: Controller[str] = Controller("stateful-set", self._reconcile, workers=workers)
        self.controller.watch(self._sets, lambda delta: (delta.key,))
        self.controller.watch(
            cluster.view(PODS), lambda delta: soon(self.controller, cluster.managers(STATEFUL_SETS, delta, selector_of))
        )
        revisions = cluster.view(CONTROLLER_REVISIONS)
        self.controller.watch(revisions, lambda delta: cluster.managers(STATEFUL_SETS, delta, selector_of))
        self.controller.watch(self._claims, lambda delta: ())

    async def _reconcile(self, key: str) -> Requeue | None:
        set_ = self._sets.get(key)
        if set_ is None:
            return None
        cluster, selector, who = self._cluster, selector_of(set_), about(STATEFUL_SETS, set_)
        pods = await cluster.claim(STATEFUL_SETS, set_, selector, PODS, keep=lambda pod: decisions.is_member(set_, pod))
        history = await cluster.claim(STATEFUL_SETS, set_, selector, CONTROLLER_REVISIONS)
        state = decisions.State(set_, tuple(pods), tuple(history), self._present_claims(set_))
        plan = decisions.decide(state, cluster.clock.now())
        return await carried_out(
            cluster,
            plan.actions,
            who,
            again_in_s=plan.again_in_s,
            taken=partial(collided, cluster, STATEFUL_SETS, set_, set_.status.collision_count, plan.actions),
        )

    def _present_claims(self, set_: StatefulSet) -> frozenset[str]:
        meta, spec = set_.metadata, set_.spec
        names = (claim_name(t, meta.name, n) for t in spec.volume_claim_templates for n in ordinals(set_))
        return frozenset(name for name in names if self._claims.get(f"{meta.namespace}/{name}") is not None)
