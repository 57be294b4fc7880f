"""What is particular to each built-in kind: one `Strategy` for each, by group and kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.apiserver.builtin import config, namespace, node, pod
from koord.apiserver.resource import Strategy

STRATEGIES: Final[Mapping[tuple[str, str], Strategy]] = {
    ("", "Pod"): pod.STRATEGY,
    ("", "Node"): node.STRATEGY,
    ("", "Namespace"): namespace.STRATEGY,
    ("", "ConfigMap"): config.CONFIG_MAP,
    ("", "Secret"): config.SECRET,
    ("", "ServiceAccount"): config.SERVICE_ACCOUNT,
}
