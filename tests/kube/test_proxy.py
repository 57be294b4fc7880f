"""Which proxy is used, by the rules of HTTPS_PROXY and NO_PROXY that Go programs follow."""

from __future__ import annotations

import pytest

from koord.kube.cluster_config import ClusterConfig, ConfigError
from koord.kube.proxy import proxy_for

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.test:6443", "", True),
        ("https://api.test:6443", "api.test", False),
        ("https://api.test:6443", "test", False),
        ("https://api.test:6443", ".test", False),
        ("https://test:6443", ".test", True),
        ("https://api.test:6443", "*.test", False),
        ("https://apitest:6443", "test", True),
        ("https://api.test:6443", "other.test, API.TEST", False),
        ("https://api.test:6443", "api.test:6443", False),
        ("https://api.test:6443", "api.test:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://api.test:6443", "*", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
    ],
)
def test_no_proxy_and_loopback_keep_the_proxy_out(server: str, no_proxy: str, proxied: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_for(ClusterConfig(server=server), environ) == (PROXY if proxied else None)


def test_the_kubeconfigs_proxy_wins_over_the_environment() -> None:
    config = ClusterConfig(server="https://127.0.0.1:1", proxy_url="http://mine:1")
    assert proxy_for(config, {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}) == "http://mine:1"


def test_a_proxy_without_scheme_is_an_http_proxy() -> None:
    assert proxy_for(ClusterConfig(server="https://a"), {"https_proxy": "p:1"}) == "http://p:1"


def test_a_kind_of_proxy_that_is_not_supported_is_said() -> None:
    with pytest.raises(ConfigError, match="proxy-url socks5://p:1: must be an http"):
        proxy_for(ClusterConfig(server="https://a", proxy_url="socks5://p:1"), {})
