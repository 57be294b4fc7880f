from __future__ import annotations

from collections import Counter
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from koord.api.core import Event
from koord.api.meta import ObjectMeta, ObjectReference
from koord.cli.up_view import view
from koord.up.bands import Room, Used, bars
from koord.up.picture import RECENT, Picture
from koord.up.plan import Component
from koord.up.run import Up
from koord.up.supervisor import Child


def shown(picture: Picture, *children: Child) -> str:
    supervisor = SimpleNamespace(children={child.name: child for child in children})
    up = cast("Up", SimpleNamespace(supervisor=supervisor, data=SimpleNamespace(path=Path("/d"))))
    console = Console(width=120, record=True, file=StringIO())
    console.print(view(up, picture, 1_700_000_100.0))
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
    assert "2 (last was ended by SIGKILL)" in text
    assert "3 Ready" in text
    assert "NotReady" not in text
    assert "7 Running" in text
    assert text.index("note of b") < text.index("note of a")


def test_an_empty_cluster_has_a_view_too() -> None:
    assert "none" in shown(Picture())


def test_of_many_events_the_newest_are_kept() -> None:
    from koord.kube.store import Delta

    picture = Picture()
    for number in range(59):
        made = event(f"e{number}", number)
        picture._hear_event(Delta(made.metadata.key, None, made))
    assert [each.metadata.name for each in picture.recent()] == [f"e{58 - number}" for number in range(RECENT)]
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
