"""Every answer of the console's JSON API, below `/api/v1`.

The browser side derives its types from this file. JSON names are the camel-case forms of the names here, and all keys
are always present, except columns that a request did not ask for. Units are part of names: `_milli` is thousandths of
a CPU, `_bytes` bytes, `_permille` thousandths of what a node or cluster has, `_s` seconds. Names that end in `at_s` are
times in seconds since 1970; other names with `_s` are durations. `null` is "not measured", never zero.

| request | answer |
| --- | --- |
| `GET /me` | `Me` |
| `GET /overview` | `Overview` |
| `GET /map?by=pool` | `NodeMap`; `&bins=300`: `Silhouettes` |
| `GET /series?scope=cluster&resource=cpu&from_s=3600&points=300` | `Series`; scope is `cluster` or `node/NAME` |
| `GET /nodes`, `/pending`, `/services`, `/quotas`, `/changes` | `Page` of `NodeColumns`, `PendingColumns`, ... |
| `GET /pending?group=reason` | `PendingGroups` |
| `GET /nodes/NAME` | `NodeDetail` |
| `GET /nodes/NAME/lending` | `NodeExplanation`, as `koord explain node/NAME -o json` prints it |
| `GET /pods/NS/NAME` | `PodDetail` |
| `GET /pods/NS/NAME/explanation` | `Explanation` of `koord explain NAME` |
| `GET /gangs/NS/NAME` | `GangDetail` |
| `GET /gangs/NS/NAME/explanation` | `Explanation` of `koord explain podgroup/NAME` |
| `GET /services/NS/KIND/NAME` | `ServiceDetail` |
| `GET /quotas/NAME` | `QuotaDetail` |
| `GET /quotas/NAME/explanation` | `Explanation` of `koord explain quota/NAME` |
| `GET /rollouts` | `Rollouts` |
| `GET /settings?pool=pool%3Dbatch` | `Settings` of a pool or the cluster, as thresholds and policy change them |
| `GET /worth?since=24h&by=quota` | `WorthAnswer` |
| `GET /health` | `HealthAnswer`, with `Status` as `koord status -o json` prints it |
| `GET /find?q=` | `Finds` |
| `POST /previews`, body `PreviewRequest` | `Preview` |
| `POST /acts`, body `ActRequest`, header `Idempotency-Key` | `Act`, status 202 |
| `GET /acts/ID` | `Act` |
| `POST /acts/ID/undo`, body `{}` | `Preview` of the opposite act |
| `GET /events?topics=overview,map,node/NAME,pod/NS/NAME,act/ID` | server-sent events, see `EVENTS` |

Lists take `columns=a,b`, `filter=text`, `sort=column` or `sort=-column`, `limit` (100, at most 1000) and `cursor`,
and filters of their own: `/pending?reason=&quota=&ns=`, `/nodes?group=`. Requests that write need the header
`X-Koord-Csrf` with `Me.csrf`. An error has a status of 400 or above and the body `Error`.

An act is previewed first, and done by its preview's id. Answers of `POST /acts`: 202 it is under way; 400 without
`Idempotency-Key`, or the typed word is wrong; 403 rights are missing; 404 this user has no preview of this id; 409
objects changed since the preview: the body is `PreviewChanged`, with a new preview; 410 the preview is older than two
minutes, or was used. The same key again answers with the same act.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

Level: TypeAlias = Literal["ok", "warning", "critical"]
ActName: TypeAlias = Literal[
    "colocation-off",
    "colocation-on",
    "thresholds",
    "policy",
    "rollout-start",
    "rollout-stop",
    "rollout-resume",
    "rollout-undo",
    "move-pod",
]
ACTS: Final[tuple[ActName, ...]] = (
    "colocation-off",
    "colocation-on",
    "thresholds",
    "policy",
    "rollout-start",
    "rollout-stop",
    "rollout-resume",
    "rollout-undo",
    "move-pod",
)
BANDS: Final = ("prod", "mid", "batch", "free", "system")

EVENTS: Final = {
    "overview": "Overview",
    "map": "MapDelta",
    "node/NAME": "Changed",
    "pod/NS/NAME": "Changed",
    "act/ID": "Act",
    "explanation/TICKET": "Explanation",
    "reset": "Reset",
}
"""Server-sent events: `event` is the topic, `data` the shape, `id` is EPOCH-REV. `reset` means: load everything again,
because the server restarted, or the client was away for longer than it keeps events. A comment comes every 15 s."""


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all answers. Every key is always present."""


