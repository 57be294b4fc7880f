"""Makes answers comparable: what differs between two runs of one server is replaced by stable words.

Uids, generated names, times, addresses and tokens become placeholders, equal where they were equal. Resource versions
become their rank among the versions that objects of this sequence had, so that equal stays equal and later stays
later; a list's version (any revision since the last write will do) becomes the newest object version it covers.
Managed fields are sorted without their times, since the server sorts them by the second. The descriptions of table
columns are prose, which each server may write for itself; resources in discovery are by name, since a served one more
or less is one difference; the diff of the real server's own Go structs, with which
some refusals end, is left out. Positions in Go source files depend on how the server was built.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.minicluster.apiserver.differential.client import Answer, dig
from tests.minicluster.apiserver.differential.steps import Sequence, Step

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b20(?:2[5-9]|3\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_GO_TIME = re.compile(r"\b20(?:2[5-9]|3\d)-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \+0000 (?:UTC|GMT)(?: m=\S+)?")
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
_CLUSTER_IP = re.compile(r"\b10\.(?:0\.0|9[6-9]\.\d{1,3}|1[01]\d\.\d{1,3})\.\d{1,3}\b")
_NODE_PORT = re.compile(r"(?<=\d:)3[012]\d{3}(?=/(?:TCP|UDP|SCTP))")
_AGE = re.compile(r"^(?:<invalid>|(?:\d+[ydhms])+)$")
_AGO = re.compile(r"\((?:\d+[ydhms])+ ago\)$")
_SERVER = re.compile(r"\b127\.0\.0\.1:\d+\b")
_SELF_TYPE = re.compile(r"\bselfType\d+")
_VERSION_IN_TEXT = re.compile(
    r"(resource version: ?|ResourceVersion in (?:precondition: |object meta: |the precondition \(|record \()"
    r"|current: )(\d+)"
)
_OLDEST = re.compile(r"(too old resource version: \d+ \()\d+")
_VERSION_INSIDE = re.compile(r'(resourceVersion\\*"?: ?\\*")(\d+)(?=\\*")')
_FAULT_LINES = re.compile(r"(: errors:\n)((?:  [^\n]*(?:\n(?=  ))?)+)")
_QUOTED_UID = re.compile(r'uid: "(<uid-\d+>)"')
_GO_DIFF = re.compile(r"\n@@ -\d+,\d+ \+\d+,\d+ @@\n(?:[ +@-][^\n]*\n)*")
_QUOTED_OBJECT = re.compile(r'(?<=Invalid value: )"(?:\{(?:[^"\\]|\\.)*\})"')
_SOURCE_POSITION = re.compile(r"(?<![\w./@~-])[\w./@~-]{1,300}\.go:\d+")
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"

Json = Any


def normal(sequence: Sequence, answers: list[Answer], variables: Mapping[str, str]) -> list[dict[str, Json]]:
    """The answers in the form that is recorded and compared."""
    words = _Words(variables, _prefixes(sequence))
    bodies = [_selected(step, answer.body) for step, answer in zip(sequence.steps, answers, strict=True)]
    for body in bodies:
        words.learn(body)
    made = []
    for step, answer, body in zip(sequence.steps, answers, bodies, strict=True):
        known: dict[str, Json] = {"request": f"{step.method} {step.path or step.background}", "code": answer.code}
        if answer.headers:
            known["headers"] = words.replaced(answer.headers)
        if answer.ended:
            known["ended"] = answer.ended
        known["body"] = _shape(body) if step.shape else words.replaced(body)
        made.append(known)
    return made


class _Words:
    """The placeholders of one sequence."""

    def __init__(self, variables: Mapping[str, str], prefixes: set[str]) -> None:
        self._uids: dict[str, str] = {}
        alternatives = "|".join(re.escape(prefix[:58]) for prefix in sorted(prefixes, key=len, reverse=True))
        self._generated = re.compile(f"({alternatives}){_SUFFIX}(?![a-z0-9])") if prefixes else None
        self._names: dict[str, str] = {}
        self._versions: list[int] = []
        self._literals = sorted(
            ((value, f"<{key}>") for key, value in variables.items() if key.startswith("webhook") and value),
            key=lambda pair: -len(pair[0]),
        )

    def learn(self, body: Json) -> None:
        """Collect the versions of objects and the names that the server made up."""
        versions: set[int] = set(self._versions)
        self._learn(body, versions)
        self._versions = sorted(versions)

    def _learn(self, value: Json, versions: set[int]) -> None:
        if isinstance(value, list):
            for item in value:
                self._learn(item, versions)
        if not isinstance(value, dict):
            return
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            version = metadata.get("resourceVersion")
            if isinstance(version, str) and version.isdigit() and "uid" in metadata:
                versions.add(int(version))
        for item in value.values():
            self._learn(item, versions)

    def replaced(self, value: Json, key: str = "") -> Json:
        if isinstance(value, dict):
            made = {name: self._field(name, item) for name, item in value.items()}
            if _is_list_metadata(value):
                made["resourceVersion"] = self._covered(int(value["resourceVersion"]))
            return made
        if isinstance(value, list):
            return [self.replaced(item) for item in value]
        if isinstance(value, str):
            return self._text(value)
        return value

    def _field(self, name: str, value: Json) -> Json:
        if name == "resourceVersion" and isinstance(value, str) and value.isdigit() and value != "0":
            return self._version(int(value))
        if name == "continue" and value:
            return "<continue>"
        if name in ("caBundle", "token") and value:
            return f"<{name}>"
        if name in ("nodePort", "healthCheckNodePort") and isinstance(value, int) and 30000 <= value <= 32767:
            return "<nodePort>"
        if name == "managedFields" and isinstance(value, list):
            return sorted((self.replaced(entry) for entry in value), key=_sorted_json)
        if name == "causes" and isinstance(value, list) and all(_is_conflict(cause) for cause in value):
            # The real server goes through the managers as its map gives them.
            return sorted(
                (self.replaced(cause) for cause in value), key=lambda cause: json.dumps(cause, sort_keys=True)
            )
        if name == "resources" and isinstance(value, list) and all("singularName" in each for each in value):
            return {each["name"]: self.replaced(each) for each in value}
        if name == "columnDefinitions" and isinstance(value, list):
            return [{**column, "description": "<prose>"} for column in value]
        if name == "cells" and isinstance(value, list):
            return [self._cell(cell) for cell in value]
        return self.replaced(value)

    def _cell(self, cell: Json) -> Json:
        """Ages grow: those of objects that were given an old date, too."""
        if not isinstance(cell, str):
            return self.replaced(cell)
        return "<age>" if _AGE.match(cell) else _AGO.sub("(<age> ago)", self._text(cell))

    def _covered(self, version: int) -> str:
        """A list's version: it moves with every write to the server, so only what it covers can be compared."""
        return f"rv-{bisect.bisect_right(self._versions, version)} or later"

    def _version(self, version: int) -> str:
        rank = bisect.bisect_right(self._versions, version)
        exact = rank > 0 and self._versions[rank - 1] == version
        return f"rv-{rank}" if exact else f"rv-{rank} or later"

    def _text(self, text: str) -> str:
        text = _QUOTED_OBJECT.sub(_sorted_inside, text)
        text = _without_templates(_GO_DIFF.sub("", text))
        # Faults of an applied configuration come as a Go map gives its fields.
        text = _FAULT_LINES.sub(lambda match: match[1] + "\n".join(sorted(match[2].split("\n"))), text)
        for literal, word in self._literals:
            text = text.replace(literal, word)
        # Uids first: a part of one may look like a made-up name.
        text = _UUID.sub(self._uid, text)
        if self._generated is not None:
            text = self._generated.sub(self._name, text)
        text = _QUOTED_UID.sub(r"uid: \1", text)
        text = _TIME.sub(lambda match: "<microtime>" if match[1] else "<time>", text)
        text = _GO_TIME.sub("<go time>", text)
        text = _JWT.sub("<jwt>", text)
        text = _SERVER.sub("<server>", text)
        text = _SELF_TYPE.sub("selfType", text)
        text = _SOURCE_POSITION.sub("<source position>", text)
        text = _OLDEST.sub(r"\1<version>", text)
        text = _VERSION_INSIDE.sub(lambda match: match[1] + self._version(int(match[2])), text)
        text = _VERSION_IN_TEXT.sub(lambda match: match[1] + self._version_in_text(match[2]), text)
        text = _NODE_PORT.sub("<nodePort>", text)
        return _CLUSTER_IP.sub("<clusterIP>", text)

    def _version_in_text(self, digits: str) -> str:
        known = int(digits) in self._versions
        return self._version(int(digits)) if known else digits if int(digits) < 100 or len(digits) > 8 else "<version>"

    def _name(self, match: re.Match[str]) -> str:
        return self._names.setdefault(match[0], f"{match[1]}<suffix-{len(self._names) + 1}>")

    def _uid(self, match: re.Match[str]) -> str:
        return self._uids.setdefault(match[0], f"<uid-{len(self._uids) + 1}>")


