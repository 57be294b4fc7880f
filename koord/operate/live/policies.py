"""The policy that nodes lend by, on a running cluster: shows it, and switches it. No component restarts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config import SloConfig, reload
from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.kinds import NODE_METRICS
from koord.api.protocol import names
from koord.api.text.selector import LabelMatcher
from koord.kube.client import Client
from koord.manager.colocation_settings import set_in
from koord.manager.colocation_switch import selector_of
from koord.manager.policy_switch import PolicyChoice, require_effect, switched
from koord.operate.live.colocation import Scope, configuration_in_force, nodes_of
from koord.operate.live.config_maps import config_map, rewrite


class PoolPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that lend by the same policy, set in the same place."""

    cpu: str
    memory: str
    cpu_safety_mark_percent: int | None
    "With the policy adaptive of CPU."
    set_in: str
    nodes: tuple[str, ...]
    learned: int
    "How many of the nodes report what they have learned."


class PolicyResult(msgspec.Struct, frozen=True, rename="camel"):
    pools: tuple[PoolPolicy, ...]
    configuration: tuple[str, ...] = ()
    "Faults in the stored configuration, and what is in force instead."


async def look(client: Client, scope: Scope) -> PolicyResult:
    in_force = await configuration_in_force(client)
    nodes = await nodes_of(client, scope)
    learned = {
        metric.metadata.name for metric in await client.list(NODE_METRICS) if metric.status.lending_metric is not None
    }
    pools: dict[tuple[str, str, int | None, str], list[str]] = {}
    for node in nodes:
        settings = in_force.config.for_node(node.metadata.labels, node.metadata.annotations)
        cpu, memory = settings.colocation.cpu_calculate_policy or "", settings.colocation.memory_calculate_policy or ""
        mark = settings.colocation.cpu_safety_mark_percent if cpu == ADAPTIVE else None
        where = set_in("cpu_calculate_policy", settings.colocation_layers)
        pools.setdefault((cpu, memory, mark, where), []).append(node.metadata.name)
    return PolicyResult(
        tuple(
            PoolPolicy(*policy, tuple(sorted(members)), sum(name in learned for name in members))
            for policy, members in sorted(pools.items(), key=lambda group: group[1][0])
        ),
        tuple(map(str, in_force.problems)),
    )


def configured(data: Mapping[str, str], choice: PolicyChoice, pool: LabelMatcher | None) -> tuple[str, SloConfig]:
    """colocation-config with the policy switched, and the configuration that follows from it."""
    text = switched(data, choice, None if pool is None else selector_of(pool))
    return text, reload(None, {**data, COLOCATION: text})[0]


async def switch(client: Client, pool: LabelMatcher | None, choice: PolicyChoice) -> None:
    """Raises what keeps the policy from holding, before anything is written."""
    nodes = [(node.metadata.name, node.metadata.labels) for node in await nodes_of(client, Scope(pool=pool))]

    def text_of(data: Mapping[str, str]) -> str:
        text, config = configured(data, choice, pool)
        require_effect(config, choice, nodes, of_pool=pool is not None)
        return text

    await rewrite(client, names.CONFIGMAP_SLO_CONTROLLER, COLOCATION, text_of)


async def stored(client: Client) -> Mapping[str, str]:
    """The data of slo-controller-config."""
    config = await config_map(client)
    return config.data if config is not None else {}
