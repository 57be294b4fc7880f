"""Write the table of facts about Kubernetes' built-in kinds: koord/api/builtin_schemas/facts.json.

    python tools/builtin_schemas.py --openapi FOLDER --types CHECKOUT/staging/src/k8s.io [--out FILE]

FOLDER holds a server's `/openapi/v3/...` documents, one file each (`kubectl get --raw /openapi/v3/apis/apps/v1`).
The Go types add two things that OpenAPI does not say and that users see: which fields are written although they are
empty (no `omitempty`), and the names of types in the messages about malformed bodies. Only facts are kept, no prose.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

GROUPS = (
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "node.k8s.io", "policy",
    "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
)  # fmt: skip
REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
OWN_FORMS: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"t": "string", "f": "quantity"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"t": "any", "f": "int-or-string"},
    META + "Time": {"t": "string", "f": "date-time"},
    META + "MicroTime": {"t": "string", "f": "micro-time"},
    META + "Duration": {"t": "string", "f": "duration"},
    META + "FieldsV1": {"t": "object", "x": 1, "a": 1},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"t": "object", "x": 1, "f": "raw"},
    EXTENSIONS + "JSON": {"t": "any", "x": 1},
    EXTENSIONS + "JSONSchemaPropsOrBool": {"t": "any", "f": "schema-or-bool"},
    EXTENSIONS + "JSONSchemaPropsOrArray": {"t": "any", "f": "schema-or-array"},
    EXTENSIONS + "JSONSchemaPropsOrStringArray": {"t": "any", "f": "schema-or-strings"},
}
"""Types with a form of their own on the wire."""

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.S | re.M)
_NAMED = re.compile(r"^type (\w+) ((?:\[\]|map\[\w+\])?\*?[\w.]+)$", re.M)
_FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([^\s`]+)\s+`[^`]*json:\"([^\"]*)\"[^`]*`", re.M)
_COMMENT = re.compile(r"^\s*//.*$", re.M)
_LOCAL_TYPE = re.compile(r"^((?:\[\]|\*|map\[\w+\])*)(\w+)$")
_BASIC = frozenset(
    {
        "string", "bool", "int", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "byte",
        "interface{}", "any",
    }
)  # fmt: skip
_PACKAGES = {"metav1": "v1", "corev1": "v1", "core": "v1", "authenticationv1": "v1", "rbacv1": "v1", "apiv1": "v1"}


class Field(NamedTuple):
    """A field of a Go struct: its type as messages print it, its tag's options, and the embedded structs it is in."""

    go_type: str
    options: set[str]
    within: str


class GoTypes:
    """The struct fields and named types of Go packages, read as far as JSON needs them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packages: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def fields(self, definition: str) -> dict[str, Field]:
        """The fields of a struct and of those it embeds, by their names in JSON."""
        package, _, name = definition.rpartition(".")
        return self._fields_of(package, name)

    def kind_of(self, definition: str, go_type: str) -> str:
        """What a Go type is below its name: 'string', '[]string', 'struct', ... Pointers keep their star."""
        if go_type.startswith(("*", "[]", "map[")) or go_type in _BASIC:
            return go_type
        local = go_type.rpartition(".")[2]
        package = definition.rpartition(".")[0]
        for candidate in (package, "io.k8s.api.core.v1", META[:-1]):
            structs, named = self._package(candidate)
            if local in structs:
                return "struct"
            if local in named:
                return named[local]
        return "string" if local in ("UID", "NodeName", "NamespacedName") else "struct"

    def _fields_of(self, package: str, name: str, within: str = "") -> dict[str, Field]:
        structs, _ = self._package(package)
        fields: dict[str, Field] = {}
        for field, go_type, tag in _FIELD.findall(_COMMENT.sub("", structs.get(name, ""))):
            json_name, *options = tag.split(",")
            if "inline" in options or (not field and not json_name):
                qualifier, _, local = go_type.lstrip("*").rpartition(".")
                inner = META[:-1] if qualifier in ("metav1",) else "io.k8s.api.core.v1" if qualifier else package
                fields |= self._fields_of(inner, local, f"{within}{local}.")
            elif json_name != "-":
                fields[json_name] = Field(self._printed(go_type), set(options), within)
        return fields

    def _printed(self, go_type: str) -> str:
        if (match := _LOCAL_TYPE.match(go_type)) and match[2] not in _BASIC:
            return f"{match[1]}v1.{match[2]}"
        for alias, package in _PACKAGES.items():
            go_type = re.sub(rf"\b{alias}\.", f"{package}.", go_type)
        return go_type

    def _package(self, package: str) -> tuple[dict[str, str], dict[str, str]]:
        if package not in self._packages:
            folder = self._root / "/".join(package.removeprefix("io.k8s.").split("."))
            structs: dict[str, str] = {}
            named: dict[str, str] = {}
            for file in sorted(folder.glob("*.go")):
                if not file.name.endswith("_test.go") and not file.name.startswith("zz_"):
                    text = file.read_text()
                    structs.update(_STRUCT.findall(text))
                    named.update(_NAMED.findall(text))
            self._packages[package] = (structs, named)
        return self._packages[package]


def node(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in the table's short form."""
    out: dict[str, Any] = {}
    if "allOf" in schema and len(schema["allOf"]) == 1:
        schema = {**schema, **schema["allOf"][0]}
    if "$ref" in schema:
        out["r"] = schema["$ref"].removeprefix(REF)
    elif "type" in schema:
        out["t"] = schema["type"]
    else:
        out["t"] = "any"
    for key, short in (
        ("format", "f"), ("enum", "e"), ("x-kubernetes-list-map-keys", "k"), ("x-kubernetes-patch-merge-key", "m"),
        ("x-kubernetes-patch-strategy", "s"),
    ):  # fmt: skip
        if key in schema:
            out[short] = schema[key]
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        out["l"] = schema["x-kubernetes-list-type"]
    if schema.get("x-kubernetes-map-type") == "atomic":
        out["a"] = 1
    elif schema.get("x-kubernetes-map-type") == "granular" and "r" in out:
        out["a"] = 0
    if schema.get("default") not in (None, "", 0, False, {}):
        out["d"] = schema["default"]
    if "items" in schema:
        out["i"] = node(schema["items"])
    if "additionalProperties" in schema:
        out["v"] = node(schema["additionalProperties"])
    return out


