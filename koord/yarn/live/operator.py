"""The operator: looks at all YARN clusters and nodes, and carries the next step of each node out.

A round is `look, judge, carry out`. Claims are patches for the version of the node that was judged; caps go to a
ResourceManager many at a time. Before a cap grows, the node is read again, since an informer may lag behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode
from koord.api.text.whole_number import natural_number
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity
from koord.yarn.amount import NOTHING
from koord.yarn.claims import Call, Claim, Memory, Wait, answered, called, refused
from koord.yarn.hadoop.messages import RUNNING, NodeCap
from koord.yarn.judge import ClusterReport, Key, Verdict, concerns, judge, owners
from koord.yarn.live.metrics import YarnMetrics
from koord.yarn.live.resource_manager import ResourceManager
from koord.yarn.live.rpc import YarnError, YarnForbidden, YarnRefused, YarnStandby
from koord.yarn.nodes import WITHDRAWN, NodeFacts, PodFacts, claim_patch, condition_patch, node_facts, pod_facts
from koord.yarn.split import Policy

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""Between two looks at a ResourceManager where nothing happens."""
SOON_S: Final = 1.0
"""After a step, and at least between two looks."""
WAITED_S: Final = 60.0
"""A side that waited so recently still counts as waiting."""
FRESH_S: Final = 10.0
"""A cap grows only by what was read so recently: less than a successor waits for the lease."""
REMEMBERED_S: Final = 600.0
"""No call takes effect so long after it was sent."""
AT_ONCE: Final = 16
MOST_IN_A_CALL: Final = 100
FIELD_MANAGER: Final = "koord-yarn-operator"
ON_NODE: Final = "node"
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Operator:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        managers: Mapping[str, ResourceManager],
        policy: Policy,
        clock: Clock,
        metrics: YarnMetrics,
        *,
        look_s: float = LOOK_S,
        soon_s: float = SOON_S,
    ) -> None:
        self._client, self._managers, self._policy, self._clock = client, managers, policy, clock
        self._metrics, self._look_s, self._soon_s = metrics, look_s, soon_s
        self.nodes, self.pods = sources(informers)
        self._memories: dict[Key, Memory] = {}
        self._missing_s: dict[Key, float] = {}
        self._absent_s: dict[Key, float] = {}
        self._owners: Mapping[Key, str] = {}
        self._own: dict[str, NodeFacts] = {}
        self._waited_s: dict[str, float] = {}
        self._refused: dict[Key, str] = {}
        self._complaints: dict[str, str] = {}
        self._wake = asyncio.Event()
        self.looks: dict[str, ClusterReport] = {}

    async def run(self) -> None:
        """Until cancelled."""
        handlers = [self.nodes.add_handler(self._node_changed), self.pods.add_handler(self._pod_changed)]
        try:
            while True:
                acted = await self.round()
                await self._clock.sleep(self._soon_s)
                if not acted:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._look_s):
                            await self._wake.wait()
                self._wake.clear()
        finally:
            for remove in handlers:
                remove()

    def _node_changed(self, delta: Delta[NodeFacts]) -> None:
        old, new = delta.old, delta.new
        if old is None or new is None or replace(old, version="") != replace(new, version=""):
            self._wake.set()

    def _pod_changed(self, delta: Delta[PodFacts]) -> None:
        pods = [pod for pod in (delta.old, delta.new) if pod is not None]
        if any(pod.is_node_manager or pod.held != NOTHING for pod in pods):
            self._wake.set()

    async def round(self) -> bool:
        """Whether anything was done."""
        self.looks = await self._look()
        now_s = self._clock.monotonic()
        self._absent_s = {key: now_s - since_s for key, since_s in self._missing_s.items()}
        pending = any(not pod.node and pod.held != NOTHING for pod in self.pods.list())
        kubernetes_waits = self._waits("", pending, now_s)
        claims: list[tuple[NodeFacts, Verdict]] = []
        calls: list[tuple[NodeFacts, Verdict]] = []
        conditions: list[tuple[NodeFacts, tuple[str, str, str]]] = []
        noted: set[Key] = set()
        concerned: list[tuple[NodeFacts, Sequence[PodFacts]]] = []
        for facts in self.nodes.list():
            node = self._newest(facts)
            on: Sequence[PodFacts] = self.pods.by_index(ON_NODE, node.name)
            if concerns(node, on):
                concerned.append((node, on))
            elif node.condition[0]:
                conditions.append((node, WITHDRAWN))
        self._owners = owners(concerned, self.looks)
        for node, pods in concerned:
            verdict = self._with_refusal(self._judge(node, pods, now_s, kubernetes_waits))
            self._note(verdict)
            if verdict.node_id:
                noted.add((verdict.cluster, verdict.node_id))
            if isinstance(verdict.step, Claim):
                claims.append((node, verdict))
            elif isinstance(verdict.step, Call):
                calls.append((node, verdict))
            if verdict.condition is not None and self._is_news(node, verdict.condition):
                conditions.append((node, verdict.condition))
        self._forget(noted, now_s)
        await self._all(self._claim(node, verdict) for node, verdict in claims)
        await self._call(calls, kubernetes_waits)
        await self._all(self._condition(node, condition) for node, condition in conditions)
        return bool(claims or calls)

    def _judge(self, node: NodeFacts, pods: Sequence[PodFacts], now_s: float, kubernetes_waits: bool) -> Verdict:
        return judge(
            node,
            pods,
            self.looks,
            self._memories,
            self._absent_s,
            self._owners,
            self._policy,
            now_s,
            kubernetes_waits=kubernetes_waits,
        )

    def _with_refusal(self, verdict: Verdict) -> Verdict:
        """The verdict with a failing condition while the ResourceManager refuses the update."""
        key = verdict.cluster, verdict.node_id
        if verdict.step == Wait():
            self._refused.pop(key, None)
        if key not in self._refused or verdict.condition is None or verdict.condition[0] != "True":
            return verdict
        return replace(verdict, condition=("False", "UpdateRefused", self._refused[key]))

    def _note(self, verdict: Verdict) -> None:
        if not verdict.node_id:
            return
        key = verdict.cluster, verdict.node_id
        self._memories[key] = verdict.memory
        memory = verdict.memory
        self._metrics.confirmed(
            *key, is_open=memory.pending is not None or memory.answered is not None, now_s=self._clock.monotonic()
        )
        look = self.looks.get(verdict.cluster)
        if look is not None and not look.error:
            report = look.reports.get(verdict.node_id)
            if report is not None and report.state == RUNNING:
                self._missing_s.pop(key, None)
                self._metrics.node(verdict.cluster, report)
            else:
                self._missing_s.setdefault(key, self._clock.monotonic())
                self._metrics.forget(verdict.cluster, verdict.node_id)

    def _forget(self, noted: Collection[Key], now_s: float) -> None:
        """Nodes come and go for months. A call about a node that is gone may still take effect: that is remembered."""
        self._metrics.keep(noted)
        there = {node.name for node in self.nodes.list()}
        self._own = {name: own for name, own in self._own.items() if name in there}
        self._refused = {key: why for key, why in self._refused.items() if key in noted}
        self._missing_s = {key: since_s for key, since_s in self._missing_s.items() if key in noted}
        self._memories = {
            key: memory
            for key, memory in self._memories.items()
            if key in noted or now_s - memory.called_s < REMEMBERED_S
        }

    async def _look(self) -> dict[str, ClusterReport]:
        async def one(name: str, manager: ResourceManager) -> tuple[str, ClusterReport]:
            try:
                nodes, pending = await manager.look()
            except YarnError as error:
                if self._complaints.get(name) != str(error):
                    self._complaints[name] = str(error)
                    log.error("YARN cluster %r: %s", name, error)
                return name, ClusterReport({}, error=str(error))
            if self._complaints.pop(name, None):
                log.info("YARN cluster %r is back", name)
            waits = self._waits(f"yarn/{name}", pending != NOTHING, self._clock.monotonic())
            return name, ClusterReport({node.node_id: node for node in nodes}, waits)

        return dict(
            await asyncio.gather(*(one(name, resource_manager) for name, resource_manager in self._managers.items()))
        )

    def _waits(self, who: str, does: bool, now_s: float) -> bool:
        if does:
            self._waited_s[who] = now_s
        return now_s - self._waited_s.get(who, float("-inf")) < WAITED_S

    def _newest(self, facts: NodeFacts) -> NodeFacts:
        """The informer's, or the server's answer to our own write."""
        own = self._own.get(facts.name)
        if own is None:
            return facts
        if own.uid == facts.uid and _number(own.version) > _number(facts.version):
            return own
        del self._own[facts.name]
        return facts

    async def _claim(self, node: NodeFacts, verdict: Verdict) -> None:
        assert isinstance(verdict.step, Claim)
        patch = claim_patch(node, verdict.step.amount, verdict.claims_for)
        try:
            answer = await self._client.patch(NODES, node.name, patch, field_manager=FIELD_MANAGER)
        except (Conflict, NotFound):
            self._wake.set()
            return
        self._own[node.name] = node_facts(answer)
        log.info("node %s: YARN's claim is %s: %s", node.name, verdict.step.amount, verdict.step.why)

    async def _call(self, calls: Sequence[tuple[NodeFacts, Verdict]], kubernetes_waits: bool) -> None:
        by_cluster: dict[str, list[tuple[NodeFacts, Verdict]]] = {}
        for node, verdict in calls:
            by_cluster.setdefault(verdict.cluster, []).append((node, verdict))
        for cluster, all_ in by_cluster.items():
            for start in range(0, len(all_), MOST_IN_A_CALL):
                if some := await self._allowed(all_[start : start + MOST_IN_A_CALL], kubernetes_waits):
                    await self._update(cluster, some)

    async def _allowed(
        self, calls: Sequence[tuple[NodeFacts, Verdict]], kubernetes_waits: bool
    ) -> list[tuple[NodeFacts, Verdict]]:
        began_s = self._clock.monotonic()
        allowed: list[tuple[NodeFacts, Verdict]] = []

        async def checked(node: NodeFacts, verdict: Verdict) -> None:
            if await self._may(node, verdict, kubernetes_waits):
                allowed.append((node, verdict))

        await self._all(checked(node, verdict) for node, verdict in calls)
        if self._clock.monotonic() - began_s > FRESH_S:
            # A process that was suspended may have a successor, which gave the same part to Kubernetes.
            return [item for item in allowed if not _grows(item[1])]
        return allowed

    async def _may(self, node: NodeFacts, verdict: Verdict, kubernetes_waits: bool) -> bool:
        """A cap may always shrink; it may grow if the present node allows it."""
        if not _grows(verdict):
            return True
        fresh = node_facts(await self._client.get(NODES, node.name))
        pods = self.pods.by_index(ON_NODE, node.name)
        again = self._judge(fresh, pods, self._clock.monotonic(), kubernetes_waits)
        return again.step == verdict.step

    async def _update(self, cluster: str, some: Sequence[tuple[NodeFacts, Verdict]]) -> None:
        now_s = self._clock.monotonic()
        caps, before, sent = [], {}, dict[Key, Call]()
        for _, verdict in some:
            step, key = verdict.step, (cluster, verdict.node_id)
            assert isinstance(step, Call)
            before[key] = self._memories.get(key, Memory())
            sent[key] = step
            self._memories[key] = called(before[key], step, now_s)
            timeout_ms = -1 if step.ends_within_s is None else int(step.ends_within_s * 1000)
            caps.append(NodeCap(verdict.node_id, step.cap, timeout_ms))
        try:
            await self._managers[cluster].update(caps)
        except YarnStandby as error:
            log.warning("YARN cluster %r: %s", cluster, error)
            return
        except YarnRefused as error:
            if len(some) > 1 and not isinstance(error, YarnForbidden):
                # One unknown node fails the call for all.
                self._memories |= before
                for item in some:
                    await self._update(cluster, [item])
                return
            log.error("%s: %s", _named(node for node, _ in some), error)
            for key, memory in before.items():
                self._memories[key] = refused(memory, sent[key], now_s)
                self._refused[key] = str(error)
            return
        except YarnError as error:
            log.error("YARN cluster %r: %s", cluster, error)
            return
        for (node, verdict), cap in zip(some, caps, strict=True):
            key = cluster, verdict.node_id
            self._memories[key] = answered(self._memories[key], cap.cap)
            self._refused.pop(key, None)
            log.info("node %s: YARN's cap is %s: %s", node.name, cap.cap, verdict.step.why)

    def _is_news(self, node: NodeFacts, condition: tuple[str, str, str]) -> bool:
        before = node.condition
        return before[:2] != condition[:2] or (condition[0] != "True" and before[2] != condition[2])

    async def _condition(self, node: NodeFacts, condition: tuple[str, str, str]) -> None:
        patch = condition_patch(node, condition, self._clock.now())
        try:
            answer = await self._client.patch(
                NODES, node.name, patch, type="strategic", subresource="status", field_manager=FIELD_MANAGER
            )
        except (Conflict, NotFound):
            return
        self._own[node.name] = node_facts(answer)

    async def _all(self, work: Iterable[Any]) -> None:
        """Runs a bounded number at a time; one node's failure is logged, and does not affect the others."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(work_item: Any) -> None:
            async with limit:
                try:
                    await work_item
                except ApiError as error:
                    log.warning("the API server refused: %s", error)

        await asyncio.gather(*(one(item) for item in work))


def sources(informers: Informers) -> tuple[Informer[NodeFacts], Informer[PodFacts]]:
    nodes = informers.get(NODES, transform=_node, identity=_identity_of_node)
    pods = informers.get(
        PODS, transform=_pod, identity=_identity_of_pod, fields=UNFINISHED, indexes={ON_NODE: _by_node}
    )
    return nodes, pods


def _grows(verdict: Verdict) -> bool:
    assert isinstance(verdict.step, Call)
    return verdict.report is not None and not verdict.step.cap.fits(verdict.report.cap)


def _named(nodes: Iterable[NodeFacts]) -> str:
    names = [node.name for node in nodes]
    return f"node {names[0]}" if len(names) == 1 else f"node {names[0]} and {len(names) - 1} more"


def _node(raw: msgspec.Raw) -> NodeFacts:
    return node_facts(decode(Node, memoryview(raw)))


def _pod(raw: msgspec.Raw) -> PodFacts:
    return pod_facts(decode(Pod, memoryview(raw)))


def _identity_of_node(facts: NodeFacts) -> Identity:
    return facts.name, facts.uid, facts.version


def _identity_of_pod(facts: PodFacts) -> Identity:
    return facts.key, facts.uid, facts.version


def _by_node(facts: PodFacts) -> tuple[str, ...]:
    return (facts.node,) if facts.node else ()


def _number(version: str) -> int:
    return natural_number(version) or 0
