"""Keys of labels and annotations that are nearly the protocol's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from koord.api.protocol import names
from koord.api.protocol.misspelt_keys import MOST_COMPARED, misspelt, misspelt_keys
from koord.api.text.manifest import parse, read

POD = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {%s: LS}}, spec: {containers: []}}"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("koordinator.sh/qosclass", "koordinator.sh/qosClass"),
        ("koordinater.sh/qosClass", "koordinator.sh/qosClass"),
        ("koordinator.sh/reservation-affinity", "scheduling.koordinator.sh/reservation-affinity"),
        ("gang.scheduling.koordinator.sh/min-availble", "gang.scheduling.koordinator.sh/min-available"),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest_of_the_protocol(key: str, near: str) -> None:
    assert list(misspelt([key])) == [(key, near)]


def test_keys_of_the_protocol_and_of_others_are_no_mistakes() -> None:
    ours = [key for key in vars(names).values() if isinstance(key, str) and "koordinator.sh/" in key]
    others = ["app", "example.com/qosclass", "koordinator.sh/team", "koordinator.sh/a-new-feature"]
    assert list(misspelt([*ours, *others])) == []


def test_the_examples_have_no_misspelt_keys() -> None:
    assert not [str(warning) for warning in read([EXAMPLES]).warnings if "does not know this key" in str(warning)]


def test_an_object_with_thousands_of_made_up_keys_costs_little() -> None:
    keys = {f"koordinator.sh/{i}-{'min-available' * 4}": "" for i in range(5000)}
    before = time.process_time()
    assert list(misspelt_keys({"annotations": keys})) == []
    assert time.process_time() - before < 1.0, f"{MOST_COMPARED} keys are compared"


def test_a_manifest_warns_of_it_and_a_strict_reader_refuses_it() -> None:
    said = (
        "metadata.labels[koordinator.sh/qosclass]: koord does not know this key (did you mean koordinator.sh/qosClass?)"
    )
    found = parse(POD % "koordinator.sh/qosclass", "f")
    assert (len(found.items), found.faults) == (1, ())
    assert [str(warning.fault) for warning in found.warnings] == [said]
    strict = parse(POD % "koordinator.sh/qosclass", "f", strict=True)
    assert [str(fault.fault) for fault in strict.faults] == [said]
