"""What the operator does about one node: which NodeManager counts, the next step, and what its condition says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.yarn.amount import NOTHING, Amount
from koord.yarn.claims import Claim, Memory, NodeManagerReport, Step, View, Wait, first_of, next_step, reserved, seen
from koord.yarn.hadoop.messages import RUNNING, NodeReport
from koord.yarn.nodes import Declared, NodeFacts, PodFacts, Unmatched, candidates, declared_on, match, unknown
from koord.yarn.split import Demand, Policy

Key = tuple[str, str]
"""A NodeManager: its cluster, and its id there."""


class ClusterReport(Struct):
    """The last report of a YARN cluster."""

    reports: Mapping[str, NodeReport]
    "By node id."
    waits: bool = False
    error: str = ""
    "Why it could not be asked; the reports are then of no use."


class Verdict(Struct):
    step: Step
    cluster: str = ""
    node_id: str = ""
    "Empty where no NodeManager is known."
    memory: Memory = Memory()
    condition: tuple[str, str, str] | None = None
    "Status, reason and message; None where the node has nothing to do with YARN."
    report: NodeReport | None = None
    claims_for: Key | None = None
    "The NodeManager that a claim is written for; None where none is known."


def concerns(node: NodeFacts, pods: Sequence[PodFacts]) -> bool:
    return node.recorded is not None or node.claim != NOTHING or declared_on(node, pods) is not None


def owners(
    concerned: Iterable[tuple[NodeFacts, Sequence[PodFacts]]], looks: Mapping[str, ClusterReport]
) -> dict[Key, str]:
    """Which node has a NodeManager that several say they have: the one that holds a claim for it, else the first."""
    claims: dict[Key, tuple[bool, bool, str]] = {}
    for node, pods in concerned:
        declared, said = declared_on(node, pods), set[Key]()
        if declared is not None and (look := looks.get(declared.cluster)) is not None and not look.error:
            matched = match(declared, look.reports)
            if isinstance(matched, str):
                said.add((declared.cluster, matched))
        if node.recorded is not None:
            said.add(node.recorded)
        for key in said:
            mine = key != node.recorded, declared is None, node.name
            claims[key] = min(claims.get(key, mine), mine)
    return {owner_key: name for owner_key, (_, _, name) in claims.items()}


def judge(
    node: NodeFacts,
    pods: Sequence[PodFacts],
    looks: Mapping[str, ClusterReport],
    memories: Mapping[Key, Memory],
    absent_s: Mapping[Key, float],
    owners: Mapping[Key, str],
    policy: Policy,
    now_s: float,
    *,
    kubernetes_waits: bool,
) -> Verdict:
    """`looks` by cluster. `memories` and `absent_s` by cluster and node id: what was called, and for how long a
    NodeManager has been missing. `owners`: by the same, the node that counts where several have one NodeManager."""
    declared = declared_on(node, pods)
    of, problem = node.recorded, None
    matched: Key | None = None
    if node.fault:
        # YARN keeps what it has: whether that is too much is unknown.
        return Verdict(Wait(node.fault), condition=("False", "InvalidAnnotation", node.fault))
    if declared is not None:
        look = looks.get(declared.cluster)
        if look is None:
            problem = Unmatched(
                "UnknownCluster",
                f"{declared.where} names the YARN cluster {declared.cluster!r}, which the operator has no configuration"
                f" for: it has {', '.join(repr(cluster) for cluster in sorted(looks))}",
            )
        elif look.error:
            problem = Unmatched("ResourceManagerUnavailable", look.error)
        else:
            matched_id = match(declared, look.reports)
            if isinstance(matched_id, Unmatched):
                problem = matched_id
            else:
                matched = (declared.cluster, matched_id)
                of = of or matched
            if matched is not None and of is not None and of != matched:
                problem = Unmatched(
                    "NodeManagerReplaced", f"{of[1]} gives its share back, then {matched[1]} gets its own"
                )
    unrecorded = None if declared is None else _unrecorded(node, declared, looks, owners, policy)
    if of is None:
        if declared is None and node.claim != NOTHING:
            # A claim without a known NodeManager.
            of = ("", "")
        else:
            step: Step = Wait("no NodeManager is known")
            if unrecorded is not None:
                step = reserved(node.claim, unrecorded) or step
            return Verdict(step, condition=None if problem is None else ("False", problem.reason, problem.message))
    cluster, node_id = of
    if (owner := owners.get(of, node.name)) != node.name:
        return _without_own(of, owner, declared)
    look = looks.get(cluster)
    if look is None or look.error:
        why = look.error if look is not None else f"no configuration for the YARN cluster {cluster!r}"
        reason = "ResourceManagerUnavailable" if look is not None else "UnknownCluster"
        condition = ("False", reason, problem.message if problem else why)
        return Verdict(Wait(why), cluster, node_id, memories.get(of, Memory()), condition)
    is_declared = declared is not None and problem is None
    report = look.reports.get(node_id)
    running = report if report is not None and report.state == RUNNING else None
    view = View(
        node.pool,
        node.allocatable,
        node.claim,
        None if running is None else NodeManagerReport(running.cap, running.used),
        Demand(held_by(pods), NOTHING, kubernetes_waits, look.waits),
        node.others,
        is_declared,
        # A claim without a known NodeManager, as another operator may have left it, is not waited for.
        absent_s.get(of, 0.0 if node_id else float("inf")),
        None if is_declared else unrecorded,
    )
    memory = seen(view, memories.get(of, Memory()), now_s, policy.heard_s)
    step = next_step(view, memory, policy, now_s)
    is_handed_over = isinstance(step, Claim) and step.hands_over
    claims_for = matched if is_handed_over else of if node_id else None
    if is_declared and declared is not None and running is None:
        problem = unknown(node_id, declared, look.reports)
    if problem is None and not is_declared and node.claim == NOTHING:
        return Verdict(step, cluster, node_id, memory, claims_for=claims_for)
    if problem is not None:
        condition = ("False", problem.reason, problem.message)
    elif isinstance(step, Wait) and step.for_manager:
        condition = ("True", "WaitingForKubernetes", step.why)
    else:
        condition = ("True", "Shared", "YARN and Kubernetes share what is reclaimed")
    return Verdict(step, cluster, node_id, memory, condition, running, claims_for)


def _unrecorded(
    node: NodeFacts, declared: Declared, looks: Mapping[str, ClusterReport], owners: Mapping[Key, str], policy: Policy
) -> Amount:
    """What the declared NodeManager has, or will register with, where the node's claim is not recorded as its own.
    If several may be the declared one, what they have together."""
    look = looks.get(declared.cluster)
    reports = {} if look is None or look.error else look.reports
    have = NOTHING
    for node_id in candidates(declared, reports):
        key, report = (declared.cluster, node_id), reports[node_id]
        if owners.get(key, node.name) != node.name:
            return NOTHING
        if key != node.recorded and report.state == RUNNING:
            have = have.plus(report.cap.most(report.used))
    return have if have != NOTHING else first_of(node.pool.minus(node.others), policy)


def _without_own(of: Key, owner: str, declared: Declared | None) -> Verdict:
    """Of a node whose NodeManager is another one's: it gives back what it claims once it does not say so any more."""
    if declared is None:
        return Verdict(Claim(NOTHING, f"{of[1]} is of node {owner}"))
    why = (
        f"NodeManager {of[1]} is of node {owner}: set {names.ANNOTATION_YARN_NODE_ID} on {declared.where} to this"
        " node's own, or remove it"
    )
    return Verdict(Wait(why), condition=("False", "NodeManagerOfAnother", why))


def held_by(pods: Sequence[PodFacts]) -> Amount:
    held = NOTHING
    for pod in pods:
        if not pod.is_node_manager:
            held = held.plus(pod.held)
    return held
