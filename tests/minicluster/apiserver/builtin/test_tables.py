"""Our tables, selectable fields and answers to deletes are those of a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord_minicluster.apiserver import tables
from koord_minicluster.apiserver.printing import human_duration
from tests.minicluster.apiserver.builtin.ours import resource_of
from tests.minicluster.apiserver.builtin.record import DATA

RECORDED = json.loads((DATA / "builtin_tables.json").read_text())
ROWS: dict[str, dict[str, Any]] = RECORDED["rows"]


@pytest.mark.parametrize("title", ROWS)
def test_a_row_has_the_columns_and_cells_of_the_real_server(title: str) -> None:
    theirs = ROWS[title]
    resource, obj = resource_of(theirs["object"]), theirs["object"]
    shown = tables.columns(resource)
    assert [[column.name, column.type, column.format, column.priority] for column in shown] == theirs["columns"]
    # The server read its clock at some time between the request and its answer.
    ours = [tables.table(resource, [obj], now_s)["rows"][0] for now_s in theirs["between_s"]]
    assert theirs["cells"] in [row["cells"] for row in ours]
    conditions = ours[0].get("conditions")
    assert [condition["reason"] for condition in conditions or ()] == [
        each["reason"] for each in theirs["conditions"] or ()
    ]
    assert ours[0]["object"]["kind"] == theirs["row_kind"]


@pytest.mark.parametrize("title", ROWS)
def test_a_delete_answers_with_the_object_where_the_real_server_does(title: str) -> None:
    theirs = ROWS[title]
    strategy = resource_of(theirs["object"]).strategy
    assert (strategy.returns_deleted or strategy.orphans_by_default) == (theirs["deleted"] != "Status")


@pytest.mark.parametrize("kind", RECORDED["fields"])
def test_the_selectable_fields_are_those_of_the_real_server(kind: str) -> None:
    objects = [row["object"] for row in ROWS.values()]
    sample = next(obj for obj in objects if f"{obj['apiVersion']} {obj['kind']}" == kind)
    resource = resource_of(sample)
    ours = {"metadata.name", *(resource.strategy.selectable or resource.strategy.fields(sample))}
    if resource.namespaced:
        ours.add("metadata.namespace")
    theirs = set(RECORDED["fields"][kind])
    assert ours - theirs == set()
    # No request for a cluster-wide kind has a namespace; the others are old names of pods' fields.
    assert theirs - ours <= {"metadata.namespace", "spec.host", "status.podIPs"}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (179 * 60 + 59, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 61, "3h1m"),
        (8 * 3600 + 1800, "8h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
    ],
)
def test_ages_get_coarser_as_they_grow(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_a_table_of_a_list_has_the_lists_version_and_that_of_an_object_its_own() -> None:
    obj = ROWS["ConfigMap: none"]["object"]
    resource = resource_of(obj)
    alone = tables.table(resource, [obj], 0.0)
    listed = tables.table(resource, [obj], 0.0, "None", "v1", {"resourceVersion": "7", "continue": "x"})
    assert alone["metadata"] == {"resourceVersion": obj["metadata"]["resourceVersion"]}
    assert listed["metadata"] == {"resourceVersion": "7", "continue": "x"}
    assert listed["rows"][0]["object"] is None
    assert tables.table(resource, [obj], 0.0, "Object")["rows"][0]["object"] == obj


def test_partial_metadata_is_the_metadata_alone() -> None:
    obj = ROWS["ConfigMap: three keys"]["object"]
    shown = tables.partial(obj, "v1beta1")
    assert shown == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": obj["metadata"],
    }
