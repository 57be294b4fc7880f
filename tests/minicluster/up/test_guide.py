"""The guide's commands, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.control_plane import find_binary
from tests.minicluster.up.test_end_to_end import up

GUIDE = Path(__file__).parents[3] / "docs" / "one-machine.md"


@pytest.mark.kubectl
def test_every_command_of_the_guide_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    kubectl = find_binary("kubectl")
    assert kubectl is not None
    path = os.pathsep.join([str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]])
    with up(tmp_path / "data", "--nodes", "10"):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guides_recording_is_one() -> None:
    from koord_minicluster.hollow.load_model import CLOCK, SeededLoad
    from koord_minicluster.hollow.load_replay import read_replay

    lines = [line.strip() for line in GUIDE.read_text().splitlines() if re.match(r"    (time_s|\d+),", line)]
    assert len(read_replay(lines, "guide", course=CLOCK, otherwise=SeededLoad()).tracks) == 3
