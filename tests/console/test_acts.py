"""What previews say about settings."""

from __future__ import annotations

from koord.console.acts import changed_fields


def test_a_preview_names_the_fields_that_change() -> None:
    before = '{"enable":true,"percent":65,"nodeConfigs":[{"name":"web","enable":true},{"name":"batch","percent":70}]}'
    after = '{"enable":false,"percent":65,"nodeConfigs":[{"name":"web"},{"name":"batch","percent":70}],"by":"cpu"}'
    assert [(change.field, change.before, change.after) for change in changed_fields("config", before, after)] == [
        ("config: enable", "true", "false"),
        ("config: nodeConfigs[web].enable", "true", ""),
        ("config: by", "", "cpu"),
    ]
    assert [change.after for change in changed_fields("config", "", '{"enable":false}')] == ["false"]
    assert changed_fields("config", after, after) == []


def test_texts_that_are_no_json_are_shown_as_they_are() -> None:
    (change,) = changed_fields("config", "{broken", "{}")
    assert (change.field, change.before, change.after) == ("config", "{broken", "{}")
