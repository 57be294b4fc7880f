"""Write the numbers of the fields in Kubernetes' protobuf messages: protobuf.json of the API server.

    python tools/protobuf_facts.py FOLDER [--out FILE]

FOLDER has the published `generated.proto` files below it (k8s.io/api, k8s.io/apimachinery). Kept are, per message and
field number: the name, the type, and whether it repeats or is a map. Only what the served kinds need; no prose.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

GROUPS = (
    "admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "coordination", "core",
    "discovery", "events", "node", "policy", "rbac", "scheduling", "storage",
)  # fmt: skip
META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.S | re.M)
_FIELD = re.compile(r"^\s*(optional|repeated)?\s*(map<\w+, [.\w]+>|[.\w]+) (\w+) = (\d+);", re.M)
_PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
_SCALARS = {"string": "s", "bytes": "b", "bool": "o", "int32": "i", "int64": "i", "uint32": "i", "double": "d"}

_ODD_NAMES = {"Webhooks": "webhooks", "uID": "uid"}
"""Where the name on the wire is not the one in JSON."""

Message = dict[str, list[str]]


def read(file: Path) -> dict[str, Message]:
    """The messages of a file, by full name; a field is `number: [name, type]`, `*` marks repeated, `%` a map."""
    text = file.read_text()
    match = _PACKAGE.search(text)
    if match is None:
        return {}
    package = match[1]
    return {
        f"{package}.{name}": {
            number: [_ODD_NAMES.get(field, field), _type(package, label, kind)]
            for label, kind, field, number in _FIELD.findall(body)
        }
        for name, body in _MESSAGE.findall(text)
    }


def _type(package: str, label: str, kind: str) -> str:
    if kind.startswith("map<"):
        return "%" + _named(package, kind[4:-1].split(", ")[1])
    return ("*" if label == "repeated" else "") + _named(package, kind)


def _named(package: str, kind: str) -> str:
    if kind in _SCALARS:
        return _SCALARS[kind]
    return kind.lstrip(".") if "." in kind else f"{package}.{kind}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--out", type=Path, default=Path("workshop/minicluster/koord_minicluster/apiserver/bodies/protobuf.json")
    )
    options = parser.parse_args()
    messages: dict[str, Message] = {}
    for file in sorted(options.folder.rglob("generated.proto")):
        messages.update(read(file))
    wanted = [
        name
        for name in messages
        if name.startswith((META, "k8s.io.apimachinery.pkg.runtime"))
        or any(re.match(rf"k8s\.io\.api\.{group}\.v\d+\.", name) for group in GROUPS)
    ]
    kept: dict[str, Message] = {}
    while wanted:
        name = wanted.pop()
        if name in kept or name not in messages:
            continue
        kept[name] = messages[name]
        wanted += [kind.lstrip("*%") for _, kind in messages[name].values()]
    short = {
        name: {number: ":".join(field) for number, field in fields.items()} for name, fields in sorted(kept.items())
    }
    options.out.write_text(json.dumps(short, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
