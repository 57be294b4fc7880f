"""Writes what is made from koord's tables of rights, capabilities and mounts: the page about what koord needs, and the
examples of rights.

    python -m tools.needs

A test says when they are out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from koord.agent.host.knobs import KNOBS, PROCESS_KNOBS, Knob, Place
from koord.agent.host.system_knobs import SYSTEM_KNOBS
from koord.api.text.yaml import dump
from koord.operate.install import access, node_agent
from koord.operate.install.cluster_objects import namespaces
from koord.operate.install.console import CONSOLE
from koord.operate.install.extras import EXTRAS
from koord.operate.install.manifest import Json, key_of
from koord.operate.install.objects import desired
from koord.operate.install.rights import BY_COMPONENT, Right
from koord.operate.install.settings import AGENT, COMPONENTS, DESCHEDULER, MANAGER, SCHEDULER, Component, Settings
from koord.operate.install.workloads import WEBHOOK_PORT
from koord.operate.install.yarn import OPERATOR

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = "docs/what-it-needs.md"
BEGIN, END = "<!-- made by `python -m tools.needs` -->", "<!-- end of what is made -->"
SETTINGS: Final = Settings(image="koord", version="0")
EXAMPLES: Final = {
    "examples/scheduler/rbac.yaml": (SCHEDULER, ""),
    "examples/moves/rbac.yaml": (DESCHEDULER, ""),
    "examples/agent-rights/rbac.yaml": (AGENT, "InterferenceDetection=true,InterferenceControl=true"),
}
"""By path: whose rights, with which gates."""
_WHERE: Final = {
    "cluster": "the cluster",
    "configuration": "`koordinator-system`",
    "own": "its own namespace",
    "authentication": "`kube-system`",
}


def made() -> dict[str, str]:
    """All files, by path."""
    page = (ROOT / PAGE).read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(_tables())
    pages = {PAGE: f"{before}{BEGIN}\n{tables}\n{END}{after}"}
    return pages | {path: example(*whose) for path, whose in EXAMPLES.items()}


def example(component: Component, gates: str) -> str:
    """The rights of one component, each with its reason, for installations by hand."""
    alone = Settings(
        image="koord", version="0", components=(component.name,), gates={component.name: gates} if gates else {}
    )
    rights = access.rights_of(component, alone)
    who = f"`koord {component.name}` needs on a cluster, for the service account {component.full_name}"
    with_gates = f"\n# With the gates {gates}." if gates else ""
    text = f"# The rights that {who}. Made by `python -m tools.needs`.{with_gates}\n"
    for manifest in (*namespaces(alone), *access.access(component, alone)):
        text += "---\n" + _commented(manifest, rights)
    return text


def _commented(manifest: Json, rights: tuple[Right, ...]) -> str:
    rules = manifest.get("rules")
    if not isinstance(rules, list):
        return dump(manifest)
    text = dump({name: value for name, value in manifest.items() if name != "rules"}) + "rules:\n"
    for rule in rules:
        text += "".join(f"# {why}\n" for why in _reasons(rule, rights)) + dump([rule])
    return text


def _reasons(rule: object, rights: tuple[Right, ...]) -> list[str]:
    reasons = [right.why for right in rights if rule in access.rules_of([right])]
    return list(dict.fromkeys(reasons))


def _tables() -> Iterator[str]:
    for component in COMPONENTS:
        yield f"### Rights of the {component.name}\n"
        yield f"It {component.what}.\n"
        yield "| may | what | where | why |\n| --- | --- | --- | --- |"
        yield from (_right(right) for right in BY_COMPONENT[component.name])
        yield ""
    for name, extra in sorted(EXTRAS.items()):
        if not extra.rights:
            continue
        yield f"### Rights of {name}\n\n{extra.what}\n"
        yield "| may | what | where | why |\n| --- | --- | --- | --- |"
        yield from (_right(right) for right in extra.rights)
        yield ""
    yield "### Ports\n"
    yield "| port | whose | who calls |\n| --- | --- | --- |"
    for component in COMPONENTS:
        whose = f"{component.name}, on the host" if component is AGENT else component.name
        yield f"| {component.port} | {whose} | kubelet (probes), Prometheus |"
    yield f"| {OPERATOR.port} | {OPERATOR.name} (with `yarn`) | kubelet (probes), Prometheus |"
    yield f"| {CONSOLE.port} | {CONSOLE.name} (with `console`) | kubelet (probes), viewers |"
    yield f"| {WEBHOOK_PORT} | {MANAGER.name} | the API server, by the Service `koordinator-webhook-service` (443) |"
    yield "\n### Capabilities of the agent\n"
    yield "All others are dropped, and so are all of the other components, which run as an ordinary user.\n"
    yield "| capability | what for | only with the gates |\n| --- | --- | --- |"
    for capability in node_agent.CAPABILITIES:
        yield f"| `{capability.name}` | {capability.why} | {_gates(capability.gates)} |"
    yield "\n### Folders of the host that the agent sees\n"
    yield "| folder | what for | may write | only with the gates |\n| --- | --- | --- | --- |"
    for mount in node_agent.MOUNTS:
        yield f"| `{mount.host}` | {mount.why} | {'no' if mount.read_only else 'yes'} | {_gates(mount.gates)} |"
    yield "\n### Settings of the kernel that the agent may write\n"
    yield "In the cgroups of pods unless noted. The agent writes a setting only while a strategy wants it, and"
    yield "restores the old value afterwards. Disks, network and resctrl have a file per disk, interface or"
    yield "group, and are not listed here.\n"
    yield "| setting | cgroup v1 | cgroup v2 |\n| --- | --- | --- |"
    for knob in (*KNOBS, *PROCESS_KNOBS, *SYSTEM_KNOBS):
        yield f"| {knob.name}{_of(knob)} | {_file(knob.v1)} | {_file(knob.v2)} |"
    yield "\n### Objects\n"
    yield "| kind | names |\n| --- | --- |"
    by_kind: dict[str, list[str]] = {}
    for manifest in desired(SETTINGS):
        by_kind.setdefault(str(manifest["kind"]), []).append(f"`{key_of(manifest).name}`")
    for kind, listed in by_kind.items():
        yield f"| {kind} | {', '.join(dict.fromkeys(listed))} |"
    for name, extra in sorted(EXTRAS.items()):
        yield f"\nWith `--with {name}` also:\n\n| kind | names |\n| --- | --- |"
        further: dict[str, list[str]] = {}
        for manifest in extra.objects(SETTINGS):
            further.setdefault(str(manifest["kind"]), []).append(f"`{key_of(manifest).name}`")
        for kind, listed in further.items():
            yield f"| {kind} | {', '.join(dict.fromkeys(listed))} |"


def _of(knob: Knob) -> str:
    return " (of the machine)" if knob.is_of_host else " (of processes)" if knob.is_of_processes else ""


def _file(place: Place | None) -> str:
    return "-" if place is None else f"`{place.file}`"


def _right(right: Right) -> str:
    named = f" ({', '.join(f'`{name}`' for name in right.named)})" if right.named else ""
    what = ", ".join(f"`{resource}`" for resource in right.resources) + named
    only = f"; only with the gate `{right.gate}`" if right.gate is not None else ""
    only += {"": "", "old_kubelets": "; kubelets before 1.33", "new_kubelets": "; kubelets from 1.33 on"}[right.only_if]
    return f"| {', '.join(right.verbs)} | {what} | {_WHERE[right.where]} | {right.why}{only} |"


def _gates(gates: tuple[object, ...]) -> str:
    return ", ".join(f"`{gate}`" for gate in gates)


def main() -> None:
    for path, text in made().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
