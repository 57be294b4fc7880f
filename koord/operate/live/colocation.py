"""The switch on a running cluster: reads, writes what `koord.manager.colocation_switch` decides, and evicts on request.

Everything is written from here, so that the switch works with the manager down. The configuration is written first, so
that a running manager that reconciles a node at the same time gets the same result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from koord.api.configuration.slo_config import SloConfig, reload
from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.eviction_notice import Asker, Go
from koord.api.text.counted import counted
from koord.api.text.selector import LabelMatcher
from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict, EvictionRefused, NotFound
from koord.kube.eviction_notice import ask, withdraw
from koord.manager.colocation_switch import (
    LENT,
    Evictee,
    SwitchError,
    cluster_section,
    node_annotation,
    on_lent,
    pool_section,
    require_off,
    selector_of,
    standing,
    taken_back,
)
from koord.manager.config_in_force import InForce, in_force, last_valid
from koord.manager.node_state import node_facts
from koord.offline.live.node_snapshot import who_is_missing
from koord.operate.live import break_glass
from koord.operate.live.break_glass import FIELD_MANAGER
from koord.operate.live.config_maps import TRIES, config_map

T = TypeVar("T")
AT_ONCE: Final = 16
REFUSED_AGAIN_S: Final = 2.0
NOTICE_LOOK_S: Final = 1.0
NOTHING_PUBLISHED: Final = "nothing is published yet: the node has not reported, or no manager runs"
SWITCHED_OFF: Final = Asker(
    FIELD_MANAGER, "ColocationSwitchedOff", "co-location is turned off and its pods are evicted"
)
CONFIG: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_SLO_CONTROLLER}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Single nodes, a pool, or the whole cluster."""

    nodes: tuple[str, ...] = ()
    pool: LabelMatcher | None = None

    def __str__(self) -> str:
        if self.nodes:
            return f"node {', '.join(self.nodes)}" if len(self.nodes) == 1 else f"nodes {', '.join(self.nodes)}"
        return f"nodes with {self.pool}" if self.pool is not None else "the cluster"


class NodeStanding(msgspec.Struct, frozen=True, rename="camel"):
    on: bool
    why: str
    "What switched co-location off; empty if it is on."
    lends: dict[str, str]
    "The lent resources in the node's allocatable."
    pods: tuple[str, ...]
    "The pods that use lent resources."


