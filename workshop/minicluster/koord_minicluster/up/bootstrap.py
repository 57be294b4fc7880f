"""The first objects in a new cluster: koord's namespace, its priority classes, its CustomResourceDefinitions, the
configuration that switches co-location on, and an account that may read metrics.

Missing objects are created, and existing definitions are updated. Other existing objects are not changed: if a user has
switched co-location off, it stays off. A namespace that is being deleted is waited for and created again with its
objects, also while the cluster runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import (
    ColocationConfig,
    CPUBurstConfig,
    ResourceQOSConfig,
    ResourceThresholdConfig,
)
from koord.api.kinds import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Kind,
)
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.definitions import DEFINITIONS, manifest
from koord.api.protocol.crd.node_slo import CPUBurstStrategy, ResourceThresholdStrategy
from koord.api.protocol.crd.resource_qos import CPUQOSCfg, ResourceQOS, ResourceQOSStrategy
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.api.protocol.priority import BANDS, PriorityClass
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, ApiError, NotFound, Unavailable, is_terminating

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-up"
MONITOR: Final = "koord-monitor"


class _Binding(Struct):
    metadata: ObjectMeta = ObjectMeta()


CLUSTER_ROLE_BINDINGS: Final[Kind[_Binding]] = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False, _Binding
)
ESTABLISHED_WITHIN_S: Final = 30.0
AT_ONCE: Final = 4
"""Concurrent requests. A connection for each object would cost more than the request itself."""
ATTEMPTS: Final = 5
AGAIN_S: Final = 0.5
LOOK_S: Final = 0.5
"""How often a namespace that is being deleted is looked at."""
REMIND_S: Final = 15.0
KEEP_S: Final = 5.0
"""How often to look whether the namespace is still there."""
REPORTED_EACH_S: Final = 30
"""As often as agents do."""

LENDING: Final = ColocationConfig(enable=True, cpu_calculate_policy=ADAPTIVE, memory_calculate_policy=ADAPTIVE)
_DESCRIPTIONS: Final[Mapping[PriorityClass, str]] = {
    PriorityClass.PROD: "Services for which resources are guaranteed.",
    PriorityClass.MID: "Work that runs on what prod pods are predicted to leave for long.",
    PriorityClass.BATCH: "Work that runs on what prod pods leave at the time.",
    PriorityClass.FREE: "Work that runs only where nothing else needs the resources.",
}


def priority_classes() -> list[dict[str, object]]:
    """One for each band, with the lowest number in it."""
    return [
        {
            "metadata": {"name": band.value},
            "value": numbers.start,
            "globalDefault": False,
            "description": _DESCRIPTIONS[band],
        }
        for band, numbers in BANDS.items()
    ]


def configuration(*, protected: bool = False, config: SloConfig | None = None) -> dict[str, object]:
    """slo-controller-config with co-location on by the policy adaptive, and every other setting left to its default.

    `protected`: where agents run, services are also protected: best effort is held back, evicted from a full node, and
    yields on every CPU; throttled services may burst. `config`: another one in its place.
    """
    if config is None:
        config = _protected() if protected else SloConfig(colocation=LENDING)
    return {
        "metadata": {"name": CONFIGMAP_SLO_CONTROLLER, "namespace": NAMESPACE_KOORDINATOR},
        "data": config.manifest_data(),
    }


def _protected() -> SloConfig:
    return SloConfig(
        # Short, since a user is watching.
        colocation=replace(LENDING, metric_report_interval_seconds=REPORTED_EACH_S),
        resource_threshold=ResourceThresholdConfig(
            # By time, since a small machine has no CPUs to take away.
            cluster_strategy=ResourceThresholdStrategy(enable=True, cpu_suppress_policy="cfsQuota")
        ),
        resource_qos=ResourceQOSConfig(
            cluster_strategy=ResourceQOSStrategy(be_class=ResourceQOS(cpu_qos=CPUQOSCfg(enable=True)))
        ),
        cpu_burst=CPUBurstConfig(cluster_strategy=CPUBurstStrategy(policy="auto")),
    )


def monitoring() -> list[tuple[Kind[Any], dict[str, object]]]:
    """The account that the live view, the console, or a Prometheus uses to read the components' metrics and the
    scheduler's list of pending pods: it may do nothing else."""
    meta = {"name": MONITOR}
    rules = [{"nonResourceURLs": ["/metrics", "/debug/apis/v1/pending"], "verbs": ["get"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": MONITOR}
    subject = {"kind": "ServiceAccount", "name": MONITOR, "namespace": NAMESPACE_KOORDINATOR}
    return [
        (SERVICE_ACCOUNTS, {"metadata": {**meta, "namespace": NAMESPACE_KOORDINATOR}}),
        (CLUSTER_ROLES, {"metadata": meta, "rules": rules}),
        (CLUSTER_ROLE_BINDINGS, {"metadata": meta, "roleRef": role, "subjects": [subject]}),
    ]


def definitions() -> list[dict[str, Any]]:
    return [manifest(definition) for definition in DEFINITIONS]


async def bootstrap(client: Client, *, protected: bool = False, config: SloConfig | None = None) -> str:
    """Creates the first objects; returns the uid of the namespace once every kind is served. Retries if the server
    loses a connection."""
    for attempt in range(ATTEMPTS):
        try:
            return await _all_there(client, configuration(protected=protected, config=config))
        except ApiError as error:
            # A user may delete the namespace at this moment.
            passes = isinstance(error, Unavailable | NotFound) or is_terminating(error)
            if not passes or attempt == ATTEMPTS - 1:
                raise
            log.info("the first objects of the cluster are made again: %s", error)
            await asyncio.sleep(AGAIN_S)
    raise AssertionError("every attempt returns or raises")


async def keep(client: Client, uid: str, *, protected: bool = False, config: SloConfig | None = None) -> None:
    """Creates the first objects again whenever their namespace, identified by `uid`, was deleted."""
    while True:
        await asyncio.sleep(KEEP_S)
        try:
            if await _uid(client) != uid:
                log.warning("namespace %s was deleted: making it and its objects again", NAMESPACE_KOORDINATOR)
                uid = await bootstrap(client, protected=protected, config=config)
        except ApiError as error:
            log.warning("could not make the first objects of the cluster again: %s", error)


async def _uid(client: Client) -> str:
    """The uid of the namespace; empty if it does not exist or is being deleted."""
    with suppress(NotFound):
        meta = (await client.get(NAMESPACES, NAMESPACE_KOORDINATOR)).metadata
        return meta.uid if meta.deletion_timestamp is None else ""
    return ""


async def _all_there(client: Client, settings: Mapping[str, object]) -> str:
    turns = asyncio.Semaphore(AT_ONCE)
    uid, _ = await asyncio.gather(
        _within_namespace(client, settings, turns),
        asyncio.gather(
            *(_define(client, definition, turns) for definition in definitions()),
            *(_create(client, PRIORITY_CLASSES, priority_class, turns) for priority_class in priority_classes()),
        ),
    )
    return uid


async def _within_namespace(client: Client, settings: Mapping[str, object], turns: asyncio.Semaphore) -> str:
    uid = await _namespace(client)
    await _create(client, CONFIG_MAPS, settings, turns)
    for kind, manifest_object in monitoring():
        await _create(client, kind, manifest_object, turns)
    return uid


async def _namespace(client: Client) -> str:
    """The uid of koord's namespace, once it exists and is not being deleted. A user can remove what blocks its deletion
    in the meantime."""
    next_word_s = 0.0
    while True:
        with suppress(AlreadyExists):
            new = {"metadata": {"name": NAMESPACE_KOORDINATOR}}
            return (await client.create(NAMESPACES, new, field_manager=FIELD_MANAGER)).metadata.uid
        try:
            namespace = await client.get(NAMESPACES, NAMESPACE_KOORDINATOR)
        except NotFound:
            continue
        if namespace.metadata.deletion_timestamp is None:
            return namespace.metadata.uid
        if time.monotonic() >= next_word_s:
            held = "; ".join(namespace.status.holding_up) or "its content is being deleted"
            log.warning("waiting until namespace %s is gone, to make it again: %s", NAMESPACE_KOORDINATOR, held)
            next_word_s = time.monotonic() + REMIND_S
        await asyncio.sleep(LOOK_S)


async def _create(client: Client, kind: Any, obj: Mapping[str, object], turns: asyncio.Semaphore) -> None:
    async with turns:
        with suppress(AlreadyExists):
            await client.create(kind, obj, field_manager=FIELD_MANAGER)


async def _define(client: Client, definition: Mapping[str, Any], turns: asyncio.Semaphore) -> None:
    name = definition["metadata"]["name"]
    async with turns:
        try:
            definition_stored = await client.create(
                CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager=FIELD_MANAGER
            )
        except AlreadyExists:
            definition_stored = await client.patch(
                CUSTOM_RESOURCE_DEFINITIONS, name, definition, type="apply", field_manager=FIELD_MANAGER, force=True
            )
    async with asyncio.timeout(ESTABLISHED_WITHIN_S):
        while not definition_stored.is_established:
            await asyncio.sleep(0.02)
            async with turns:
                definition_stored = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
