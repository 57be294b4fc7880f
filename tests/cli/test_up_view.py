from __future__ import annotations

from collections import Counter
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.samples import Sample
from rich.console import Console

from koord.api.kubernetes.core import Event
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.operate.bands import Room, Used, bars
from koord_minicluster.cli.up_view import view
from koord_minicluster.local.live.probes import ANSWERED
from koord_minicluster.up.picture import RECENT, Picture
from koord_minicluster.up.plan import Component
from koord_minicluster.up.run import Up
from koord_minicluster.up.supervisor import Child
from koord_minicluster.up.this_node import ThisNode, quantile

KUBECONFIG = Path("/d/kubeconfig")


def shown(
    picture: Picture,
    *children: Child,
    here: ThisNode | None = None,
    columns: int = 120,
    lines: int = 40,
    kubeconfig: Path = KUBECONFIG,
    link: str = "",
) -> str:
    supervisor = SimpleNamespace(children={child.name: child for child in children})
    up = cast(
        "Up", SimpleNamespace(supervisor=supervisor, data=SimpleNamespace(kubeconfig=kubeconfig, console_link=link))
    )
    console = Console(width=columns, height=lines, record=True, file=StringIO())
    console.print(view(up, picture, here or ThisNode(), 1_700_000_100.0, columns, lines))
    return console.export_text()


def event(name: str, second: int, **more: Any) -> Event:
    return Event(
        ObjectMeta(name=name, namespace="shop"),
        event_time=f"2023-11-14T22:13:{second:02}.000000Z",
        reason="Started",
        regarding=ObjectReference(kind="Pod", name=name),
        note=f"note of {name}",
        **more,
    )


def test_components_counts_and_events_are_shown() -> None:
    picture = Picture(Counter({"Ready": 3, "NotReady": 0}), Counter({"Running": 7, "Pending": 2}))
    picture.events = {"shop/a": event("a", 20), "shop/b": event("b", 40)}
    child = Child(Component("hollow", ()), "waiting", since_s=1_700_000_090.0, restarts=2, ended="was ended by SIGKILL")
    text = shown(picture, child)
    assert "hollow" in text
    assert "2 (by SIGKILL)" in text
    assert "3 Ready" in text
    assert "NotReady" not in text
    assert "7 Running" in text
    assert text.index("note of b") < text.index("note of a")


def full(events: int) -> tuple[Picture, list[Child], ThisNode]:
    """Everything that a view can have: all components, all bands, this machine as a node, long names."""
    picture = Picture(Counter({"Ready": 3}), Counter({"Running": 7}))
    picture.rooms = {"n1": Room(8000, 3000)}
    picture.used = {"n1": Used({"prod": 4000, "mid": 100, "batch": 10, "free": 1, "system": 1})}
    picture.look()
    for number in range(events):
        made = event(f"web-with-quite-a-long-name-6d4b75cb6d-{number}", number)
        picture.events[made.metadata.key] = made
    names = ("apiserver", "controllers", "scheduler", "manager", "descheduler", "hollow", "local", "agent")
    address = {"health": "https://127.0.0.1:12345"}
    ended = "was ended by SIGKILL"
    children = [Child(Component(name, ()), "ready", None, dict(address), 1, 1_700_000_090.0, ended) for name in names]
    here = ThisNode()
    here.look(answers(quick=1000, slow=1000), [])
    here.look(answers(quick=1100, slow=1000), [])
    return picture, children, here


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (80, 20), (60, 24)])
@pytest.mark.parametrize("events", [0, 2, 50])
def test_the_view_fits_the_screen_with_all_that_a_user_needs(columns: int, lines: int, events: int) -> None:
    picture, children, here = full(events)
    text = shown(picture, *children, here=here, columns=columns, lines=lines).splitlines()
    assert len(text) == lines
    assert max(map(len, text)) <= columns
    assert text[0] == "export KUBECONFIG=/d/kubeconfig"
    assert text[-1] == "Ctrl-C stops everything"
    for child in children:
        assert sum(line.startswith(f"{child.name} ") for line in text) == 1
    assert any("services answer" in line for line in text)
    # What an event says is readable, beside what it is about.
    notes = [line for line in text if "note of web-wi" in line and "Pod/web-with-qu" in line and "Started" in line]
    assert len(notes) >= min(events, 3)


def test_the_link_of_the_console_is_shown_whole() -> None:
    link = "http://127.0.0.1:40000/?token=" + 43 * "x"
    text = shown(Picture(), columns=60, lines=24, link=link)
    assert f"console: {link}" in "".join(line.strip() for line in text.splitlines()[:4])


