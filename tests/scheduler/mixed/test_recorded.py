"""What random stories showed, shortened: each file is named by the fault that it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord_chaos.stories.play import replay
from koord_chaos.stories.recorded import read

STORIES = sorted((Path(__file__).parent / "stories").glob("*.json"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_that_broke_a_promise_breaks_none(path: Path) -> None:
    replay(read(path.read_text(), path.name))
