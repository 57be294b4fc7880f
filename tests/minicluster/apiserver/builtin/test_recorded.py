"""Our strategies answer as a real server did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.minicluster.apiserver.builtin import ours, record
from tests.minicluster.apiserver.builtin.case import Case
from tests.minicluster.apiserver.builtin.record import DATA
from tests.minicluster.apiserver.builtin.tables_of_cases import TABLES

FILES = {name: json.loads((DATA / f"builtin_{name}.json").read_text()) for name in TABLES}
RECORDED = {name: file["answers"] for name, file in FILES.items()}
ALL = [(name, number, case) for name, table in TABLES.items() for number, case in enumerate(table)]


@pytest.mark.parametrize(("table", "number", "case"), ALL, ids=[case.id for _, _, case in ALL])
def test_answers_as_the_real_server_does(table: str, number: int, case: Case) -> None:
    theirs: dict[str, Any] = dict(RECORDED[table][case.id])
    if "causes" in theirs:
        theirs["causes"] = ours.comparable(theirs["causes"])
    assert ours.answer(case, number) == theirs


def test_every_case_has_a_name_of_its_own() -> None:
    for table in TABLES.values():
        ids = [case.id for case in table]
        assert len(ids) == len(set(ids))


@pytest.mark.cluster
def test_the_real_server_still_answers_as_recorded() -> None:
    with record.real_server() as server:
        if server.send("GET", "/version")[1]["gitVersion"] != FILES["pod"]["server"]:
            pytest.skip("recorded from another release")
        for name, table in TABLES.items():
            for number, case in enumerate(table):
                now, then = record.answer(server, case, number), dict(RECORDED[name][case.id])
                for each in (now, then):
                    if "causes" in each:
                        each["causes"] = ours.comparable(each["causes"])
                assert now == then, case.id
