"""Integers in texts of strangers: none has too many digits, and none of another script gets through."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import koord
import koord_minicluster
from koord.agent.qos.network_classes import bandwidth_bps
from koord.api.protocol.priority import SubPriorityError, sub_priority
from koord.api.text.whole_number import BEYOND, INT64_MOST, natural_number, whole_number
from koord.kube.health import parse_address
from koord.operate import since
from koord_minicluster.controllers import job_indexes, rollout
from koord_minicluster.controllers.share import share
from koord_minicluster.controllers.stateful_set import ordinal

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), (str(INT64_MOST), INT64_MOST), (str(INT64_MOST + 1), None), (LONG, None),
        ("0" * 5000 + "1", 1), ("", None), ("-1", None), ("+1", None), ("1_0", None), (" 1", None), ("²", None),
        ("٣", None),
    ],
)  # fmt: skip
def test_a_natural_number_has_nothing_but_digits_and_a_bound(text: str, number: int | None) -> None:
    assert natural_number(text) == number


def test_a_natural_number_may_have_a_bound_of_its_own() -> None:
    assert (natural_number("100", 100), natural_number("101", 100), natural_number("0", -1)) == (100, None, None)


def test_a_whole_number_beyond_64_bits_is_as_large_as_any() -> None:
    assert (whole_number(LONG), whole_number(f"-{LONG}"), whole_number("-12")) == (BEYOND, -BEYOND, -12)


@pytest.mark.parametrize(
    ("read", "meaning"),
    [
        (lambda text: rollout.number(text), None),
        (lambda text: job_indexes.parse(f"0-1,{text}", 3), {0, 1}),
        (lambda text: ordinal("web", f"web-{text}"), None),
        (lambda text: bandwidth_bps(f"{text}%", 1000), 0),
    ],
    ids=["revision", "completed indexes", "ordinal", "bandwidth"],
)
@pytest.mark.parametrize("text", [LONG, "²"], ids=["long", "script"])
def test_what_cannot_be_read_means_nothing(read: Callable[[str], Any], meaning: Any, text: str) -> None:
    assert read(text) == meaning


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (lambda: share(f"{LONG}%", 10, round_up=True), "neither a number nor a percentage"),
        (lambda: since.parse(f"{LONG}d"), "at most"),
        (lambda: parse_address(f"127.0.0.1:{LONG}"), "must be host:port"),
    ],
    ids=["percentage", "period", "address"],
)
def test_what_cannot_be_read_is_refused_in_words(read: Callable[[], object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read()


def test_a_sub_priority_has_a_bound() -> None:
    with pytest.raises(SubPriorityError):
        sub_priority({"koordinator.sh/priority": LONG})


def test_no_text_is_found_to_be_digits_and_then_read_without_a_bound() -> None:
    """Files of the kernel are no strangers; neither are lines that bound the length beside."""
    pattern = re.compile(r"is(?:digit|decimal|numeric)\(\).*[^a-z_]int\(|[^a-z_]int\(.*is(?:digit|decimal|numeric)\(\)")
    roots = (Path(koord.__file__).parent, Path(koord_minicluster.__file__).parent)
    suspects = {
        f"{path.relative_to(root)}: {line.strip()}"
        for root in roots
        for path in root.rglob("*.py")
        if not path.is_relative_to(root / "agent" / "host")
        for line in path.read_text().splitlines()
        if pattern.search(line) and "len(" not in line and "/proc" not in line
    }
    octal = "return chr(int(escape[1:], 8)) if kind.isdigit() else _SIMPLE_ESCAPES[kind]"
    assert suspects == {f"api/cel/literals.py: {octal}"}