class Error(Shape, frozen=True):
    """Why a request was refused, and what helps."""

    object: str
    "What the error is about: a path, a field or an object."
    cause: str
    remedy: str
    "What the user can do; empty if there is nothing."


# Who is asking.


class Me(Shape, frozen=True):
    user: str
    groups: tuple[str, ...]
    cluster: str
    "The name of the context, or the address of the API server."
    version: str
    "Of koord."
    epoch: str
    "Changes when the server starts. Revisions count from zero in each epoch."
    signed_in_by: Literal["kubeconfig", "token"]
    "kubeconfig: acts are done as the user of the kubeconfig that the console was started with."
    can: dict[str, bool]
    "By name of the act: whether the user has all rights for it."
    missing: dict[str, tuple[str, ...]]
    "By name of the act: the rights that are missing, for example `patch nodes/status`."
    commands: dict[str, str]
    "By name of the act: the command that does the same."
    namespaces: tuple[str, ...] | Literal["all"]
    "Where the user may list pods. Pods of other namespaces are counted, not named."
    csrf: str
    "To be sent as X-Koord-Csrf with every POST."
    started_at_s: float
    has_prometheus: bool
    grafana_url: str
    "Empty if none was given."


# The overview.


class ByBand(Shape, frozen=True):
    """Amounts by priority band. The unit is that of the field that holds them."""

    prod: int
    mid: int
    batch: int
    free: int
    system: int


class ResourceSummary(Shape, frozen=True):
    """One resource of a node or of all nodes. The unit is that of the field that holds it."""

    capacity: int
    allocatable: int
    used: ByBand | None
    "Null if no node reported. Nodes that do not report are not in it."
    used_in_all: int | None
    asked: ByBand
    "Requests of pods; system is always 0."
    lent: int
    "What nodes lend to batch and mid pods."
    lent_left: int
    "The part of it that no pod requests; negative if less is lent than before."
    held_back: int | None
    "What best-effort pods asked for and were kept from, where a limit binds. Null if no agent reports it."


class Nodes(Shape, frozen=True):
    total: int
    ready: int
    reporting: int
    "With a report that is not stale."
    silent: int
    lending: int
    cordoned: int
    youngest_report_s: int | None
    oldest_report_s: int | None


class Services(Shape, frozen=True):
    """Pods of services: priority band prod."""

    ready: int
    total: int
    slowed: int | None
    "Slowed by neighbours in the last hour. Null without the gate InterferenceDetection."
    slowed_why_null: str


class ReasonGroup(Shape, frozen=True):
    """Pending pods with the same reason."""

    reason: str
    "A code, to be used as /pending?reason=."
    plugin: str
    "The scheduler plugin that rejects most nodes; empty if the pods wait for something else."
    title: str
    "For people: `not enough lent CPU`."
    pods: int
    oldest_s: int
    examples: tuple[str, ...]
    "NAMESPACE/NAME of pods that the user may list, at most 3."


class Pending(Shape, frozen=True):
    total: int
    oldest_s: int | None
    groups: tuple[ReasonGroup, ...]
    "The five largest."


class Attention(Shape, frozen=True):
    """Something that needs a person."""

    level: Level
    title: str
    cause: str
    since_at_s: float | None
    link: str
    "The page that shows it, for example /nodes/n1; empty if there is none."
    remedy: str
    "How to fix it: a command where there is one."


TenantBand: TypeAlias = Literal["-", "batch", "mid"]


class Tenant(Shape, frozen=True):
    quota: str
    parent: str
    band: TenantBand
    used_milli: int
    request_milli: int
    min_milli: int
    runtime_milli: int
    max_milli: int | None
    "Null: unlimited."
    pending: int
    problem: str


