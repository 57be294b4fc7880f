"""When the nodes' agents evict, as the ConfigMap slo-controller-config says: the descheduler's marks must be below.

Asked before every round, since the ConfigMap may change after the descheduler's own configuration was found in order.
"""

from __future__ import annotations

import logging
from typing import Final

from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.descheduler_order import of_descheduler, strategies_of
from koord.api.configuration.layer import Layer
from koord.api.configuration.slo_config import reload
from koord.api.kinds import CONFIG_MAPS
from koord.api.machinery.faults import Fault
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)

KNOWN_FOR_S: Final = 10.0


class Agents:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._strategies: tuple[tuple[Layer, ...], ...] = ()
        self._until_s = float("-inf")
        self._failed = ""

    async def look(self) -> None:
        """Reads the thresholds of the agents, unless they were just read. If that is refused, the last ones count."""
        if self._clock.monotonic() < self._until_s:
            return
        self._until_s = self._clock.monotonic() + KNOWN_FOR_S
        try:
            name, namespace = names.CONFIGMAP_SLO_CONTROLLER, names.NAMESPACE_KOORDINATOR
            config_map = await self._client.get(CONFIG_MAPS, name, namespace=namespace)
            self._strategies = strategies_of(reload(None, config_map.data)[0])
            self._failed = ""
        except NotFound:
            self._strategies = ()
        except ApiError as error:
            if str(error) != self._failed:
                log.warning("cannot tell when agents evict, and whether the marks of LowNodeLoad are below: %s", error)
            self._failed = str(error)

    def faults(self, config: DeschedulerConfiguration) -> tuple[Fault, ...]:
        """Marks at which agents and descheduler would work against each other, with the numbers."""
        return of_descheduler(config, (), self._strategies).faults if self._strategies else ()
