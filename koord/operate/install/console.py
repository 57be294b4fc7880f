"""`koord install --with console`: the web console on a cluster, and the roles of its viewers.

Viewers sign in with bearer tokens of their own, and their own rights decide what they see and do. The console's service
account may only read; it changes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from koord.api.configuration.features import Gate
from koord.api.protocol import names
from koord.operate.install.access import RBAC, access_for, rules_of
from koord.operate.install.manifest import NAME, Json, made
from koord.operate.install.rights import LEASES, READ, SCHEDULING, SLO, WATCH, Right
from koord.operate.install.settings import SCHEDULER, Component, Settings
from koord.operate.install.workloads import deployed


class NoGate(Gate):
    """The console has no feature gates."""


CONSOLE: Final = Component("console", NoGate, 8443, "shows what is lent, used and pending, and has the switch")
VIEWER: Final = "koord-console-viewer"
OPERATOR: Final = "koord-console-operator"
OVERVIEW: Final = "/koord/overview"
"""Whoever may get this path sees sums and nodes."""
PENDING: Final = "/debug/apis/v1/pending"
PORT: Final = 443

RIGHTS: Final = (
    Right("show nodes, pods and namespaces", ("nodes", "pods", "namespaces"), READ),
    Right("show what nodes report", (f"nodemetrics.{SLO}",), WATCH),
    Right("show at which thresholds nodes act", (f"nodeslos.{SLO}",), ("get",)),
    Right("show what tenants may use", ("elasticquotas.scheduling.sigs.k8s.io",), WATCH),
    Right("show evictions, moves and slowdowns", ("events.events.k8s.io",), WATCH),
    Right("show how koord itself is", (LEASES, "deployments.apps", "daemonsets.apps"), ("get", "list")),
    Right(
        "show whether koord's kinds, priorities and webhooks are there",
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            "priorityclasses.scheduling.k8s.io",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
        ),
        ("get", "list"),
    ),
    Right(
        "show moves that no descheduler carries out, and requests that nothing acts on",
        (f"podmigrationjobs.{SCHEDULING}", f"scheduleexplanations.{SCHEDULING}"),
        ("get", "list"),
    ),
    Right("read the settings, roll-outs and records of acts", ("configmaps",), READ, (), "configuration"),
)
"""Of the console itself: it reads, and writes nothing."""

_RECORDS: Final = (
    names.CONFIGMAP_CONSOLE_ACTS,
    names.CONFIGMAP_ROLLOUTS,
    names.CONFIGMAP_SLO_CONTROLLER,
    names.CONFIGMAP_SLO_IN_FORCE,
)
ACTING: Final = (
    Right("turn co-location off and on, and roll features out", ("nodes",), ("get", "list", "patch")),
    Right("take back what nodes lend", ("nodes/status",), ("patch",)),
    Right("see which pods an act concerns", ("pods", "namespaces"), ("get", "list")),
    Right("evict the pods that it names", ("pods/eviction",), ("create",)),
    Right("move a pod", ("podmigrationjobs.scheduling.koordinator.sh",), ("get", "list", "create")),
    Right("calculate what nodes would lend", (f"nodemetrics.{SLO}", f"nodeslos.{SLO}"), ("get", "list")),
    Right(
        "calculate with CPU topologies and devices, too",
        (
            "devices.scheduling.koordinator.sh",
            "noderesourcetopologies.topology.node.k8s.io",
        ),
        ("get", "list"),
    ),
    Right("know whether a manager leads", (LEASES,), ("get", "list")),
)
CONFIGURING: Final = (
    Right(
        "read and write settings, roll-outs and records", ("configmaps",), ("get", "patch"), _RECORDS, "configuration"
    ),
    Right("write them the first time", ("configmaps",), ("create",), (), "configuration"),
    Right("say in events who did what", ("events.events.k8s.io",), ("create", "patch"), (), "configuration"),
)


def objects(settings: Settings) -> list[Json]:
    return [
        *access_for(CONSOLE.name, CONSOLE.full_name, RIGHTS, settings),
        *_asking(settings),
        *roles(),
        _service(settings),
        _schedulers(settings),
        _deployment(settings),
    ]


def roles() -> list[Json]:
    """Roles to bind users to: viewers see sums and nodes, and pods where they may list pods; operators also act."""
    looking: Json = {"nonResourceURLs": [OVERVIEW], "verbs": ["get"]}
    return [
        _cluster_role(VIEWER, [looking]),
        _cluster_role(OPERATOR, [looking, *rules_of(ACTING)]),
        made(RBAC, "Role", OPERATOR, names.NAMESPACE_KOORDINATOR, component=CONSOLE.name, rules=rules_of(CONFIGURING)),
    ]


def _cluster_role(name: str, rules: list[Json]) -> Json:
    return made(RBAC, "ClusterRole", name, component=CONSOLE.name, rules=rules)


def _asking(settings: Settings) -> list[Json]:
    """The right to ask the scheduler why pods are pending."""
    name = f"{CONSOLE.full_name}-pending"
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": CONSOLE.full_name, "namespace": settings.namespace}
    return [
        _cluster_role(name, [{"nonResourceURLs": [PENDING], "verbs": ["get"]}]),
        made(RBAC, "ClusterRoleBinding", name, component=CONSOLE.name, roleRef=ref, subjects=[subject]),
    ]


def _service(settings: Settings) -> Json:
    port = {"name": "https", "port": PORT, "targetPort": CONSOLE.port, "protocol": "TCP"}
    spec = {"ports": [port], "selector": {NAME: CONSOLE.full_name}}
    return made("v1", "Service", CONSOLE.full_name, settings.namespace, component=CONSOLE.name, spec=spec)


def _schedulers(settings: Settings) -> Json:
    """Names the addresses of all schedulers: only the one that leads says why pods are pending."""
    port = {"name": "health", "port": SCHEDULER.port, "targetPort": SCHEDULER.port, "protocol": "TCP"}
    spec = {"clusterIP": "None", "ports": [port], "selector": {NAME: SCHEDULER.full_name}}
    name = f"{CONSOLE.full_name}-schedulers"
    return made("v1", "Service", name, settings.namespace, component=CONSOLE.name, spec=spec)


def _deployment(settings: Settings) -> Json:
    """One replica: sessions and previews are in its memory. Viewers sign in again after a restart."""
    scheduler = f"https://{CONSOLE.full_name}-schedulers.{settings.namespace}.svc:{SCHEDULER.port}"
    arguments = [CONSOLE.name, "--address", f"0.0.0.0:{CONSOLE.port}", "--tls-self-signed", "--log-format", "json"]
    arguments += ["--scheduler", scheduler]
    manifest: Any = deployed(CONSOLE, settings, arguments, ("100m", "192Mi", "768Mi"), {})
    return {**manifest, "spec": {**manifest["spec"], "replicas": 1}}
