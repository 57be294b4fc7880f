"""How a cluster is, judged: what is wrong, and how to mend it.

`judge` is pure: facts in, problems out. `koord.minicluster.up.survey` gathers the facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

SHOWN: Final = 5
"""So many names of a kind are told; the rest is counted."""


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what is told: its JSON names are part of the command line's contract."""


class Check(Fact, frozen=True):
    """One line of a health endpoint."""

    name: str
    ok: bool
    message: str = ""


class ComponentFact(Fact, frozen=True):
    """A component: a process of a running `up`, or a workload of an installation."""

    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    endpoints: Mapping[str, str] = {}
    checks: tuple[Check, ...] = ()
    log: str = ""
    image: str = ""


class Leader(Fact, frozen=True):
    lease: str
    holder: str
    age_s: float | None
    expired: bool


class Nodes(Fact, frozen=True):
    total: int = 0
    ready: int = 0
    not_ready: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()


class Pods(Fact, frozen=True):
    phases: Mapping[str, int] = {}
    unschedulable: tuple[str, ...] = ()
    crashing: tuple[str, ...] = ()


class Server(Fact, frozen=True):
    url: str
    reachable: bool
    version: str = ""
    error: str = ""
    checks: tuple[Check, ...] = ()


class Problem(Fact, frozen=True):
    what: str
    how: str
    "What mends it: a command where there is one."


class Facts(Fact, frozen=True):
    """All that was found."""

    version: str
    server: Server
    data_dir: str = ""
    up_pid: int | None = None
    components: tuple[ComponentFact, ...] = ()
    leaders: tuple[Leader, ...] = ()
    nodes: Nodes = Nodes()
    pods: Pods = Pods()
    missing_kinds: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    "What could not be read, and why."


class Status(Fact, frozen=True):
    healthy: bool
    problems: tuple[Problem, ...]
    facts: Facts


def judge(facts: Facts) -> Status:
    problems = tuple(_problems(facts))
    return Status(not problems, problems, facts)


def _problems(facts: Facts) -> Iterator[Problem]:
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
    for component in facts.components:
        yield from _component_problems(component)
    for leader in facts.leaders:
        if leader.expired and leader.holder:
            yield Problem(
                f"nobody leads by lease {leader.lease}: {leader.holder} stopped renewing it {leader.age_s:.0f} s ago",
                "see whether that component runs; another replica takes over by itself",
            )
    if facts.missing_kinds:
        yield Problem(
            f"kinds of koord's are not served: {_some(facts.missing_kinds)}",
            "define them with: koord crds | kubectl apply --server-side -f -",
        )
    yield from _workload_problems(facts)
    for what in facts.unread:
        yield Problem(f"could not look at {what}", "check that this user may read it: kubectl auth can-i --list")


def _component_problems(component: ComponentFact) -> Iterator[Problem]:
    see = f"see {component.log}" if component.log else f"kubectl -n koordinator-system describe {component.name}"
    if component.state != "ready":
        yield Problem(f"{component.name} is {component.state}", see)
    for check in component.checks:
        if not check.ok:
            yield Problem(f"{component.name}: check {check.name} fails{_because(check)}", see)


def _workload_problems(facts: Facts) -> Iterator[Problem]:
    if facts.nodes.not_ready:
        first = facts.nodes.not_ready[0]
        yield Problem(
            f"nodes that are not ready, of {facts.nodes.total}: {_some(facts.nodes.not_ready)}",
            f"kubectl describe node {first}",
        )
    if facts.pods.unschedulable:
        namespace, _, name = facts.pods.unschedulable[0].partition("/")
        yield Problem(
            f"pods that fit on no node: {_some(facts.pods.unschedulable)}",
            f"koord explain -n {namespace} {name}",
        )
    if facts.pods.crashing:
        namespace, _, name = facts.pods.crashing[0].partition("/")
        yield Problem(
            f"pods that keep failing: {_some(facts.pods.crashing)}",
            f"kubectl -n {namespace} logs --previous {name}",
        )


def parse_checks(text: str) -> tuple[Check, ...]:
    """The lines of `/readyz?verbose`: `[+]ping ok`, `[-]store failed: the disk is full`."""
    found = []
    for line in text.splitlines():
        if line.startswith(("[+]", "[-]")):
            name, _, rest = line[3:].partition(" ")
            found.append(Check(name, line.startswith("[+]"), rest.removeprefix("failed: ").removeprefix("ok").strip()))
    return tuple(found)


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
