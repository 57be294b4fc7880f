"""Flags of the components: defaults as in the protocol, and reading them."""

from __future__ import annotations

import pytest

from koord.api.configuration.components import (
    COMPONENTS,
    ENVIRONMENT,
    KOORDLET,
    MANAGER,
    SCHEDULER,
    FlagValue,
    choose,
    read,
)
from koord.api.machinery.faults import Invalid

EXPECTED: dict[str, dict[str, FlagValue]] = {
    "koordlet": {
        "addr": ":9316",
        "pprof-addr": ":9317",
        "enable-pprof": False,
        "kube-api-qps": 20.0,
        "kube-api-burst": 30,
        "configmap-name": "koordlet-config",
        "cgroup-root-dir": "/host-cgroup/",
        "var-lib-kubelet-dir": "/var/lib/kubelet/",
        "kubelet-preferred-address-type": "InternalIP",
        "kubelet-sync-interval": "10s",
        "kubelet-read-only-port": 10255,
        "enable-node-metric-report": True,
        "collect-res-used-interval": "1s",
        "collect-node-cpu-info-interval": "60s",
        "metric-expire-seconds": 1800,
        "tsdb-retention-duration": "12h",
        "tsdb-max-bytes": 100 * 2**20,
        "memory-evict-cool-time-seconds": 4,
        "cpu-evict-cool-time-seconds": 20,
        "only-evict-by-api": False,
        "resource-force-update-seconds": 60,
        "runtime-hooks-addr": "/host-var-run-koordlet/koordlet.sock",
        "runtime-hooks-failure-policy": "Ignore",
        "runtime-hooks-nri-plugin-index": "00",
        "enable-nri-runtime-hook": True,
        "audit-max-disk-space-mb": 16,
        "prediction-cold-start-duration": "24h",
        "prediction-memory-histogram-decay-halflife": "24h",
        "prediction-cpu-histogram-decay-halflife": "12h",
        "prediction-model-expiration-duration": "30m",
    },
    "koord-manager": {
        "metrics-addr": ":8080",
        "health-probe-addr": ":8000",
        "enable-pprof": True,
        "pprof-addr": ":8090",
        "rest-config-qps": 30.0,
        "rest-config-burst": 50,
        "controllers": ("nodemetric", "noderesource", "nodeslo", "quotaprofile", "colocationprofile"),
        "config-namespace": "koordinator-system",
        "slo-config-name": "slo-controller-config",
        "node-strategy-name-need-check": "false",
        "colocation-profile-reconcile-interval": "30s",
        "colocation-profile-force-update-pod-duration": "5m",
        "colocation-profile-expire-pod-cache-duration": "10m",
        "binding-admission-exclude-namespaces": "kube-system",
        "binding-admission-bypass-labels": "koordinator.sh/binding-admission-bypass",
    },
    "koord-scheduler": {
        "port": 10251,
        "debug-scores": 0,
        "debug-filters": False,
        "controller-plugins": ("*",),
        "scheduler-monitor-period": "10s",
        "scheduling-timeout": "30s",
        "scheduling-drop-unhandled-timeout": "5s",
        "enable-workload-auditor": False,
    },
    "koord-runtime-proxy": {
        "koord-runtimeproxy-endpoint": "/var/run/koord-runtimeproxy/runtimeproxy.sock",
        "remote-runtime-service-endpoint": "/var/run/containerd/containerd.sock",
        "backend-runtime-mode": "Containerd",
    },
}


@pytest.mark.parametrize("component", EXPECTED)
def test_defaults(component: str) -> None:
    values = read(COMPONENTS[component], [], component)
    assert {name: values[name] for name in EXPECTED[component]} == EXPECTED[component]


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_flag_is_there_once_with_a_help_and_a_default_that_it_takes(component: str) -> None:
    flags = COMPONENTS[component]
    assert len({flag.name for flag in flags}) == len(flags)
    assert all(flag.help for flag in flags)
    assert read(flags, [f"--{flag.name}={flag.default}" for flag in flags], component) == read(flags, [], component)


def test_the_three_ways_to_write_a_flag() -> None:
    values = read(KOORDLET, ["--kube-api-burst=7", "--addr", ":1", "--enable-pprof", "-tsdb-max-bytes=1Gi"], "koordlet")
    assert (values["kube-api-burst"], values["addr"], values["enable-pprof"], values["tsdb-max-bytes"]) == (
        7,
        ":1",
        True,
        2**30,
    )
    assert read(MANAGER, ["--enable-pprof=false"], "m")["enable-pprof"] is False


def test_all_faults_come_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        read(SCHEDULER, ["--prt=1", "word", "--debug-filters=perhaps", "--scheduling-timeout=5", "--port"], "scheduler")
    assert [fault.path for fault in caught.value.faults] == [
        "--prt=1",
        "word",
        "--debug-filters",
        "--scheduling-timeout",
        "--port",
    ]
    assert "did you mean port?" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (("*",), ("a", "b", "c")),
        (("*", "-b"), ("a", "c")),
        (("c", "a"), ("a", "c")),
        (("-a",), ()),
        ((), ()),
    ],
)
def test_lists_of_names_with_star_and_minus(words: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    assert choose(words, ("a", "b", "c")) == chosen


def test_the_agent_must_be_told_its_node() -> None:
    assert ENVIRONMENT["koordlet"]["NODE_NAME"] is None
