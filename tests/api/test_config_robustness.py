"""Any data at all gives a configuration or a report, never a traceback."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration import descheduler_config, scheduler_config, slo_config
from koord.api.configuration.descheduler_args import ARGS as DESCHEDULER_ARGS
from koord.api.configuration.scheduler_args import ARGS as SCHEDULER_ARGS
from koord.api.configuration.slo_config import SECTIONS
from koord.api.configuration.slo_config_check import judge
from koord.api.machinery.faults import Invalid

WORDS = (
    *("profiles", "plugins", "pluginConfig", "name", "args", "enabled", "disabled", "score", "evict", "leaderElection"),
    *("leaseDuration", "nodeSelector", "matchLabels", "matchExpressions", "key", "operator", "values", "In", "*"),
    *("clusterStrategy", "nodeStrategies", "nodeConfigs", "enable", "beClass", "networkQOS", "ingressRequest"),
    *("memoryEvictLowerPercent", "usageThresholds", "resourceWeights", "cpu", "anomalyCondition", "nodePools"),
    *("evictQPS", "objectLimiters", "extenders", "schedulerName", "applications", "ratioModel", "weight", "10%", "5m"),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(WORDS),
    st.text(max_size=4),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def configs(args: Any) -> st.SearchStrategy[Any]:
    """Documents that get past the first level more often than random ones would."""
    plugin = st.fixed_dictionaries({"name": st.sampled_from(sorted(args))}, optional={"args": JSON})
    profile = st.fixed_dictionaries({}, optional={"pluginConfig": st.lists(plugin, max_size=3), "plugins": JSON})
    document = st.fixed_dictionaries({}, optional={"profiles": st.lists(profile, max_size=2), "nodeSelector": JSON})
    return JSON | document


@settings(max_examples=150, deadline=None)
@given(configs(SCHEDULER_ARGS))
def test_scheduler_configuration(document: Any) -> None:
    try:
        config = scheduler_config.parse(document)
    except Invalid:
        return
    assert scheduler_config.parse(config.manifest()) == config


@settings(max_examples=150, deadline=None)
@given(configs(DESCHEDULER_ARGS))
def test_descheduler_configuration(document: Any) -> None:
    try:
        config = descheduler_config.parse(document)
    except Invalid:
        return
    assert descheduler_config.parse(config.manifest()) == config


SECTION = JSON | st.fixed_dictionaries(
    {}, optional={"clusterStrategy": JSON, "nodeStrategies": st.lists(JSON), "nodeConfigs": st.lists(JSON)}
)
MAPS = st.dictionaries(
    st.sampled_from([section.key for section in SECTIONS]), SECTION.map(json.dumps) | st.text(max_size=5), max_size=4
)


@settings(max_examples=200, deadline=None)
@given(MAPS, MAPS, st.dictionaries(st.sampled_from(WORDS), st.text(max_size=3), max_size=2))
def test_slo_controller_config(first: dict[str, str], second: dict[str, str], labels: dict[str, str]) -> None:
    config, problems = slo_config.reload(None, first)
    again, _ = slo_config.reload(config, second)
    again.for_node(labels, labels)
    judge(second, first, nodes={"n": labels})
    assert all(str(problem) for problem in problems)
    assert {problem.key for problem in problems} <= set(first)
