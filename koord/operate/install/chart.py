"""The Helm chart: templates that render the objects of `objects.desired`, made from that function itself.

The objects are made for the plain settings, and again for each choice that a user has. Where the two differ, the
template has a condition. So the chart has the same objects as `koord install`, and a new right, mount or object needs
no further work. Copied values (the image, for example) stand in the objects as marks that become expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from koord.api.configuration.features import Gate
from koord.api.protocol import names
from koord.api.text.yaml import dump
from koord.operate.install.extras import EXTRAS
from koord.operate.install.manifest import COMPONENT, Json, Key, key_of, labels_of, metadata_of
from koord.operate.install.node_agent import CAPABILITIES, MOUNTS
from koord.operate.install.objects import desired
from koord.operate.install.rights import BY_COMPONENT
from koord.operate.install.settings import COMPONENTS, MOST_REPLICAS, Component, Settings
from koord.operate.install.template import If, lines, merged

_NAMESPACE: Final = "release-namespace-mark"
_GATES: Final = "--feature-gates"
_PLAIN: Final = Settings(
    image="image-mark", version="version-mark", namespace=_NAMESPACE, replicas=7, pull_policy="Never"
)

_MARKS: Final[Mapping[str, str]] = {
    "image: image-mark": 'image: {{ .Values.image | default (printf "koord:%s" .Chart.AppVersion) | quote }}',
    "version-mark": "{{ .Chart.AppVersion | quote }}",
    _NAMESPACE: "{{ .Release.Namespace }}",
    "replicas: 7": "replicas: {{ .Values.replicas }}",
    "imagePullPolicy: Never": "imagePullPolicy: {{ .Values.pullPolicy }}",
    "- name: secret-mark": "{{- range .Values.pullSecrets }}\n      - name: {{ . | quote }}\n      {{- end }}",
    '\\"enable\\":false': '\\"enable\\":{{ .Values.colocation }}',
}
_HELPERS: Final = """\
{{- define "koord.gates" -}}
{{- $given := list -}}
{{- range $gate, $on := . -}}{{- $given = append $given (printf "%s=%t" $gate $on) -}}{{- end -}}
{{- join "," $given -}}
{{- end -}}
"""
_OF_NAMESPACES: Final = ("Namespace", "Role", "RoleBinding")
"""There is one fewer of each if koord's namespace is also that of its configuration."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart: its default, its schema and its description."""

    default: object
    schema: Json
    what: str


def chart_values() -> dict[str, Value]:
    """The settings of `koord install`, except for the namespace, which Helm sets."""
    text: Json = {"type": "string"}
    component_names = [component.name for component in COMPONENTS]
    able = [component.name for component in COMPONENTS if component.configurable]
    gates: Json = {component.name: _gate_schema(component.gates) for component in COMPONENTS}
    configurations: Json = dict.fromkeys(able, text)
    one_of: Json = {"enum": sorted(EXTRAS)} if EXTRAS else text
    return {
        "image": Value("", text, "Image of all components; koord:APP-VERSION if empty."),
        "pullPolicy": Value("IfNotPresent", {"enum": ["Always", "IfNotPresent", "Never"]}, "When it is pulled."),
        "pullSecrets": Value([], {"type": "array", "items": text}, "Names of Secrets to pull it with."),
        "components": Value(
            component_names,
            {"type": "array", "items": {"enum": component_names}, "uniqueItems": True},
            "What is installed.",
        ),
        "replicas": Value(2, {"type": "integer", "minimum": 1, "maximum": MOST_REPLICAS}, "Of each Deployment."),
        "featureGates": Value({}, _closed(gates), "By component, as in {agent: {BEMemoryEvict: true}}."),
        "configurations": Value(
            {}, _closed(configurations), f"By component ({', '.join(able)}), its configuration file."
        ),
        "colocation": Value(False, {"type": "boolean"}, "Whether co-location is on from the start."),
        "oldKubelets": Value(False, {"type": "boolean"}, "Whether kubelets are older than 1.33."),
        "extras": Value([], {"type": "array", "items": one_of}, "Further parts, as koord install --with."),
        "createNamespaces": Value(
            False, {"type": "boolean"}, "Whether the release makes its namespaces; not with --create-namespace."
        ),
    }


def _gate_schema(gates: type[Gate]) -> Json:
    return _closed({gate.gate: {"type": "boolean"} for gate in gates})