def written(kind: str, go_type: str, options: set[str]) -> str:
    """When a field is written: n(ot when zero), a(lways), A(lways, null for nothing), or "" (whenever it is set)."""
    if go_type.startswith("*"):
        return "" if "omitempty" in options else "A"
    if "omitzero" in options:
        return ""
    if kind.startswith(("[]", "map[")):
        return "n" if "omitempty" in options else "A"
    if kind == "struct":
        return "a"
    return "n" if "omitempty" in options else "a"


def definition(name: str, schema: dict[str, Any], types: GoTypes) -> dict[str, Any]:
    if name in OWN_FORMS:
        return OWN_FORMS[name]
    out = node({key: value for key, value in schema.items() if key not in ("properties", "oneOf")})
    fields = types.fields(name)
    properties = {}
    for key, value in schema.get("properties", {}).items():
        short = node(value)
        if key in fields:
            field = fields[key]
            if w := written(types.kind_of(name, field.go_type), field.go_type, field.options):
                short["w"] = w
            short["g"] = field.go_type.lstrip("*")
            if field.within and key not in ("kind", "apiVersion"):
                short["u"] = field.within
        else:
            raise LookupError(f"no Go field for {name}.{key}")
        properties[key] = short
    if properties:
        out["p"] = properties
    if "required" in schema:
        out["q"] = schema["required"]
    return out


def documents(folder: Path) -> list[Path]:
    files = [folder / "api__v1.json"]
    for group in GROUPS:
        files += sorted(folder.glob(f"apis__{group}__v1.json"))
    return files


def collect(folder: Path, types: GoTypes) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for path in documents(folder):
        schemas |= json.loads(path.read_text())["components"]["schemas"]
    kinds, definitions = {}, {}
    for name, schema in sorted(schemas.items()):
        if "HorizontalPodAutoscaler" in name or name.startswith("io.k8s.api.autoscaling.v2"):
            continue
        gvks = schema.get("x-kubernetes-group-version-kind", [])
        if len(gvks) == 1:
            gvk = gvks[0]
            kinds["/".join((gvk["group"], gvk["version"], gvk["kind"]))] = name
        definitions[name] = definition(name, schema, types)
    return {"kinds": kinds, "definitions": definitions}


def render(facts: dict[str, Any]) -> str:
    """JSON with a line for each definition, so that a new release shows as a readable difference."""
    lines = []
    for section, table in facts.items():
        rows = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in table.items()]
        lines.append(f"{json.dumps(section)}:{{\n" + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openapi", type=Path, required=True)
    parser.add_argument("--types", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("koord/api/builtin_schemas/facts.json"))
    args = parser.parse_args()
    args.out.write_text(render(collect(args.openapi, GoTypes(args.types))))


if __name__ == "__main__":
    main()
