"""Jobs of all kinds become gangs with two annotations on the template: the example of each goes whole, or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.cli.main import run

EXAMPLES = Path("examples/jobs")
MEMBERS = {
    "job.yaml": (8, 8),
    "indexed-job.yaml": (4, 8),
    "spark.yaml": (4, 8),
    "pytorch.yaml": (4, 8),
    "ray.yaml": (4, 7),
}
"""How many pods the gang of each has, and how many cores they need in all."""


def planned(capsys: pytest.CaptureFixture[str], folder: Path, example: str, cores: int) -> dict[str, Any]:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}"},
            "status": {"allocatable": {"cpu": str(each), "memory": "64Gi", "pods": "110"}},
        }
        for i, each in enumerate((cores // 2, cores - cores // 2))
    ]
    (folder / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    run(["plan", "-f", str(folder / "nodes.json"), "-f", str(EXAMPLES / example), "-o", "json"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return dict(told["pods"])


@pytest.mark.parametrize("example", MEMBERS)
def test_the_pods_of_an_example_go_together_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, example: str
) -> None:
    number, cores = MEMBERS[example]
    # The driver of Spark is no member, and goes first.
    alone = 1 if example == "spark.yaml" else 0
    enough = planned(capsys, tmp_path, example, cores + 2 * alone + 1)
    key = "internal.scheduling.koordinator.sh/bind-gang-member-count"
    together = [pod for pod in enough.values() if pod["annotations"].get(key) == str(number)]
    assert len(together) == number
    assert all(pod["node"] for pod in together)
    too_little = planned(capsys, tmp_path, example, cores - 1 + alone)
    assert sum(1 for pod in too_little.values() if pod["node"]) == alone
