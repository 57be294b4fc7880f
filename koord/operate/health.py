"""The health of a cluster: what is wrong, and how to fix it.

`judge` is pure: facts in, one finding per examination out. `EXAMINATIONS` is the one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from koord.api.protocol.names import LEASE_DESCHEDULER, LEASE_MANAGER, NAMESPACE_KOORDINATOR
from koord.api.protocol.priority import BANDS
from koord.operate.facts import Check, Fact, Facts

SHOWN: Final = 5
"""At most this many names of a kind are listed; the rest are counted."""
LEAVES_WITHIN_S: Final = 30.0
"""A namespace that was deleted is gone within this time."""
ANNOUNCED_WITHIN_S: Final = 15.0
"""Components have announced themselves in a new namespace within this time."""
MANAGER_LEASE: Final = f"{NAMESPACE_KOORDINATOR}/{LEASE_MANAGER}"
DESCHEDULER_LEASE: Final = f"{NAMESPACE_KOORDINATOR}/{LEASE_DESCHEDULER}"


class Problem(Fact, frozen=True):
    what: str
    how: str
    "How to fix it: a command where there is one."


class Finding(Fact, frozen=True):
    """What one examination found."""

    name: str
    ok: bool
    problems: tuple[Problem, ...] = ()


class Status(Fact, frozen=True):
    healthy: bool
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    "Remarks for the user that are not problems."
    facts: Facts

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for finding in self.findings for problem in finding.problems)


@dataclass(frozen=True, slots=True)
class Examination:
    """One question about a cluster. It runs only if the API server answers, unless `offline`."""

    name: str
    problems: Callable[[Facts], Iterator[Problem]]
    offline: bool = False


def judge(facts: Facts) -> Status:
    asked = [examination for examination in EXAMINATIONS if examination.offline or facts.server.reachable]
    problems_of = [(examination.name, tuple(examination.problems(facts))) for examination in asked]
    findings = tuple(Finding(name, not problems, problems) for name, problems in problems_of)
    return Status(all(finding.ok for finding in findings), findings, tuple(_notes(facts)), facts)


def _server(facts: Facts) -> Iterator[Problem]:
    server = facts.server
    if not server.reachable:
        how = "start it with: koord up" + (f" --data-dir {facts.data_dir}" if facts.data_dir else "")
        if facts.up_pid is not None:
            how = "koord up is restarting it; its log says why: " + _log_of(facts, "apiserver")
        where = f" at {server.url}" if server.url else ""
        yield Problem(f"the API server{where} does not answer: {server.error}", how)
    for check in server.checks:
        if not check.ok:
            yield Problem(f"the API server's check {check.name} fails{_because(check)}", "its log says more")


def _components(facts: Facts) -> Iterator[Problem]:
    for component in facts.components:
        see = f"see {component.log}" if component.log else f"kubectl -n koordinator-system describe {component.name}"
        # A component that starts for the first time may simply be slow.
        if component.state != "ready" and (component.state != "starting" or component.restarts):
            yield Problem(f"{component.name} is {component.state}", see)
        for check in component.checks:
            if not check.ok:
                yield Problem(f"{component.name}: check {check.name} fails{_because(check)}", see)


def _leaders(facts: Facts) -> Iterator[Problem]:
    for leader in facts.leaders:
        if leader.expired and leader.holder and leader.lease != MANAGER_LEASE:
            yield Problem(
                f"nobody leads by lease {leader.lease}: {leader.holder} stopped renewing it {leader.age_s:.0f} s ago",
                "see whether that component runs; another replica takes over by itself",
            )


def _is_settling(facts: Facts) -> bool:
    """Whether components cannot have leases and announcements yet, or no longer: their namespace was just deleted or
    made. The namespace is the problem then, not the components."""
    place = facts.namespace
    return (
        not place.there
        or (place.leaving_s is not None and place.leaving_s <= LEAVES_WITHIN_S)
        or (place.made_s is not None and place.made_s < ANNOUNCED_WITHIN_S)
    )


def _manager(facts: Facts) -> Iterator[Problem]:
    held = next((leader for leader in facts.leaders if leader.lease == MANAGER_LEASE), None)
    if _is_settling(facts) and (held is None or not held.holder):
        return
    how = "start one with: koord manager --webhook-address 0.0.0.0:9876; nodes lend nothing new without it"
    if log := _log_of(facts, "manager"):
        how = f"koord up runs it; its log says why it does not lead: {log}"
    if held is None or not held.holder:
        yield Problem(f"no manager leads: nobody holds lease {MANAGER_LEASE}", how)
    elif held.expired:
        yield Problem(
            f"no manager leads: {held.holder} stopped renewing lease {MANAGER_LEASE} {held.age_s:.0f} s ago", how
        )


def _schedulers(facts: Facts) -> Iterator[Problem]:
    start = _log_of(facts, "scheduler")
    how = f"koord up runs it; its log says why: {start}" if start else "start one with: koord scheduler"
    may_come = _is_settling(facts) and not facts.schedulers
    if not may_come and not any(scheduler.answers for scheduler in facts.schedulers):
        yield Problem("no scheduler runs: nobody has announced one, and no lease of kube-scheduler is fresh", how)
    yield from booked_twice(facts)
    for group in facts.pods.untried:
        answers = any(scheduler.answers and scheduler.name == group.scheduler_name for scheduler in facts.schedulers)
        names = ", ".join(scheduler.name for scheduler in facts.schedulers if scheduler.answers) or "none"
        way_out = f"start a scheduler of that name, or give the pods one that runs ({names})"
        why = "has not tried them" if answers else "does not run"
        yield Problem(
            f"pods that nobody has tried to schedule: {_some(group.pods)}; the scheduler {group.scheduler_name} {why}",
            f"look at the log of the scheduler: {start}" if answers and start else way_out,
        )


def booked_twice(facts: Facts) -> Iterator[Problem]:
    """Schedulers that decide for the same pods at the same time, and the consequences."""
    for scheduler in facts.schedulers:
        if scheduler.answers and scheduler.beside:
            everyone = _some((scheduler.holder, *scheduler.beside))
            yield Problem(
                f"several schedulers decide for the name {scheduler.name} without an election: {everyone}",
                "they may give the same room to two pods: stop all but one, or start each with --leader-elect",
            )
    if facts.nodes.overbooked:
        first = next(iter(facts.nodes.overbooked))
        overbooked = tuple(f"{node} {much}" for node, much in facts.nodes.overbooked.items())
        yield Problem(
            f"nodes whose pods request more than they have: {_some(overbooked)}",
            f"delete or move some of them: kubectl get pods -A --field-selector spec.nodeName={first}; "
            "schedulers without an election book twice, a pod may have been resized, and a node may have shrunk",
        )


def _descheduler(facts: Facts) -> Iterator[Problem]:
    """A missing descheduler is a problem only while PodMigrationJobs wait for it."""
    held = next((leader for leader in facts.leaders if leader.lease == DESCHEDULER_LEASE), None)
    if not facts.moves or (held is not None and held.holder and not held.expired):
        return
    log = _log_of(facts, "descheduler")
    yield Problem(
        f"PodMigrationJobs that nobody carries out: {_some(facts.moves)}; nobody holds lease {DESCHEDULER_LEASE}",
        f"koord up runs it; its log says why it does not lead: {log}" if log else "start one with: koord descheduler",
    )


def _kinds(facts: Facts) -> Iterator[Problem]:
    if facts.missing_kinds:
        yield Problem(
            f"kinds of koord's are not served: {_some(facts.missing_kinds)}",
            "define them with: koord crds | kubectl apply --server-side -f -",
        )


def _priority_classes(facts: Facts) -> Iterator[Problem]:
    if facts.missing_priority_classes:
        values = {str(band): numbers.start for band, numbers in BANDS.items()}
        create = (
            f"kubectl create priorityclass {name} --value={values[name]}" for name in facts.missing_priority_classes
        )
        yield Problem(f"PriorityClasses are missing: {', '.join(facts.missing_priority_classes)}", "; ".join(create))


_LOST: Final = "the configuration, leases and announcements of components go with it"


def _namespace(facts: Facts) -> Iterator[Problem]:
    place, name = facts.namespace, NAMESPACE_KOORDINATOR
    if not place.there:
        remake = "koord up makes it again" if facts.up_pid is not None else "make it with: koord install"
        yield Problem(f"namespace {name} does not exist: configuration, leases and certificates have no place", remake)
    elif place.leaving_s is not None and place.leaving_s <= LEAVES_WITHIN_S:
        wait = "wait until it is gone; "
        wait += "koord up makes it again" if facts.up_pid is not None else "then make it with: koord install"
        yield Problem(f"namespace {name} was deleted {age(place.leaving_s)} ago: {_LOST}", wait)
    elif _is_settling(facts) and not any(leader.lease == MANAGER_LEASE and leader.holder for leader in facts.leaders):
        yield Problem(
            f"namespace {name} was made {age(place.made_s or 0.0)} ago: components have not announced themselves in it",
            f"wait a few seconds; they do so within {ANNOUNCED_WITHIN_S:.0f} s",
        )
    elif place.leaving_s is not None and place.leaving_s > LEAVES_WITHIN_S:
        held = "; ".join(place.held) or "its controller does not say what holds it"
        yield Problem(
            f"namespace {name} was deleted {age(place.leaving_s)} ago and is still there: {held}",
            f"delete what holds it, then it goes: kubectl get namespace {name} -o yaml. If pods or quotas are refused"
            " meanwhile: koord colocation break-glass on",
        )


def _webhooks(facts: Facts) -> Iterator[Problem]:
    webhooks = facts.webhooks
    if webhooks.missing:
        yield Problem(
            f"webhooks are not registered, so pods are admitted as they are: {', '.join(webhooks.missing)}",
            "start the manager with --webhook-address, or see its log: it registers them when it serves",
        )
    if webhooks.failure:
        yield Problem(
            f"a pod that was tried (dry run) did not pass the webhooks as it should: {webhooks.failure}",
            "see whether the manager runs and serves its webhooks; without one, koord colocation break-glass on lets"
            " pods through",
        )


def _nodes(facts: Facts) -> Iterator[Problem]:
    # If nodes could not be read, an empty list does not mean that there are none.
    if not facts.nodes.total and not facts.unread:
        how = "add a node to the cluster: pods stay pending until one is ready"
        if facts.up_pid is not None:
            how = "start koord up with --nodes 3 for hollow nodes, or with --local-node for this machine"
        yield Problem("the cluster has no nodes, so no pod can run", how)
    if facts.nodes.not_ready:
        yield Problem(
            f"nodes that are not ready, of {facts.nodes.total}: {_some(facts.nodes.not_ready)}",
            f"kubectl describe node {facts.nodes.not_ready[0]}",
        )
    if facts.nodes.yarn_refused:
        first, why = next(iter(facts.nodes.yarn_refused.items()))
        yield Problem(f"YARN cannot use nodes: {_some(tuple(facts.nodes.yarn_refused))}", f"{first}: {why}")


def _reports(facts: Facts) -> Iterator[Problem]:
    if facts.nodes.silent:
        first = facts.nodes.silent[0]
        yield Problem(
            f"nodes that do not report what they use: {_some(facts.nodes.silent)}",
            f"see whether koord agent runs there with --node-name {first}, and its log; kubectl get nodemetric {first}"
            " shows the last report",
        )


@dataclass(frozen=True, slots=True)
class _PodFault:
    field: str
    what: str
    how: str


_POD_FAULTS: Final = (
    _PodFault(
        "unschedulable", "pods that should run all the time and fit on no node", "koord explain -n {namespace} {name}"
    ),
    _PodFault("crashing", "pods that keep failing", "kubectl -n {namespace} logs --previous {name}"),
    _PodFault(
        "astray",
        "pods that are bound to nodes that do not exist",
        "kubectl -n {namespace} delete pod --force {name}, or bring the node back",
    ),
    _PodFault("not_starting", "pods that have a node and do not start", "kubectl -n {namespace} describe pod {name}"),
    _PodFault(
        "not_ending",
        "pods that were deleted and do not go",
        "kubectl -n {namespace} describe pod {name}: its node may be gone, or a finalizer is left",
    ),
)


def _pods(facts: Facts) -> Iterator[Problem]:
    for fault in _POD_FAULTS:
        keys: tuple[str, ...] = getattr(facts.pods, fault.field)
        if keys:
            namespace, _, name = keys[0].partition("/")
            yield Problem(f"{fault.what}: {_some(keys)}", fault.how.format(namespace=namespace, name=name))
    if facts.pods.cannot_start:
        failing = tuple(f"{key} ({reason})" for key, reason in facts.pods.cannot_start.items())
        namespace, _, name = next(iter(facts.pods.cannot_start)).partition("/")
        yield Problem(
            f"pods with a container that cannot start: {_some(failing)}", f"kubectl -n {namespace} describe pod {name}"
        )


def _access(facts: Facts) -> Iterator[Problem]:
    for what in facts.unread:
        yield Problem(f"could not look at {what}", "check that this user may read it: kubectl auth can-i --list")


EXAMINATIONS: Final[tuple[Examination, ...]] = (
    Examination("API server", _server, offline=True),
    Examination("components", _components, offline=True),
    Examination("access", _access),
    Examination("leaders", _leaders),
    Examination("manager", _manager),
    Examination("schedulers", _schedulers),
    Examination("descheduler", _descheduler),
    Examination("namespace", _namespace),
    Examination("kinds", _kinds),
    Examination("priority classes", _priority_classes),
    Examination("webhooks", _webhooks),
    Examination("nodes", _nodes),
    Examination("node reports", _reports),
    Examination("pods", _pods),
)
"""In the order of the report: examinations that others depend on come first."""


def _notes(facts: Facts) -> Iterator[str]:
    if queued := facts.pods.queued:
        namespace, _, name = queued[0].partition("/")
        waiting = "1 pod waits" if len(queued) == 1 else f"{len(queued)} pods wait"
        yield f"{waiting} for room: {_some(queued)}; koord explain -n {namespace} {name} says what for"
    for message, number in facts.unacted.items():
        yield f"{number} {'object' if number == 1 else 'objects'} without effect: {message}"


def age(seconds: float) -> str:
    """As kubectl prints ages, roughly."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def _log_of(facts: Facts, name: str) -> str:
    return next((component.log for component in facts.components if component.name == name), "")


def _because(check: Check) -> str:
    return f": {check.message}" if check.message else ""


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
