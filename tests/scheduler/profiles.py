"""Scheduler profiles that differ in strategies, weights and arguments, for kube-scheduler and koord alike.

Each has twins that refuse every node in the end, by an affinity that no node satisfies: what a scheduler then says
counts the reasons of all nodes that another plugin refused before.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.component_config import PluginConfig, PluginRef, PluginSet
from koord.api.configuration.scheduler_args import (
    FitScoringStrategy,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatio,
    ResourceWeight,
    ShapePoint,
)
from koord.api.configuration.scheduler_config import SchedulerProfile
from koord.api.configuration.scheduler_plugins import Plugins
from koord.api.kubernetes.pod import NodeAffinity, PreferredSchedulingTerm, TopologySpreadConstraint
from koord.api.kubernetes.words import TopologyKey, WhenUnsatisfiable
from koord.api.text.selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

GPU: Final = "example.com/gpu"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"


def _term(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(key, operator, values),))  # type: ignore[arg-type]


def _fit(strategy: FitScoringStrategy, **more: tuple[str, ...]) -> PluginConfig:
    return PluginConfig("NodeResourcesFit", NodeResourcesFitArgs(scoring_strategy=strategy, **more))


def _weights(**weights: int) -> Plugins:
    return Plugins(score=PluginSet(tuple(PluginRef(name, weight) for name, weight in weights.items())))


DEFAULT: Final = SchedulerProfile("default-scheduler")

PACKING: Final = SchedulerProfile(
    "packing",
    plugin_config=(
        _fit(
            FitScoringStrategy(
                "MostAllocated",
                (
                    ResourceWeight("cpu", 2),
                    ResourceWeight("memory", 1),
                    ResourceWeight(GPU, 5),
                    ResourceWeight("ephemeral-storage", 1),
                ),
            )
        ),
        PluginConfig(
            "NodeResourcesBalancedAllocation",
            NodeResourcesBalancedAllocationArgs(
                tuple(ResourceWeight(name, 1) for name in ("cpu", "memory", "ephemeral-storage", GPU))
            ),
        ),
        PluginConfig("InterPodAffinity", InterPodAffinityArgs(hard_pod_affinity_weight=20)),
    ),
)

RATIO: Final = SchedulerProfile(
    "ratio",
    plugins=_weights(NodeResourcesFit=4, ImageLocality=7),
    plugin_config=(
        _fit(
            FitScoringStrategy(
                "RequestedToCapacityRatio",
                (ResourceWeight("cpu", 3), ResourceWeight("memory", 1), ResourceWeight(BATCH_CPU, 2)),
                RequestedToCapacityRatio((ShapePoint(10, 0), ShapePoint(55, 10), ShapePoint(90, 3))),
            )
        ),
        PluginConfig(
            "PodTopologySpread",
            PodTopologySpreadArgs(
                (
                    TopologySpreadConstraint(3, TopologyKey.ZONE, WhenUnsatisfiable.DO_NOT_SCHEDULE),
                    TopologySpreadConstraint(1, TopologyKey.HOSTNAME, WhenUnsatisfiable.SCHEDULE_ANYWAY),
                    TopologySpreadConstraint(2, TopologyKey.ZONE, WhenUnsatisfiable.SCHEDULE_ANYWAY),
                ),
                "List",
            ),
        ),
        PluginConfig("InterPodAffinity", InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)),
        PluginConfig(
            "NodeAffinity",
            NodeAffinityArgs(
                NodeAffinity(
                    NodeSelector((_term("generation", "Gt", "1"), _term("disk", "DoesNotExist"))),
                    (PreferredSchedulingTerm(10, _term("disk", "In", "ssd")),),
                )
            ),
        ),
    ),
)

BATCH: Final = SchedulerProfile(
    "batch",
    plugins=_weights(InterPodAffinity=5, TaintToleration=1),
    plugin_config=(
        _fit(
            FitScoringStrategy(
                resources=tuple(ResourceWeight(name) for name in ("cpu", "memory", BATCH_CPU, BATCH_MEMORY))
            ),
            ignored_resources=(GPU,),
        ),
        PluginConfig("PodTopologySpread", PodTopologySpreadArgs(defaulting_type="List")),
        PluginConfig("InterPodAffinity", InterPodAffinityArgs(hard_pod_affinity_weight=0)),
    ),
)

PROFILES: Final = (DEFAULT, PACKING, RATIO, BATCH)


def refusing(profile: SchedulerProfile, *, backwards: bool = False) -> SchedulerProfile:
    """The twin: NodeAffinity comes last, and refuses all that is left.

    Only the first plugin that refuses a node is named. With the others `backwards`, that is another one.
    """
    filters = [name for name in profile.resolved().at["filter"] if name != "NodeAffinity"]
    nowhere = NodeAffinity(NodeSelector((_term("example.com/nowhere", "Exists"),)))
    refuses = PluginConfig("NodeAffinity", NodeAffinityArgs(nowhere))
    order = (*(filters[::-1] if backwards else filters), "NodeAffinity")
    return SchedulerProfile(
        f"{profile.scheduler_name}-refusing{'-backwards' if backwards else ''}",
        plugins=Plugins(filter=PluginSet(tuple(map(PluginRef, order)), (PluginRef("*"),))),
        plugin_config=(*(config for config in profile.plugin_config if config.name != "NodeAffinity"), refuses),
    )


def twins(profile: SchedulerProfile) -> tuple[SchedulerProfile, SchedulerProfile]:
    return refusing(profile), refusing(profile, backwards=True)
