"""Whom to move first, among pods that matter equally."""

from __future__ import annotations

from typing import Any

from koord.api.protocol.annotations.notice import CHECKPOINTED_AT
from koord.descheduler.importance import Importance, importance
from tests.descheduler.build import pod


def saved(name: str, at: str | None, **more: Any) -> tuple[str, Importance]:
    said = {} if at is None else {CHECKPOINTED_AT.key: at}
    return name, importance(pod(name, "n1", annotations=said, **more))


def test_among_equals_who_saved_its_work_last_goes_first_and_who_says_nothing_last() -> None:
    pods = [
        saved("silent", None),
        saved("garbled", "a minute ago"),
        saved("early", "2026-11-15T04:00:00Z"),
        saved("late", "2026-11-15T04:25:02Z"),
        saved("matters more", "2026-11-15T04:59:00Z", priority=9600),
    ]
    ranked = [name for name, _ in sorted(pods, key=lambda pod: pod[1])]
    assert ranked == ["late", "early", "silent", "garbled", "matters more"]
