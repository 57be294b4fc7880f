"""The Deployments of the control plane: replicas with one leader, spread over nodes and zones, with the restricted pod
security profile, and a disruption budget of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.kubernetes.autoscaling import SAFE_TO_EVICT
from koord.api.protocol import names
from koord.operate.install.manifest import KOORD, NAME, PART_OF, Json, made
from koord.operate.install.settings import DESCHEDULER, MANAGER, SCHEDULER, Component, Settings

SPREAD_OVER: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
"""Replicas are on different nodes and in different zones where there are several. With one node, all run on it."""
USER: Final = 65532
"""A user ID that most hosts do not use."""
WEBHOOK_PORT: Final = 9876
SHUTDOWN_DELAY_S: Final = 10
"""Longer than it takes until no node leads connections of a Service to a pod that ends; half of the grace period that
pods have by default."""
CONFIG_DIR: Final = "/etc/koord"
CONFIG_FILE: Final = "config.yaml"

_REQUESTS: Final[dict[str, tuple[str, str, str]]] = {
    MANAGER.name: ("200m", "256Mi", "2Gi"),
    SCHEDULER.name: ("500m", "512Mi", "4Gi"),
    DESCHEDULER.name: ("100m", "256Mi", "2Gi"),
}
"""CPU request, memory request and memory limit: enough for a few thousand nodes."""


def deployment(component: Component, settings: Settings) -> Json:
    ports: list[Json] = []
    if component is MANAGER:
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
    files: dict[str, str] = {}
    if component.name in settings.configurations:
        files[CONFIG_DIR] = _config_name(component)
    return deployed(component, settings, _arguments(component, settings), _REQUESTS[component.name], files, ports)


def deployed(
    component: Component,
    settings: Settings,
    arguments: list[str],
    resources: tuple[str, str, str],
    files: Mapping[str, str],
    ports: Sequence[Json] = (),
) -> Json:
    """`resources`: CPU request, memory request and memory limit. `files`: ConfigMaps by mount path. `ports`: ports in
    addition to the health port."""
    mounts: list[Json] = [{"name": "tmp", "mountPath": "/tmp"}]
    volumes: list[Json] = [{"name": "tmp", "emptyDir": {}}]
    for path, name in files.items():
        mounts.append({"name": "config", "mountPath": path, "readOnly": True})
        volumes.append({"name": "config", "configMap": {"name": name}})
    cpu, memory, most = resources
    container: Json = {
        "name": component.name,
        **image(settings),
        "args": arguments,
        "env": [environment("POD_NAMESPACE", "metadata.namespace")],
        "ports": [{"name": "health", "containerPort": component.port, "protocol": "TCP"}, *ports],
        **probes(component),
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
    spread: list[Json] = [
        {
            "maxSkew": 1,
            "topologyKey": topology,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector(component),
        }
        for topology in SPREAD_OVER
    ]
    pod: Json = {
        "serviceAccountName": component.full_name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "topologySpreadConstraints": spread,
        "containers": [container],
        "volumes": volumes,
        **pull_secrets(settings),
    }
    return made(
        "apps/v1",
        "Deployment",
        component.full_name,
        settings.namespace,
        component=component.name,
        spec={
            "replicas": settings.replicas,
            "selector": selector(component),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            # The folder for temporary files must not keep an autoscaler from draining a node.
            "template": template(component, settings, pod, {SAFE_TO_EVICT: "true"}),
        },
    )


def _arguments(component: Component, settings: Settings) -> list[str]:
    arguments = [component.name, "--leader-elect", *common(component, settings)]
    if component is MANAGER:
        arguments += ["--webhook-address", f"0.0.0.0:{WEBHOOK_PORT}", "--shutdown-delay", str(SHUTDOWN_DELAY_S)]
    if component.name in settings.configurations:
        arguments += ["--config", f"{CONFIG_DIR}/{CONFIG_FILE}"]
    return arguments


def common(component: Component, settings: Settings) -> list[str]:
    """Arguments that every component gets."""
    arguments = ["--metrics-address", f"0.0.0.0:{component.port}", "--tls-self-signed", "--log-format", "json"]
    if gates := settings.gates.get(component.name):
        arguments += ["--feature-gates", gates]
    return arguments


def image(settings: Settings) -> Json:
    return {"image": settings.image, "imagePullPolicy": settings.pull_policy, "command": ["koord"]}


def pull_secrets(settings: Settings) -> Json:
    return (
        {"imagePullSecrets": [{"name": pull_secret} for pull_secret in settings.pull_secrets]}
        if settings.pull_secrets
        else {}
    )


def environment(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def probes(component: Component) -> Json:
    def asking(path: str, every_s: int, failures: int) -> Json:
        get: Json = {"path": path, "port": component.port, "scheme": "HTTPS"}
        return {"httpGet": get, "periodSeconds": every_s, "timeoutSeconds": 5, "failureThreshold": failures}

    return {
        "startupProbe": asking("/livez", 2, 60),
        "livenessProbe": asking("/livez", 10, 6),
        "readinessProbe": asking("/readyz", 5, 3),
    }


def selector(component: Component) -> Json:
    return {"matchLabels": {NAME: component.full_name}}


def template(component: Component, settings: Settings, pod: Json, annotations: Mapping[str, str] | None = None) -> Json:
    labels = {NAME: component.full_name, PART_OF: KOORD, "app.kubernetes.io/version": settings.version}
    noted = {"annotations": dict(annotations)} if annotations else {}
    return {"metadata": {"labels": labels, **noted}, "spec": pod}


def budget(component: Component, settings: Settings) -> Json:
    spec = {"maxUnavailable": 1, "selector": selector(component)}
    return made(
        "policy/v1",
        "PodDisruptionBudget",
        component.full_name,
        settings.namespace,
        component=component.name,
        spec=spec,
    )


def service(settings: Settings) -> Json:
    """The Service through which API servers call the webhooks."""
    port = {"name": "webhooks", "port": 443, "targetPort": WEBHOOK_PORT, "protocol": "TCP"}
    spec = {"ports": [port], "selector": {NAME: MANAGER.full_name}}
    return made("v1", "Service", names.SERVICE_WEBHOOKS, settings.namespace, component=MANAGER.name, spec=spec)


def config(component: Component, settings: Settings) -> Json:
    """The component's configuration file. The component reloads it: a change needs no restart."""
    data = {CONFIG_FILE: settings.configurations[component.name]}
    name = _config_name(component)
    return made("v1", "ConfigMap", name, settings.namespace, component=component.name, data=data)


def _config_name(component: Component) -> str:
    return f"{component.full_name}-config"
