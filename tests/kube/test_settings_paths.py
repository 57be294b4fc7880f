"""What a component shows of its settings, over HTTP, to users that the API server allows."""

from __future__ import annotations

import json
import logging

import aiohttp

from koord.api.configuration.descheduler_config import SHIPPED
from koord.kube.health import HealthServer
from koord.kube.settings_paths import SettingsPaths
from tests.allowing import EVERYBODY
from tests.scheduler.live.test_diagnosis import asked


async def test_the_configuration_in_force_is_shown_to_those_who_are_allowed() -> None:
    settings = SettingsPaths()
    settings.in_force(SHIPPED)
    async with HealthServer("127.0.0.1:0", authorizer=EVERYBODY) as server:
        server.add_paths(settings.handle)
        status, text = await asked(server.port, "/configz")
        assert status == 200
        found = json.loads(text)["componentconfig"]
        assert found["profiles"][0]["name"] == SHIPPED.profiles[0].name
        assert found["deschedulingInterval"] == SHIPPED.descheduling_interval
        assert (await asked(server.port, "/configz", "PUT"))[0] == 405
        assert (await asked(server.port, "/other"))[0] == 404
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}/configz") as answer:
            assert answer.status == 401


async def test_how_much_is_logged_can_be_set() -> None:
    logger = logging.getLogger("koord")
    level = logger.level
    try:
        async with HealthServer("127.0.0.1:0", authorizer=EVERYBODY) as server:
            server.add_paths(SettingsPaths().handle)
            assert (await asked(server.port, "/debug/flags/v", "PUT", "5"))[0] == 200
            assert logger.level == logging.DEBUG
            assert (await asked(server.port, "/debug/flags/v", "PUT", "loud"))[0] == 400
    finally:
        logger.setLevel(level)
