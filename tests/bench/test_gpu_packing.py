"""The GPU packing benchmark: rules that its verifier keeps, figures of a made-up trace, and what its command takes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from koord.cli.main import run as koord
from koord.scheduler.plugins.packing.shapes import PodShape, Scores
from koord.scheduler.state.table import Array
from koord.sim.packing import POLICIES as IN_THE_SIMULATOR
from koord.sim.traces.openb import NODES
from koord.sim.traces.trace import GpuNode
from koord_bench.gpu_packing import arrivals, by_time
from koord_bench.gpu_packing.engine import EngineReplay
from koord_bench.gpu_packing.plot import svg
from koord_bench.gpu_packing.policies import FGD, POLICIES, SHADOW, replay_of, set_up
from koord_bench.gpu_packing.replay import Placed, Replay
from koord_bench.gpu_packing.run import Options, RuleBrokenError, run
from koord_bench.gpu_packing.traces import Trace, TraceError, TracePod, fleet_of, made_up, read
from koord_bench.gpu_packing.verifier import Verifier

NODE = GpuNode("n1", "T4", 2, 8000, 8192)
SHARE = PodShape(1000, 1024, 1, 600)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_to_the_rules_and_below_the_ceiling(policy: str) -> None:
    trace = made_up(1, nodes=16)
    found = arrivals.replay(trace, set_up(policy, trace))
    assert found.faults == []
    assert found.placed + found.dropped == len(trace.arrivals)
    assert 60 < found.at_full <= arrivals.ceiling(trace)


@pytest.mark.parametrize("policy", [FGD, SHADOW])
def test_the_engine_places_as_a_plain_replay_does(policy: str) -> None:
    trace = made_up(5, nodes=12)
    plain, engine = replay_of(policy, trace), EngineReplay(trace, policy)
    shapes = [trace.pods[i].shape for i in trace.arrivals]
    assert [engine.place(shape) for shape in shapes] == [plain.place(shape) for shape in shapes]


def test_shadow_prices_allocate_more_than_fgd() -> None:
    trace = made_up(42)
    fgd, shadow = (arrivals.replay(trace, set_up(policy, trace)).at_full for policy in (FGD, SHADOW))
    assert shadow > fgd + 1


@pytest.mark.parametrize("policy", IN_THE_SIMULATOR)
def test_by_time_every_policy_gets_the_same_pods_and_uses_no_more_than_there_is(policy: str) -> None:
    totals = by_time.totals_of(made_up(3, nodes=8), policy, 0.9, hours=3)
    assert totals.arrived == by_time.totals_of(made_up(3, nodes=8), FGD, 0.9, hours=3).arrived > 0
    assert 0 < totals.gpu_allocated_percent <= 100


def test_by_time_pods_wait_for_the_gpu_that_they_ask_for_beyond_what_there_is() -> None:
    nodes = [GpuNode("n1", "T4", 2, 8000, 8192)]
    pods = [TracePod(f"p{i}", PodShape(1000, 1024, 1, 1000), 600 * i, 600 * (i + 1)) for i in range(40)]
    totals = by_time.totals_of(Trace("tiny", 1, nodes, pods, []), FGD, 3.0, hours=3)
    # Three times as much as there is: a GPU is idle only until the minute after its pod ended, and the queue grows.
    assert totals.gpu_allocated_percent > 85
    assert totals.gpu_waiting_percent > 100


@pytest.mark.parametrize(
    ("placements", "fault"),
    [
        ([(SHARE, Placed(0, (0,))), (SHARE, Placed(0, (0,)))], "device 0: 400 left, 600 asked for"),
        ([(SHARE._replace(cpu_milli=9000), Placed(0, (0,)))], "CPU: 8000 left, 9000 asked for"),
        ([(SHARE._replace(memory_mib=9000), Placed(0, (0,)))], "memory: 8192 left"),
        ([(SHARE._replace(models=frozenset({"A100"})), Placed(0, (0,)))], "its GPU is a T4"),
        ([(SHARE, Placed(0, (2,)))], "has no device 2"),
        ([(SHARE._replace(gpus=2), Placed(0, (1, 1)))], "got devices [1, 1], asked for 2"),
        ([(SHARE, Placed(0, ()))], "got devices []"),
        ([(SHARE, None)], "was dropped, though it fits on n1"),
    ],
)
def test_the_verifier_finds_planted_errors(placements: list[tuple[PodShape, Placed | None]], fault: str) -> None:
    verifier = Verifier([NODE])
    for number, (shape, placed) in enumerate(placements):
        verifier.place(shape, placed, number)
    assert len(verifier.faults) == 1
    assert fault in verifier.faults[0]


def test_a_run_that_breaks_a_rule_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koord_bench.gpu_packing.arrivals.ceiling", lambda trace: 50.0)
    with pytest.raises(RuleBrokenError, match="more than the ceiling"):
        run(quick=True, options=Options(policies=(FGD,)))


class _Everything:
    """Scores all rows alike, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def score(self, shape: PodShape, rows: Array) -> Scores:
        self.asked += rows.tolist()
        return Scores(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))


