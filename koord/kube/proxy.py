"""Through which HTTP proxy, if any, a cluster is reached.

A kubeconfig's `proxy-url` wins; else HTTPS_PROXY / HTTP_PROXY and NO_PROXY count, except for this machine itself.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from koord.kube.cluster_config import ClusterConfig, ConfigError


def proxy_for(config: ClusterConfig, environ: Mapping[str, str] = os.environ) -> str | None:
    """The proxy's URL, or None to connect directly."""
    server = urlsplit(config.server)
    if config.proxy_url:
        if urlsplit(config.proxy_url).scheme not in ("http", "https"):
            raise ConfigError(
                f"{config.origin or config.server}: proxy-url {config.proxy_url}: "
                "must be an http:// or https:// URL; other kinds of proxy are not supported"
            )
        return config.proxy_url
    proxy = _variable(environ, f"{server.scheme}_proxy")
    if not proxy or _direct(server.hostname or "", server.port, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _direct(host: str, port: int | None, no_proxy: str) -> bool:
    """Whether NO_PROXY, or the host's being this machine, keeps the proxy out."""
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host.lower(), address, port) for entry in no_proxy.split(","))


def _matches(
    entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int | None
) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            pass
    name, _, entry_port = entry.partition(":")
    if entry_port and entry_port != str(port):
        return False
    name = name.removeprefix("*")
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")
