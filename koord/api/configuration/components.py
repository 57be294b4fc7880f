"""The flags of Koordinator's components, as tables: name, kind, default, what it does.

The command line makes its options from them, so manifests with Koordinator's flags start koord's components too.
`read` turns `--flag=value` texts into typed values and reports all faults at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from koord.api.configuration.component_config import unknown
from koord.api.machinery.faults import Fault, Invalid
from koord.api.protocol import names
from koord.api.text.duration import DurationError, parse_ns
from koord.api.text.quantity import QuantityError
from koord.api.text.quantity import value as quantity_value

FlagKind: TypeAlias = Literal["text", "bool", "int", "float", "duration", "bytes", "list"]
FlagValue: TypeAlias = str | bool | int | float | tuple[str, ...]

_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Flag:
    """One command line option. `default` is written as a user would write it."""

    name: str
    kind: FlagKind
    default: str
    help: str

    @property
    def value(self) -> FlagValue:
        return self.parse(self.default)

    def parse(self, text: str) -> FlagValue:
        """A written value as a typed one: durations stay text, bytes are counted. Raises ValueError."""
        match self.kind:
            case "text":
                return text
            case "bool":
                if text in _TRUE or text in _FALSE:
                    return text in _TRUE
                raise ValueError(f"must be true or false, not {text!r}")
            case "int":
                if not _INTEGER.fullmatch(text):
                    raise ValueError(f"must be an integer, not {text!r}")
                return int(text)
            case "float":
                if not _NUMBER.fullmatch(text):
                    raise ValueError(f"must be a number, not {text!r}")
                return float(text)
            case "duration":
                parse_ns(text)
                return text
            case "bytes":
                return quantity_value(text)
            case "list":
                return tuple(word for word in text.split(",") if word)


def _table(rows: str) -> tuple[Flag, ...]:
    """`name kind default | help`, one a line; `-` is an empty default."""
    flags = []
    for row in filter(None, map(str.strip, rows.splitlines())):
        head, _, text = row.partition(" | ")
        name, kind, default = head.split()
        flags.append(Flag(name, kind, "" if default == "-" else default, text))  # type: ignore[arg-type]  # a literal table
    return tuple(flags)


KOORDLET: Final = _table(
    """
    addr text :9316 | address of metrics and health
    enable-pprof bool false | serve profiles
    pprof-addr text :9317 | address of profiles
    kube-api-qps float 20 | requests a second to the API server
    kube-api-burst int 30 | requests to the API server at once
    configmap-name text koordlet-config | ConfigMap with further settings
    configmap-namespace text koordinator-system | its namespace
    feature-gates text - | features to switch, as Name=true,Other=false
    qos-extension-plugins text - | further strategies to switch, as name=true
    cgroup-root-dir text /host-cgroup/ | where the node's cgroups are mounted
    sys-root-dir text /host-sys/ | where the node's /sys is mounted
    sys-fs-root-dir text /host-sys-fs/ | where the node's /sys/fs is mounted
    var-run-root-dir text /host-var-run/ | where the node's /var/run is mounted
    run-root-dir text /host-run/ | where the node's /run is mounted
    var-lib-kubelet-dir text /var/lib/kubelet/ | the kubelet's directory
    default-runtime-type text containerd | container runtime where a container does not say it
    hami-core-library-directory-path text /usr/local/vgpu/libvgpu.so | library that divides GPUs
    xpu-device-infos-dir text /var/run/koordlet/xpu-device-infos/ | descriptions of further devices
    kubelet-preferred-address-type text InternalIP | which address of the node to reach its kubelet at
    kubelet-sync-interval duration 10s | time between two readings of the kubelet's pods
    kubelet-sync-timeout duration 3s | time for one reading
    kubelet-insecure-tls bool false | read pods from the kubelet's read-only port
    kubelet-read-only-port int 10255 | that port
    node-topology-sync-interval duration 3s | time between two reports of the node's topology
    disable-query-kubelet-config bool false | do not ask the kubelet for its configuration
    enable-node-metric-report bool true | report usage as NodeMetric
    collect-res-used-interval duration 1s | time between two samples of CPU and memory
    collect-sys-metric-outdated-interval duration 10s | age from which a sample is ignored
    collect-node-cpu-info-interval duration 60s | time between two readings of the CPUs
    collect-node-storage-info-interval duration 1s | time between two readings of the disks
    cpi-collector-interval duration 60s | time between two counts of cycles and instructions
    collect-cpi-timewindow duration 10s | length of one count
    psi-collector-interval duration 10s | time between two readings of pressure
    coldpage-collector-interval duration 5s | time between two readings of cold memory
    resctrl-collector-interval duration 10s | time between two readings of cache and bandwidth
    enable-pagecache-collector bool false | measure page cache
    enable-resctrl-collector bool false | measure cache and memory bandwidth
    metric-gc-interval-seconds int 300 | seconds between two clean-ups of samples
    metric-expire-seconds int 1800 | age from which samples are dropped
    tsdb-path text /metric-data/ | where samples are kept
    tsdb-retention-duration duration 12h | how long they are kept
    tsdb-max-bytes bytes 100Mi | how much of them is kept
    reconcile-interval-seconds int 1 | seconds between two rounds of cgroup settings
    cpu-suppress-interval-seconds int 1 | seconds between two rounds of CPU suppression
    cpu-evict-interval-seconds int 1 | seconds between two rounds of eviction by CPU
    memory-evict-interval-seconds int 1 | seconds between two rounds of eviction by memory
    memory-evict-cool-time-seconds int 4 | seconds to wait after an eviction by memory
    cpu-evict-cool-time-seconds int 20 | seconds to wait after an eviction by CPU
    only-evict-by-api bool false | never kill containers where the API refuses an eviction
    resource-force-update-seconds int 60 | seconds after which a setting is written again
    runtime-hooks-network text unix | kind of socket for the runtime proxy
    runtime-hooks-addr text /host-var-run-koordlet/koordlet.sock | that socket, as seen from here
    runtime-hooks-host-endpoint text /var/run/koordlet/koordlet.sock | that socket, as seen from the node
    runtime-hooks-failure-policy text Ignore | what the proxy does where a hook fails: Ignore or Fail
    runtime-hooks-plugin-failure-policy text Ignore | what a hook does where a part of it fails: Ignore or Fail
    runtime-hooks-config-path text /host-etc-hookserver/ | where the proxy finds our registration
    runtime-hooks-disable-stages list - | stages without hooks
    runtime-hooks-reconcile-interval duration 10s | time between two rounds of hooks on running pods
    runtime-hooks-nri-socket-path text nri/nri.sock | the runtime's NRI socket, below /var/run
    runtime-hooks-nri-plugin-name text koordlet_nri | our name there
    runtime-hooks-nri-plugin-index text 00 | our rank there
    enable-nri-runtime-hook bool true | hook into the runtime by NRI
    disable-unset-cpu-quota bool false | keep the CPU quota of pods with CPUs of their own
    audit-log-dir text /var/log/koordlet | where the log of changes is kept
    audit-verbose int 3 | how much is logged
    audit-max-disk-space-mb int 16 | its size at most, in MB
    audit-max-events-limit int 2048 | entries in one answer at most
    prediction-checkpoint-filepath text /prediction-checkpoints | where predictions are kept over a restart
    prediction-cold-start-duration duration 24h | age from which a pod is predicted
    prediction-safety-margin-percent int 10 | margin on predicted peaks
    prediction-memory-histogram-decay-halflife duration 24h | age at which a memory sample counts half
    prediction-cpu-histogram-decay-halflife duration 12h | age at which a CPU sample counts half
    prediction-training-interval duration 1m | time between two updates of predictions
    prediction-model-expiration-duration duration 30m | time after which an idle prediction is dropped
    prediction-model-checkpoint-interval duration 10m | time between two saves
    """
)

CONTROLLERS: Final = ("nodemetric", "noderesource", "nodeslo", "quotaprofile", "colocationprofile")
NODE_RESOURCE_PLUGINS: Final = (
    "MidResource",
    "BatchResource",
    "CPUNormalization",
    "ResourceAmplification",
    "GPUDeviceResource",
    "RDMADeviceResource",
)

MANAGER: Final = (
    Flag("controllers", "list", ",".join(CONTROLLERS), "controllers that run: *, name, -name"),
    Flag("noderesource-plugins", "list", ",".join(NODE_RESOURCE_PLUGINS), "what is computed: *, name, -name"),
    *_table(
        """
    metrics-addr text :8080 | address of metrics
    health-probe-addr text :8000 | address of health
    enable-pprof bool true | serve profiles
    pprof-addr text :8090 | address of profiles
    enable-leader-election bool true | work only while holding the lease
    leader-election-namespace text koordinator-system | namespace of the lease
    rest-config-qps float 30 | requests a second to the API server
    rest-config-burst int 50 | requests to the API server at once
    feature-gates text - | features to switch, as Name=true,Other=false
    config-namespace text koordinator-system | namespace of slo-controller-config
    slo-config-name text slo-controller-config | its name
    node-strategy-name-need-check text false | demand unique names of node items in it: "true" or "false"
    colocation-profile-reconcile-by-default bool false | apply profiles to pods that exist
    colocation-profile-reconcile-interval duration 30s | time between two rounds of that
    colocation-profile-force-update-pod-duration duration 5m | time before a pod is looked at again
    colocation-profile-expire-pod-cache-duration duration 10m | time after which a pod is forgotten
    colocation-profile-update-pod-qps float 10 | pods changed a second
    colocation-profile-update-pod-qps-burst int 100 | pods changed at once
    binding-admission-user-name text - | users that may bind pods
    binding-admission-dry-run bool false | only log what would be refused
    binding-admission-namespaces text - | namespaces whose bindings are checked; * is all
    binding-admission-exclude-namespaces text kube-system | namespaces whose bindings are not
    binding-admission-bypass-labels text koordinator.sh/binding-admission-bypass | labels of pods that anyone may bind
    binding-admission-bypass-annotations text - | annotations of these pods
    """
    ),
)

SCHEDULER: Final = _table(
    """
    config text - | configuration file, of kind KubeSchedulerConfiguration
    port int 10251 | port of health, metrics and diagnosis
    feature-gates text - | features to switch, as Name=true,Other=false
    debug-scores int 0 | number of best nodes per pod whose scores are logged
    debug-filters bool false | log why a node is filtered out
    debug-diagnosis bool false | log a diagnosis of each pod that does not fit
    controller-plugins list * | plugins whose controllers run: *, Name, -Name
    enable-network-topology-manager bool false | build the tree of the network from node labels
    scheduler-monitor-period duration 10s | time between two looks for stuck pods
    scheduling-timeout duration 30s | time after which a scheduling counts as stuck
    scheduling-drop-unhandled-timeout duration 5s | time after which an unhandled pod is forgotten
    enable-workload-auditor bool false | follow each workload through its scheduling
    """
)

DESCHEDULER: Final = _table(
    """
    config text - | configuration file, of kind DeschedulerConfiguration
    port int 10251 | port of health and metrics
    feature-gates text - | features to switch, as Name=true,Other=false
    """
)

RUNTIME_PROXY: Final = _table(
    """
    koord-runtimeproxy-endpoint text /var/run/koord-runtimeproxy/runtimeproxy.sock | socket that the kubelet talks to
    remote-runtime-service-endpoint text /var/run/containerd/containerd.sock | socket of the runtime behind it
    backend-runtime-mode text Containerd | kind of that runtime: Containerd or Docker
    """
)

ENVIRONMENT: Final[Mapping[str, Mapping[str, str | None]]] = MappingProxyType(
    {
        "koordlet": {"NODE_NAME": None, "agent_mode": "hostMode"},
        "koord-manager": {"WEBHOOK_PORT": str(names.PORT_WEBHOOK)},
    }
)
"""Environment variables by component, with their defaults; None must be given."""

COMPONENTS: Final[Mapping[str, tuple[Flag, ...]]] = MappingProxyType(
    {
        "koordlet": KOORDLET,
        "koord-manager": MANAGER,
        "koord-scheduler": SCHEDULER,
        "koord-descheduler": DESCHEDULER,
        "koord-runtime-proxy": RUNTIME_PROXY,
    }
)


def read(flags: Iterable[Flag], arguments: Sequence[str], what: str) -> dict[str, FlagValue]:
    """All flags' values, as `--name=value`, `--name value` or, for switches, `--name` set them. Raises `Invalid`."""
    flags_by_name = {flag.name: flag for flag in flags}
    values: dict[str, FlagValue] = {flag.name: flag.value for flag in flags_by_name.values()}
    faults: list[Fault] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, text = argument.lstrip("-").partition("=")
        flag = flags_by_name.get(name) if argument.startswith("-") else None
        if flag is None:
            faults.append(
                Fault(argument, unknown(name, "flag", flags_by_name) if argument.startswith("-") else "is no flag")
            )
            continue
        if not equals:
            if flag.kind == "bool":
                text = "true"
            elif rest:
                text = rest.pop(0)
            else:
                faults.append(Fault(f"--{name}", f"needs a value; the default is {flag.default!r}"))
                continue
        try:
            values[name] = flag.parse(text)
        except (ValueError, DurationError, QuantityError) as error:
            faults.append(Fault(f"--{name}", str(error)))
    if faults:
        raise Invalid(what, faults)
    return values


def choose(chosen: Iterable[str], available: Sequence[str]) -> tuple[str, ...]:
    """What a list of `*`, `Name` and `-Name` leaves of what there is, in the order of what there is."""
    words = list(chosen)
    return tuple(name for name in available if name in words or ("*" in words and f"-{name}" not in words))
