"""Rules in CEL: which can be defined, what they cost, what they say of objects and of changes; conditions of webhooks."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    CRDS,
    CUSTOM,
    HOOKS,
    Sequence,
    Step,
    config_map,
    crd,
    defined,
    delete,
    patch,
    post,
    put,
    sequence,
    widget,
)

Json = dict[str, Any]

INT: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
BOOL: Json = {"type": "boolean"}
TEXT: Json = {"type": "string"}
SHORT: Json = {"type": "string", "maxLength": 30}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _list(items: Json, most: int | None = 10, /, **more: Any) -> Json:
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most}), **more}


def _map(values: Json, most: int | None = 10, /, **more: Any) -> Json:
    bound = {} if most is None else {"maxProperties": most}
    return {"type": "object", "additionalProperties": values, **bound, **more}


def _ruled(schema: Json, *rules: str | Json) -> Json:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def _define(*specs: Json) -> list[Step]:
    """Try to define kinds with these schemas of `spec`."""
    return [
        post(f"{CRDS}?dryRun=All", crd(schema=_object(spec=spec)), only=("kind", "reason", "details.causes"))
        for spec in specs
    ]


def _judged(name: str, schema: Json, *rules: str | Json) -> Sequence:
    """One definition with all the rules: each wrong one is reported."""
    return sequence(f"rule-{name}", _define(_ruled(schema, *rules)))


def _values(name: str, schema: Json, spec: Json, *expressions: str) -> Sequence:
    """The values of expressions over an object, told in messages of rules that never hold, and their errors."""
    rules = [
        {
            "rule": f"dyn({expression}) == dyn('~')",
            "messageExpression": f"'is %s'.format([{expression}])",
            "message": f"not shown: {expression}",
        }
        for expression in expressions
    ]
    return sequence(
        f"rule-values-{name}",
        *defined(schema=_object(spec=_ruled(schema, *rules))),
        post(CUSTOM, widget("w", spec=spec), only=("kind", "reason", "details.causes")),
    )


def _changes(name: str, schema: Json, *chains: list[Json]) -> Sequence:
    """Objects that are made, and then changed, from spec to spec."""
    steps: list[Step] = []
    for i, (first, *rest) in enumerate(chains):
        steps.append(post(CUSTOM, widget(f"w{i}", spec=first)))
        steps += [put(f"{CUSTOM}/w{i}", widget(f"w{i}", spec=each)) for each in rest]
    return sequence(f"rule-{name}", *defined(schema=_object(spec=schema)), *steps)


def _redefined(schema: Json) -> list[Step]:
    """Change the schema, and wait until it holds."""
    versions = crd(schema=_object(spec=schema))["spec"]["versions"]
    return [patch(f"{CRDS}/widgets.{{{{seq}}}}.example.com", {"spec": {"versions": versions}}, only=("kind",))]


def _hooked(*expressions: str) -> Step:
    hooks = [
        {
            "name": f"h{i}.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "matchConditions": [{"name": "m", "expression": expression}],
        }
        for i, expression in enumerate(expressions)
    ]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "{{seq}}"},
        "webhooks": hooks,
    }
    return post(f"{HOOKS}/validatingwebhookconfigurations?dryRun=All", body, only=("kind", "reason", "details.causes"))


def _conditional(name: str, probe: Json, code: int, *conditions: str, then: list[Step]) -> Sequence:
    """A hook that refuses what its conditions let through; the code of a probe shows when it is known."""
    hook = {
        "name": "hook.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "{{webhook}}/deny", "caBundle": "{{webhook-ca}}"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "{{ns}}"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}],
        "matchConditions": [{"name": f"c{i}", "expression": condition} for i, condition in enumerate(conditions)],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "{{seq}}"},
        "webhooks": [hook],
    }
    return sequence(
        f"rule-conditions-{name}",
        post(f"{HOOKS}/validatingwebhookconfigurations", body, only=("kind",)),
        post(f"{CM}?dryRun=All", probe, until={"code": code}),
        then,
    )


CM = f"{CORE}/configmaps"
KEYED: Json = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
ITEM: Json = {**_object(k=SHORT, v=INT), "required": ["k"]}
EMBEDDED: Json = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
ANYTHING: Json = {"x-kubernetes-preserve-unknown-fields": True}
IO: Json = {"x-kubernetes-int-or-string": True}
ALL_KINDS = _object(
    n=INT, d=NUMBER, b=BOOL, s=TEXT, t=SHORT, e={"type": "string", "enum": ["a", "bcd"]}, l=_list(SHORT), li=_list(INT), lo=_list(ITEM), ll=_list(_list(INT)),
    m=_map(SHORT), mi=_map(INT), o=_object(x=INT, y=SHORT, **{"a-b": INT, "namespace": INT, "c.d": INT, "1x": INT, "ä": INT}), q=IO, du={"type": "string", "format": "duration"},
    dt={"type": "string", "format": "date-time"}, da={"type": "string", "format": "date"}, by={"type": "string", "format": "byte"}, em=EMBEDDED, pu=ANYTHING,
    po={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, nu={"type": "string", "nullable": True, "maxLength": 5},
)  # fmt: skip
OBJECT: Json = {
    "n": 7, "d": 2.5, "b": True, "s": "Hello, wörld", "t": "a", "e": "a", "l": ["b", "a", "c", "a"], "li": [3, 1, 2], "lo": [{"k": "x", "v": 2}, {"k": "y", "v": 1}, {"k": "z"}], "ll": [[1], [2, 3]],
    "m": {"a": "one", "b": "two"}, "mi": {"a": 1, "b": 2}, "o": {"x": 1, "a-b": 2, "namespace": 3, "c.d": 4}, "q": 5, "du": "1h30m0.5s", "dt": "2024-02-29T13:14:15.678Z", "da": "2024-02-29", "by": "aGk=",
    "em": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"x": 1}}, "po": {"x": 1}, "nu": None,
}  # fmt: skip
NUMBERS_1000 = list(range(1000))

SEQUENCES = [
    _judged("types-scalars", ALL_KINDS, "self.n == 'a'", "self.n == 1.0", "self.n < 1.5", "self.n + self.d == 1.0", "self.n && true", "self.b && self.n", "!self.n", "-self.s == 'a'", "self.s + 1 == ''",
            "self.d % 2.0 == 0.0", "self.b > 1", "self.e == 1", "self.n", "'a'", "self.n ? true : false", "self.b ? 1 : 'a'", "self.n.x == 1", "self.s[0] == 'a'", "has(self.n.x)", "self.n in [1, 'a']", "self.n == 1 == true"),
    _judged("types-lists", ALL_KINDS, "self.l[0] == 1", "self.l['a'] == 'x'", "self.l + [1] == self.l", "self.l.x == 1", "self.lo[0].k == 1", "self.lo[0].zz == 1", "self.ll[0] == 1", "self.ll[0][0] == 'a'", "'a' in self.li",
            "self.l == null", "self.l == ['a', 1]", "[1, 'a'].size() == 2", "size(self.l) == 'a'", "self.li.sum() == 'a'", "self.l.sum() == 'a'", "self.li.join(',') == ''", "self.l.indexOf(1) == 1"),
    _judged("types-maps", ALL_KINDS, "self.m['a'] == 1", "self.m[1] == 'a'", "self.m.a == 1", "self.m.a == 'x'", "'a' in self.m", "1 in self.m", "has(self.m.a)", "has(self.m['a'])", "self.m.all(k, k > 1)", "self.m.all(k, v, v > 1)",
            "{'a': 1, 'b': 'c'}.size() == 2", "{1: 1, 'b': 2}.size() == 2", "self.m == {'a': 1}", "self.m.size() == 1", "self.m.map(k, v, k)"),
    _judged("types-objects", ALL_KINDS, "self.zz == 1", "self.o.zz == 1", "self.o.x == 'a'", "self.o.a__dash__b == 1", "self.o.__namespace__ == 1", "self.o.namespace == 1", "self.o.c__dot__d == 1", "self.o.a-b == 1", "self.zz.yy == 1 && self.xx == 2",
            "self.o == null", "has(self.o)", "has(self.zz)", "self == self", "oldSelf == self"),
    _judged("types-int-or-string", ALL_KINDS, "self.q == 1", "self.q == 'a'", "self.q + 1 == 2", "self.q.foo == 1", "self.q.startsWith('a')", "type(self.q) == int ? self.q > 1 : self.q == 'a'", "self.q", "type(self.q) == self.q",
            "string(self.q) == 'a'", "self.q.foo()", "self.q.all(x, x > 1)", "[self.q, 1].size() == 1", "self.q in [1]"),
    _judged("types-formats", ALL_KINDS, "self.du > duration('1s')", "self.du > 1", "self.dt < timestamp('2020-01-01T00:00:00Z')", "self.dt - self.dt == duration('1s')", "self.dt + self.dt == self.dt", "self.dt.getHours('UTC') == 1",
            "self.dt.getHours(1) == 1", "self.du.getFullYear() == 1", "self.da == self.dt", "self.da == '2020-01-01'", "self.by == b'abc'", "self.by == 'abc'", "self.du == null", "self.by + self.by == b''", "string(self.by) == ''"),
    _judged("types-embedded-and-unknown", ALL_KINDS, "self.em.metadata.name == 'a'", "self.em.kind == 1", "self.em.spec == 1", "self.em.metadata.labels == 1", "self.pu == 1", "self.po.x == 1", "has(self.pu)", "has(self.po)", "self.em.apiVersion == 'v1'", "self.em.metadata.generateName == ''"),
    _judged("types-nullable", ALL_KINDS, "self.nu == null", "self.n == null", "null == self.nu", "self.nu.size() == 1", "has(self.nu)", "null.x", "[null, 'a'].size() == 2"),
    _judged("types-optional", ALL_KINDS, "self.?n.orValue('a') == 1", "self.?n.orValue(1) == 1", "self.?zz.orValue(1) == 1", "self.?o.?x.orValue(1) == 1", "self.?o.x == optional.of(1)", "self.l[?0].orValue(1) == 'b'", "self.m[?'a'].orValue('a') == 'b'", "self.n.hasValue()",
            "optional.of(1).value() == 'a'", "self.?n.optMap(x, x + 'a').orValue(1) == 1", "self.?n.optMap(1, 2).hasValue()", "self.?o.optFlatMap(x, x.?x).orValue(1) == 1", "[?self.n].size() == 1", "{?'a': self.n}.size() == 1", "self.?n", "self.?", "self.l[?'a'].hasValue()"),
    _judged("macros", ALL_KINDS, "self.lo.all(x, x.k)", "self.lo.exists(x, x.v)", "self.lo.exists_one(x, x.v)", "self.lo.map(x, x.k) == [1]", "self.lo.filter(x, x.v > 1).size() == 'a'", "self.n.all(x, x > 1)", "self.s.all(x, x > 1)", "self.l.all(1, true)", "self.l.all(x.y, true)",
            "self.l.all(x)", "self.l.map(x, x, x)", "self.l.all(x, y > 1)", "self.l.all(i, v, i == v)", "self.l.transformList(i, i, i)", "self.m.transformMap(k, v, v + 1)", "self.l.exists(if, true)", "self.l.all(__result__, true)", "has(self)", "has(self.n, 1)", "self.l.all(x, x.all(y, y))",
            "self.ll.all(x, x.all(y, y == 'a'))", "cel.bind(x, 1, x == 1)", "self.l.all(self, self == 1)"),
    _judged("syntax", ALL_KINDS, *[{"rule": each, "message": "m"} for each in (
            "self.n >", "self.n 1", "(self.n", "self.n)", "self.l[0", "[1,2", "{1", "{1:}", "self.", "a | b", "self.n = 1", "self.n === 1", "'abc", "size(self.l,)", "self..n", "self.'x'", "self.true", "1.", "f(1 2)", "[1 2]", "Foo{a: 1}", "#", "`a`", "self.`n`", "'\\q'",
            "99999999999999999999", "self.n == 1 &&", "if", "self.n ? 1", "self.n\n==\n'a'", "self.s == 'é' && self.n == 'a'", "\t self.n == 'x'", "1 +", "self.n == $", "0x", "b'\\u1234'", "x.y.z", "foo(1)", "self.n.foo()", "foo.bar(1)", "self.n == self.zz", "!", "true false", "1 == 2 ? : 3")]),
    _judged("functions", ALL_KINDS, "size(self.n) == 1", "self.s.substring('a') == ''", "self.s.replace('a') == ''", "self.s.charAt('a') == ''", "self.s.reverse() == ''", "self.s.format(1) == ''", "self.l.join(1) == ''", "self.li.sort() == ['a']", "self.ll.flatten() == ['a']", "lists.range('a') == [1]",
            "sets.contains([1], ['a'])", "sets.foo([1])", "math.abs(1) == 1", "url(1) == url(2)", "url(self.t) == self.t", "url(self.t).getHost() == 1", "isURL(1)", "ip(self.t).family() == 'a'", "ip(self.t) == cidr(self.t)", "cidr(self.t).containsIP(1)", "isIP(self.n)", "type(ip(self.t)) == net.IP",
            "quantity(self.t) > quantity('1')", "quantity(self.t).add('1')", "quantity(self.t).sign() == 1", "semver(self.t).major() == 'a'", "isSemver(self.t, 1)", "format.dns1123Label().validate(self.t)", "format.foo().validate(self.t)", "format.named(1).hasValue()", "authorizer.group('')",
            "string(self.l) == ''", "int(self.b) == 1", "dyn(self.n) == 'a'", "matches(self.t, 'a')", "self.t.matches(1)"),
    _judged("literals", ALL_KINDS, "duration('x') == self.du", "duration(1) == self.du", "timestamp('x') == self.dt", "self.s.matches('(')", "self.s.matches('a**')", "self.s.matches('[z-a]')", "self.t.find('(') == ''", "self.t.findAll('\\\\q') == []", "int('x') == 1", "double('a') == 1.0", "bool('x')",
            "'%d'.format(['a']) == ''", "'%s'.format([]) == ''", "'%s'.format(['a', 'b']) == ''", "'%z'.format(['a']) == ''", "'%.f'.format([1.0]) == ''", "'%'.format([1]) == ''", "'%s %d'.format(['a', 1]) == ''", "'%d'.format([self.d]) == ''", "[1, 2.0].size() == 2", "uint(-1) == 1u"),
    sequence("rule-old-values", _define(
        _object(l=_list(_ruled(INT, "self > oldSelf"))),
        _object(l=_list(_ruled(ITEM, "self.v > oldSelf.v"), **KEYED)),
        _object(l=_list(_object(in_=_ruled(INT, "self > oldSelf")), **{"x-kubernetes-list-type": "atomic"})),
        _object(s=_list(_ruled(TEXT, "self == oldSelf"), **{"x-kubernetes-list-type": "set"})),
        _object(m=_map(_ruled(INT, "self > oldSelf"))),
        _object(m=_map(_ruled(INT, "self > oldSelf"), **{"x-kubernetes-map-type": "atomic"})),
        _ruled(_object(n=INT), {"rule": "self.n > 1", "optionalOldSelf": True}, {"rule": "self.n > 1", "optionalOldSelf": False}, {"rule": "oldSelf.n > 1", "optionalOldSelf": True}, {"rule": "oldSelf.value().n > 1", "optionalOldSelf": True}, {"rule": "oldSelf.n > 1", "optionalOldSelf": False},
               {"rule": "oldSelf.orValue(self).n == self.n", "optionalOldSelf": True}, {"rule": "oldSelf.hasValue()", "optionalOldSelf": False}),
    )),
    sequence("rule-messages", _define(
        _ruled(_object(n=INT, s=TEXT), {"rule": "self.n > 1", "messageExpression": "self.n"}, {"rule": "self.n > 1", "messageExpression": "'a' + self.n"}, {"rule": "self.n > 1", "messageExpression": "'a' +"}, {"rule": "self.n > 1", "messageExpression": "self.zz"},
               {"rule": "self.n", "messageExpression": "self.zz"}, {"rule": "self.n > 1", "messageExpression": "self.s.find('(')"}, {"rule": "self.n > 1", "messageExpression": "dyn('a')"}, {"rule": "self.n > 1", "messageExpression": "self.s.replace('a', self.s)"}, {"rule": "self.n > 1", "messageExpression": "string(self.n)"}),
        _ruled(_object(n=INT), {"rule": "self.n > 1", "messageExpression": "  "}),
        _ruled(_object(n=INT), {"rule": "self.n >\n1"}, {"rule": "self.n >\n1", "message": "m"}, {"rule": "self.n > 1", "message": " "}, {"rule": "self.n > 1", "message": "a\nb"}),
        _ruled(_object(l=_list(TEXT, 1000)), {"rule": "self.l.size() > 1", "messageExpression": "self.l.map(x, self.l.map(y, x + y).join()).join()"}),
    )),
    sequence("rule-reasons-and-paths", _define(
        _ruled(_object(n=INT), {"rule": "self.n > 1", "reason": "Odd"}, {"rule": "self.n > 1", "reason": "FieldValueInvalid"}),
        _ruled(_object(o=_object(x=INT, **{"a.b": INT}), m=_map(INT), l=_list(INT)), *[{"rule": "true", "fieldPath": each} for each in (".o", ".o.x", ".o['a.b']", ".m", ".m.a", ".m['a']", ".m['it\\'s']")]),
        *[_ruled(_object(o=_object(x=INT), m=_map(INT), l=_list(INT)), {"rule": "true", "fieldPath": each}) for each in ("o", ".zz", ".o.zz", ".l[0]", ".l.x", ".o['x", ".o[x]", ".", " ", ".o\n", "..o", ".m['a'].b", ".m['\\q']")],
        _ruled(_object(n=INT, o=_ruled(_object(x=INT), "self.x == 'a'")), {"rule": "self.n == 'a'", "fieldPath": ".zz"}),
    )),
    sequence("rule-among-other-faults", _define(
        _object(a=_ruled(INT, "self == 'a'"), b={"type": "string", "uniqueItems": True}),
        _ruled(_object(a=_ruled(INT, "self == 'a'"), b={"type": "string", "uniqueItems": True}), "self.a == 'b'"),
        _object(a=_ruled(INT, "self == 'a'"), b={"type": "odd"}),
        _object(a={**_ruled(INT, "self > 3"), "default": 1}),
        _object(a={**_ruled(INT, "self > 3"), "default": 5}),
        _object(a={"type": "integer", "allOf": [{"x-kubernetes-validations": [{"rule": "self == 'a'"}]}]}),
        _object(a={"type": "integer", "anyOf": [{"x-kubernetes-validations": [{"rule": "self == 1"}]}]}),
        _object(a=_ruled(ANYTHING, "true")),
        _object(a=_ruled(_list(ANYTHING), "true")),
        _object(a=_ruled(_map(ANYTHING), "size(self) > 1")),
        _object(**{"1x": _ruled(INT, "self == 'a'"), "ä": _ruled(INT, "self > 0")}),
    )),
    sequence("rule-cost-at-the-limit", _define(
        _object(l=_ruled(_list(INT, 1_999_999), "self.all(x, x > 0)")),
        _object(l=_ruled(_list(INT, 2_000_000), "self.all(x, x > 0)")),
        _object(l=_ruled(_list(INT, 3_500_000), "self.all(x, x > 0)")),
        _object(l=_ruled(_list(INT, 500_000_000), "self.all(x, x > 0)")),
        _object(l=_list(_ruled(INT, "self > 0"), 5_000_000)),
        _object(l=_list(_ruled(INT, "self > 0"), 5_000_001)),
        _object(s=_ruled({"type": "string", "maxLength": 500_000}, "self.matches('^[a-z0-9]+([-.][a-z0-9]+)*$')")),
        _object(s=_ruled({"type": "string", "maxLength": 5_000_000}, "self.matches('^[a-z0-9]+([-.][a-z0-9]+)*$')")),
        _object(s=_ruled(TEXT, "self.contains(self)")),
        _object(s=_ruled({"type": "string", "maxLength": 20_000}, "self.contains(self)")),
        _object(s=_ruled({"type": "string", "maxLength": 5_000}, "self.contains(self)")),
    )),
    sequence("rule-cost-without-bounds", _define(
        *[_object(f=_ruled(schema, rule)) for schema, rule in (
            (_list(INT, None), "self.all(x, x > 0)"), (_list(INT, None), "self.all(x, self.all(y, x > y))"), (_list(SHORT, None), "self.all(x, x.startsWith('a'))"), (_list(TEXT, None), "self.all(x, x == 'a')"), (_list(TEXT, None), "self.exists(x, x.matches('^a'))"), (_list(ITEM, None), "self.all(x, x.k != '')"),
            (_map(INT, None), "self.all(k, self[k] > 0)"), (_map(TEXT, None), "self.all(k, self[k].size() > 0)"), (_map(TEXT, None), "self.all(k, v, v.lowerAscii() == v)"), (TEXT, "self.lowerAscii() == self"), (TEXT, "self == oldSelf"), (TEXT, "self.split(',').all(x, x.size() > 1)"), (TEXT, "self.replace('a', 'bb').size() > 1"), (TEXT, "self.find('a+') == ''"),
            (IO, "type(self) == string && self.matches('a')"), ({"type": "string", "format": "duration"}, "self > duration('1s')"), ({"type": "string", "enum": ["a", "bc"]}, "self == 'a'"), (_list(INT, None), "self.sum() > 1 && self.isSorted()"), (_list(TEXT, None), "self.isSorted()"), (_list(TEXT, None), "self.join(',').size() > 1"),
            (_list(INT, None), "self.map(x, x + 1).size() > 0"), (_list(INT, None), "self.filter(x, x > 1) == self"), (_list(INT, None), "1 in self"), (_list(INT, 1000), "self.sort().isSorted()"), (_list(INT, 5000), "self.distinct().size() == self.size()"), (_list(SHORT, 3000), "sets.equivalent(self, self)"), (TEXT, "isURL(self) && url(self).getHost() == 'a'"),
            (TEXT, "isQuantity(self) && quantity(self) == quantity('1')"), (TEXT, "format.dns1123Label().validate(self).hasValue()"), (_list(_list(_list(INT, None), None), None), "self.all(x, x.all(y, y.all(z, z > 0)))"), (_list(INT, None), "self.transformList(i, v, i + v).size() > 1"), (_map(INT, None), "self.transformMap(k, v, v + 1).size() > 1"),
            (_list(INT, None), "self.sortBy(x, -x).size() > 1"), (_list(TEXT, 100), "self.all(x, self.exists_one(y, x == y))"), (_object(a=_list(INT, None)), "self.?a.orValue([]).all(x, x > 1)"), (_object(a=TEXT), "self.?a.optMap(x, x.upperAscii() == x).orValue(true)"))],
    )),
    sequence("rule-cost-of-parts", _define(
        _object(l=_list(_ruled(INT, "self > 0"), None)),
        _object(l=_list(_object(a=_ruled(TEXT, "self.size() > 1")), None)),
        _object(l=_list(_object(a=_ruled(SHORT, "self == 'a'")), 1000)),
        _object(l=_list(_list(_ruled(INT, "self > 0"), 2000), 3000)),
        _object(m=_map(_list(_ruled(INT, "self > 0"), 100), None)),
        _object(m=_map(_object(a=_list(_ruled(ITEM, "self.k == 'a'"), None)), 10)),
        _object(l=_list({**_object(a=_ruled(INT, "self > 0"), name=TEXT), "required": ["a", "name"]}, None)),
        _object(l=_list(_ruled({**_object(a=INT, name=TEXT), "required": ["a", "name"]}, "self.a > 0 && self.name != ''"), None)),
    )),
    sequence("rule-cost-in-total", _define(
        _ruled(_object(l=_list(INT, 1_999_999)), *["self.l.all(x, x > 0)"] * 10),
        _ruled(_object(l=_list(INT, 1_999_999)), *["self.l.all(x, x > 0)"] * 11),
        _ruled(_object(a=_list(INT, 1_900_000), b=_list(INT, 1_800_000), c=_list(INT, 10)), *["self.b.all(x, x > 0)"] * 7, *["self.a.all(x, x > 0)"] * 4, "self.c.all(x, x > 0)"),
        _ruled(_object(a=_list(INT, None), s=TEXT), "self.a.all(x, self.a.all(y, x > y))", {"rule": "self.a.size() > 1", "messageExpression": "string(self.a.map(x, self.a.map(y, x)).size())"}, "self.s.contains(self.s)"),
    )),
    _values("strings", ALL_KINDS, OBJECT, "self.s.size()", "self.s.charAt(7)", "self.s.charAt(99)", "self.s.indexOf('l')", "self.s.indexOf('l', 4)", "self.s.lastIndexOf('l', 5)", "self.s.lowerAscii()", "self.s.upperAscii()", "self.s.replace('l', 'L', 1)", "self.s.replace('', '-')", "self.s.split(', ')", "self.s.split('')",
            "self.s.split('l', 2)", "self.s.substring(7)", "self.s.substring(5, 0)", "self.s.substring(99)", "'  x\\t '.trim()", "self.l.join('-')", "strings.quote('a\"b\\n')", "self.s + self.t", "self.s < self.t", "'é' < 'f'"),
    _values("patterns", ALL_KINDS, OBJECT, "self.s.matches('^H.*d$')", "self.s.matches('^[a-z]+$')", "self.s.find('[a-z]+')", "self.s.find('[0-9]+')", "self.s.findAll('[a-z]+')", "self.s.findAll('[a-z]', 2)", "self.s.matches('(' + self.t)", "self.s.find('[' + self.t)", "self.s.matches('(?i)HELLO')", "self.s.findAll('l*')", "self.s.matches('(l+)+$')", "matches(self.s, 'w.rld')",
            "self.s.find('\\\\bw\\\\pL+')", "self.s.findAll('(?:l|o)+?')"),
    _values("numbers", ALL_KINDS, OBJECT, "self.n + 1", "-self.n / 2", "-self.n % 4", "self.n / 0", "self.n % 0", "9223372036854775807 + self.n", "self.d / 0.0", "self.d * 2.0", "string(self.d)", "string(1e21)", "string(123456789.125)", "string(0.00001)", "int(self.d)", "int(self.t)", "double(self.t)", "uint(self.n - 8)", "dyn(self.n) == 7.0", "self.n < 7.5", "bool(self.t)", "1.0 / 3.0"),
    _values("lists", ALL_KINDS, OBJECT, "self.l[0]", "self.l[9]", "self.l + ['z'] == ['b']", "self.li.sum()", "self.li.max()", "self.li.filter(x, x > 9).max()", "self.li.isSorted()", "self.li.sort()", "self.lo.sortBy(x, x.k).map(x, x.k)", "self.li.reverse()", "self.l.distinct()", "self.ll.flatten()", "self.li.slice(1, 2)", "self.li.slice(0, self.n)", "lists.range(3)", "self.l.indexOf('a')", "self.l.lastIndexOf('a')",
            "'a' in self.l", "self.n in [1, 7]", "sets.contains(self.l, ['a'])", "sets.equivalent([1, 2], [2, 1, 1])", "self.li == [3, 1, 2]", "size(self.ll)"),
    _values("macros", ALL_KINDS, OBJECT, "self.l.all(x, x < 'd')", "self.l.exists(x, x == 'q')", "self.l.exists_one(x, x == 'a')", "self.l.map(x, x + x)", "self.l.filter(x, x != 'a')", "self.li.map(x, x > 1, x * 2)", "self.lo.all(x, x.v > 0)", "self.lo.all(x, x.v > 1)", "self.lo.exists(x, x.v == 1)", "self.lo.exists(x, x.v == 9)", "self.lo.exists_one(x, x.v == 1)", "self.lo.map(x, x.v)",
            "self.lo.filter(x, has(x.v)).map(x, x.k)", "self.ll.map(x, x.map(y, y * 2))", "self.ll.all(x, x.exists(y, y > 1))", "self.ll.exists(x, self.li.all(y, y in x))", "self.li.all(i, v, i + v < 9)", "self.l.transformList(i, v, i > 1 ? v : v + v)", "self.mi.transformMap(k, v, v + 1)", "self.mi.transformMapEntry(k, v, {'same': k})", "self.li.transformMap(i, v, v > 1, v)", "self.l.map(x, self.l.filter(y, x == y).size())"),
    _values("maps-and-objects", ALL_KINDS, OBJECT, "self.m['a']", "self.m['zz']", "self.m.zz", "has(self.m.a)", "has(self.m.zz)", "self.mi.all(k, self.mi[k] > 0)", "self.mi.exists(k, v, v == 2)", "self.m.size()", "self.o.a__dash__b", "self.o.__namespace__ + self.o.c__dot__d", "self.o.y", "has(self.o.y)", "self.nu", "has(self.nu)", "self.em.metadata.name", "self.em.kind", "{'a': 1}['b']", "{'b': self.n, 'a': 1}", "dyn(self.o).size()", "dyn(self.po).size()", "self.o == self.o"),
    _values("optional", ALL_KINDS, OBJECT, "self.?o.?x.orValue(4)", "self.?o.?y.orValue('none')", "self.m[?'a'].orValue('x')", "self.l[?9].orValue('x')", "self.?o.?y.value()", "self.?n.optMap(x, x + 1).orValue(0)", "self.?o.optFlatMap(o, o.?y).hasValue()", "self.l.first().value()", "self.l.last().value()", "optional.none().hasValue()",
            "optional.ofNonZeroValue(0).hasValue()", "[optional.of(1), optional.none()].unwrapOpt()", "self.?o.?y.or(self.?t).value()", "[?self.?o.?y, 'z'].size()", "{?'a': self.?o.?y, 'b': 'z'}.size()"),
    _values("int-or-string", ALL_KINDS, OBJECT, "self.q + 1", "self.q + 'a'", "self.q > 'a'", "self.q.startsWith('a')", "self.q.matches('a')", "self.q.matches(self.t)", "self.q.size()", "self.q.lowerAscii()", "self.q.split(',')", "self.q.all(x, true)", "self.q.x", "has(self.q.x)", "self.q[0]", "self.q in self.li", "type(self.q)", "type(self.q) == int ? self.q : 0", "-self.q", "!self.q", "self.q && true", "self.q ? 1 : 2"),
    _values("times", ALL_KINDS, OBJECT, "self.du", "self.dt", "self.da", "string(self.by)", "self.dt.getFullYear()", "self.dt.getMonth()", "self.dt.getDayOfWeek()", "self.dt.getDayOfYear()", "self.dt.getHours('America/New_York')", "self.dt.getMinutes('-02:30')", "self.dt.getHours('Nowhere/X')", "self.dt.getMilliseconds()", "self.du.getMinutes()", "self.du.getMilliseconds()", "self.dt + self.du", "self.dt - self.dt", "int(self.dt)", "duration(self.t)", "timestamp(self.t)",
            "self.dt > timestamp('2024-01-01T00:00:00+02:00')"),
    _values("urls", ALL_KINDS, OBJECT, *[f"url('https://u:p@h.x:81/a%20b?q=1&q=2&r').{part}()" for part in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery")], "url('https://[::1]:8/').getHostname()", "url('/a/b').getScheme()", "url('nope').getHost()", "url('http://a b/').getHost()", "url('http://a:x/').getHost()", "url('').getHost()", "isURL('https://x')", "isURL('../x')", "isURL('mailto:a@b')"),
    _values("addresses", ALL_KINDS, OBJECT, "ip('1.2.3.4').family()", "ip('::1').isLoopback()", "string(ip('0:0::1'))", "ip(self.t).family()", "ip('1.2.3').family()", "ip('1.2.3.256').family()", "ip('::ffff:1.2.3.4').family()", "isIP('fe80::1%eth0')", "ip.isCanonical('0:0::1')", "ip('169.254.1.1').isLinkLocalUnicast()", "ip('10.0.0.1').isGlobalUnicast()", "string(cidr('10.1.2.3/8').masked())", "cidr('10.0.0.0/8').prefixLength()",
            "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "cidr('10.0.0.0/8').containsIP('x')", "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "cidr('10.0.0.0/8').containsCIDR('x')", "cidr(self.t).prefixLength()", "cidr('10.0.0.0/33').prefixLength()", "isCIDR('10.0.0.0/8')"),
    _values("quantities-and-versions", ALL_KINDS, OBJECT, "quantity('1.5Gi').asInteger()", "quantity('2Gi').asInteger()", "quantity('100m').asApproximateFloat()", "quantity('1k').add(quantity('1')).asInteger()", "quantity('1k').sub(5).asInteger()", "sign(quantity('-5'))", "quantity('1').compareTo(quantity('1000m'))", "quantity('1Gi') == quantity('1024Mi')", "quantity(self.t).asInteger()", "isQuantity('1e3')", "quantity('1000m').isInteger()",
            "semver('1.2.3').major()", "semver('1.2.3-a.1+b').compareTo(semver('1.2.3'))", "semver('v1.2', true).minor()", "semver('1.2').major()", "semver('1.02.3').major()", "isSemver('v1.2.3')", "isSemver('v1.2.3', true)", "semver('1.2.3-1').isLessThan(semver('1.2.3-a'))"),
    _values("formats", ALL_KINDS, OBJECT, "format.dns1123Label().validate('Bad_').value()", "format.dns1123Label().validate('ok').hasValue()", "format.dns1123Subdomain().validate('A.b').value()", "format.dns1035Label().validate('1a').value()", "format.qualifiedName().validate('a/b/c').value()", "format.labelValue().validate('a b').value()", "format.uri().validate('nope').value()", "format.uuid().validate('x').value()", "format.byte().validate('!').value()",
            "format.date().validate('x').value()", "format.named('zz').hasValue()", "format.named('uuid').value().validate('x').value()", "'%d %s %.2f %e %b %o %x %X'.format([1, 'a', 1234.5, 1234.5, 5, 8, 255, 'hi'])", "'%s'.format([[1, 'a', 2.5, true, null, self.du, b'x', [1], {'b': 1, 'a': 2}]])", "'%s %%'.format([self.q])", "'%d'.format([dyn(self.s)])"),
    _changes("transitions-everywhere", _object(
        n=_ruled(INT, {"rule": "self >= oldSelf", "message": "only grows"}), l=_list(_ruled(ITEM, {"rule": "self.v >= oldSelf.v", "message": "grows by key"}), **KEYED),
        m=_map(_ruled(INT, {"rule": "self != oldSelf", "messageExpression": "'was %d, is %d'.format([oldSelf, self])"})), o=_ruled(_object(a=INT, b=INT), {"rule": "has(self.a) == has(oldSelf.a)", "fieldPath": ".a", "reason": "FieldValueForbidden", "message": "a stays"}),
        once=_ruled(INT, {"rule": "oldSelf.hasValue() ? oldSelf.value() == self : self < 10", "optionalOldSelf": True, "messageExpression": "'was %d'.format([oldSelf.value()])", "message": "set once, below 10"})),
        [{"n": 1, "once": 1}, {"n": 2, "once": 1}, {"n": 1, "once": 2}, {}, {"n": 0}], [{"once": 11}, {"once": 5}], [{"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, {"l": [{"k": "b", "v": 3}, {"k": "a", "v": 0}, {"k": "c", "v": 0}]}, {"l": [{"k": "c", "v": 0}]}],
        [{"m": {"a": 1, "b": 2}}, {"m": {"a": 1, "b": 3, "c": 4}}, {"m": {"a": 2, "b": 3}}], [{"o": {"a": 1}}, {"o": {"b": 1}}, {"o": {"a": 2, "b": 1}}],
    ),
    sequence(
        "rule-ratcheting",
        *defined(schema=_object(spec=_object(a=INT, b=INT, l=_list(ITEM, **KEYED), p=_list(INT), o=_object(x=INT, y=INT)))),
        post(CUSTOM, widget("a", spec={"a": 1, "b": 1})),
        post(CUSTOM, widget("l", spec={"l": [{"k": "a", "v": 1}, {"k": "b", "v": 1}]})),
        post(CUSTOM, widget("p", spec={"p": [1, 2]})),
        post(CUSTOM, widget("o", spec={"o": {"x": 1, "y": 1}})),
        _redefined(_object(
            a=_ruled(INT, {"rule": "self > 5", "message": "a is small"}), b=_ruled(INT, {"rule": "self > oldSelf", "message": "b grows"}), l=_list(_ruled(ITEM, {"rule": "self.v > 5", "message": "v is small"}), **KEYED), p=_list(_ruled(INT, {"rule": "self > 5", "message": "item is small"})),
            o=_ruled(_object(x=INT, y=INT), {"rule": "self.x > 5", "message": "x is small", "fieldPath": ".x"}))),
        post(f"{CUSTOM}?dryRun=All", widget("probe", spec={"a": 1}), until={"code": 422}),
        *[patch(f"{CUSTOM}/{name}", {"metadata": {"labels": {"touched": "yes"}}}) for name in ("l", "p", "o", "a")],
        patch(f"{CUSTOM}/a", {"spec": {"b": 2}}),
        patch(f"{CUSTOM}/a", {"spec": {"a": 2, "b": 3}}),
        patch(f"{CUSTOM}/a", {"spec": {"a": None, "b": 3}}),
        patch(f"{CUSTOM}/a", {"spec": {"a": 6, "b": 4}}),
        patch(f"{CUSTOM}/l", {"spec": {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 1}]}}),
        patch(f"{CUSTOM}/l", {"spec": {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 2}]}}),
        patch(f"{CUSTOM}/p", {"spec": {"p": [1, 2, 3]}}),
        patch(f"{CUSTOM}/o", {"spec": {"o": {"y": 2}}}),
        patch(f"{CUSTOM}/o", {"spec": {"o": {"x": 6}}}),
    ),
    _changes("messages-at-work", _ruled(_object(n=INT, s=SHORT, o=_object(x=INT)),
        {"rule": "self.n != 1", "messageExpression": "'n is %d'.format([self.n])"}, {"rule": "self.n != 2", "messageExpression": "'o is %d'.format([self.o.x])", "message": "fallback"}, {"rule": "self.n != 3", "messageExpression": "self.s"}, {"rule": "self.n != 4", "messageExpression": "self.s + '\\nmore'"},
        {"rule": "self.n != 5", "messageExpression": "'  padded '", "reason": "FieldValueRequired", "fieldPath": ".o.x"}, {"rule": "self.n != 6", "message": " plain ", "reason": "FieldValueDuplicate"}, {"rule": "self.n != 7", "messageExpression": "self.s.replace('', self.s.replace('', self.s))", "message": "long"}, {"rule": "self.n != 8\n", "message": "lines"}),
        *[[{"n": n, "s": s}] for n, s in ((1, "x"), (2, "x"), (3, "says s"), (3, ""), (4, "x"), (5, "x"), (6, "x"), (7, "123456789012345678901234567890"), (8, "x"))],
    ),
    sequence(
        "rule-budget-of-a-rule",
        *defined(schema=_object(spec=_object(l=_ruled(_list(INT, 1000), {"rule": "self.all(x, self.all(y, x + y >= 0))", "message": "none below zero"}, {"rule": "self.size() != 3"})))),
        post(CUSTOM, widget("few", spec={"l": [1, 2, 3]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("many", spec={"l": NUMBERS_1000}), only=("kind", "details.causes")),
        post(CUSTOM, widget("edge", spec={"l": NUMBERS_1000[:377]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("edge-over", spec={"l": NUMBERS_1000[:378]}), only=("kind", "details.causes")),
    ),
    sequence(
        "rule-budget-of-an-object",
        *defined(schema=_object(spec=_object(l=_ruled(_list(INT, 1000), *["self.all(x, self.all(y, x + y >= 0))"] * 12), z=_ruled(INT, "self > 0")))),
        post(CUSTOM, widget("few", spec={"l": [1, 2, 3]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("edge", spec={"l": NUMBERS_1000[:344]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("edge-over", spec={"l": NUMBERS_1000[:345]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("many", spec={"l": NUMBERS_1000}), only=("kind", "details.causes")),
    ),
    sequence(
        "rule-budget-of-messages",
        *defined(schema=_object(spec=_object(l=_ruled(_list(INT, 1000), {"rule": "self.size() < 5", "messageExpression": "self.all(x, self.all(y, x + y >= 0)) ? 'all' : 'some'"}, {"rule": "self.size() < 4"})))),
        post(CUSTOM, widget("few", spec={"l": [1, 2, 3, 4, 5]}), only=("kind", "details.causes")),
        post(CUSTOM, widget("many", spec={"l": NUMBERS_1000}), only=("kind", "details.causes")),
    ),
    sequence(
        "rule-on-whole-objects",
        *defined(schema={**_object(spec=_object(em=_ruled(EMBEDDED, {"rule": "self.metadata.name != ''", "message": "named"}, {"rule": "self.kind == 'Pod'"}), n=INT)), "x-kubernetes-validations": [
            {"rule": "self.metadata.name.size() < 5", "message": "short names"}, {"rule": "self.kind == 'Widget' && self.apiVersion.startsWith('rule-')"}, {"rule": "!has(self.metadata.generateName) || self.metadata.generateName == 'g-'", "message": "g-"}, {"rule": "!has(self.spec) || !has(self.spec.n) || self.spec.n > 0", "fieldPath": ".spec.n"}]}),
        post(CUSTOM, widget("w", spec={"em": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}})),
        post(CUSTOM, widget("too-long", spec={"n": 0})),
        post(CUSTOM, widget("x", spec={"em": {"apiVersion": "v1", "kind": "Node", "metadata": {}}})),
        patch(f"{CUSTOM}/w", {"spec": {"n": -1}}),
    ),
    _changes("nulls-and-lists", _object(nu={"type": "array", "maxItems": 5, "items": _ruled({"type": "string", "nullable": True, "maxLength": 5}, "self != 'x'")}, m=_map(_ruled({"type": "integer", "nullable": True}, "self > 0")), s=_ruled(_list(SHORT, **{"x-kubernetes-list-type": "set"}), "self == ['a', 'b']"),
             k=_ruled(_list(ITEM, **KEYED), "self.exists(x, x.k == 'a')")),
        [{"nu": ["a", None, "x"]}], [{"m": {"a": None, "b": 0}}], [{"s": ["b", "a"]}], [{"s": ["a"]}], [{"k": [{"k": "b"}]}], [{"k": [{"k": "a"}]}]),
    sequence("rule-conditions-types", _hooked(
        "request.name == 1", "request.foo == 'a'", "request.kind.group == 'apps' && request.resource.resource == 1", "request.userInfo.groups.exists(g, g == 1)", "request.userInfo.extra.a == ['x']", "object.metadata.name == 'a'", "object.spec", "oldObject == null", "namespaceObject.metadata.labels.a == 1", "namespaceObject.metadata.zz == 'a'",
        "request.dryRun", "request.options.x == 1", "params.x == 1", "variables.x == 1", "self.x == 1", "1", "'a'", "[1]", "null", "duration('1s')", "object.a +", "foo(object)", "object.l.all(x, x > 1)", "object.a.matches('(')", "request.operation in ['CREATE', 1]", "timestamp('x') > timestamp('2020-01-01T00:00:00Z')", "optional.none()")),
    _conditional("on-requests", config_map("probe"), 400, "request.operation != 'DELETE' || request.name != 'kept'", "!has(object.metadata.labels) || object.metadata.?labels[?'skip'].orValue('') != 'yes'", "request.userInfo.groups.exists(g, g == 'system:masters') && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'", then=[
        post(CM, config_map("a")), post(CM, config_map("b", labels={"skip": "yes"})), patch(f"{CM}/b", {"metadata": {"labels": {"skip": "no"}}}), post(CM, config_map("kept", labels={"skip": "yes"})), delete(f"{CM}/kept"), delete(f"{CM}/b")]),
    _conditional("that-fail", config_map("probe", {"other": "x"}), 403, "object.data.key == 'x'", "has(object.data) && object.data.size() == 1", then=[
        post(CM, config_map("a", {"key": "y"})), post(CM, config_map("b", {"other": "y"})), post(CM, config_map("c", {"a": "y", "b": "z"})), post(CM, config_map("d", {"key": "x"}))]),
    _conditional("with-absent-fields", config_map("probe"), 400, "object == null || !(object.metadata.name in ['subresource', 'old', 'user', 'namespace']) || true", "request.name != 'subresource' || request.subResource == ''", "request.name != 'old' || oldObject.metadata.name == ''", "request.name != 'user' || request.userInfo.extra.size() == 9", "request.name != 'namespace' || namespaceObject.metadata.name == 'a'", "request.name != 'number' || object.data + 1 > 0", "request.name != 'uid' || request.userInfo.uid == 'nobody'", then=[
        post(f"{CM}?dryRun=All", config_map(name, {"a": "b"})) for name in ("subresource", "old", "user", "namespace", "number", "uid")]),
    _conditional("about-access", config_map("probe"), 400, "request.name != 'may' || authorizer.group('').resource('configmaps').namespace('{{ns}}').check('create').allowed()", "request.name != 'may-not' || authorizer.serviceAccount('{{ns}}', 'nobody').group('apps').resource('deployments').subresource('scale').name('x').check('get').allowed()",
        "request.name != 'requested' || authorizer.requestResource.check('breakglass').allowed()", "request.name != 'path' || authorizer.path('/healthz').check('get').allowed()", "request.name != 'empty' || authorizer.path(' ').check('get').allowed()", "request.name != 'bad-name' || authorizer.serviceAccount('{{ns}}', 'Bad_').path('/x').check('get').allowed()",
        "request.name != 'reason' || authorizer.path('/x').check('get').reason() == 'because'", "request.name != 'errored' || authorizer.group('').resource('pods').labelSelector('a=b').fieldSelector('c=d').check('list').errored()", "request.name != 'dear' || [1, 2, 3].all(x, authorizer.path('/x').check('get').allowed())", then=[
        post(f"{CM}?dryRun=All", config_map(name)) for name in ("may", "may-not", "requested", "path", "empty", "bad-name", "reason", "errored", "dear")]),
    _conditional("that-cost-too-much", config_map("probe"), 400, "request.name != 'dear' || lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))", *["request.name != 'many' || lists.range(330).all(x, lists.range(330).all(y, x + y >= 0))"] * 3, then=[
        post(f"{CM}?dryRun=All", config_map(name)) for name in ("plain", "dear", "many")]),
]  # fmt: skip
