"""Reports, carried out: at their intervals, into the node's objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from koord.agent.report.report import Facts, Report, T
from koord.api.machinery.faults import BadInput
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-agent"


class Reporter:
    def __init__(self, client: Client, clock: Clock, node: str, facts: Callable[[], Facts | None]) -> None:
        """`facts` are None while nothing is known of the node."""
        self._client, self._clock, self._node, self._facts = client, clock, node, facts
        self._complaints: dict[str, str] = {}
        self._failing_since_s: dict[str, float | None] = {}
        "By report: since when it could not be written; None where all is well."

    def failing_s(self) -> dict[str, float]:
        """By report: for how long it could not be written."""
        now_s = self._clock.monotonic()
        since = list(self._failing_since_s.items())
        return {name: 0.0 if since_s is None else now_s - since_s for name, since_s in since}

    async def run(self, report: Report[T], current: Callable[[], T | None]) -> None:
        """`known`: the node's object in the cache."""
        while True:
            before = current()
            # The first report comes as soon as there is something to tell.
            is_told = await self._tell(report, before)
            await self._clock.sleep(report.every_s(before) if is_told else report.idle_s)

    async def _tell(self, report: Report[T], before: T | None) -> bool:
        facts = self._facts()
        try:
            change = None if facts is None else report.change(facts, before)
        except BadInput as error:
            self._failed(report.name)
            if self._complaints.get(report.name) != str(error):
                self._complaints[report.name] = str(error)
                log.error("the last %s report stays: %s", report.name, error)
            return False
        self._complaints.pop(report.name, None)
        if change is None:
            if facts is None:
                self._failed(report.name)
            else:
                self._failing_since_s[report.name] = None
            return False
        try:
            await self._write(report, change, is_new=before is None)
        except NotFound:
            log.info("there is no %s to report to yet", report.kind.kind)
            self._failed(report.name)
            return False
        except ApiError as error:
            log.warning("the %s could not be reported: %s", report.name, error)
            self._failed(report.name)
            return True
        self._failing_since_s[report.name] = None
        return True

    def _failed(self, report: str) -> None:
        if self._failing_since_s.get(report) is None:
            self._failing_since_s[report] = self._clock.monotonic()

    async def _write(self, report: Report[T], change: Mapping[str, Any], *, is_new: bool) -> None:
        if is_new:
            body = {**change, "metadata": {"name": self._node, **change["metadata"]}}
            await self._client.create(report.kind, body, field_manager=FIELD_MANAGER)
            return
        await self._client.patch(
            report.kind, self._node, change, field_manager=FIELD_MANAGER, subresource=report.subresource
        )