class PodToEvict(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    uid: str
    node: str
    priority_class: str


class SwitchResult(msgspec.Struct, frozen=True, rename="camel"):
    """The state of co-location after the change, or after the change that a dry run predicts."""

    cluster: bool
    nodes: dict[str, NodeStanding]
    evicted: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    "Why pods could not be evicted or nodes could not be written, by name."
    manager: str = ""
    "A note if no manager leads; otherwise empty."
    dry_run: bool = False
    to_evict: tuple[PodToEvict, ...] = ()
    "In a dry run: the pods that would be evicted, in that order."
    configuration: tuple[str, ...] = ()
    "Faults in the stored configuration, and what is in force instead."
    admission: str = ""
    "If admission is switched off by hand: since when, and why."
    spared: tuple[str, ...] = ()
    "Pods on lent resources that are not evicted, because they are in the cluster's own namespaces."


@dataclass(frozen=True, slots=True)
class Evict:
    """Which pods to evict, and how long to retry a refused eviction."""

    within_s: float = 60.0
    cluster_too: bool = False
    "Also pods in the cluster's own namespaces."
    agreed: frozenset[str] | None = None
    "UIDs of the pods that the user confirmed; None: all pods."

    def chooses(self, pod: Evictee) -> bool:
        return (self.cluster_too or not pod.is_of_cluster) and (self.agreed is None or pod.uid in self.agreed)


@dataclass(slots=True)
class Done:
    taken_back: int = 0
    "Nodes."
    evicted: list[str] = field(default_factory=list)
    spared: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def run(work: Callable[[Client], Awaitable[T]], kubeconfig: str | None, context: str | None) -> T:
    async def go() -> T:
        async with Client.from_config(kubeconfig, context) as client:
            return await work(client)

    return asyncio.run(go())


async def look(client: Client, scope: Scope, done: Done | None = None) -> SwitchResult:
    """The current state of co-location."""
    held = await configuration_in_force(client)
    config = held.config
    nodes = await nodes_of(client, scope)
    pods = await _lent_to(client, nodes, scope)
    done = done or Done()
    return SwitchResult(
        config.is_colocation_enabled,
        _standings(config, nodes, pods),
        tuple(done.evicted),
        done.refused,
        await who_is_missing(client, time.time()),
        admission=await break_glass.look(client),
        spared=tuple(done.spared),
        configuration=tuple(f"ConfigMap {CONFIG}: {problem}" for problem in held.problems),
    )


async def plan(client: Client, scope: Scope, *, on: bool, evict: Evict | None = None) -> SwitchResult:
    """What `turn` would do, and the state afterwards. Raises the errors that `turn` would raise, and writes nothing."""
    nodes = await nodes_of(client, scope)
    stored = await config_map(client)
    if scope.nodes:
        nodes = [_annotated(node, node_annotation(node.metadata.annotations, on=on)) for node in nodes]
        config = (await configuration_in_force(client)).config
    else:
        config = section_after(stored.data if stored is not None else {}, scope, nodes, on=on)[1]
    pods = await _lent_to(client, nodes, scope)
    chosen = [evictee for evictee in pods if evict is not None and evict.chooses(evictee)]
    return SwitchResult(
        config.is_colocation_enabled,
        _standings(config, nodes, pods),
        manager=await who_is_missing(client, time.time()),
        dry_run=True,
        to_evict=tuple(
            PodToEvict(evictee.key, evictee.uid, evictee.node, evictee.priority_class) for evictee in chosen
        ),
        spared=tuple(_spared(pods, evict)),
    )


async def turn(
    client: Client,
    scope: Scope,
    *,
    on: bool,
    evict: Evict | None = None,
    progress: Callable[[str], None],
    done: Done | None = None,
) -> SwitchResult:
    """Turns the switch. Off: what is lent is taken back at once, and the pods that `evict` chooses are evicted. `done`
    is filled on the way, so that a caller can show the progress."""
    nodes = await nodes_of(client, scope)
    if scope.nodes:
        nodes = [await _annotate(client, node, on=on) for node in nodes]
        config = (await configuration_in_force(client)).config
    else:
        config = await _configure(client, scope, nodes, on=on)
    done = done or Done()
    if not on:
        progress("taking back what is lent")
        await each_of(nodes, lambda node: take_back(client, node, config, done))
        if evict is not None:
            off = [node for node in nodes if not _stands(config, node)]
            pods = await _lent_to(client, off, scope)
            chosen = [evictee for evictee in pods if evict.chooses(evictee)]
            done.spared += _spared(pods, evict)
            progress(f"evicting {counted(len(chosen), 'pod')}")
            deadline_s = time.monotonic() + evict.within_s
            await each_of(chosen, lambda evictee: _evict(client, evictee, deadline_s, done))
    return await look(client, scope, done)


def _spared(pods: Sequence[Evictee], evict: Evict | None) -> list[str]:
    if evict is None or evict.cluster_too:
        return []
    return [evictee.key for evictee in pods if evictee.is_of_cluster]


def _standings(config: SloConfig, nodes: Sequence[Node], pods: Sequence[Evictee]) -> dict[str, NodeStanding]:
    on_node: dict[str, list[str]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod.key)
    standings = {}
    for node in nodes:
        name, meta = node.metadata.name, node.metadata
        stands = standing(config, meta.labels, meta.annotations)
        shown = {key: str(amount) for key, amount in node.status.allocatable.items() if key in LENT}
        why = stands.why or (NOTHING_PUBLISHED if stands.on and not shown else "")
        standings[name] = NodeStanding(stands.on, why, shown, tuple(on_node.get(name, ())))
    return standings


async def configuration_in_force(client: Client) -> InForce:
    """The configuration that the manager uses."""
    published, stored = await config_map(client, names.CONFIGMAP_SLO_IN_FORCE), await config_map(client)
    last = last_valid(published.data if published is not None else None)
    return in_force(last, stored.data if stored is not None else None)


def _stands(config: SloConfig, node: Node) -> bool:
    return standing(config, node.metadata.labels, node.metadata.annotations).on


async def nodes_of(client: Client, scope: Scope) -> list[Node]:
    if scope.nodes:
        nodes = []
        for name in scope.nodes:
            try:
                nodes.append(await client.get(NODES, name))
            except NotFound:
                raise SwitchError(f"there is no node {name}") from None
        return nodes
    nodes = await client.list(NODES)
    return [node for node in nodes if scope.pool is None or scope.pool.matches(node.metadata.labels)]


async def _lent_to(client: Client, nodes: Sequence[Node], scope: Scope) -> list[Evictee]:
    chosen = {node.metadata.name for node in nodes}
    if scope.nodes:
        lists = [await client.list(PODS, fields=f"spec.nodeName={name}") for name in chosen]
        pods = [pod for pods_of_node in lists for pod in pods_of_node]
    else:
        pods = list(await client.list(PODS))
    return on_lent(pods, chosen)


def _annotated(node: Node, text: str | None) -> Node:
    """The node after the change to this colocation-strategy."""
    annotations = {key: value for key, value in node.metadata.annotations.items() if key != COLOCATION_STRATEGY.key}
    if text is not None:
        annotations[COLOCATION_STRATEGY.key] = text
    return replace(node, metadata=replace(node.metadata, annotations=annotations))


async def _annotate(client: Client, node: Node, *, on: bool) -> Node:
    text, key = node_annotation(node.metadata.annotations, on=on), COLOCATION_STRATEGY.key
    if node.metadata.annotations.get(key) == text:
        return node
    patch = {"metadata": {"uid": node.metadata.uid, "annotations": {key: text}}}
    return await client.patch(NODES, node.metadata.name, patch, field_manager=FIELD_MANAGER)


def section_after(data: Mapping[str, str], scope: Scope, nodes: Sequence[Node], *, on: bool) -> tuple[str, SloConfig]:
    """colocation-config with the switch turned, and the configuration that follows from it."""
    if scope.pool is None:
        text = cluster_section(data, on=on)
    else:
        text = pool_section(data, selector_of(scope.pool), on=on)
    config = reload(None, {**data, COLOCATION: text})[0]
    if scope.pool is not None and not on:
        require_off(config, [(node.metadata.name, node.metadata.labels) for node in nodes])
    return text, config


async def _configure(client: Client, scope: Scope, nodes: Sequence[Node], *, on: bool) -> SloConfig:
    for _ in range(TRIES):
        stored = await config_map(client)
        data: Mapping[str, str] = stored.data if stored is not None else {}
        text, config = section_after(data, scope, nodes, on=on)
        if text == data.get(COLOCATION):
            return config
        head = {"name": names.CONFIGMAP_SLO_CONTROLLER, "namespace": names.NAMESPACE_KOORDINATOR}
        try:
            if stored is None:
                body = {"metadata": head, "data": {COLOCATION: text}}
                await client.create(CONFIG_MAPS, body, field_manager=FIELD_MANAGER)
            else:
                version = {"uid": stored.metadata.uid, "resourceVersion": stored.metadata.resource_version}
                await client.patch(
                    CONFIG_MAPS,
                    names.CONFIGMAP_SLO_CONTROLLER,
                    {"metadata": version, "data": {COLOCATION: text}},
                    namespace=names.NAMESPACE_KOORDINATOR,
                    field_manager=FIELD_MANAGER,
                )
        except Conflict:
            # Another client wrote it first: its change is kept too.
            continue
        return config
    raise SwitchError(f"ConfigMap {CONFIG} changes so often that it cannot be written; try again")


async def take_back(client: Client, node: Node, config: SloConfig, done: Done) -> None:
    patch = taken_back(node_facts(node), config, time.time())
    done.taken_back += 1
    if patch is None:
        return
    try:
        await client.patch(
            NODES, node.metadata.name, patch, type="strategic", subresource="status", field_manager=FIELD_MANAGER
        )
    except NotFound:
        return
    except ApiError as error:
        done.refused[f"node/{node.metadata.name}"] = str(error)


async def _evict(client: Client, evictee: Evictee, deadline_s: float, done: Done) -> None:
    while True:
        try:
            if evictee.asks_for_notice:
                await _notice_is_over(client, evictee, deadline_s)
            await client.evict(evictee.namespace, evictee.name, uid=evictee.uid)
        except NotFound:
            return
        except EvictionRefused as error:
            # A disruption budget may allow the eviction once other pods run again.
            if time.monotonic() + REFUSED_AGAIN_S > deadline_s:
                done.refused[evictee.key] = str(error)
                return
            await asyncio.sleep(REFUSED_AGAIN_S)
            continue
        except ApiError as error:
            done.refused[evictee.key] = str(error)
            return
        done.evicted.append(evictee.key)
        return


async def _notice_is_over(client: Client, evictee: Evictee, deadline_s: float) -> None:
    """Waits until a pod that asks for notice reports that it is ready, or its notice period is over. If the wait is
    cancelled, the notice is withdrawn."""
    pod = await client.get(PODS, evictee.name, namespace=evictee.namespace)
    try:
        while pod.metadata.uid == evictee.uid:
            verdict = await ask(client, pod, SWITCHED_OFF, time.time(), deadline_s - time.monotonic())
            if isinstance(verdict, Go):
                return
            await asyncio.sleep(min(NOTICE_LOOK_S, max(0.0, verdict.until_s - time.time())))
            pod = await client.get(PODS, evictee.name, namespace=evictee.namespace)
    except asyncio.CancelledError:
        pod = await client.get(PODS, evictee.name, namespace=evictee.namespace)
        await withdraw(client, pod, SWITCHED_OFF, time.time())
        raise


async def each_of(things: Sequence[Any], do: Callable[[Any], Any]) -> None:
    """Runs `do` for a few things at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(thing: Any) -> None:
        async with slots:
            await do(thing)

    async with asyncio.TaskGroup() as tasks:
        for thing in things:
            tasks.create_task(one(thing))
