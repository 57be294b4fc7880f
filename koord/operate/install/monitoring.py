"""`koord install --with monitoring`: objects that let the Prometheus operator scrape koord, alert rules, and boards
for Grafana.

Components answer only callers that may read `/metrics`. Prometheus sends the token of its own service account, which
needs the ClusterRole `koord-metrics-reader` or another one with that right.
"""

from __future__ import annotations

from typing import Final

from koord.api.text.yaml import dump
from koord.operate.alerts import ALERTS, group
from koord.operate.boards import BOARDS
from koord.operate.install.kinds import MONITORING
from koord.operate.install.manifest import KOORD, NAME, Json, made
from koord.operate.install.settings import COMPONENTS, Component, Settings
from koord.operate.install.workloads import selector
from koord.operate.install.yarn import OPERATOR

METRICS: Final = "metrics"
READER: Final = "koord-metrics-reader"
TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
BOARD: Final = {"grafana_dashboard": "1"}
"""Grafana's sidecar finds boards with this label."""

INTERVAL: Final = "30s"
READING: Final[Json] = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


def objects(settings: Settings) -> list[Json]:
    """Includes the YARN operator, which may be installed separately: its objects do no harm without it."""
    watched = [*(component for component in COMPONENTS if settings.has(component)), OPERATOR]
    manifests = [made("rbac.authorization.k8s.io/v1", "ClusterRole", READER, rules=[READING])]
    for component in watched:
        manifests += [_service(component, settings), _monitor(component, settings)]
    manifests.append(_rules("", settings))
    manifests += [_rules(component.name, settings) for component in watched]
    return manifests + [_board(name, text, settings) for name, text in BOARDS.items()]


def _service(component: Component, settings: Settings) -> Json:
    """A headless Service: every pod is scraped."""
    port = {"name": METRICS, "port": component.port, "targetPort": component.port, "protocol": "TCP"}
    return made(
        "v1",
        "Service",
        _metrics_of(component),
        settings.namespace,
        component=component.name,
        spec={"clusterIP": "None", "ports": [port], "selector": {NAME: component.full_name}},
    )


def _monitor(component: Component, settings: Settings) -> Json:
    endpoint: Json = {
        "port": METRICS,
        "scheme": "https",
        "path": "/metrics",
        "interval": INTERVAL,
        # Metrics about a namespace or a node keep the label that names it.
        "honorLabels": True,
        "bearerTokenFile": TOKEN,
        # Components use self-signed certificates, and authenticate callers by their tokens.
        "tlsConfig": {"insecureSkipVerify": True},
    }
    spec: Json = {
        "jobLabel": NAME,
        "selector": selector(component),
        "endpoints": [endpoint],
    }
    return _monitoring("ServiceMonitor", component.full_name, component.name, settings, spec)


def _rules(component: str, settings: Settings) -> Json:
    """The alert rules of a component, or those that use metrics of several."""
    name = f"koord-{component}" if component else KOORD
    own = [alert for alert in ALERTS if alert.component == component]
    return _monitoring("PrometheusRule", name, component, settings, {"groups": [group(name, own)]})


def _monitoring(kind: str, name: str, component: str, settings: Settings, spec: Json) -> Json:
    return made(f"{MONITORING}/v1", kind, name, settings.namespace, component=component, spec=spec)


def _board(name: str, text: str, settings: Settings) -> Json:
    data = {f"{name}.json": text}
    return made("v1", "ConfigMap", f"{name}-board", settings.namespace, labels=BOARD, data=data)


def _metrics_of(component: Component) -> str:
    return f"{component.full_name}-{METRICS}"


def files() -> dict[str, str]:
    """For a Prometheus and a Grafana without operator, by path: rules, how to find koord's pods, and boards."""
    names = dict.fromkeys(alert.component for alert in ALERTS)
    groups = [group(f"koord-{name}" if name else KOORD, [a for a in ALERTS if a.component == name]) for name in names]
    return {
        "rules.yaml": dump({"groups": groups}),
        "scrape.yaml": dump({"scrape_configs": [_scrape(component) for component in (*COMPONENTS, OPERATOR)]}),
        **{f"boards/{name}.json": text for name, text in BOARDS.items()},
    }


def _scrape(component: Component) -> Json:
    keep = {
        "source_labels": [
            "__meta_kubernetes_pod_label_app_kubernetes_io_name",
            "__meta_kubernetes_pod_container_port_name",
        ],
        "regex": f"{component.full_name};health",
        "action": "keep",
    }
    return {
        "job_name": component.full_name,
        "scrape_interval": INTERVAL,
        "honor_labels": True,
        "scheme": "https",
        "authorization": {"credentials_file": TOKEN},
        "tls_config": {"insecure_skip_verify": True},
        "kubernetes_sd_configs": [{"role": "pod"}],
        "relabel_configs": [keep],
    }