class Overview(Shape, frozen=True):
    """All figures of the first page but map and chart."""

    epoch: str
    rev: int
    at_s: float
    level: Level
    sentence: str
    "What is going on, worst fact first."
    cluster: str
    nodes: Nodes
    services: Services
    cpu_milli: ResourceSummary
    memory_bytes: ResourceSummary
    pending: Pending
    evicted_last_hour: int
    moved_last_hour: int
    counted_since_at_s: float
    "Evictions and moves are counted from then, if the server started less than an hour ago."
    attention: tuple[Attention, ...]
    "At most seven, worst first."
    attention_in_all: int
    tenants: tuple[Tenant, ...]
    "At most eight, those with most use first."
    tenants_in_all: int
    hidden_pods: int
    "Pods of namespaces that the user may not list; sums include them."
    stale_since_at_s: float | None
    "The server lost the API server then: figures are of that time."
    stale_why: str


# The map of nodes.

NEEDS_ATTENTION: Final = 1
NO_REPORT: Final = 2
LENDING_OFF: Final = 4
CORDONED: Final = 8
NOT_READY: Final = 16
MARKS: Final = {
    "needsAttention": NEEDS_ATTENTION,
    "noReport": NO_REPORT,
    "lendingOff": LENDING_OFF,
    "cordoned": CORDONED,
    "notReady": NOT_READY,
}
"""Bits of `marks`."""

Share: TypeAlias = int | None
"""Thousandths of the node's capacity; null without a report."""


class Shares(Shape, frozen=True):
    """Columns: one value for each row."""

    prod_permille: list[Share]
    mid_permille: list[Share]
    batch_permille: list[Share]
    free_permille: list[Share]
    system_permille: list[Share]
    held_back_permille: list[Share]
    memory_permille: list[Share]
    "All memory in use."
    marks: list[int]


class NodeMap(Shares, frozen=True):
    """One row for each node. A row keeps its number until the epoch ends; rows of deleted nodes have an empty name."""

    epoch: str
    rev: int
    by: str
    groups: list[str]
    group: list[int]
    "Index into groups."
    names: list[str]
    capacity_milli: list[int]


class MapDelta(Shares, frozen=True):
    """Rows that changed. New nodes come with a row of their own."""

    epoch: str
    rev: int
    rows: list[int]
    names: list[str]
    group: list[str]
    "The group's name by `pool`."
    capacity_milli: list[int]


class Silhouette(Shares, frozen=True):
    """A group of nodes, sorted by use, as `bins` columns: averages of the nodes in each column. `marks` holds the bits
    of any node in the column."""

    name: str
    nodes: int
    first: list[str]
    "The first node of each column."


class Silhouettes(Shape, frozen=True):
    epoch: str
    rev: int
    by: str
    groups: tuple[Silhouette, ...]


# Courses over time.


class Series(Shape, frozen=True):
    """Averages over steps of `step_s`; milli-cores or bytes. Null where nothing was measured."""

    scope: str
    resource: Literal["cpu", "memory"]
    unit: Literal["milli-cores", "bytes"]
    t0_at_s: float
    step_s: float
    capacity: list[int | None]
    prod: list[int | None]
    mid: list[int | None]
    batch: list[int | None]
    free: list[int | None]
    system: list[int | None]
    asked_prod: list[int | None]
    "Requests of services."
    lent: list[int | None]
    held_back: list[int | None]
    source: Literal["server", "prometheus"]
    since_at_s: float
    "The source has nothing older."
    note: str
    "For example: since the console started; koord console --prometheus URL shows more."


# Lists.

Strings: TypeAlias = list[str] | UnsetType
Integers: TypeAlias = list[int | None] | UnsetType
Booleans: TypeAlias = list[bool] | UnsetType


class Columns(Shape, frozen=True):
    """Lists of equal length; a column that was not asked for is absent."""


