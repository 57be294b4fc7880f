"""Bodies for built-in kinds: malformed text, wrong types, unknown and repeated fields; and what good ones become."""

from __future__ import annotations

from typing import Final, NamedTuple


class Body(NamedTuple):
    text: str | bytes
    content_type: str = "application/json"
    path: str = "/api/v1/namespaces/default/pods"


def pod(spec: str = "{}", meta: str = '{"name":"a"}', extra: str = "") -> Body:
    return Body(f'{{"apiVersion":"v1","kind":"Pod","metadata":{meta},"spec":{spec}{extra}}}')


def container(fields: str) -> Body:
    return pod(f'{{"containers":[{{"name":"a",{fields}}}]}}')


def other(path: str, text: str) -> Body:
    return Body(text, path=path)


def yaml(text: str) -> Body:
    return Body(text, "application/yaml")


_SYNTAX: Final = (
    '{"a":tru}', '{"a":truE}', "[1,]", '{"a":1,}', '{"a" 1}', '{"a":01}', '{"a":1.}', '{"a":1e}', '{"a":-}',
    '{"a":"\x01"}', '{"a":"\\x"}', '{"a":"\\u12g"}', '{"a":1 2}', '{"a":.5}', "{'a':1}", '{"a":NaN}', '{"a":+1}',
    '{"a":"x', "\ufeff{}", '{"a":nul', '{"a":-', '{"a":1.', '{"a":"\\', '{"a":é}', "{x}", '{"kind":"Pod"', " ",
)  # fmt: skip

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LEASE: Final = '{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":'

