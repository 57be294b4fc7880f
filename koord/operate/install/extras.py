"""Further parts of an installation, by the name that `koord install --with NAME` takes.

An extra is a function from settings to objects; one line in this list adds it to install, upgrade, uninstall, the Helm
chart and the docs. Its rights are `Right`s, and `access_for` makes a service account of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.operate.install import console, monitoring, yarn
from koord.operate.install.manifest import Json
from koord.operate.install.rights import Right
from koord.operate.install.settings import Settings


@dataclass(frozen=True, slots=True)
class Extra:
    what: str
    objects: Callable[[Settings], Sequence[Json]]
    rights: tuple[Right, ...] = ()
    "For the docs."


EXTRAS: Final[Mapping[str, Extra]] = {
    "yarn": Extra(
        "Hadoop YARN on reclaimed resources: the operator, and a copilot on nodes with the label yarn=shared",
        yarn.objects,
        yarn.RIGHTS,
    ),
    "console": Extra(
        "The web console: what is lent, used and pending, and why; with a switch. Roles for its viewers",
        console.objects,
        console.RIGHTS,
    ),
    "monitoring": Extra(
        "Services and ServiceMonitors, alert rules for the Prometheus operator, and Grafana boards", monitoring.objects
    ),
}
