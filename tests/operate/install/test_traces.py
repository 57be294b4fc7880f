"""What koord wrote on Nodes goes; what others wrote stays."""

from __future__ import annotations

from typing import Any

from koord.operate.install.traces import is_by_koord_alone, traces


def entry(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    return {"manager": manager, "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields}


NODE: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "uid": "u1",
        "managedFields": [
            entry("kubelet", {"f:status": {"f:allocatable": {"f:cpu": {}}}}, "status"),
            entry(
                "koord-manager",
                {
                    "f:status": {
                        "f:allocatable": {".": {}, "f:kubernetes.io/batch-cpu": {}},
                        "f:capacity": {"f:kubernetes.io/batch-cpu": {}},
                        "f:conditions": {'k:{"type":"YARN"}': {".": {}, "f:type": {}, "f:status": {}}},
                    }
                },
                "status",
            ),
            entry("koord-agent", {"f:metadata": {"f:annotations": {"f:koordinator.sh/last": {}}}}),
            entry("koord-descheduler", {"f:spec": {"f:unschedulable": {}}}),
            entry("kubectl", {"f:metadata": {"f:labels": {"f:pool": {}}}}),
        ],
    }
}


def test_exactly_the_fields_that_koords_components_own_are_taken_off() -> None:
    found = traces(NODE)
    assert found.object == {
        "metadata": {"uid": "u1", "annotations": {"koordinator.sh/last": None}},
        "spec": {"unschedulable": None},
    }
    assert found.status == {
        "metadata": {"uid": "u1"},
        "status": {
            "allocatable": {"kubernetes.io/batch-cpu": None},
            "capacity": {"kubernetes.io/batch-cpu": None},
            "conditions": [{"$patch": "delete", "type": "YARN"}],
        },
    }


def test_a_node_that_koord_never_wrote_on_is_left_alone() -> None:
    node = {"metadata": {"managedFields": [entry("kubelet", {"f:metadata": {"f:labels": {"f:a": {}}}})]}}
    found = traces(node)
    assert (found.object, found.status, found.names) == (None, None, ())


def test_an_object_is_koords_alone_if_nobody_else_wrote_on_it() -> None:
    mine = {"metadata": {"managedFields": [entry("koord-agent", {}), entry("koord-manager", {})]}}
    assert is_by_koord_alone(mine)
    assert not is_by_koord_alone(NODE)
    assert not is_by_koord_alone({"metadata": {}})
