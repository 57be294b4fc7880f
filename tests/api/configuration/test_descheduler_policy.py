"""Policies of the Kubernetes descheduler: what koord does for them, and what it says to what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.config_file import convert, read
from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.descheduler_upstream_args import RemovePodsHavingTooManyRestartsArgs
from koord.api.machinery.faults import Invalid

EXAMPLE = Path(__file__).parents[3] / "examples" / "descheduler-policy" / "policy.yaml"


def policy(profile: dict[str, Any], **more: Any) -> DeschedulerConfiguration:
    document = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}
    found = convert(document, "policy")
    assert isinstance(found, DeschedulerConfiguration)
    return found


def evictor(**args: Any) -> MigrationControllerArgs:
    found = policy({"name": "a", "pluginConfig": [{"name": "DefaultEvictor", "args": args}]})
    return found.profiles[0].args_of("MigrationController", MigrationControllerArgs)


def test_a_policy_is_what_koord_does_for_it() -> None:
    found = read(EXAMPLE.read_text(), EXAMPLE.name)
    assert isinstance(found, DeschedulerConfiguration)
    (profile,) = found.profiles
    runs = profile.resolved()
    assert (profile.name, found.max_no_of_pods_to_evict_per_node) == ("tidy", 10)
    assert (runs["deschedule"], runs["balance"]) == (("RemovePodsHavingTooManyRestarts",), ("RemoveDuplicates",))
    restarts = profile.args_of("RemovePodsHavingTooManyRestarts", RemovePodsHavingTooManyRestartsArgs)
    assert (restarts.pod_restart_threshold, restarts.including_init_containers) == (100, True)
    args = profile.args_of("MigrationController", MigrationControllerArgs)
    assert (args.node_fit, args.ignore_pvc_pods, args.evict_local_storage_pods) == (True, True, False)
    # Pods of any scheduler move, since no place has to be kept for them first; and round after round.
    assert (args.default_job_mode, found.descheduling_interval) == ("EvictDirectly", "5m")


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"evictLocalStoragePods": True}, "evict_local_storage_pods"),
        ({"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}, "evict_local_storage_pods"),
        ({"podProtections": {"defaultDisabled": ["SystemCriticalPods"]}}, "evict_system_critical_pods"),
        ({"podProtections": {"defaultDisabled": ["FailedBarePods"]}}, "evict_failed_bare_pods"),
        ({"podProtections": {"extraEnabled": ["PodsWithPVC"]}}, "ignore_pvc_pods"),
    ],
)
def test_protections_of_pods_are_kept_under_either_name(args: dict[str, Any], field: str) -> None:
    on = ("evict_local_storage_pods", "evict_system_critical_pods", "evict_failed_bare_pods")
    found = evictor(**args)
    assert [name for name in (*on, "ignore_pvc_pods") if getattr(found, name)] == [field]


def test_nodes_are_chosen_by_labels() -> None:
    found = policy({"name": "a"}, nodeSelector="pool=web, zone==a")
    assert found.node_selector is not None
    assert found.node_selector.match_labels == {"pool": "web", "zone": "a"}


@pytest.mark.parametrize(
    ("profile", "more", "says"),
    [
        (
            {"plugins": {"balance": {"enabled": ["LowNodeUtilization"]}}},
            {},
            "profiles[0].plugins.balance.enabled[0]: koord has no LowNodeUtilization; take LowNodeLoad",
        ),
        (
            {"plugins": {"deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]}}},
            {},
            "koord has no RemovePodsViolatingNodeTaints",
        ),
        (
            {"pluginConfig": [{"name": "DefaultEvictor", "args": {"minReplicas": 2}}]},
            {},
            "profiles[0].pluginConfig[0].args.minReplicas: koord has nothing for this field",
        ),
        (
            {
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}}
                ]
            },
            {},
            "args.podProtections.extraEnabled[0]: koord cannot do this for PodsWithoutPDB",
        ),
        ({"plugins": {"sort": {"enabled": ["Mine"]}}}, {}, "profiles[0].plugins.sort: koord has no Mine there"),
        ({}, {"gracePeriodSeconds": 5}, "gracePeriodSeconds: koord has nothing for this field"),
        ({}, {"nodeSelector": "pool!=web"}, "nodeSelector: must be label=value pairs"),
        (
            {"pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSecond": 1}}]},
            {},
            "maxPodLifeTimeSecond",
        ),
    ],
)
def test_what_koord_has_nothing_for_is_refused_by_name(
    profile: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    with pytest.raises(Invalid) as refused:
        policy({"name": "a", **profile}, **more)
    assert says in str(refused.value)
