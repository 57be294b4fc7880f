"""What a person may choose of an installation. Everything else follows from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.configuration.features import AgentGate, DeschedulerGate, Gate, ManagerGate, SchedulerGate, parse_gates
from koord.api.machinery.faults import BadInput, Fault, Invalid
from koord.api.protocol import names


@dataclass(frozen=True, slots=True)
class Component:
    """One of koord's programs on a cluster. Its command is its name."""

    name: str
    gates: type[Gate]
    port: int
    "Serves health and metrics."
    what: str
    configurable: bool = False
    "Whether it takes a configuration file."

    @property
    def full_name(self) -> str:
        """Of its workload, its service account and its leases' holders."""
        return f"koord-{self.name}"


MANAGER: Final = Component("manager", ManagerGate, 9443, "decides what nodes lend, and admits pods")
SCHEDULER: Final = Component("scheduler", SchedulerGate, 10259, "decides where pods go", configurable=True)
DESCHEDULER: Final = Component("descheduler", DeschedulerGate, 10258, "moves pods that sit badly", configurable=True)
AGENT: Final = Component("agent", AgentGate, 9316, "protects the services of each node")
COMPONENTS: Final = (MANAGER, SCHEDULER, DESCHEDULER, AGENT)
"""In the order in which they are rolled out."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
MOST_REPLICAS: Final = 9


def is_newer(version: str, than: str) -> bool:
    """Whether 0.10.1 is newer than 0.9. Words behind the numbers do not count."""

    def numbers(text: str) -> list[int]:
        return [int(each) for each in re.findall(r"\d+", text.partition("-")[0].partition("+")[0])]

    return numbers(version) > numbers(than)


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    image: str
    version: str
    "Of koord."
    namespace: str = names.NAMESPACE_KOORDINATOR
    "Of the workloads. Configuration and leases are always in koordinator-system, where Koordinator has them."
    components: tuple[str, ...] = tuple(each.name for each in COMPONENTS)
    replicas: int = 2
    "Of each Deployment."
    gates: Mapping[str, str] = {}
    "By component, as --feature-gates takes them."
    configurations: Mapping[str, str] = {}
    "By component: the text of its configuration file."
    extras: tuple[str, ...] = ()
    "Further parts, from koord.operate.install.extras."
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    colocation: bool = False
    "Whether a new slo-controller-config switches co-location on. One that exists is never changed."
    old_kubelets: bool = False
    "Whether kubelets are older than 1.33 and know no finer right than nodes/proxy."

    def has(self, component: Component) -> bool:
        return component.name in self.components

    def is_on(self, gate: Gate) -> bool:
        component = next(each for each in COMPONENTS if isinstance(gate, each.gates))
        return parse_gates(component.gates, self.gates.get(component.name, ""))[gate]

    def checked(self, extras: frozenset[str]) -> Settings:
        """These settings, or all that is wrong with them. `extras` are those that exist."""
        faults = [*self._faults(extras)]
        if faults:
            raise Invalid("settings of the installation", faults)
        return self

    def _faults(self, extras: frozenset[str]) -> list[Fault]:
        known = {each.name: each for each in COMPONENTS}
        faults: list[Fault] = []
        if not self.image or any(each.isspace() for each in self.image):
            faults.append(Fault("image", f"must name an image without spaces, not {self.image!r}"))
        if not _LABEL.fullmatch(self.namespace):
            faults.append(Fault("namespace", f"must be a DNS label, not {self.namespace!r}"))
        if not 1 <= self.replicas <= MOST_REPLICAS:
            faults.append(Fault("replicas", f"must be from 1 to {MOST_REPLICAS}, not {self.replicas}"))
        if self.pull_policy not in ("Always", "IfNotPresent", "Never"):
            faults.append(Fault("pullPolicy", f"must be Always, IfNotPresent or Never, not {self.pull_policy!r}"))
        for each in self.components:
            if each not in known:
                faults.append(Fault("components", f"there is no {each!r}; there are {', '.join(known)}"))
        for each in self.extras:
            if each not in extras:
                there = f"there are {', '.join(sorted(extras))}" if extras else "there is none"
                faults.append(Fault("extras", f"there is no {each!r}; {there}"))
        for name, text in self.gates.items():
            if name not in known:
                faults.append(Fault(f"gates.{name}", f"no component; there are {', '.join(known)}"))
                continue
            try:
                parse_gates(known[name].gates, text)
            except BadInput as error:
                faults.append(Fault(f"gates.{name}", str(error)))
        for name in self.configurations:
            if name not in known or not known[name].configurable:
                able = ", ".join(each.name for each in COMPONENTS if each.configurable)
                faults.append(Fault(f"configurations.{name}", f"takes no configuration file; {able} do"))
        return faults
