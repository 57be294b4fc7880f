from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.minicluster.apiserver.admission.world import World, opened


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path) as made:
        yield made
