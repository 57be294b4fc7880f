from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.faults import Invalid
from koord_minicluster.hollow.load_model import Band, Course, NodeShape, PodShape, SeededLoad, Usage
from koord_minicluster.hollow.load_replay import ReplayedLoad, read_replay

GI = 1024**3
SEEDED = SeededLoad(1)
FILE = """time_s,target,cpu,memory
# what the shop did on a Tuesday
0,app:shop/web,60%,1Gi
300,app:shop/web,2500m,1.5Gi
0,pod:shop/web-0,2,50%
600,pod:shop/web-0,1,25%
0,node:n1,500m,10%
"""


def replay(text: str = FILE, start_s: float = 1000.0) -> ReplayedLoad:
    return read_replay(text.splitlines(), "load.csv", course=Course(start_s), otherwise=SEEDED)


def shape(key: str, app: str = "shop/web", limit: int = 0) -> PodShape:
    return PodShape(key, key, app, Band.SERVICE, Usage(1000, 2 * GI), Usage(limit, 0), 0.0)


@pytest.mark.parametrize(
    ("after_s", "cpu", "memory"),
    [
        (0, 600, GI),  # 60% of a request of 1000m
        (299, 600, GI),
        (300, 2500, 3 * GI // 2),
        (899, 2500, 3 * GI // 2),
        (900, 600, GI),  # the file ends at 600 s; what is said there holds 300 s, as what was said before it did
        (1200, 2500, 3 * GI // 2),
    ],
)
def test_a_value_holds_until_the_next_and_the_end_leads_to_the_beginning(after_s: int, cpu: int, memory: int) -> None:
    assert replay().of_pod(shape("shop/web-1"), 1000.0 + after_s) == Usage(cpu, memory)


def test_a_pods_own_rows_go_before_its_apps() -> None:
    assert replay().of_pod(shape("shop/web-0"), 1000.0) == Usage(2000, GI)


def test_a_limit_holds_in_a_replay_too() -> None:
    assert replay().of_pod(shape("shop/web-1", limit=700), 1300.0).cpu_milli == 700


def test_what_the_file_does_not_name_follows_the_model() -> None:
    other, node = shape("bank/db", app="bank/db"), NodeShape("n2", Usage(32_000, 64 * GI))
    assert replay().of_pod(other, 5000.0) == SEEDED.of_pod(other, 5000.0)
    assert replay().of_system(node, 5000.0) == SEEDED.of_system(node, 5000.0)


def test_a_nodes_rows_are_what_runs_outside_of_pods() -> None:
    assert replay().of_system(NodeShape("n1", Usage(8000, 10 * GI)), 1000.0) == Usage(500, GI)


@given(now_s=st.floats(min_value=0, max_value=1e10), start_s=st.floats(min_value=0, max_value=1e10))
def test_any_time_has_one_of_the_values_in_the_file(now_s: float, start_s: float) -> None:
    assert replay(start_s=start_s).of_pod(shape("shop/web-1"), now_s).cpu_milli in (600, 2500)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x,pod:a/b,1,1", "line 2: time_s is 'x'; it must be a number of seconds"),
        ("-1,pod:a/b,1,1", "line 2: time_s is '-1'"),
        ("nan,pod:a/b,1,1", "line 2: time_s is 'nan'"),
        ("0,web,1,1", "line 2: target is 'web'; it must be pod:NAMESPACE/NAME"),
        ("0,pod:web,1,1", "line 2: target is 'pod:web'"),
        ("0,node:a/b,1,1", "line 2: target is 'node:a/b'"),
        ("0,pod:a/b,one,1", "line 2: cpu is 'one'"),
        ("0,pod:a/b,1,-1Gi", "line 2: memory is '-1Gi'; it must not be negative"),
        ("0,pod:a/b,x%,1", "line 2: cpu is 'x%'"),
        ("0,pod:a/b,1", "line 2: must have 4 cells"),
    ],
)
def test_a_bad_line_is_named_with_what_would_be_right(line: str, told: str) -> None:
    with pytest.raises(Invalid) as caught:
        replay(f"time_s,target,cpu,memory\n{line}\n")
    assert str(caught.value).startswith("load.csv: ")
    assert told in str(caught.value)


def test_all_bad_lines_are_told_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        replay("time_s,target,cpu,memory\n0,web,1,1\n0,pod:a/b,1,1\n5,pod:a/b,1,?\n0,pod:a/b,2,2\n")
    assert [fault.path for fault in caught.value.faults] == ["line 2", "line 4", "line 5"]


@pytest.mark.parametrize("text", ["", "time,target,cpu,memory\n0,pod:a/b,1,1\n", "time_s,target,cpu,memory\n"])
def test_a_file_without_header_or_rows_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        replay(text)
