"""The settings of the descheduler that leads, as others read them from its lease."""

from __future__ import annotations

import pytest

from koord.api.configuration.descheduler_config import SHIPPED
from koord.api.kubernetes.coordination import Lease, LeaseSpec
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.names import OWN_ANNOTATION_SETTINGS_IN_FORCE
from koord.api.text.timestamp import micro_from_seconds
from koord.descheduler.settings_in_force import settings_of, written
from tests.descheduler.live.cluster import configured

NOW_S = 1_800_000_000.0
MARKS = """
profiles:
- name: p
  plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - name: LowNodeLoad
    args: {lowThresholds: {cpu: 10}, highThresholds: {cpu: 20}, anomalyCondition: {consecutiveAbnormalities: 2}}
"""


def lease(text: str, holder: str = "me", age_s: float = 3) -> Lease:
    meta = ObjectMeta(name="koord-descheduler", annotations={OWN_ANNOTATION_SETTINGS_IN_FORCE: text} if text else {})
    return Lease(meta, LeaseSpec(holder, 15, renew_time=micro_from_seconds(NOW_S - age_s)))


@pytest.mark.parametrize("config", [SHIPPED, configured(MARKS)], ids=["shipped", "own"])
def test_settings_are_read_as_they_were_written(config: object) -> None:
    assert settings_of(lease(written(config, "me")), NOW_S) == config  # type: ignore[arg-type] # one of two


@pytest.mark.parametrize(
    "seen",
    [
        lease(written(SHIPPED, "me"), holder="another"),
        lease(written(SHIPPED, "me"), age_s=16),
        lease(""),
        lease("nonsense"),
        lease(
            '{"holder": "me", "configuration": {"apiVersion": "descheduler/v9", "kind": "DeschedulerConfiguration"}}'
        ),
    ],
    ids=["another holds it", "no process renews it", "absent", "nonsense", "newer"],
)
def test_settings_that_are_not_of_the_holder_count_as_unknown(seen: Lease) -> None:
    assert settings_of(seen, NOW_S) is None