class NodeColumns(Columns, frozen=True):
    name: Strings = UNSET
    group: Strings = UNSET
    marks: Integers = UNSET
    capacity_milli: Integers = UNSET
    used_milli: Integers = UNSET
    used_permille: Integers = UNSET
    prod_milli: Integers = UNSET
    mid_milli: Integers = UNSET
    batch_milli: Integers = UNSET
    free_milli: Integers = UNSET
    system_milli: Integers = UNSET
    held_back_milli: Integers = UNSET
    lent_milli: Integers = UNSET
    lent_left_milli: Integers = UNSET
    asked_prod_milli: Integers = UNSET
    memory_bytes: Integers = UNSET
    memory_used_bytes: Integers = UNSET
    memory_lent_bytes: Integers = UNSET
    pods: Integers = UNSET
    report_age_s: Integers = UNSET


class PendingColumns(Columns, frozen=True):
    namespace: Strings = UNSET
    name: Strings = UNSET
    owner: Strings = UNSET
    "KIND/NAME of its controller."
    quota: Strings = UNSET
    band: Strings = UNSET
    gang: Strings = UNSET
    reason: Strings = UNSET
    plugin: Strings = UNSET
    title: Strings = UNSET
    message: Strings = UNSET
    "As in the pod's condition."
    nodes: Integers = UNSET
    "How many nodes the plugin rejects."
    asked_milli: Integers = UNSET
    asked_bytes: Integers = UNSET
    age_s: Integers = UNSET


class ServiceColumns(Columns, frozen=True):
    namespace: Strings = UNSET
    kind: Strings = UNSET
    name: Strings = UNSET
    ready: Integers = UNSET
    total: Integers = UNSET
    slowed_last_day: Integers = UNSET
    evicted_last_hour: Integers = UNSET
    used_milli: Integers = UNSET
    asked_milli: Integers = UNSET
    neighbours: Integers = UNSET
    "Batch, mid and free pods on the same nodes."


class QuotaColumns(Columns, frozen=True):
    """In the order of the tree: children follow their parent."""

    quota: Strings = UNSET
    parent: Strings = UNSET
    tree: Strings = UNSET
    depth: Integers = UNSET
    is_parent: Booleans = UNSET
    band: Strings = UNSET
    used_milli: Integers = UNSET
    request_milli: Integers = UNSET
    runtime_milli: Integers = UNSET
    min_milli: Integers = UNSET
    max_milli: Integers = UNSET
    used_bytes: Integers = UNSET
    runtime_bytes: Integers = UNSET
    min_bytes: Integers = UNSET
    max_bytes: Integers = UNSET
    borrows_milli: Integers = UNSET
    lends_milli: Integers = UNSET
    pending: Integers = UNSET
    problem: Strings = UNSET


class ChangeColumns(Columns, frozen=True):
    """Newest first."""

    id: Strings = UNSET
    at_s: list[float] | UnsetType = UNSET
    kind: Strings = UNSET
    "act, eviction, move, rollout or setting."
    who: Strings = UNSET
    what: Strings = UNSET
    why: Strings = UNSET
    result: Strings = UNSET
    object: Strings = UNSET
    link: Strings = UNSET
    can_undo: Booleans = UNSET


AnyColumns: TypeAlias = NodeColumns | PendingColumns | ServiceColumns | QuotaColumns | ChangeColumns


class Page(Shape, frozen=True):
    """One page of a list."""

    epoch: str
    rev: int
    total: int
    "Rows that match the filter, on all pages."
    hidden: int
    "Rows that match and that the user may not see."
    columns: Any
    "One of the column structs above."
    next: str | None
    "The cursor of the next page; null on the last one."


class PendingGroups(Shape, frozen=True):
    epoch: str
    rev: int
    total: int
    sentence: str
    groups: tuple[ReasonGroup, ...]


# One node.


class NodePod(Shape, frozen=True):
    namespace: str
    name: str
    band: str
    qos: str
    phase: str
    ready: bool
    asked_milli: int
    asked_bytes: int
    used_milli: int | None
    used_bytes: int | None


class HistoryEntry(Shape, frozen=True):
    at_s: float
    title: str
    reason: str
    "The event's reason, or the kind of object."
    object: str
    link: str


