"""The user's choices for an installation. Everything else follows from them."""

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
    "Port for health and metrics."
    what: str
    configurable: bool = False
    "Whether it takes a configuration file."

    @property
    def full_name(self) -> str:
        """Name of its workload, its service account and the holders of its leases."""
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
    """Whether a version is newer, as 0.10.1 is than 0.9. Suffixes after the numbers do not count."""

    def numbers(text: str) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", text.partition("-")[0].partition("+")[0])]

    return numbers(version) > numbers(than)


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    image: str
    version: str
    "koord's version."
    namespace: str = names.NAMESPACE_KOORDINATOR
    "Namespace of the workloads. Configuration and leases are always in koordinator-system, as with Koordinator."
    components: tuple[str, ...] = tuple(component.name for component in COMPONENTS)
    replicas: int = 2
    "Replicas of each Deployment."
    gates: Mapping[str, str] = {}
    "Feature gates by component, in the form of --feature-gates."
    configurations: Mapping[str, str] = {}
    "The text of the configuration file, by component."
    extras: tuple[str, ...] = ()
    "Further parts, from koord.operate.install.extras."
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    colocation: bool = False
    "Whether a new slo-controller-config switches co-location on. An existing one is never changed."
    old_kubelets: bool = False
    "Whether kubelets are older than 1.33 and support no right narrower than nodes/proxy."

    def has(self, component: Component) -> bool:
        return component.name in self.components

    def is_on(self, gate: Gate) -> bool:
        component = next(component for component in COMPONENTS if isinstance(gate, component.gates))
        return parse_gates(component.gates, self.gates.get(component.name, ""))[gate]

    def checked(self, extras: frozenset[str]) -> Settings:
        """Returns the settings, or raises with all their faults. `extras`: the known extras."""
        faults = [*self._faults(extras)]
        if faults:
            raise Invalid("settings of the installation", faults)
        return self

    def _faults(self, extras: frozenset[str]) -> list[Fault]:
        components = {component.name: component for component in COMPONENTS}
        faults: list[Fault] = []
        if not self.image or any(character.isspace() for character in self.image):
            faults.append(Fault("image", f"must name an image without spaces, not {self.image!r}"))
        if not _LABEL.fullmatch(self.namespace):
            faults.append(Fault("namespace", f"must be a DNS label, not {self.namespace!r}"))
        if not 1 <= self.replicas <= MOST_REPLICAS:
            faults.append(Fault("replicas", f"must be from 1 to {MOST_REPLICAS}, not {self.replicas}"))
        if self.pull_policy not in ("Always", "IfNotPresent", "Never"):
            faults.append(Fault("pullPolicy", f"must be Always, IfNotPresent or Never, not {self.pull_policy!r}"))
        for component in self.components:
            if component not in components:
                faults.append(Fault("components", f"there is no {component!r}; there are {', '.join(components)}"))
        for extra in self.extras:
            if extra not in extras:
                there = f"there are {', '.join(sorted(extras))}" if extras else "there is none"
                faults.append(Fault("extras", f"there is no {extra!r}; {there}"))
        for name, text in self.gates.items():
            if name not in components:
                faults.append(Fault(f"gates.{name}", f"no component; there are {', '.join(components)}"))
                continue
            try:
                parse_gates(components[name].gates, text)
            except BadInput as error:
                faults.append(Fault(f"gates.{name}", str(error)))
        for name in self.configurations:
            if name not in components or not components[name].configurable:
                able = ", ".join(component.name for component in COMPONENTS if component.configurable)
                faults.append(Fault(f"configurations.{name}", f"takes no configuration file; {able} do"))
        return faults
