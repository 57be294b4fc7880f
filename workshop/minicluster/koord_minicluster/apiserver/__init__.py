"""A Kubernetes API in one process: what kubectl and others' clients take for a cluster. Imports only `koord.api`.

A request comes in at `http`, is authenticated and authorised (`access`), goes by its verb (`verbs`) to the objects
(`objects`), through admission (`admission`) into the store, and its answer leaves in the form that was asked for.
What is particular to a kind is in its `Strategy` (`resource`); everything else is the same for all kinds. Objects are
plain dicts while they are worked on, and bytes in the store. Messages are the real server's, word for word.

| module | what it has |
| --- | --- |
| `server` | `ApiServer`: all of it put together |
| `listening`, `wire/`, `http`, `in_flight` | the socket; HTTP; a request; how many at once |
| `paths`, `telemetry` | what is no object: health, version, metrics |
| `request_info`, `routing`, `negotiation` | what a request asks for, whether that exists, in which form it is wanted |
| `list_options`, `write_options`, `selectors` | the options of a request, judged |
| `verbs`, `listing`, `watching`, `tables`, `printing` | get, list, watch, create, ... and the forms of their answers |
| `subresources/` | binding, eviction, scale, finalize, log |
| `objects`, `metadata`, `deletion`, `stored` | the life of an object; its metadata; the bytes that are kept of it |
| `store`, `collection`, `events`, `worker`, `revision_log` | objects and watchers in memory, revisions in SQLite |
| `resource`, `registry`, `status` | what is served; refusals |
| `schema`, `schemas/`, `structural` | the shape of objects; the table of built-in kinds; dropping and defaulting |
| `bodies/` | what clients send: JSON, YAML, protobuf, patches |
| `patch/` | JSON, merge and strategic patches, server-side apply, managedFields |
| `builtin/`, `formats`, `remembering` | the built-in kinds: defaults, validation, columns; what values may look like |
| `custom/`, `cel/` | CustomResourceDefinitions and what they define; CEL in rules and match conditions |
| `access/`, `certs` | authentication, RBAC, reviews, tokens; the keys of it all |
| `admission/` | webhooks, namespaces, priorities, limits, quotas, and what else a write must pass |
| `discovery`, `openapi` | what is served, for clients that ask |
| `computed`, `metrics_api`, `component_statuses` | what is worked out when asked for: `kubectl top`, health |
"""
