"""Names, bodies and queries that no client sends by mistake."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

import json

from tests.minicluster.apiserver.differential.steps import (
    CORE,
    MERGE,
    YAML,
    config_map,
    get,
    patch,
    post,
    put,
    sequence,
)

CM = f"{CORE}/configmaps"
DEEP = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"x":' + '{"a":' * 12_000 + "1" + "}" * 12_001
DEEP_LIST = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"x":' + "[" * 12_000 + "]" * 12_000 + "}"

SEQUENCES = [
    sequence(
        "hostile-paths",
        *[
            get(f"{CM}/{name}")
            for name in ("..", "%2e%2e", "%2F", "a%2Fb", "a%00b", "%ff", "%E2%82%AC", "a%20b", "a;b", "a%3Fb", "a%23b", "*", "$(id)", "x" * 2000, "%", "a%0Ab", "'%22", "{a}")
        ],
        get("/api/v1/namespaces/..%2f..%2fetc/configmaps/x"),
        get("/api/v1/namespaces/%2e%2e/configmaps"),
        get("/api//v1/namespaces"),
        get("//api/v1"),
        get("/api/v1/../v1/nodes/x"),
    ),
    sequence(
        "hostile-bodies",
        post(CM, DEEP),
        post(CM, DEEP_LIST),
        post(CM, config_map("big", {"a": "x" * (3 * 1024 * 1024)})),
        post(CM, config_map("large", {"a": "x" * (1024 * 1024 + 1)})),
        post(CM, config_map("fits", {"a": "x" * (900 * 1024)})),
        post(CM, config_map("control", {"a": "\u0000\u0001\u001f\u007f\u2028"})),
        post(CM, config_map("html", {"a": "<script>&amp;</script>"}, annotations={"k": "<&>\u2028"})),
        post(CM, config_map("emoji", {"a": "🦄 ünïcode"}, annotations={"🦄": "x"})),
        post(CM, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"surrogate"},"data":{"a":"\\ud800"}}'),
        post(CM, json.dumps(config_map("spaces")) + " \n\t "),
        post(CM, "\ufeff" + json.dumps(config_map("bom"))),
        post(CM, "a: &a [x]\nb: [*a, *a]\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: anchors}\n", content_type=YAML),
        post(CM, "&a [*a]", content_type=YAML),
        post(CM, "!!python/object/apply:os.system ['true']", content_type=YAML),
        patch(f"{CM}/fits", {"data": {"b": "x" * (200 * 1024)}}, MERGE),
        patch(f"{CM}/fits", '{"x":' * 12_000 + "1" + "}" * 12_000, MERGE),
        put(f"{CM}/fits", config_map("fits", {"a": "y"})),
    ),
    sequence(
        "hostile-queries",
        get(f"{CM}?limit=1&limit=2"),
        get(f"{CM}?unknown=1"),
        get(f"{CM}?labelSelector=a%3Db&labelSelector=c%3Dd"),
        get(f"{CM}?labelSelector=" + "a" * 400 + "%3Db"),
        get(f"{CM}?labelSelector=" + ",".join(f"k{n}" for n in range(500))),
        get(f"{CM}?%zz"),
        get(f"{CM}?pretty=true"),
        get(f"{CM}?="),
        post(f"{CM}?pretty=maybe", config_map("pretty")),
        get(f"{CM}?limit=%31"),
        get(f"{CM}?resourceVersion=18446744073709551616"),
        get(f"{CM}?resourceVersion=9223372036854775807&resourceVersionMatch=Exact"),
        get(f"{CM}?timeoutSeconds=-1"),
    ),
    sequence(
        "hostile-headers",
        get(CM, headers={"Accept": ""}),
        get(CM, headers={"Accept": ";;;"}),
        get(CM, headers={"Accept": "application/json;q=x"}),
        get(CM, headers={"Accept": "a" * 4000}),
        post(CM, config_map("x"), content_type="application/json;charset=latin1"),
        post(CM, config_map("agent"), headers={"User-Agent": "x" * 300 + "/1"}),
        post(CM, config_map("agent2", {"a": "b"}), headers={"User-Agent": "ünï/1"}),
        post(CM, config_map("agent3", {"a": "b"}), headers={"User-Agent": "/"}),
        post(CM, config_map("agent4", {"a": "b"}), headers={"User-Agent": "plain agent (x; y)"}),
    ),
]  # fmt: skip
