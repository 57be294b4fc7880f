"""Which slo-controller-config is in force: the valid stored sections, else the last valid ones.

The manager keeps the last valid sections in memory. While it uses some of them, it publishes the configuration in force
in a ConfigMap of its own, so that a manager that starts, and commands like `koord colocation status`, `koord explain`
and `koord plan --live`, come to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from koord.api.configuration.slo_config import Problem, SloConfig, reload
from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.configuration.threshold_order import usable
from koord.api.protocol import names

STORED: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_SLO_CONTROLLER}"
PUBLISHED: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_SLO_IN_FORCE}"


class InForce(NamedTuple):
    config: SloConfig
    problems: tuple[Problem, ...]
    "Why it is not all that is stored."
    mended: tuple[str, ...]
    "Defaults that count as something else."


def in_force(last: SloConfig | None, stored: Mapping[str, str] | None) -> InForce:
    """The configuration in force. `last` is what was in force until now; None if unknown."""
    read, problems = reload(last, stored)
    config, disorder, mended = usable(last, read)
    return InForce(config, (*problems, *disorder), mended)


def to_publish(in_force_now: InForce) -> dict[str, str] | None:
    """The data of the published map; None where everything that is stored is in force, and there need be none."""
    if not any(problem.keeps_old for problem in in_force_now.problems):
        return None
    data = {COLOCATION: "{}", **in_force_now.config.manifest_data()}
    if in_force_now.config.colocation_state == "unavailable":
        del data[COLOCATION]
    return data


def last_valid(published: Mapping[str, str] | None) -> SloConfig | None:
    """What a manager published, for `in_force`; None where none did."""
    if published is None:
        return None
    config, _ = reload(None, published)
    return config if COLOCATION in published else replace(config, colocation_state="unavailable")