MALFORMED: Final[dict[str, Body]] = {
    **{f"syntax {text!r}": Body(text) for text in _SYNTAX},
    "empty": Body(""),
    "null": Body("null"),
    "list": Body("[]"),
    "string": Body('"x"'),
    "number": Body("3"),
    "more after the object": Body('{"kind":"Pod","apiVersion":"v1"} x'),
    "no kind": Body('{"apiVersion":"v1"}'),
    "no apiVersion": Body('{"kind":"Pod"}'),
    "nothing in it": Body("{}"),
    "another kind": Body('{"kind":"Node","apiVersion":"v1"}'),
    "another version": Body('{"kind":"Pod","apiVersion":"v2"}'),
    "another group": Body('{"kind":"Deployment","apiVersion":"apps/v1"}'),
    "an unknown kind": Body('{"kind":"Foo","apiVersion":"v1"}'),
    "an unknown group": Body('{"kind":"Foo","apiVersion":"foo.io/v1"}'),
    "an impossible apiVersion": Body('{"kind":"Pod","apiVersion":"a/b/c"}'),
    "a number as kind": Body('{"kind":3,"apiVersion":"v1"}'),
    "a list as apiVersion": Body('{"kind":"Pod","apiVersion":[]}'),
    "Kind in capitals": Body('{"Kind":"Pod","apiVersion":"v1"}'),
    "not UTF-8": Body(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\xff"}}'),
    "half a surrogate pair": Body('{"kind":"Pod","apiVersion":"v1","metadata":{"name":"\\ud800x"}}'),
    "too deep": Body('{"apiVersion":"v1","kind":"Pod","x":' + "[" * 12_000 + "]" * 12_000 + "}"),
    "a pod as deployment": other(_DEPLOYMENTS, '{"apiVersion":"v1","kind":"Pod"}'),
}

MISTYPED: Final[dict[str, Body]] = {
    "spec a string": pod('"x"'),
    "spec a list": pod("[]"),
    "metadata a string": pod("{}", '"x"'),
    "string for integer": pod('{"priority":"x"}'),
    "fraction for integer": pod('{"priority":1.5}'),
    "1.0 for integer": pod('{"priority":1.0}'),
    "1e3 for integer": pod('{"priority":1e3}'),
    "too large for int32": pod('{"priority":3000000000}'),
    "too large for int64": pod('{"terminationGracePeriodSeconds":99999999999999999999}'),
    "number for string": pod('{"nodeName":3}'),
    "bool for string": pod('{"nodeName":true}'),
    "object for string": pod('{"nodeName":{}}'),
    "list for string": pod('{"nodeName":[]}'),
    "string for bool": pod('{"hostNetwork":"true"}'),
    "string for list": pod('{"containers":"x"}'),
    "object for list": pod('{"containers":{}}'),
    "string for object in list": pod('{"containers":["x"]}'),
    "number for string in list": container('"args":["a",3]'),
    "number deep within": container('"env":[{"name":"b","value":3}]'),
    "number for a named string": container('"imagePullPolicy":3'),
    "number for a named list of names": container('"securityContext":{"capabilities":{"add":[3]}}'),
    "string for an embedded struct": container('"livenessProbe":{"httpGet":"x"}'),
    "string inside a volume source": pod('{"volumes":[{"name":"v","emptyDir":{"medium":3}}]}'),
    "number for label": pod("{}", '{"name":"a","labels":{"x":3}}'),
    "string for labels": pod("{}", '{"name":"a","labels":"x"}'),
    "list for labels": pod("{}", '{"name":"a","labels":["x"]}'),
    "number for uid": pod("{}", '{"name":"a","uid":3}'),
    "quantity x": container('"resources":{"limits":{"cpu":"x"}}'),
    "quantity 1kk": container('"resources":{"limits":{"cpu":"1kk"}}'),
    "quantity true": container('"resources":{"limits":{"cpu":true}}'),
    "quantity list": container('"resources":{"limits":{"cpu":[]}}'),
    "quantity empty": container('"resources":{"limits":{"cpu":""}}'),
    "limits a string": container('"resources":{"limits":"x"}'),
    "resources a string": container('"resources":"x"'),
    "time x": pod("{}", '{"name":"a","creationTimestamp":"x"}'),
    "time without zone": pod("{}", '{"name":"a","creationTimestamp":"2020-01-01T00:00:00"}'),
    "time with a strange month": pod("{}", '{"name":"a","creationTimestamp":"2020-13-01T00:00:00Z"}'),
    "time of February 30": pod("{}", '{"name":"a","creationTimestamp":"2020-02-30T00:00:00Z"}'),
    "time with hour 25": pod("{}", '{"name":"a","creationTimestamp":"2020-02-03T25:00:00Z"}'),
    "time and more": pod("{}", '{"name":"a","creationTimestamp":"2020-02-03T05:00:00Zx"}'),
    "date for time": pod("{}", '{"name":"a","creationTimestamp":"2020-02-03"}'),
    "number for time": pod("{}", '{"name":"a","creationTimestamp":3}'),
    "object for time": pod("{}", '{"name":"a","creationTimestamp":{}}'),
    "bool for port": container('"livenessProbe":{"httpGet":{"port":true}}'),
    "fraction for port": container('"livenessProbe":{"httpGet":{"port":1.5}}'),
    "object for port": container('"livenessProbe":{"httpGet":{"port":{}}}'),
    "two at once": pod('{"nodeName":3,"hostNetwork":"x"}'),
    "unknown before mistyped": pod('{"foo":1,"nodeName":3}'),
    "base64": other("/api/v1/namespaces/default/secrets", '{"data":{"a":"x y"}}'),
    "number for bytes": other("/api/v1/namespaces/default/secrets", '{"data":{"a":3}}'),
    "seconds for micro time": other(_LEASES, _LEASE + '{"renewTime":"2020-01-01T00:00:00Z"}}'),
    "string for replicas": other(_DEPLOYMENTS, '{"spec":{"replicas":"x"}}'),
    "string for a template's image": other(_DEPLOYMENTS, '{"spec":{"template":{"spec":{"containers":[{"image":3}]}}}}'),
    "number for maxSurge": other(_DEPLOYMENTS, '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":[]}}}}'),
    "string for rules": other("/apis/rbac.authorization.k8s.io/v1/clusterroles", '{"rules":"x"}'),
    "string for verbs": other("/apis/rbac.authorization.k8s.io/v1/clusterroles", '{"rules":[{"verbs":"get"}]}'),
    "string for versions": other(_CRDS, '{"spec":{"versions":"x"}}'),
    "number for a schema's type": other(_CRDS, '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":3}}}]}}'),
}

STRICT: Final[dict[str, Body]] = {
    "unknown": pod('{"foo":1,"containers":[{"name":"a","bar":2}]}'),
    "unknown in metadata": pod("{}", '{"name":"a","foo":1}'),
    "unknown at the root": pod("{}", extra=',"foo":{"bar":1}'),
    "wrong case": pod('{"Containers":[]}'),
    "repeated": Body(
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"},"spec":{"containers":[{"name":"a","name":"b"}]}}'
    ),
    "repeated and unknown": pod('{"foo":1,"foo":2,"nodeName":"a","nodeName":"b","containers":[{"x":1,"x":2}]}'),
    "repeated label": pod("{}", '{"name":"a","labels":{"x":"1","x":"2"}}'),
    "repeated kind": Body('{"apiVersion":"v1","kind":"Pod","kind":"Pod"}'),
    "YAML": yaml("kind: Pod\napiVersion: v1\nmetadata: {name: a, foo: 1}\n"),
    "YAML repeated": yaml("kind: Pod\napiVersion: v1\nmetadata:\n  name: a\n  name: b\n"),
    "YAML empty": yaml(""),
    "YAML string": yaml("foo"),
    "YAML unfinished": yaml("a: ["),
    "YAML with a tab": yaml("a:\tb\n\tc: d"),
    "YAML twice": yaml("kind: Pod\napiVersion: v1\n---\nkind: Pod\n"),
    "YAML number for name": yaml("kind: Pod\napiVersion: v1\nmetadata: {name: 3}\n"),
    "JSON as YAML": Body('{"apiVersion":"v1","kind":"Pod","spec":{"foo":1}}', "application/yaml"),
    "text/yaml": Body("{}", "text/yaml"),
    "text/plain": Body("{}", "text/plain"),
    "cbor": Body("{}", "application/cbor"),
    "charset": Body('{"apiVersion":"v1"}', "application/json; charset=utf-8"),
    "a parameter without value": Body("{}", "application/json;foo"),
}

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
_META: Final = '"metadata":{"name":"zz","labels":{},"annotations":null}'

KEPT: Final[dict[str, Body]] = {
    "a role with no rules": other(f"{_RBAC}/roles", f'{{{_META},"rules":[]}}'),
    "a role's empty lists": other(
        f"{_RBAC}/roles",
        f'{{{_META},"rules":[{{"verbs":["get"],"resources":["pods"],"apiGroups":[""],"resourceNames":[]}}]}}',
    ),
    "nulls everywhere": other(f"{_RBAC}/roles", f'{{{_META},"rules":null}}'),
    "an empty config map": other("/api/v1/namespaces/default/configmaps", f'{{{_META},"data":{{}},"binaryData":null}}'),
    "a config map's values": other(
        "/api/v1/namespaces/default/configmaps",
        f'{{{_META},"data":{{"a":"","b":null}},"binaryData":{{"c":"aGk=","d":null}}}}',
    ),
    "a lease": other(
        _LEASES,
        '{"metadata":{"name":"zz"},"spec":{"holderIdentity":"","leaseTransitions":0,'
        '"renewTime":"2020-01-01T01:00:00.123456+01:00"}}',
    ),
    "an empty lease": other(_LEASES, f"{{{_META}}}"),
    "a limit range": other(
        "/api/v1/namespaces/default/limitranges",
        f'{{{_META},"spec":{{"limits":[{{"type":"Pod","max":{{"cpu":2,"memory":"1024Mi"}},"min":{{"cpu":0.5}}}}]}}}}',
    ),
    "a quota": other(
        "/api/v1/namespaces/default/resourcequotas", f'{{{_META},"spec":{{"hard":{{"cpu":"1000m","pods":"10"}}}}}}'
    ),
    "a runtime class": other(
        "/apis/node.k8s.io/v1/runtimeclasses", f'{{{_META},"handler":"x","overhead":{{"podFixed":{{"cpu":"0.1"}}}}}}'
    ),
    "an event": other(
        "/api/v1/namespaces/default/events",
        '{"metadata":{"name":"zz"},"involvedObject":{"namespace":"default","name":"a"},"message":"m","reason":"r","count":0,'
        '"firstTimestamp":"2020-01-01T00:00:00.7Z","source":{},"series":null}',
    ),
    "a revision": other(
        "/apis/apps/v1/namespaces/default/controllerrevisions", f'{{{_META},"revision":1,"data":{{"a":null,"b":[]}}}}'
    ),
    "a storage node": other("/apis/storage.k8s.io/v1/csinodes", f'{{{_META},"spec":{{"drivers":[]}}}}'),
}
