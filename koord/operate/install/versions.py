"""Which versions of Kubernetes koord works with, and what it does without where a version lacks something.

`koord install` refuses an API server that is too old, `koord check` tells what an older one does without, and the page
"Versions" is made from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.text.whole_number import whole_number

Version: TypeAlias = tuple[int, int]

OLDEST_SERVER: Final = (1, 29)
"""Has webhooks with conditions, server-side apply, and sidecar containers."""
NEWEST_SERVER: Final = (1, 35)
"""The newest that is tried. Newer ones are not refused."""
KUBELETS_BEHIND: Final = 3
"""Kubernetes lets kubelets be so many minor versions older than the API server."""
FINE_KUBELET_RIGHTS: Final = (1, 33)
"""Kubelets from there on let somebody read pods and settings who may do nothing else."""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class ServerFeature:
    name: str
    since: Version
    instead: str


SERVER_FEATURES: Final = (
    ServerFeature(
        "agents that may ask kubelets for pods and settings, and nothing else (nodes/pods, nodes/configz)",
        FINE_KUBELET_RIGHTS,
        "agents have the right nodes/proxy, which is wider",
    ),
    ServerFeature(
        "running pods that get other requests (in-place resize)",
        (1, 33),
        "requests of running pods do not change",
    ),
    ServerFeature(
        "lists as a stream",
        (1, 34),
        "lists come in pages, which costs the API server more memory; 1.32 streams them, too",
    ),
    ServerFeature(
        "requests of whole pods (pod-level resources)",
        (1, 34),
        "the requests of containers count",
    ),
)
"""By the version that has them switched on."""


def said(version: Version) -> str:
    return ".".join(map(str, version))


def read(text: str) -> Version | None:
    """v1.31.14+k3s1 is (1, 31)."""
    found = _VERSION.match(text)
    return (whole_number(found[1]), whole_number(found[2])) if found else None


def has_old_kubelets(server: Version, kubelets: Iterable[str]) -> bool:
    """Whether a kubelet needs the wider right. Kubelets are as old as the API server, or older; one that does not tell
    its version is as old as the API server."""
    known = [found for each in kubelets if (found := read(each)) is not None]
    return min((server, *known)) < FINE_KUBELET_RIGHTS


def out_of_skew(server: Version, kubelets: Iterable[tuple[str, str]]) -> list[str]:
    """Of nodes with their kubelets' versions, those that Kubernetes itself does not support with this API server."""
    odd = []
    for node, text in kubelets:
        found = read(text)
        if found is not None and not (server[0], server[1] - KUBELETS_BEHIND) <= found <= server:
            odd.append(f"{node} ({text})")
    return odd