def _closed(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def chart(version: str) -> dict[str, str]:
    """The files of the chart, by path."""
    head = {
        "apiVersion": "v2",
        "name": "koord",
        "description": "Co-location for Kubernetes: batch jobs on what services leave.",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.29.0-0",
    }
    values = chart_values()
    # Helm adds `global` by itself.
    checked = {"$schema": "http://json-schema.org/draft-07/schema#"} | _closed(
        {"global": {}, **{name: value.schema for name, value in values.items()}}
    )
    return {
        "Chart.yaml": dump(head),
        "values.yaml": "\n".join(f"# {value.what}\n{dump({name: value.default})}" for name, value in values.items()),
        "values.schema.json": msgspec.json.format(msgspec.json.encode(checked), indent=2).decode() + "\n",
        "templates/_helpers.tpl": _HELPERS,
        **{f"templates/{name}.yaml": text for name, text in _templates().items()},
    }


def _templates() -> dict[str, str]:
    templates: dict[str, str] = {}
    here = f'eq .Release.Namespace "{names.NAMESPACE_KOORDINATOR}"'
    own = replace(_PLAIN, namespace=names.NAMESPACE_KOORDINATOR)
    for settings, condition in ((_PLAIN, f"not ({here})"), (own, here)):
        for key, manifest in _with_choices(settings).items():
            if key.kind in _OF_NAMESPACES:
                manifest = If(condition, manifest)
            elif settings is own:
                continue
            name = _file(key, manifest)
            templates[name] = templates.get(name, "") + _document(key, manifest)
    return templates


def _with_choices(plain: Settings) -> dict[Key, object]:
    """Every object that any choice includes, with its conditions."""
    objects: dict[Key, object] = {}
    for manifest in desired(plain):
        objects[key_of(manifest)] = manifest
    for settings, condition in _choices(plain):
        for manifest in desired(settings):
            manifest, key = _marked(manifest, settings), key_of(manifest)
            objects[key] = merged(objects[key], manifest, condition) if key in objects else If(condition, manifest)
    return objects


def _choices(plain: Settings) -> Iterator[tuple[Settings, str]]:
    yield replace(plain, old_kubelets=True), ".Values.oldKubelets"
    yield replace(plain, pull_secrets=("secret-mark",)), ".Values.pullSecrets"
    for component in COMPONENTS:
        matter = _gates_that_matter(component)
        for gate in matter:
            assert not gate.default, f"{gate}: the chart takes gates for off unless they are given"
            settings = replace(plain, gates={component.name: f"{gate}=true"})
            yield settings, f'dig "{component.name}" "{gate}" false .Values.featureGates'
        idle = next(gate for gate in component.gates if gate not in matter)
        text = replace(plain, gates={component.name: f"{idle}={str(idle.default).lower()}"})
        yield text, f'index .Values.featureGates "{component.name}"'
        if component.configurable:
            settings = replace(plain, configurations={component.name: f"configuration-mark-{component.name}"})
            yield settings, f'index .Values.configurations "{component.name}"'
    for name in sorted(EXTRAS):
        yield replace(plain, extras=(name,)), f'has "{name}" .Values.extras'


def _gates_that_matter(component: Component) -> list[Gate]:
    """Gates that change objects beyond the command-line option that lists them."""
    gates: list[Gate] = [right.gate for right in BY_COMPONENT[component.name] if right.gate is not None]
    gates += [gate for line in (*CAPABILITIES, *MOUNTS) for gate in line.gates if isinstance(gate, component.gates)]
    return list(dict.fromkeys(gates))


def _marked(manifest: Json, settings: Settings) -> Json:
    """The option that names the gates comes by one condition, with a mark in place of the gates."""
    text = msgspec.json.encode(manifest).decode()
    for name, gates in settings.gates.items():
        option = f'"{_GATES}","{gates}"'
        component = next(component for component in COMPONENTS if component.name == name)
        matters = any(f"{gate}=" in gates for gate in _gates_that_matter(component))
        text = text.replace(f",{option}", "" if matters else f',"{_GATES}","gates-mark-{name}"')
    marked: Json = msgspec.json.decode(text)
    return marked


def _file(key: Key, manifest: object) -> str:
    while isinstance(manifest, If):
        manifest = manifest.part
    if key.kind == "CustomResourceDefinition":
        return "kinds"
    return str(labels_of(manifest).get(COMPONENT, "cluster")) if isinstance(manifest, Mapping) else "cluster"


def _document(key: Key, manifest: object) -> str:
    conditions = []
    while isinstance(manifest, If):
        conditions.append(manifest.condition)
        manifest = manifest.part
    assert isinstance(manifest, Mapping)
    component = labels_of(manifest).get(COMPONENT)
    if component in BY_COMPONENT:
        conditions.append(f'has "{component}" .Values.components')
    if key.kind == "Namespace":
        conditions.append(".Values.createNamespaces")
    if key.kind == "CustomResourceDefinition":
        manifest = _outliving(manifest)
    text = "\n".join(lines(manifest))
    for mark, expression in _MARKS.items():
        text = text.replace(mark, expression)
    for part in COMPONENTS:
        gates = f'{{{{ include "koord.gates" (index .Values.featureGates "{part.name}") | quote }}}}'
        given = f'{{{{ index .Values.configurations "{part.name}" | toJson }}}}'
        text = text.replace(f"gates-mark-{part.name}", gates).replace(f"configuration-mark-{part.name}", given)
    text = f"---\n{text}\n"
    for condition in conditions:
        text = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _outliving(definition: Mapping[str, object]) -> Json:
    """Kinds and their objects outlive the release, as they outlive `koord uninstall`."""
    meta = metadata_of(definition)
    notes = meta.get("annotations")
    kept = {**(notes if isinstance(notes, Mapping) else {}), "helm.sh/resource-policy": "keep"}
    return {**definition, "metadata": {**meta, "annotations": kept}}
