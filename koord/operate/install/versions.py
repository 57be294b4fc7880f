"""Which versions of Kubernetes koord works with, and what it does without where a version lacks something.

`koord install` refuses an API server that is too old, `koord check` lists the features that an older one lacks, and the
page "Versions" is generated from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.text.whole_number import whole_number

Version: TypeAlias = tuple[int, int]

OLDEST_SERVER: Final = (1, 29)
"""This version has match conditions for webhooks, server-side apply and sidecar containers."""
NEWEST_SERVER: Final = (1, 35)
"""The newest tested version. Newer ones are not refused."""
KUBELETS_BEHIND: Final = 3
"""How many minor versions older than the API server a kubelet may be."""
FINE_KUBELET_RIGHTS: Final = (1, 33)
"""Since this version, a kubelet has separate rights for reading pods and settings."""
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
    ServerFeature(
        "devices by claim (resource.k8s.io/v1)",
        (1, 34),
        "pods request devices by resource names and annotations",
    ),
)
"""Features with the version that enables them by default."""


def said(version: Version) -> str:
    return ".".join(map(str, version))


def read(text: str) -> Version | None:
    """v1.31.14+k3s1 is (1, 31)."""
    match = _VERSION.match(text)
    return (whole_number(match[1]), whole_number(match[2])) if match else None


def has_old_kubelets(server: Version, kubelets: Iterable[str]) -> bool:
    """Whether a kubelet needs the wider right. Kubelets are never newer than the API server; one that does not report
    its version counts as old as the API server."""
    versions = [version for kubelet in kubelets if (version := read(kubelet)) is not None]
    return min((server, *versions)) < FINE_KUBELET_RIGHTS


def out_of_skew(server: Version, kubelets: Iterable[tuple[str, str]]) -> list[str]:
    """Nodes whose kubelet version Kubernetes does not support with this API server."""
    odd = []
    for node, text in kubelets:
        version = read(text)
        if version is not None and not (server[0], server[1] - KUBELETS_BEHIND) <= version <= server:
            odd.append(f"{node} ({text})")
    return odd
