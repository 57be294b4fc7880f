"""JSON patches and merge patches, each on one of the bases: (name, base, type, patch)."""

from __future__ import annotations

from typing import Any

_MANY = [{"op": "test", "path": "/data/a", "value": "1"}]

JSON_CASES: list[tuple[str, str, Any]] = [
    ("nothing", "configmap", []),
    ("null", "configmap", None),
    ("add", "configmap", [{"op": "add", "path": "/data/c", "value": "3"}]),
    ("add over", "configmap", [{"op": "add", "path": "/data/a", "value": "3"}]),
    ("add where the parent is not", "configmap", [{"op": "add", "path": "/nope/x", "value": "3"}]),
    ("add without value", "configmap", [{"op": "add", "path": "/data/c"}]),
    ("add at the root", "configmap", [{"op": "add", "path": "", "value": {}}]),
    ("remove", "configmap", [{"op": "remove", "path": "/data/a"}]),
    ("remove what is not", "configmap", [{"op": "remove", "path": "/data/nope"}]),
    ("replace", "configmap", [{"op": "replace", "path": "/data/a", "value": "9"}]),
    ("replace what is not", "configmap", [{"op": "replace", "path": "/data/nope", "value": "9"}]),
    ("replace all labels", "configmap", [{"op": "replace", "path": "/metadata/labels", "value": {"x": "y"}}]),
    ("escaped slash", "configmap", [{"op": "add", "path": "/metadata/labels/example.com~1x", "value": "y"}]),
    ("escaped tilde", "configmap", [{"op": "add", "path": "/metadata/annotations/a~0b", "value": "y"}]),
    ("escapes in turn", "configmap", [{"op": "test", "path": "/metadata/annotations/a~01b", "value": "y"}]),
    ("test that holds", "configmap", [{"op": "test", "path": "/data/a", "value": "1"}]),
    ("test that fails", "configmap", [{"op": "test", "path": "/data/a", "value": 1}]),
    ("test of what is not against null", "configmap", [{"op": "test", "path": "/data/nope", "value": None}]),
    ("test of what is not", "configmap", [{"op": "test", "path": "/data/nope", "value": "x"}]),
    ("test without value", "configmap", [{"op": "test", "path": "/data/a"}]),
    ("test of a map", "configmap", [{"op": "test", "path": "/data", "value": {"b": "2", "a": "1"}}]),
    ("test then add", "configmap", [*_MANY, {"op": "add", "path": "/data/c", "value": "3"}]),
    ("failing test undoes all", "configmap", [
        {"op": "add", "path": "/data/c", "value": "3"}, {"op": "test", "path": "/data/a", "value": "no"}]),
    ("copy", "configmap", [{"op": "copy", "from": "/data/a", "path": "/data/c"}]),
    ("copy from what is not", "configmap", [{"op": "copy", "from": "/data/nope", "path": "/data/c"}]),
    ("copy without from", "configmap", [{"op": "copy", "path": "/data/c"}]),
    ("move", "configmap", [{"op": "move", "from": "/data/a", "path": "/data/c"}]),
    ("move from what is not", "configmap", [{"op": "move", "from": "/data/nope", "path": "/data/c"}]),
    ("unknown operation", "configmap", [{"op": "merge", "path": "/data/c", "value": "x"}]),
    ("no operation", "configmap", [{"path": "/data/c", "value": "x"}]),
    ("no path", "configmap", [{"op": "add", "value": "x"}]),
    ("no slash", "configmap", [{"op": "add", "path": "x/immutable", "value": True}]),
    ("an object", "configmap", {"op": "add"}),
    ("a text in the list", "configmap", ["add"]),
    ("a number as path", "configmap", [{"op": "add", "path": 1, "value": "x"}]),
    ("a number as op", "configmap", [{"op": 1, "path": "/a", "value": "x"}]),
    ("through a text", "configmap", [{"op": "add", "path": "/data/a/b", "value": "x"}]),
    ("append", "podtemplate", [{"op": "add", "path": "/template/spec/containers/0/args/-", "value": "-c"}]),
    ("insert", "podtemplate", [{"op": "add", "path": "/template/spec/containers/0/args/0", "value": "-c"}]),
    ("insert at the end", "podtemplate", [{"op": "add", "path": "/template/spec/containers/0/args/2", "value": "-c"}]),
    ("insert beyond", "podtemplate", [{"op": "add", "path": "/template/spec/containers/0/args/3", "value": "-c"}]),
    ("insert from the end", "podtemplate", [
        {"op": "add", "path": "/template/spec/containers/0/args/-1", "value": "-c"}]),
    ("replace from the end", "podtemplate", [
        {"op": "replace", "path": "/template/spec/containers/0/args/-1", "value": "-c"}]),
    ("remove an item", "podtemplate", [{"op": "remove", "path": "/template/spec/containers/1"}]),
    ("remove beyond", "podtemplate", [{"op": "remove", "path": "/template/spec/containers/2"}]),
    ("remove the item after the last", "podtemplate", [{"op": "remove", "path": "/template/spec/containers/-"}]),
    ("index that is no number", "podtemplate", [
        {"op": "replace", "path": "/template/spec/containers/x/image", "value": "i"}]),
    ("index with zeros", "podtemplate", [
        {"op": "replace", "path": "/template/spec/containers/00/image", "value": "i"}]),
    ("replace beyond", "podtemplate", [{"op": "replace", "path": "/template/spec/containers/0/args/2", "value": "x"}]),
    ("move an item", "podtemplate", [
        {"op": "move", "from": "/template/spec/containers/0", "path": "/template/spec/containers/1"}]),
    ("copy an item and rename", "podtemplate", [
        {"op": "copy", "from": "/template/spec/containers/1", "path": "/template/spec/containers/-"},
        {"op": "replace", "path": "/template/spec/containers/2/name", "value": "copy"}]),
]  # fmt: skip

MERGE_CASES: list[tuple[str, str, Any]] = [
    ("nothing", "configmap", {}),
    ("null", "configmap", None),
    ("a list", "configmap", [1]),
    ("a text", "configmap", "x"),
    ("add, change, remove", "configmap", {"data": {"a": None, "b": "9", "c": "3"}}),
    ("remove what is not", "configmap", {"data": {"nope": None}}),
    ("remove all", "configmap", {"data": None}),
    ("nulls in what is new", "configmap", {"binaryData": {"x": "AAE=", "y": None}}),
    ("lists are replaced", "podtemplate", {"template": {"spec": {"containers": [{"name": "only", "image": "i"}]}}}),
    ("scalars in lists", "podtemplate", {"metadata": {"finalizers": ["example.com/z"]}}),
    ("a map over a text", "configmap", {"data": {"a": {"b": "c"}}}),
    ("deep", "deployment", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}, "replicas": 1}}),
]
