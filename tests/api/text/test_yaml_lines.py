from __future__ import annotations

import random

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from koord.api.text import yaml, yaml_lines
from koord.api.text.yaml import YamlError, dump, load_all

POD = """\
# A pod as people write it.
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {}
  annotations:
    "example.com/quoted": 'it is'
    example.com/text: |
      two
        lines

spec:
  priority: 0
  nodeName:
  containers:
  - name: main
    image: shop/web:1
    args: []
    env:
      - name: DEBUG
        value: "yes"
      -   name: LONG
          value: a text that goes on
            in the next line
    resources:
      requests: {cpu: 100m}
  tolerations:
  - operator: Exists
  -
    key: batch
"""


def by_events(text: str) -> list[object] | str:
    """What the full reader makes of a text, or what it says against it."""
    try:
        return [document for document in yaml._Reader(text, "t.yaml").documents() if document is not None]
    except YamlError as error:
        return str(error)


def loaded(text: str) -> list[object] | str:
    try:
        return load_all(text, "t.yaml")
    except YamlError as error:
        return str(error)


def test_a_manifest_as_people_write_it_is_read_by_its_lines() -> None:
    assert yaml_lines.read(POD, yaml._alone) == pyyaml.safe_load(POD)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: 1\na: 2\n",
        "a: 1\n  b: 2\n",
        "a: |\n  text\n# no more text\n  text\n",
        "a: words\n# no more words\n  words\n",
        "a:\n  b: 1\n c: 2\n",
        "- a\nb: 1\n",
        "8080: a\n",
        "y: a\n",
        "<<: {a: 1}\n",
        "%YAML 1.2\n",
        "just words\n",
        "a: 1\n...\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_full_reader(text: str) -> None:
    with pytest.raises(yaml_lines.NotPlain):
        yaml_lines.read(text, yaml._alone)


def test_one_document_that_is_not_plain_leaves_the_others_as_they_are() -> None:
    assert loaded("a: 1\n---\nb: &x [1]\nc: *x\n---\n\n--- \nd: |+\n  text\n\n---\ne: |\n  text") == [
        {"a": 1},
        {"b": [1], "c": [1]},
        {"d": "text\n\n"},
        {"e": "text"},
    ]


def test_a_fault_in_a_later_document_is_told_with_its_line_in_the_text() -> None:
    assert loaded("a: 1\n---\nb: 1\nb: 2\n") == "t.yaml:4:1: the key 'b' is already set in line 3"


def test_empty_maps_and_lists_on_equal_lines_are_not_one_object() -> None:
    first, second = load_all("a: {}\n---\na: {}\n", "t.yaml")
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["a"] is not second["a"]


scalars = st.none() | st.booleans() | st.integers() | st.sampled_from([0.5, 1e300])
texts = st.text(max_size=12) | st.text(" \n:#-ab'\"&*", max_size=12)
keys = st.text("abc/.-: y1'", min_size=1, max_size=6)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "c", "spec"]), values, max_size=3)


@given(objects, st.integers(10, 80), st.booleans())
def test_what_others_dump_is_read_as_by_the_full_reader(value: object, width: int, flow: bool) -> None:
    text = pyyaml.safe_dump(value, width=width, default_flow_style=None if flow else False, allow_unicode=True)
    assert loaded(text) == by_events(text)


@given(objects)
def test_what_koord_dumps_is_read_as_by_the_full_reader(value: object) -> None:
    assert loaded(dump(value)) == by_events(dump(value))


KEYS = ("a", "b", "c", "d", "e", "f", "'k'", '"k"', "y", "1", "<<", "two words", "?", "é", "x/y.z-1")
SCALARS = (
    "", "", "1", "a", "two words", "'q'", '"d"', "|", "|-", "|+", ">", "{}", "[]", "{a: 1}", "[1, 2]", "&x 1", "*x",
    "!!str 1", "# note", "a # note", "a: b", "null", "~", "yes", "0644", "1e3", ".inf", "-", "--x", "-1", "? a", "a:",
    "'it''s'", '"a\\nb"', "'open", '"open', "é", "\t", "%x", "@x", "1:30", "x ", "a#b", "http://x:80/y", "[", "}",
)  # fmt: skip


def line(dice: random.Random) -> str:
    indent = " " * dice.choice((0, 0, 0, 1, 2, 2, 3, 4, 4))
    chance = dice.random()
    if chance < 0.1:
        return dice.choice(("", indent, f"{indent}# note", "---", "--- ", "--- a", "...", "--- # note"))
    if chance < 0.2:
        return indent + dice.choice(SCALARS)
    dashes = "".join(dice.choice(("- ", "-   ")) for _ in range(dice.choice((0, 0, 0, 0, 1, 1, 2))))
    if chance < 0.3:
        return f"{indent}{dashes}- {dice.choice(SCALARS)}"
    key = dice.choice(KEYS if dice.random() < 0.3 else KEYS[:6])
    return f"{indent}{dashes}{key}{dice.choice((':', ':', ': ', ' :'))} {dice.choice(SCALARS)}"


@pytest.mark.parametrize("seed", range(20))
def test_texts_of_any_lines_are_read_as_by_the_full_reader(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(500):
        text = "\n".join(line(dice) for _ in range(dice.randrange(1, 9))) + dice.choice(("", "\n", "\n\n"))
        if not text.lstrip().startswith("{"):
            assert repr(loaded(text)) == repr(by_events(text)), text
