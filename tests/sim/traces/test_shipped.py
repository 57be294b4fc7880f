"""The trace that ships with koord: small, with a licence that allows it, and enough to simulate a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from koord.sim.live.traces import SHIPPED_FOLDER, cluster_of, read_trace
from koord.sim.scenario import from_data


def test_it_is_small_and_says_where_it_comes_from() -> None:
    files = {path.name: path.stat().st_size for path in SHIPPED_FOLDER.iterdir()}
    assert set(files) == {"services.csv.gz", "batch.csv.gz", "ATTRIBUTION.md", "LICENSE"}
    assert sum(files.values()) < 300_000
    attribution = (SHIPPED_FOLDER / "ATTRIBUTION.md").read_text()
    assert "MIT License" in attribution
    assert "Bitbrains" in attribution
    assert "SURF" in attribution


def test_it_needs_no_repair_and_no_folder_of_traces(tmp_path: Path) -> None:
    trace = read_trace("shipped", tmp_path)
    assert trace.repairs == ()
    assert trace.services is not None
    assert trace.services.seconds == 7 * 86_400
    assert trace.tasks is not None
    assert len(trace.tasks.ids) == 400


def test_services_on_its_curves_use_a_fifth_of_their_nodes(tmp_path: Path) -> None:
    source = {"trace": "shipped"}
    fields = {"name": "small", "duration": "24h", "cluster": {"nodes": 20}, "services": source, "batch": source}
    cluster = cluster_of(from_data(fields, "small.yaml"), tmp_path, 1)
    use = np.nansum(cluster.services.cpu_milli, axis=0).mean() / cluster.nodes.cpu_milli.sum()
    assert 0.15 < use < 0.3
