"""What a running scheduler can be asked to say about its decisions: tables of scores, filters that failed, diagnoses.

    s=N      after each decision among several nodes, the N best with the weighted score of every plugin
    f=true   one line for every node that a filter turned away
    d=true   one JSON line for every pod that fits nowhere, written when there is time for it
    db=true  the same, written before the next decision

This module only makes text and data from the engine that decides; other modules log and serve it. It costs time only
while a flag is set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass

import msgspec

from koord.api.protocol.names import LABEL_TOPOLOGY_KEY_TO_EXPLAIN
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.pod_class import Part
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.plugins.node_ports import ports_of
from koord.scheduler.plugins.volume_restrictions import VolumeUsers
from koord.scheduler.plugins.volume_use import noted_use
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord.scheduler.state.terms import Role
from koord.scheduler.suggestion import Suggestion

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


@dataclass(slots=True)
class Flags:
    """Which diagnoses are switched on."""

    top_scores: int = 0
    filter_failures: bool = False
    diagnoses: bool = False
    at_once: bool = False
    "Diagnoses are written before the next decision."

    @property
    def dumps(self) -> bool:
        return self.diagnoses or self.at_once

    @property
    def before_placing(self) -> bool:
        return self.top_scores > 0 or self.filter_failures

    @property
    def any(self) -> bool:
        return self.before_placing or self.dumps

    def set(self, flag: str, text: str) -> str:
        """Set a flag from a request body and return the answer. Raises ValueError with the answer if it is invalid."""
        word = text.strip()
        if flag == "s":
            try:
                self.top_scores = int(word)
            except ValueError:
                raise ValueError(f"failed set debugTopNScores {word}: it must be a whole number") from None
            return f"successfully set debugTopNScores to {word}"
        if flag not in ("f", "d", "db"):
            raise ValueError(f"there is no flag {flag}; there are s, f, d and db")
        if word not in (*_TRUE, *_FALSE):
            raise ValueError(f"failed set debugFilterFailure {word}: it must be true or false")
        wanted = word in _TRUE
        if flag == "f":
            self.filter_failures = wanted
        elif flag == "db":
            self.at_once = wanted
        else:
            # Without diagnoses there is nothing to write, at once or later.
            self.diagnoses, self.at_once = wanted, self.at_once and wanted
        return f"successfully set debugFilterFailure to {word}"


def score_table(engine: Engine, ask: Ask, top: int) -> str | None:
    """The best nodes for a pod that is not placed yet, as a Markdown table; None where there is nothing to compare."""
    pod_class, weights, names = engine.class_of(ask), engine.profile.weights, engine.cluster.table.names
    rows = pod_class.feasible_rows().tolist()
    if len(rows) < 2:
        return None
    scores = {names[row]: pod_class.scores(row) for row in rows}
    given = next(iter(scores.values()))
    plugins = [name for name, weight in weights.items() if weight and name in given]
    totals = {node: sum(weights[name] * by_plugin[name] for name in plugins) for node, by_plugin in scores.items()}
    winner = pod_class.best()
    chosen = None if winner is None else names[winner]
    best = sorted(totals, key=lambda node: (-totals[node], node != chosen, node))[:top]
    lines = [
        f"Top{top} scores for Pod: {ask.key}, feasibleNodes: {len(rows)}, plugins:[{' '.join(plugins)}]",
        "| # | Pod | Node | Score | " + " | ".join(plugins) + " |",
        "| --- | --- | --- | " + " ".join(["---:|"] * (len(plugins) + 1)),
    ]
    for place, node in enumerate(best):
        cells = [str(place), ask.key, node, str(totals[node])]
        cells += [str(weights[name] * scores[node][name]) for name in plugins]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def filter_lines(engine: Engine, ask: Ask) -> list[str]:
    """A line for every rejected node: in the first pass, with all pods that are nominated to it, or in the second,
    without them."""
    names = engine.cluster.table.names
    lines = []
    for row, (part, reasons) in _against(engine, ask).items():
        number = 2 if _passes_with_promised(engine, ask, row) else 1
        lines.append(
            f'Failed to filter for Pod "{ask.key}" on Node "{names[row]}" (pass {number}), '
            f"failedPlugin: {part.plugin.name}, reason: {', '.join(reasons)}"
        )
    return lines


def _against(engine: Engine, ask: Ask) -> dict[Row, tuple[Part, list[str]]]:
    """By node, the plugin that rejects it and its reasons, exact checks included, sorted by node name."""
    pod_class, table = engine.class_of(ask), engine.cluster.table
    against: dict[Row, tuple[Part, list[str]]] = {}
    for name in sorted(table.row_of):
        row = table.row_of[name]
        why = pod_class.reasons(row) or pod_class.objection(ask, row)
        if why is not None:
            against[row] = why
    return against


def _passes_with_promised(engine: Engine, ask: Ask, row: Row) -> bool:
    """Whether a rejected node would do if the pods that are nominated to it were there."""
    nominations = engine.cluster.nominations
    floor = nominations.floor(ask.priority) if nominations else None
    promised = [] if floor is None else [record for record in nominations.at(row, floor) if record.key != ask.key]
    if not promised:
        return False
    with engine.cluster.transaction() as trial:
        for record in promised:
            engine.cluster.place(record, row)
        passes = engine.judged_alone(ask).look(ask, row) is None
        trial.undo()
    return passes


# Empty fields are left out, as readers of these lines expect.
class NodeFailedDetail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    failed_plugin: str
    reason: str
    preempt_might_help: bool
    failed_nodes: tuple[str, ...]


class ScheduleDiagnosis(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    already_wait_for_bound: int
    node_offer_slot: dict[str, int] = {}
    node_failed_details: tuple[NodeFailedDetail, ...] = ()


class PreemptionDiagnosis(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    dry_run_filter_diagnosis: ScheduleDiagnosis | None
    other_diagnosis: None
    failed_message: str = ""


class Diagnosis(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    timestamp: str
    questioned_key: str
    nominated_node: str = ""
    pre_filter_message: str = ""
    topology_key_to_explain: str = ""
    is_root_cause_pod: bool
    schedule_diagnosis: ScheduleDiagnosis
    preemption_diagnosis: PreemptionDiagnosis | None
    suggestion: Suggestion | None = None


class FailedNodes:
    """Which nodes failed for what, of one class of pods as long as nothing changes: many of it may come in a row, and
    going through all nodes takes a while."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, tuple[NodeFailedDetail, ...]] | None = None

    def of(self, engine: Engine, ask: Ask) -> tuple[NodeFailedDetail, ...]:
        pod_class, cluster = engine.class_of(ask), engine.cluster
        key = (engine.profile.name, pod_class.key, cluster.table.version, cluster.storage.version)
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        nodes: dict[tuple[str, str, bool], list[str]] = {}
        helped = set(pod_class.resolvable().tolist())
        for row, (part, reasons) in _against(engine, ask).items():
            why = (part.plugin.name, ", ".join(reasons), row in helped)
            nodes.setdefault(why, []).append(cluster.table.names[row])
        details = tuple(NodeFailedDetail(*why, tuple(nodes_alike)) for why, nodes_alike in sorted(nodes.items()))
        # Exact checks look at the pod, not at its class.
        self._known = None if pod_class.exact else (key, details)
        return details