class NodeDetail(Shape, frozen=True):
    epoch: str
    rev: int
    name: str
    level: Level
    sentence: str
    pool: str
    labels: dict[str, str]
    ready: bool
    cordoned: bool
    marks: int
    lending_on: bool
    lending_off_why: str
    report_age_s: int | None
    report_stale_why: str
    capacity_milli: int
    cpu_milli: ResourceSummary
    memory_bytes: ResourceSummary
    suppress_permille: int | None
    "Use of CPU above which best-effort pods are held back, from the node's NodeSLO."
    evict_memory_permille: int | None
    pods: tuple[NodePod, ...]
    hidden_pods: int
    history: tuple[HistoryEntry, ...]
    command: str
    "Prints the same: koord explain node/NAME."


# One pod.


class PodDetail(Shape, frozen=True):
    epoch: str
    rev: int
    namespace: str
    name: str
    uid: str
    level: Level
    sentence: str
    phase: str
    ready: bool
    node: str
    band: str
    qos: str
    priority: int | None
    quota: str
    gang: str
    owner: str
    scheduler_name: str
    created_at_s: float
    scheduled_at_s: float | None
    asked_milli: int
    asked_bytes: int
    used_milli: int | None
    used_bytes: int | None
    reason: str
    plugin: str
    title: str
    message: str
    pending_s: int | None
    similar_wait_median_s: int | None
    "Of the quota's pods that were scheduled in the last hour."
    similar_wait_p90_s: int | None
    similar_pods: int
    history: tuple[HistoryEntry, ...]
    command: str


class Explanation(Shape, frozen=True):
    """`koord explain POD -o json`, or a ticket whose result comes as event `explanation/TICKET` (status 202)."""

    ticket: str
    "Empty if `explained` has the result."
    explained: Any
    "koord.offline.explain.Explained; null with a ticket or an error."
    error: str
    took_s: float


# Services, quotas, worth, health.


class Slowdown(Shape, frozen=True):
    at_s: float
    pod: str
    reason: str
    message: str


class ServiceDetail(Shape, frozen=True):
    namespace: str
    kind: str
    name: str
    sentence: str
    ready: int
    total: int
    pods: tuple[NodePod, ...]
    neighbours: tuple[NodePod, ...]
    "Batch, mid and free pods on the same nodes, those with most use first, at most 50."
    slowdowns: tuple[Slowdown, ...]
    detection_note: str
    "How to switch detection on, if it is off."


class QuotaDetail(Shape, frozen=True):
    quota: str
    sentence: str
    path: tuple[Tenant, ...]
    "From the root to the quota."
    children: tuple[Tenant, ...]
    pods: tuple[NodePod, ...]
    pending: tuple[str, ...]
    hidden_pods: int
    command: str


class WorthRow(Shape, frozen=True):
    name: str
    lent_cpu_hours: float
    "Requested by pods on lent resources, in core-hours."
    used_cpu_hours: float
    lent_gib_hours: float
    used_gib_hours: float
    evictions: int
    node_hours_saved: float
    cost_saved: float | None
    "Null without a price."


class WorthMoment(Shape, frozen=True):
    at_s: float
    offered_milli: float
    lent_milli: float
    used_milli: float


WorthBy: TypeAlias = Literal["namespace", "quota", "workload"]


class WorthAnswer(Shape, frozen=True):
    sentence: str
    by: WorthBy
    since: str
    source: str
    offered_cpu_hours: float
    offered_gib_hours: float
    total: WorthRow
    rows: tuple[WorthRow, ...]
    course: tuple[WorthMoment, ...]
    "From Prometheus, else as the console saw it since it started."
    right_sizing: Any
    "What right-sizing would save: `total` and `workloads`, with `cores`, `gib` and `nodes`."
    notes: tuple[str, ...]
    "Always shown."
    command: str


class HealthAnswer(Shape, frozen=True):
    level: Level
    sentence: str
    status: Any
    "koord.operate.health.Status."
    command: str


class Find(Shape, frozen=True):
    kind: Literal["node", "pod", "service", "quota"]
    name: str
    "NAMESPACE/NAME of pods and services."
    detail: str
    link: str


class Finds(Shape, frozen=True):
    finds: tuple[Find, ...]
    "The 20 best."
    hidden: int


# Acts.


