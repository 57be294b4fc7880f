"""Configuration files by what they say they are."""

from __future__ import annotations

import pytest

from koord.api.configuration.config_file import read
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.configuration.slo_config import SloConfig
from koord.api.machinery.faults import Invalid
from koord.api.text import yaml

SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      usageThresholds: {cpu: 65, memory: 95}
"""
DESCHEDULER = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 10s
profiles:
- name: koord-descheduler
  plugins:
    balance:
      enabled: [{name: LowNodeLoad}]
"""
SLO = """
apiVersion: v1
kind: ConfigMap
metadata: {name: slo-controller-config, namespace: koordinator-system}
data:
  colocation-config: |
    {"enable": true}
"""


@pytest.mark.parametrize(
    ("text", "type_"),
    [(SCHEDULER, SchedulerConfiguration), (DESCHEDULER, DeschedulerConfiguration), (SLO, SloConfig)],
)
def test_the_kind_decides_the_type(text: str, type_: type) -> None:
    assert isinstance(read(text, "file.yaml"), type_)


def test_the_shipped_configuration_survives_a_file() -> None:
    assert read(yaml.dump(SHIPPED.manifest()), "file.yaml") == SHIPPED


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "kind: KubeSchedulerConfiguration",
            "file.yaml: apiVersion: is required: valid are KubeSchedulerConfiguration of",
        ),
        ("- a", "must be an object with apiVersion and kind"),
        ("apiVersion: v1\nkind: Pod", "there is no configuration of kind 'Pod'"),
        (
            "apiVersion: v1\nkind: KubeSchedulerConfigurations",
            "did you mean KubeSchedulerConfiguration?",
        ),
        (
            "apiVersion: descheduler/v1alpha1\nkind: DeschedulerConfiguration",
            "apiVersion: must be descheduler/v1alpha2 for DeschedulerConfiguration",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}", "metadata.name: must be slo-controller-config"),
    ],
)
def test_a_file_of_another_kind_is_told_what_would_be_valid(text: str, wanted: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(text, "file.yaml")
    assert wanted in str(caught.value)


def test_faults_name_the_file_the_path_and_what_would_be_right() -> None:
    with pytest.raises(Invalid) as caught:
        read(
            SCHEDULER.replace("usageThresholds", "usageTresholds").replace("profiles:", "paralelism: 1\nprofiles:"), "f"
        )
    assert str(caught.value).splitlines() == [
        "f: 2 faults",
        "  profiles[0].pluginConfig[0].args.usageTresholds: unknown field (did you mean usageThresholds?)",
        "  paralelism: unknown field (did you mean parallelism?)",
    ]


def test_faults_in_the_texts_of_the_config_map_have_their_paths() -> None:
    with pytest.raises(Invalid) as caught:
        read(SLO.replace("true", "3"), "f")
    assert [fault.path for fault in caught.value.faults] == ["data.colocation-config.enable"]