def diagnosis(
    engine: Engine,
    ask: Ask,
    placement: Placement,
    remedy: Remedy,
    now_s: float,
    suggestion: Suggestion | None = None,
    failed: FailedNodes | None = None,
) -> Diagnosis:
    """All about a pod that fits nowhere, for programs."""
    details = () if placement.refusal else (failed or FailedNodes()).of(engine, ask)
    return Diagnosis(
        timestamp=from_seconds(now_s),
        questioned_key=ask.key,
        nominated_node=remedy.node or ask.pod.status.nominated_node_name,
        pre_filter_message=placement.refusal,
        topology_key_to_explain=ask.meta.labels.get(LABEL_TOPOLOGY_KEY_TO_EXPLAIN, ""),
        is_root_cause_pod=True,
        schedule_diagnosis=ScheduleDiagnosis(0, {}, details),
        preemption_diagnosis=PreemptionDiagnosis(None, None, remedy.message) if remedy.message else None,
        suggestion=suggestion,
    )


def diagnosis_line(ask: Ask, dumped: Diagnosis) -> str:
    meta, text = ask.meta, msgspec.json.encode(dumped).decode()
    return f"dump diagnosis for {dumped.questioned_key}, targetPod: {meta.namespace}/{meta.name}/{meta.uid}: ${text}"


def node_told(cluster: Cluster, name: str) -> dict[str, object] | None:
    """What the scheduler knows about a node and counts on it; None if the node is unknown."""
    row = cluster.table.row_of.get(name)
    if row is None:
        return None
    columns = cluster.table.columns

    def amounts(what: str) -> dict[str, str]:
        pairs = [key for key in columns if isinstance(key, tuple) and key[0] == what]
        return {str(key[1]): render(str(key[1]), number) for key in pairs if (number := columns[key].item(row))}

    allocatable, requested = amounts("allocatable"), amounts("requested")
    taken: dict[str, Hashable] = {resource: ("requested", resource) for resource in allocatable}
    taken["pods"] = "pod count"
    remaining = {
        resource: render(resource, columns["allocatable", resource].item(row) - columns[column].item(row))
        for resource, column in taken.items()
        if column in columns
    }
    node = cluster.nodes[row]
    return {
        "node": {
            "metadata": {"name": name, "labels": dict(node.metadata.labels)},
            "spec": msgspec.to_builtins(node.spec, enc_hook=dict),
        },
        "pods": [
            {"key": key, "uid": record.uid, "priority": record.priority, "terminating": record.terminating}
            for key, record in sorted(cluster.pods_on[row].items())
        ],
        "podCount": columns["pod count"].item(row),
        "requested": requested,
        "nonZeroRequested": {
            resource: render(resource, columns[f"non-zero {resource}"].item(row)) for resource in ("cpu", "memory")
        },
        "allocatable": allocatable,
        "remaining": remaining,
        "nominated": [nomination.record.key for nomination in cluster.nominations.on(row)],
        **_beside(cluster.pods_on[row].values()),
    }


def _beside(pods: Collection[PodRecord]) -> dict[str, object]:
    """Affinity, ports and claims of a node's pods, without empty entries."""
    ports: dict[str, list[dict[str, object]]] = {}
    claims: Counter[str] = Counter()
    for record in pods:
        use = noted_use(record, VolumeUsers.name)
        claims.update(f"{record.namespace}/{name}" for name in (*use.claims, *use.own_claims))
        for port in ports_of(record):
            ports.setdefault(port.ip, []).append({"Protocol": port.protocol, "Port": port.port})
    parts: dict[str, object] = {
        "podsWithAffinity": sorted(record.key for record in pods if record.held),
        "podsWithRequiredAntiAffinity": sorted(
            record.key for record in pods if any(held.role is Role.ANTI_AFFINITY for held in record.held)
        ),
        "usedPorts": ports,
        "pvcRefCounts": dict(sorted(claims.items())),
    }
    return {name: value for name, value in parts.items() if value}
