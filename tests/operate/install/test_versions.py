"""Versions of Kubernetes: what is read of them, and what they mean for the rights of agents."""

from __future__ import annotations

import pytest

from koord.operate.install.versions import (
    FINE_KUBELET_RIGHTS,
    NEWEST_SERVER,
    OLDEST_SERVER,
    SERVER_FEATURES,
    Version,
    has_old_kubelets,
    out_of_skew,
    read,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.31.14", (1, 31)), ("v1.33.1+k3s1", (1, 33)), ("1.29", (1, 29)), ("v1.30.0-eks-1", (1, 30)), ("", None)],
)
def test_versions_are_read_by_their_first_two_numbers(text: str, version: Version | None) -> None:
    assert read(text) == version


@pytest.mark.parametrize(
    ("server", "kubelets", "old"),
    [
        ((1, 35), ["v1.35.0", "v1.33.0"], False),
        # Kubernetes supports kubelets that are up to three minor versions older.
        ((1, 35), ["v1.35.0", "v1.32.4"], True),
        ((1, 32), ["v1.32.0"], True),
        ((1, 32), [], True),
        ((1, 35), ["", "unknown"], False),
        ((1, 35), [], False),
    ],
)
def test_one_old_kubelet_needs_the_wider_right(server: Version, kubelets: list[str], old: bool) -> None:
    assert has_old_kubelets(server, kubelets) is old


def test_kubelets_beyond_what_kubernetes_supports_are_named() -> None:
    nodes = [("a", "v1.31.0"), ("b", "v1.32.0"), ("c", "v1.35.0"), ("d", "v1.36.0"), ("e", "")]
    assert out_of_skew((1, 35), nodes) == ["a (v1.31.0)", "d (v1.36.0)"]


def test_every_feature_is_one_that_some_supported_version_lacks() -> None:
    for server_feature in SERVER_FEATURES:
        assert OLDEST_SERVER < server_feature.since <= NEWEST_SERVER
        assert server_feature.instead
    assert FINE_KUBELET_RIGHTS in [server_feature.since for server_feature in SERVER_FEATURES]