def test_a_long_path_of_a_kubeconfig_is_shown_whole() -> None:
    path = Path("/" + "/".join(f"folder-{number}" for number in range(12)) + "/kubeconfig")
    text = shown(Picture(), columns=80, lines=24, kubeconfig=path)
    assert f"export KUBECONFIG={path}" in text.replace("\n", "")


def test_an_empty_cluster_has_a_view_too() -> None:
    assert "none" in shown(Picture())


def test_of_many_events_the_newest_are_kept() -> None:
    from koord.kube.store import Delta

    picture = Picture()
    for number in range(59):
        made = event(f"e{number}", number)
        picture._hear_event(Delta(made.metadata.key, None, made))
    assert [event.metadata.name for event in picture.recent()] == [f"e{58 - number}" for number in range(RECENT)]
    assert [event.metadata.name for event in picture.recent(2)] == ["e58", "e57"]
    assert len(picture.events) <= 4 * RECENT


def test_cpu_is_shown_by_band_with_its_course() -> None:
    picture = Picture()
    picture.rooms = {"n1": Room(8000, 3000), "n2": Room(8000, 1000)}
    picture.used = {"n1": Used({"prod": 4000, "batch": 0}), "n2": Used({"prod": 4000, "batch": 1600})}
    picture.look()
    picture.used["n1"] = Used({"prod": 0, "batch": 1600})
    picture.look()
    text = shown(picture)
    assert "4.0 of 16 cores are lent to batch pods" in text
    (prod,) = [line for line in text.splitlines() if line.startswith("prod")]
    assert prod.split()[1:3] == ["4.0", "25%"]
    assert prod.split()[3] == bars([0.5, 0.25])
    (batch,) = [line for line in text.splitlines() if line.startswith("batch")]
    assert batch.split()[1:3] == ["3.2", "20%"]
    assert "free" not in text


def answers(quick: int, slow: int, qos: str = "LS") -> list[Sample]:
    """N within 2 ms, N between 2 and 10."""
    counts = {"0.001": 0, "0.002": quick, "0.01": quick + slow, "+Inf": quick + slow}
    return [Sample(f"{ANSWERED}_bucket", {"qos": qos, "le": bound}, count) for bound, count in counts.items()]


def test_how_services_fare_beside_best_effort_is_shown() -> None:
    here = ThisNode()
    agent = [
        Sample("koordlet_be_cpu_milli", {"what": "used"}, 420.0),
        Sample("koordlet_be_cpu_milli", {"what": "limit"}, 450.0),
        Sample("koordlet_actions_total", {"by": "memory_evict", "what": "evict"}, 2.0),
    ]
    here.look(answers(quick=1000, slow=1000), agent)
    here.look([*answers(quick=1100, slow=1000), *answers(quick=0, slow=500, qos="BE")], agent)
    text = shown(Picture(), here=here)
    # All hundred answers since then came between 1 and 2 ms.
    assert "services answer their probes in 1.5 ms, 99% within 2.0 ms" in text
    assert "best effort uses 0.42 of the 0.45 cores that it may have; 2 evicted" in text


def test_a_node_that_began_anew_is_counted_from_there() -> None:
    here = ThisNode()
    here.look(answers(quick=0, slow=900), [])
    here.look(answers(quick=0, slow=0), [])
    assert here.answer_s(0.5) is None
    here.look(answers(quick=10, slow=0), [])
    assert here.answer_s(1.0) == 0.002


def test_beyond_the_largest_bound_nothing_is_made_up() -> None:
    assert quantile({0.1: 1, float("inf"): 10}, 0.99) == 0.1
    assert quantile({}, 0.5) is None


def test_bands_of_this_node_come_from_its_agent() -> None:
    pod = {"pod_namespace": "default", "qos": "LS", "resource": "cpu"}
    here = ThisNode()
    here.look([], [])
    assert here.used is None
    here.look(
        [],
        [
            Sample("koordlet_node_usage", {"resource": "cpu"}, 1.5),
            Sample("koordlet_node_usage", {"resource": "memory"}, 2.0**30),
            Sample("koordlet_pod_usage", {**pod, "pod_name": "web", "priority": "koord-prod"}, 0.5),
            Sample("koordlet_pod_usage", {**pod, "pod_name": "plain", "priority": ""}, 0.25),
            Sample("koordlet_pod_usage", {**pod, "pod_name": "job", "priority": "koord-batch"}, 0.625),
        ],
    )
    assert here.used == Used({"prod": 750, "mid": 0, "batch": 625, "free": 0, "system": 125})