class Scope(Shape, frozen=True):
    """What an act applies to: nodes, a pool (a label selector), a pod, a feature, or else the whole cluster."""

    nodes: tuple[str, ...] = ()
    pool: str = ""
    pod: str = ""
    "NAMESPACE/NAME."
    feature: str = ""
    "Of a roll-out."


Setting: TypeAlias = str | int | float | bool | tuple[int, ...] | None


class PreviewRequest(Shape, frozen=True, forbid_unknown_fields=True):
    act: ActName
    scope: Scope = Scope()
    evict: bool = False
    "colocation-off: also evict the pods that use lent resources."
    why: Annotated[str, msgspec.Meta(max_length=500)] = ""
    settings: Annotated[dict[str, Setting], msgspec.Meta(max_length=32)] = {}
    """
    | act | settings |
    | --- | --- |
    | thresholds | fields of `Settings.thresholds` by name; null takes the scope's own value away |
    | policy | `cpu` and `memory`, or one of them: a policy of `Settings.policy_choices`; optionally `markPercent` |
    | rollout-start | all optional: `steps`, `everySeconds`, `maxUnready`, `maxSlowed`, `maxEvictions`, `onStop` |
    | rollout-resume | optionally `again`: also nodes that were taken back |
    | move-pod | optionally `mode`: ReservationFirst or EvictDirectly |
    """


class PreviewPod(Shape, frozen=True):
    pod: str
    "NAMESPACE/NAME."
    uid: str
    node: str
    priority_class: str


class SettingChange(Shape, frozen=True):
    field: str
    before: str
    "Empty if nothing is set."
    after: str


class WhatIf(Shape, frozen=True):
    """What nodes would lend with the settings, calculated from the reports that nodes sent last."""

    nodes: int
    lent_milli_before: int
    lent_milli_after: int
    lent_bytes_before: int
    lent_bytes_after: int
    evictions: tuple[str, ...]
    "Pods that agents would evict with these settings and do not evict now, at most 50."
    evictions_in_all: int
    note: str


class HistoryFigure(Shape, frozen=True):
    """One line of `koord sim what-if`."""

    name: str
    before: str
    after: str


class HistoryWhatIf(Shape, frozen=True):
    """What the settings would have changed on recorded load: `koord sim what-if`."""

    sentence: str
    figures: tuple[HistoryFigure, ...]
    evictions: int
    "Pods that would have been evicted and were not."
    error: str
    "Why there is none; else empty."
    command: str


class Preview(Shape, frozen=True):
    """What an act would do. It lives for two minutes, and can be done once."""

    id: str
    act: ActName
    scope: Scope
    evict: bool
    settings: dict[str, Setting]
    why: str
    sentence: str
    verb: str
    "The words of the button: `Evict 3 pods`."
    nodes: tuple[str, ...]
    "At most 200."
    nodes_in_all: int
    taken_back_milli: int
    taken_back_bytes: int
    pods_that_go: tuple[PreviewPod, ...]
    "All of them; only these are evicted."
    pods_that_stay: tuple[str, ...]
    "Pods on lent resources that keep running, at most 200."
    pods_that_stay_in_all: int
    pods_spared: tuple[str, ...]
    "In the cluster's own namespaces: not evicted, at most 200."
    pods_spared_in_all: int
    budgets: dict[str, str]
    "Disruption budgets that refuse evictions now: the reason, by pod."
    changes: tuple[SettingChange, ...]
    what_if: WhatIf | None
    history: HistoryWhatIf | None
    "Null if the console has no recording (`koord console --recording`)."
    missing_rights: tuple[str, ...]
    "If any: the act is refused."
    cannot_be_undone: str
    "What the opposite act would not bring back; empty if it undoes all."
    type_to_confirm: str
    "The word that the user must type, if more than a tenth of the nodes is affected; else empty."
    command: str
    "Does the same."
    at_s: float
    expires_at_s: float
    notes: tuple[str, ...]


class PreviewChanged(Shape, frozen=True):
    """Status 409 of `POST /acts`: what the user agreed to is not what would happen."""

    object: str
    cause: str
    remedy: str
    preview: Preview
    "What would happen now."
    differences: tuple[str, ...]
    "Sentences: what changed since the preview that the user saw."