def _sorted_json(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _is_conflict(cause: Json) -> bool:
    return isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict"


def _sorted_inside(match: re.Match[str]) -> str:
    """A message may hold an object; the order of its keys tells nothing."""
    try:
        return json.dumps(json.dumps(json.loads(json.loads(match[0])), sort_keys=True), ensure_ascii=False)
    except ValueError:
        return match[0]


def _without_templates(text: str) -> str:
    """A pod template in a message has the names of Go's fields, which no client can know."""
    at = 0
    while (at := text.find("Invalid value: {", at)) >= 0:
        at += len("Invalid value: ")
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            continue
        if value.keys() & {"Spec", "spec"}:
            text = text[:at] + "<pod template>" + text[end:]
    return text


def _is_list_metadata(value: Mapping[str, Json]) -> bool:
    version = value.get("resourceVersion")
    return isinstance(version, str) and version.isdigit() and version != "0" and not value.keys() & {"uid", "name"}


def _prefixes(sequence: Sequence) -> set[str]:
    """Every generateName that the requests have."""
    found: set[str] = set()

    def look(value: Json) -> None:
        if isinstance(value, dict):
            if isinstance(prefix := value.get("generateName"), str) and prefix:
                found.add(prefix)
            for item in value.values():
                look(item)
        elif isinstance(value, list | tuple):
            for item in value:
                look(item)

    for step in sequence.steps:
        look(step.body)
    return found


def _selected(step: Step, body: Json) -> Json:
    if not step.only:
        return body
    return {path: dig(body, path) for path in step.only}


def _shape(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return type(value).__name__


def differences(want: Json, got: Json, path: str = "") -> list[str]:
    """Where two answers differ, one line each: `path: want ... got ...`."""
    if isinstance(want, dict) and isinstance(got, dict):
        found = []
        for key in [*want, *(key for key in got if key not in want)]:
            inner = f"{path}.{key}" if path else key
            if key not in got:
                found.append(f"{inner}: want {_brief(want[key])}, got nothing")
            elif key not in want:
                found.append(f"{inner}: want nothing, got {_brief(got[key])}")
            else:
                found.extend(differences(want[key], got[key], inner))
        return found
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [
            line
            for index, (left, right) in enumerate(zip(want, got, strict=True))
            for line in differences(left, right, f"{path}[{index}]")
        ]
    if want == got and type(want) is type(got):
        return []
    return [f"{path}: want {_brief(want)}\n{' ' * (len(path) + 2)}got  {_brief(got)}"]


def _brief(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1500 else f"{text[:1400]}… ({len(text)} characters)"
