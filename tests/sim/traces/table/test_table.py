"""The table form: units, gaps, order, limits; CSV and Parquet say the same."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.machinery.faults import BadInput
from koord.sim.columns import BatchTasks, ServiceCurves
from koord.sim.live.traces import read_recording
from koord.sim.traces.table import chunks
from koord.sim.traces.table.chunks import Chunk, chunks_of_csv
from koord.sim.traces.table.nodes import read_nodes
from koord.sim.traces.table.reading import read_table
from koord.sim.traces.table.services import read_services
from koord.sim.traces.trace import Content, Repairs, Trace, TraceFault


def csv(content: str, file: str = "services.csv") -> Iterator[Chunk]:
    return chunks_of_csv(io.BytesIO(content.encode()), file)


def table(**files: str) -> Trace:
    contents: dict[str, Content] = {"services": "services", "batch": "batch", "nodes": "nodes"}
    return read_table({contents[name]: csv(text, f"{name}.csv") for name, text in files.items()})


def services(content: str) -> ServiceCurves:
    curves = table(services=content).services
    assert curves is not None
    return curves


def tasks(content: str) -> BatchTasks:
    batch = table(batch=content).tasks
    assert batch is not None
    return batch


def use(curves: ServiceCurves, row: int = 0) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in curves.cpu_milli[row]]


def test_samples_become_curves_with_requests_places_and_memory() -> None:
    curves = services(
        "time_s,pod,node,cpu_milli,memory_mib,request_cpu_cores,request_memory_gib\n"
        "60,shop/web-1,n1,250,100,0.5,1\n"
        "60,shop/web-2,n2,100,50,,\n"
        "120,shop/web-1,n1,350,110,0.5,1\n"
        "120,shop/web-2,n2,200,50,,\n"
    )
    assert (curves.ids, curves.step_s, curves.node) == (("shop/web-1", "shop/web-2"), 60, ("n1", "n2"))
    assert (use(curves, 0), use(curves, 1)) == ([250, 350], [100, 200])
    assert curves.memory_bytes is not None
    assert curves.memory_bytes[0].tolist() == [100 << 20, 110 << 20]
    assert curves.request_cpu_milli is not None
    assert curves.request_cpu_milli.tolist() == [500, 0]
    assert curves.request_memory_bytes is not None
    assert curves.request_memory_bytes.tolist() == [1 << 30, 0]


@pytest.mark.parametrize(
    ("column", "times"),
    [
        ("time_s", ("1760000040", "1760000100")),
        ("time_ms", ("1760000040000", "1760000100000")),
        ("time", ("2025-10-09T08:54:00Z", "2025-10-09T08:55:00Z")),
    ],
)
def test_times_have_three_forms(column: str, times: tuple[str, str]) -> None:
    assert use(services(f"{column},pod,cpu_cores\n{times[0]},a,1\n{times[1]},a,2\n")) == [1000, 2000]


def test_a_pod_exists_from_its_first_sample_to_its_last() -> None:
    curves = services("time_s,pod,cpu_milli\n60,a,1\n120,a,2\n120,b,3\n180,b,4\n")
    assert (use(curves, 0), use(curves, 1)) == ([1, 2, None], [None, 3, 4])


def test_samples_of_one_step_are_averaged() -> None:
    minutes = "".join(f"{60 * minute},a,{minute}\n" for minute in range(1, 11))
    curves = services("time_s,pod,cpu_milli\n" + minutes + "610,a,20\n630,a,40\n")
    assert use(curves) == [*range(1, 11), 30]


def test_gaps_negative_values_and_time_that_goes_back_are_repaired_and_counted() -> None:
    trace = table(services="time_s,pod,cpu_milli\n60,a,1\n120,a,-2\n300,a,3\n180,a,5\n180,a,7\n")
    assert trace.services is not None
    assert use(trace.services) == [1, 0, 6, 6, 3]
    assert [(repair.rule.split()[0], repair.count, repair.first) for repair in trace.repairs] == [
        ("sample", 1, "services.csv:5"),
        ("second", 1, "services.csv:6"),
        ("negative", 1, "services.csv:3"),
        ("gap", 1, "services, pod a"),
    ]


def test_a_gap_of_more_than_an_hour_stays_and_is_counted() -> None:
    trace = table(services="time_s,pod,cpu_milli\n60,a,1\n120,a,1\n7320,a,2\n7380,a,2\n")
    assert trace.services is not None
    assert use(trace.services) == [1, 1, *[None] * 119, 2, 2]
    assert [(repair.rule, repair.count, repair.first) for repair in trace.repairs] == [
        ("gap of more than an hour in which the pod does not exist", 1, "services, pod a")
    ]


def test_the_order_of_lines_does_not_change_the_step() -> None:
    assert services("time_s,pod,cpu_milli\n7200,a,3\n3600,a,2\n0,a,1\n").step_s == 3600


def test_a_pod_on_a_node_that_is_not_listed_is_counted() -> None:
    trace = table(
        services="time_s,pod,cpu_milli,node\n60,a,1,n1\n120,b,1,n9\n", nodes="node,cpu_cores,memory_gib\nn1,4,8\n"
    )
    assert [(repair.rule, repair.count, repair.first) for repair in trace.repairs] == [
        ("pod on a node that is not in nodes placed by the scheduler", 1, "services, pod b on n9")
    ]


def test_samples_before_the_first_line_find_their_place() -> None:
    curves = services("time_s,pod,cpu_milli\n600,a,1\n660,a,2\n60,b,3\n120,b,4\n")
    assert use(curves, 0) == [None] * 9 + [1, 2]
    assert use(curves, 1) == [3, 4] + [None] * 9


def test_a_pod_on_a_second_node_is_counted_on_its_first() -> None:
    trace = table(services="time_s,pod,cpu_milli,node\n60,a,1,\n120,a,1,n1\n180,a,1,n2\n")
    assert trace.services is not None
    assert trace.services.node == ("n1",)
    assert [(repair.count, repair.first) for repair in trace.repairs] == [(1, "services.csv:4")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "services.csv: is empty"),
        ("time_s,pod,cpu_milli\n", "services: has no samples"),
        (
            "time_s,pod,cpu_percent\n1,a,1\n",
            "services.csv:1: column cpu_percent: unknown unit; valid: cpu_milli, cpu_cores",
        ),
        (
            "time_s,pod,cpu_milli,color\n1,a,1,red\n",
            "services.csv:1: column color: unknown; valid: time_s, time_ms, time",
        ),
        ("time_s,pod\n1,a\n", "services.csv:1: column cpu_milli or cpu_cores is missing"),
        ("time_s,pod,pod,cpu_milli\n1,a,a,1\n", "services.csv:1: column pod stands twice in the header"),
        (
            "time_s,pod,cpu_milli,cpu_cores\n1,a,1,1\n",
            "services.csv:1: columns cpu_milli and cpu_cores say the same: leave one out",
        ),
        ('time_s,pod,cpu_milli\n\n1,"a\nb",1\n\n2,b\n', "services.csv:6: has 2 fields, the header has 3"),
        (
            "time_s,pod,cpu_cores\n1,a,1\n2,b,2e6\n",
            "services.csv:3: column cpu_cores: must be at most 1e+06, but is 2e6: is its unit right?",
        ),
        (
            "time_s,pod,cpu_cores\n1760000040000,a,1\n",
            "services.csv:2: column time_s: must be at most 1e+11, but is 1760000040000: is its unit right?",
        ),
        ("time_s,pod,cpu_milli\n1,a,1\n2,b\n", "services.csv:3: has 2 fields, the header has 3"),
        ("time_s,pod,cpu_milli\n1,a,1\n2,b,fast\n", "services.csv:3: column cpu_milli: 'fast' is not a number"),
        ("time_s,pod,cpu_milli\n1,a,1\n2,b,\n", "services.csv:3: column cpu_milli: must not be empty"),
        ("time_s,pod,cpu_milli\n1,a,1\n2,b,inf\n", "services.csv:3: column cpu_milli: inf is not a finite number"),
        ("time_s,pod,cpu_milli\n1,a,1\n2,,1\n", "services.csv:3: column pod: must not be empty"),
        ("time,pod,cpu_milli\nyesterday,a,1\n", "services.csv:2: column time: "),
        ('time_s,pod,cpu_milli\n1,"a"b,1\n', "services.csv:2: is not CSV: "),
        ("time_s,pod,cpu_milli\n1," + "a" * 70_000, "services.csv:2: has a field longer than 4096 characters"),
    ],
)
def test_what_no_rule_repairs_is_refused_with_file_line_and_what_is_valid(content: str, message: str) -> None:
    with pytest.raises(TraceFault) as refusal:
        table(services=content)
    assert str(refusal.value).startswith(message)


def test_text_in_another_encoding_is_refused() -> None:
    with pytest.raises(TraceFault, match=r"services\.csv:\d: is not UTF-8 text"):
        list(chunks_of_csv(io.BytesIO(b"time_s,pod,cpu_milli\n1,\xff\xfe,1\n"), "services.csv"))


def test_curves_beyond_the_limit_are_refused_before_they_fill_memory() -> None:
    lines = "".join(f"{60 * step},pod-{pod},1\n" for step in range(1, 200) for pod in range(7))
    with pytest.raises(TraceFault, match=r"services\.csv:\d+: 7 services .* times \d+ steps of 60 s .*are too many"):
        read_services(csv("time_s,pod,cpu_milli\n" + lines), Repairs(), most_cells=1000)


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from("abc")), min_size=1, unique=True), st.integers(1, 7))
@settings(max_examples=25)
def test_the_order_of_lines_and_the_size_of_chunks_change_no_value(samples: list[tuple[int, str]], rows: int) -> None:
    lines = [f"{60 * step},{pod},{step * 10}\n" for step, pod in samples]
    header = "time_s,pod,cpu_milli\n" + "".join(f"{60 * step},z,{step}\n" for step in range(1, 51))
    before = chunks.ROWS
    try:
        whole = services(header + "".join(lines))
        chunks.ROWS = rows  # type: ignore[misc]  # a constant, smaller for the test
        parts = services(header + "".join(reversed(lines)))
    finally:
        chunks.ROWS = before  # type: ignore[misc]  # the constant again
    by_name = {name: parts.cpu_milli[row] for row, name in enumerate(parts.ids)}
    assert set(by_name) == set(whole.ids)
    for row, name in enumerate(whole.ids):
        assert np.allclose(whole.cpu_milli[row], by_name[name], equal_nan=True)


def test_a_task_a_line_runs_for_its_duration() -> None:
    batch = tasks(
        "task,arrival_s,duration_s,cpu_cores,request_cpu_milli,request_memory_gib,queue,gang\n"
        "late,90,60,0.5,1000,2,research,\n"
        "early,30,45,1.5,2000,1,,g1\n"
    )
    assert batch.ids == ("early", "late")
    assert batch.arrival_s.tolist() == [0, 60]
    assert batch.duration_s.tolist() == [60, 60]
    assert batch.use_milli.tolist() == [1500, 1500, 500, 500]
    assert batch.request_cpu_milli.tolist() == [2000, 1000]
    assert batch.request_memory_bytes.tolist() == [1 << 30, 2 << 30]
    assert (batch.queue, batch.gang) == (("", "research"), ("g1", ""))


def test_samples_of_a_task_make_its_progress_and_its_arrival_is_the_recorded_one() -> None:
    batch = tasks(
        "time_s,task,cpu_milli,arrival_s\n120,a,100,10\n120,b,7,70\n180,a,300,10\n300,a,500,10\n240,b,9,70\n180,b,8,70\n"
    )
    assert batch.ids == ("a", "b")
    assert batch.arrival_s.tolist() == [0, 60]
    assert batch.step_s == 60
    assert batch.use_milli.tolist() == [100, 300, 300, 500, 7, 8, 9]
    assert batch.request_cpu_milli.tolist() == [500, 9]


def test_arrivals_count_from_the_beginning_of_the_services() -> None:
    trace = table(
        services="time_s,pod,cpu_milli\n3660,a,1\n3720,a,1\n",
        batch="task,arrival_s,duration_s,cpu_milli\nearly,3000,60,1\nlate,3700,60,1\n",
    )
    assert trace.tasks is not None
    assert trace.tasks.arrival_s.tolist() == [0, 100]
    assert [(repair.count, "before the services" in repair.rule) for repair in trace.repairs] == [(1, True)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("task,arrival_s,cpu_milli\na,1,1\n", "batch.csv:1: must have either a column duration_s"),
        ("task,duration_s,cpu_milli\na,1,1\n", "batch.csv:1: column arrival_s or arrival_ms or arrival is missing"),
        ("task,arrival_s,duration_s,cpu_milli\na,1,1,1\na,2,2,2\n", "batch.csv:3: column task: task a stands twice"),
        ("task,arrival_s,duration_s,cpu_milli\na,1,0,1\n", "batch.csv:2: column duration_s: must be above 0 s"),
        ("task,arrival_s,duration_s,cpu_milli\na,1,1e12,1\n", "batch.csv:2: column duration_s: must be above 0 s"),
    ],
)
def test_batch_pods_that_cannot_be_are_refused(content: str, message: str) -> None:
    with pytest.raises(TraceFault) as refusal:
        table(batch=content)
    assert str(refusal.value).startswith(message)


def test_nodes_of_a_recording_have_their_last_size_and_their_mean_system_use() -> None:
    content = (
        "time_s,node,cpu_cores,memory_gib,pool,system_cpu_milli\n60,n1,4,8,,100\n120,n1,8,16,web,300\n120,n2,2,4,,\n"
    )
    nodes, system = read_nodes(csv(content, "nodes.csv"), Repairs())
    assert nodes is not None
    assert nodes.names == ("n1", "n2")
    assert nodes.cpu_milli.tolist() == [8000, 2000]
    assert nodes.memory_bytes.tolist() == [16 << 30, 4 << 30]
    assert nodes.pool == ("web", "")
    assert system is not None
    assert system.tolist() == [200, 0]


def test_a_node_that_stands_twice_or_has_no_cpu_is_refused() -> None:
    for lines, message in (
        ("n1,4,8\nn1,4,8\n", "3: column node: node n1 stands twice"),
        ("n1,0,8\n", "2: column cpu_c"),
    ):
        with pytest.raises(TraceFault, match=rf"nodes\.csv:{message}"):
            read_nodes(csv("node,cpu_cores,memory_gib\n" + lines, "nodes.csv"), Repairs())


SERVICES = "time_s,pod,cpu_milli,node\n60,a,1.5,n1\n60,b,2,n2\n120,a,3,n1\n120,b,4,n2\n"


def test_parquet_and_csv_say_the_same(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "services.csv").write_text(SERVICES)
    source = f"read_csv('{tmp_path}/csv/services.csv')"
    (tmp_path / "parquet").mkdir()
    duckdb.execute(f"COPY (FROM {source}) TO '{tmp_path}/parquet/services.parquet'")
    plain, packed = (read_recording(tmp_path / form).services for form in ("csv", "parquet"))
    assert plain is not None
    assert packed is not None
    assert (plain.ids, plain.node) == (packed.ids, packed.node)
    assert np.array_equal(plain.cpu_milli, packed.cpu_milli)


def test_parquet_may_have_timestamps_and_its_faults_name_the_row(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    cells = "TIMESTAMP '2026-01-01' + to_minutes(i) AS time, 'a' AS pod, if(i = 3, NULL, i) AS cpu_cores"
    times = f"SELECT {cells} FROM range(5) t(i)"
    duckdb.execute(f"COPY ({times}) TO '{tmp_path}/services.parquet'")
    with pytest.raises(TraceFault, match=r"services\.parquet:4: column cpu_cores: must not be empty"):
        read_recording(tmp_path)


def test_folders_without_a_recording_or_with_two_of_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFault, match=r"has no recording: it needs one of services\.csv, services\.csv\.gz"):
        read_recording(tmp_path)
    (tmp_path / "services.csv").write_text(SERVICES)
    (tmp_path / "services.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceFault, match=r"has services\.csv and services\.parquet: leave one out"):
        read_recording(tmp_path)
    (tmp_path / "services.csv").unlink()
    with pytest.raises(TraceFault, match=r"services\.parquet: is not Parquet"):
        read_recording(tmp_path)


def test_parquet_without_duckdb_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(BadInput, match=r'pip install "koord\[history\]"'):
        read_recording(tmp_path)


STREAMING = """
import resource, sys
from pathlib import Path
from koord.sim.live.traces import read_recording
folder = Path(sys.argv[1])
(folder / "few").mkdir()
(folder / "few" / "services.csv").write_text("time_s,pod,cpu_milli\\n60,a,1\\n120,a,1\\n")
read_recording(folder / "few")
used = sum(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), -1))
curves = read_recording(folder).services
print(curves.cpu_milli.shape, float(curves.cpu_milli.mean()))
"""


def test_a_file_larger_than_the_memory_is_read_in_a_stream(tmp_path: Path) -> None:
    """A file of 80 MB with 48 MiB left."""
    size = 0
    with (tmp_path / "services.csv").open("w") as file:
        file.write("time_s,pod,cpu_milli\n")
        for step in range(1, 201):
            size += file.write(
                "".join(f"{step * 60},{'namespace-of-a-long-name/' * 16}pod-{pod},5\n" for pod in range(1000))
            )
    assert size > 80_000_000
    answer = subprocess.run(
        [sys.executable, "-c", STREAMING, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "(1000, 200) 5.0\n"