class ActRequest(Shape, frozen=True, forbid_unknown_fields=True):
    preview: Annotated[str, msgspec.Meta(max_length=64)]
    typed: Annotated[str, msgspec.Meta(max_length=300)] = ""
    why: Annotated[str, msgspec.Meta(max_length=500)] = ""
    "Instead of the preview's, if not empty."


class ActStep(Shape, frozen=True):
    title: str
    done: int
    of: int | None
    state: Literal["waiting", "running", "done", "failed"]


class Act(Shape, frozen=True):
    """An act under way, or its record."""

    id: str
    act: ActName
    scope: Scope
    settings: dict[str, Setting]
    who: str
    why: str
    at_s: float
    state: Literal["running", "done", "failed", "interrupted"]
    "failed: at least one part failed. interrupted: the console ended before the act did."
    sentence: str
    steps: tuple[ActStep, ...]
    evicted: tuple[str, ...]
    refused: dict[str, str]
    "Pods that could not be evicted, and nodes that could not be written: the reason, by name."
    hidden_pods: int
    "Pods of the above that the user may not see."
    ended_at_s: float | None
    can_undo: bool
    undo_note: str
    "Why it cannot be undone, or what stays."
    undo_of: str
    "The act that this one undid; else empty."
    undone_by: str
    command: str


# What acts change.


class PoolChoice(Shape, frozen=True):
    """A group of nodes that share a label."""

    name: str
    selector: str
    "As `Scope.pool` and `-l` take it: pool=batch."
    nodes: int


class Threshold(Shape, frozen=True):
    name: str
    "The field's name in slo-controller-config."
    section: str
    title: str
    unit: str
    minimum: int
    maximum: int
    value: int | None
    "In force for these nodes; null if they differ among themselves, or if nothing is set."
    own: int | None
    "What this scope itself sets; null if it inherits."
    set_in: str
    "Where the value comes from."


class PolicyInForce(Shape, frozen=True):
    """Nodes that lend by the same policy."""

    cpu: str
    memory: str
    mark_percent: int | None
    set_in: str
    nodes: int


class Settings(Shape, frozen=True):
    pool: str
    "The selector; empty for the cluster."
    lending_on: int
    "Nodes of the scope where lending is on."
    nodes: int
    pools: tuple[PoolChoice, ...]
    thresholds: tuple[Threshold, ...]
    policies: tuple[PolicyInForce, ...]
    policy_choices: dict[str, tuple[str, ...]]
    "By resource."
    faults: tuple[str, ...]
    "Of the stored configuration, which make nodes use an older one."
    command: str


class RolloutLimit(Shape, frozen=True):
    name: str
    count: int
    limit: int
    examples: tuple[str, ...]
    "NAMESPACE/NAME of services that the user may see, at most 5."


class RolloutState(Shape, frozen=True):
    feature: str
    about: str
    state: Literal["none", "running", "stopped", "complete"]
    "none: there is no roll-out; it can be started."
    sentence: str
    steps: tuple[int, ...]
    "Percent of the nodes."
    step: int
    percent: int
    nodes: int
    "That have the feature."
    pool: int
    "Nodes of the roll-out."
    selector: str
    since_at_s: float | None
    every_s: float
    next_at_s: float | None
    "When the next step begins; null if none does."
    reason: str
    limits: tuple[RolloutLimit, ...]
    "unready, slowed and evicted, in this step."
    taken_back: tuple[str, ...]
    on_stop: Literal["back", "hold"]
    acts: tuple[ActName, ...]
    "What can be done now."


class Rollouts(Shape, frozen=True):
    rollouts: tuple[RolloutState, ...]
    "One for each feature."
    faults: tuple[str, ...]
    command: str


class GangDetail(Shape, frozen=True):
    namespace: str
    name: str
    level: Level
    sentence: str
    min_member: int | None
    "Null if no PodGroup says it."
    scheduled: int
    pending: int
    pods: tuple[NodePod, ...]
    reasons: tuple[ReasonGroup, ...]
    command: str


class Reset(Shape, frozen=True):
    epoch: str
    rev: int


class Changed(Shape, frozen=True):
    """Load the object of the topic again."""

    epoch: str
    rev: int
