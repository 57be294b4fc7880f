"""`koord install --with monitoring`: how a Prometheus of the Prometheus operator finds koord, when it alerts, and
boards for Grafana.

Components answer only callers that may read `/metrics`. Prometheus shows the token of its own service account, which
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
"""The label by which Grafana's sidecar finds boards."""

INTERVAL: Final = "30s"
READING: Final[Json] = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


def objects(settings: Settings) -> list[Json]:
    """The YARN operator is watched wherever it is installed, by this or by hand: its objects do no harm without it."""
    watched = [*(each for each in COMPONENTS if settings.has(each)), OPERATOR]
    found = [made("rbac.authorization.k8s.io/v1", "ClusterRole", READER, rules=[READING])]
    for component in watched:
        found += [_service(component, settings), _monitor(component, settings)]
    found.append(_rules("", settings))
    found += [_rules(each.name, settings) for each in watched]
    return found + [_board(name, text, settings) for name, text in BOARDS.items()]


def _service(component: Component, settings: Settings) -> Json:
    """Has no address of its own: every pod is scraped."""
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
        # A figure about a namespace or a node keeps the label that says which.
        "honorLabels": True,
        "bearerTokenFile": TOKEN,
        # Components sign their certificates themselves, and admit callers by their tokens.
        "tlsConfig": {"insecureSkipVerify": True},
    }
    spec: Json = {
        "jobLabel": NAME,
        "selector": selector(component),
        "endpoints": [endpoint],
    }
    return _monitoring("ServiceMonitor", component.full_name, component.name, settings, spec)


def _rules(component: str, settings: Settings) -> Json:
    """Of a component, or those that look at several."""
    name = f"koord-{component}" if component else KOORD
    own = [each for each in ALERTS if each.component == component]
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
    names = dict.fromkeys(each.component for each in ALERTS)
    groups = [group(f"koord-{name}" if name else KOORD, [a for a in ALERTS if a.component == name]) for name in names]
    return {
        "rules.yaml": dump({"groups": groups}),
        "scrape.yaml": dump({"scrape_configs": [_scrape(each) for each in (*COMPONENTS, OPERATOR)]}),
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