def test_only_rows_that_changed_are_scored_again() -> None:
    policy = _Everything()
    replay = Replay(fleet_of([NODE, NODE._replace(name="n2")]), policy)
    small = PodShape(100, 100, 1, 100)
    assert replay.place(small) == Placed(0, (0,))
    assert replay.place(small) == Placed(0, (0,))
    assert policy.asked == [0, 1, 0]


def test_traces_are_read_from_files_in_the_order_of_their_seed(tmp_path: Path) -> None:
    (tmp_path / NODES).write_text("sn,cpu_milli,memory_mib,gpu,model\nb,8000,8192,2,T4\na,8000,8192,1,G2\n")
    with gzip.open(tmp_path / "openb_pod_list_tiny.csv.gz", "wt") as file:
        file.write("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n")
        file.write("p0,1000,1024,1,500,G2|T4,5,65\np1,2000,1024,0,0,,7,70\n")
    np.savez(tmp_path / "fgd_arrival_orders.npz", tiny_7_pods=[1, 0, 0], tiny_7_noderank=[1, 0])
    trace = read(tmp_path, "tiny", 7)
    assert [node.name for node in trace.nodes] == ["b", "a"]
    assert trace.arrivals == [1, 0, 0]
    assert trace.mix == {PodShape(1000, 1024, 1, 500, frozenset({"G2", "T4"})): 1, PodShape(2000, 1024): 1}
    assert (trace.pods[0].begins_s, trace.pods[0].ends_s) == (5, 65)
    drawn = read(tmp_path, "tiny", 8)
    assert sorted(drawn.arrivals[:2]) == [0, 1]
    assert sum(trace.pods[i].shape.total_milli for i in drawn.arrivals) <= 1.3 * 3000


def test_a_file_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / NODES).write_text("sn,cpu_milli\nb,8000\n")
    (tmp_path / "openb_pod_list_tiny.csv").write_text("name\n")
    with pytest.raises(TraceError, match=r"openb_node_list_gpu_node.csv:1: column model is missing"):
        read(tmp_path, "tiny", 1)


def test_the_command_prints_a_table_json_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "curves.svg"
    command = ["bench", "gpu-packing", "--quick", "--policy", FGD, "--policy", SHADOW]
    assert koord([*command, "--plot", str(plot)]) == 0
    head, line = capsys.readouterr().out.splitlines()[1:3]
    assert head.split() == ["TRACE", FGD, SHADOW, "DIFFERENCE", "CEILING"]
    assert line.split()[0] == "made-up"
    assert len(ElementTree.parse(plot).findall("{http://www.w3.org/2000/svg}polyline")) == 2
    assert koord([*command, "--load", "1", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    measures = ("waiting", "in use")
    assert {row["metric"] for row in rows} == {f"{measure}, {name}" for measure in measures for name in (FGD, SHADOW)}


def test_everything_is_inside_the_picture() -> None:
    curves = {policy: {percent: 60.0 + percent / 4 for percent in range(70, 131)} for policy in POLICIES}
    for panels in ({"one": curves}, {str(i): curves for i in range(6)}):
        picture = ElementTree.fromstring(svg(panels, {"one": 99.0}, POLICIES))
        wide, high = float(picture.attrib["width"]), float(picture.attrib["height"])
        for part in picture.iter():
            for name, most in (("x", wide), ("x2", wide), ("y", high), ("y2", high)):
                assert 0 <= float(part.attrib.get(name, 0)) <= most
            for point in part.attrib.get("points", "").split():
                across, up = map(float, point.split(","))
                assert 0 <= across <= wide
                assert 0 <= up <= high


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["gpu-packing", "--policy", "Best"], "no policy Best: choose of Random, DotProd"),
        (["gpu-packing", "--trace", "default"], "traces are read from a folder: --data FOLDER"),
        (["gpu-packing", "--load", "1", "--policy", "DotProd"], "no policy DotProd: choose of ShadowPrices, FGD"),
        (["informer", "--load", "1"], "--load is for gpu-packing"),
    ],
)
def test_what_makes_no_sense_is_refused(command: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["bench", *command]) != 0
    assert words in capsys.readouterr().err
