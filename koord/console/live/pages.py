"""The routes of lists and of single objects."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from koord.api.kinds import NODE_SLOS, POD_GROUPS
from koord.api.text.manifest import Manifests
from koord.api.text.selector import parse_labels
from koord.console import details, listings, shapes
from koord.console.changes import changes
from koord.console.listings import Listing
from koord.console.live.commands import Commands
from koord.console.live.guard import Refused
from koord.console.live.server import Answer, Ask, Server
from koord.console.live.world import World
from koord.console.numbers import duration
from koord.console.paging import DEFAULT_LIMIT, MOST, PageQuery, page_of
from koord.console.reasons import groups_of, pending_sentence, reason_of
from koord.console.settings import rollouts_of, settings_of
from koord.console.shapes import Explanation, Page, PendingGroups, WorthAnswer, WorthMoment, WorthRow
from koord.kube.errors import Forbidden, NotFound
from koord.manager.node_resource.explain import NodeExplanation
from koord.offline.live.node_snapshot import node_snapshot
from koord.offline.live.snapshot import merged
from koord.offline.node_resources import explain_node
from koord.operate.since import parse as since_s

log = logging.getLogger(__name__)

SOON_S: Final = 0.5
"""An explanation that takes longer is answered with a ticket."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_SINCE: Final = re.compile(r"[0-9]{1,4}[mhdw]")
COURSE_POINTS: Final = 120
_NODE_SIZE: Final = (("cores", "--node-cpu", 32.0), ("gib", "--node-memory", 128.0), ("price", "--node-price", 0.0))
"""The node to compare with: in the query, and as an option of koord report."""
_BY: Final[dict[str, shapes.WorthBy]] = {"namespace": "namespace", "quota": "quota", "workload": "workload"}
NOTHING: Final = Manifests((), (), (), {})


class Pages:
    def __init__(self, server: Server, world: World, commands: Commands, report_options: Sequence[str] = ()) -> None:
        self._world, self._commands, self._report_options = world, commands, report_options
        self._tasks: set[asyncio.Task[None]] = set()
        for path, handler in (
            ("/nodes", self._nodes),
            ("/nodes/{name}", self._node),
            ("/nodes/{name}/lending", self._lending),
            ("/pending", self._pending),
            ("/pods/{namespace}/{name}", self._pod),
            ("/pods/{namespace}/{name}/explanation", self._explanation),
            ("/services", self._services),
            ("/services/{namespace}/{kind}/{name}", self._service),
            ("/quotas", self._quotas),
            ("/quotas/{name}", self._quota),
            ("/quotas/{name}/explanation", self._quota_explanation),
            ("/gangs/{namespace}/{name}", self._gang),
            ("/gangs/{namespace}/{name}/explanation", self._gang_explanation),
            ("/changes", self._changes),
            ("/rollouts", self._rollouts),
            ("/settings", self._settings),
            ("/worth", self._worth),
            ("/find", self._find),
        ):
            server.add("GET", path, handler)

    # Lists.

    async def _nodes(self, ask: Ask) -> Page:
        by = ask.text("by", "pool")
        return self._page(ask, listings.nodes(self._world.table, time.time(), ask.text("group"), by))

    async def _pending(self, ask: Ask) -> Page | PendingGroups:
        world, now_s = self._world, time.time()
        may_list = await self._may_list(ask)
        pods = world.pending()
        if ask.text("group"):
            ask.choice("group", "reason")
            groups = groups_of(pods, now_s, may_list)
            sentence = pending_sentence(groups, len(pods))
            return PendingGroups(
                epoch=world.epoch, rev=world.ring.rev, total=len(pods), sentence=sentence, groups=tuple(groups)
            )
        listing = listings.pending(
            pods, now_s, may_list, reason=ask.text("reason"), quota=ask.text("quota"), namespace=ask.text("ns")
        )
        return self._page(ask, listing)

    async def _services(self, ask: Ask) -> Page:
        world = self._world
        may_list = await self._may_list(ask)
        events = world.events.values()
        return self._page(ask, listings.services(world.table, events, time.time(), may_list, detects=world.detects))

    async def _quotas(self, ask: Ask) -> Page:
        return self._page(ask, listings.quotas(self._world.quotas, self._world.table.pending.values()))

    async def _changes(self, ask: Ask) -> Page:
        world = self._world
        may_list = await self._may_list(ask)
        return self._page(ask, changes(world.acts, world.events.values(), world.rollouts, may_list, time.time()))

    def _page(self, ask: Ask, listing: Listing) -> Page:
        query = PageQuery(
            tuple(filter(None, ask.text("columns").split(","))),
            ask.text("filter")[:200],
            ask.text("sort"),
            int(ask.number("limit", DEFAULT_LIMIT, 1, MOST)),
            ask.text("cursor"),
        )
        rows = page_of(listing.columns, listing.keys, query)
        return Page(
            epoch=self._world.epoch,
            rev=self._world.ring.rev,
            total=rows.total,
            hidden=listing.hidden,
            columns=rows.columns,
            next=rows.next,
        )

    # Single objects.

    async def _node(self, ask: Ask) -> shapes.NodeDetail:
        world, name = self._world, ask.part("name")
        may_list = await self._may_list(ask)
        detail = details.node_detail(
            world.table,
            name,
            epoch=world.epoch,
            rev=world.ring.rev,
            now_s=time.time(),
            may_list=may_list,
            events=world.events_on(name),
            thresholds=await self._thresholds(name) if name in world.table.nodes else (None, None),
        )
        if detail is None:
            raise Refused(404, f"node {name}", "does not exist", "see /nodes")
        return detail

    async def _thresholds(self, name: str) -> tuple[int | None, int | None]:
        try:
            slo = await self._world.client.get(NODE_SLOS, name)
        except NotFound:
            return None, None
        strategy = slo.spec.resource_used_threshold_with_be
        if strategy is None or not strategy.enable:
            return None, None
        cpu, memory = strategy.cpu_suppress_threshold_percent, strategy.memory_evict_threshold_percent
        return None if cpu is None else 10 * cpu, None if memory is None else 10 * memory

    async def _lending(self, ask: Ask) -> NodeExplanation:
        """As `koord explain node/NAME`, read with the viewer's own rights."""
        name, now_s = _name(ask.part("name")), time.time()
        seen = await node_snapshot(ask.viewer.client, name, now_s)
        explanation, _ = explain_node(
            merged(NOTHING, seen.items),
            name,
            now_s=now_s,
            written_s=seen.written_s,
            who=seen.manager,
            remarks=seen.remarks,
        )
        return explanation

    async def _pod(self, ask: Ask) -> shapes.PodDetail:
        world = self._world
        namespace, name = await self._pod_named(ask)
        pod = world.table.pods.get(f"{namespace}/{name}")
        if pod is None:
            raise Refused(404, f"pod {namespace}/{name}", "does not exist", f"koord explain {name} -n {namespace}")
        return details.pod_detail(
            world.table,
            pod,
            reason_of(pod, world.reasons),
            world.events_about(namespace, name),
            epoch=world.epoch,
            rev=world.ring.rev,
            now_s=time.time(),
        )

    async def _explanation(self, ask: Ask) -> Answer:
        namespace, name = await self._pod_named(ask)
        return await self._soon(ask, "explain", f"{namespace}/{name}")

    async def _quota_explanation(self, ask: Ask) -> Answer:
        return await self._soon(ask, "explain", f"quota/{_name(ask.part('name'))}")

    async def _soon(self, ask: Ask, *args: str) -> Answer:
        """The command's answer; if it takes longer than half a second, a ticket, and the answer as an event."""
        began_s = time.monotonic()
        task = asyncio.create_task(self._commands.json(ask.viewer, *args))
        done, _ = await asyncio.wait((task,), timeout=SOON_S)
        if done:
            return Answer(_explained(task, "", began_s))
        ticket = secrets.token_urlsafe(18)

        async def publish() -> None:
            await asyncio.wait((task,))
            answer = msgspec.json.encode(_explained(task, "", began_s))
            self._world.publish(f"explanation/{ticket}", answer, time.time())

        publishing = asyncio.create_task(publish())
        self._tasks.add(publishing)
        publishing.add_done_callback(self._tasks.discard)
        return Answer(Explanation(ticket=ticket, explained=None, error="", took_s=0.0), 202)

    async def _service(self, ask: Ask) -> shapes.ServiceDetail:
        world = self._world
        may_list = await self._may_list(ask)
        namespace = ask.part("namespace")
        key = f"{namespace}/{ask.part('kind')}/{ask.part('name')}"
        if not may_list(namespace):
            raise Refused(403, f"service {key}", f"{ask.viewer.user} lacks: list pods in {namespace}")
        detail = details.service_detail(world.table, key, world.events.values(), may_list, detects=world.detects)
        if detail is None:
            raise Refused(404, f"service {key}", "has no pods of services", "see /services")
        return detail

    async def _quota(self, ask: Ask) -> shapes.QuotaDetail:
        detail = details.quota_detail(
            self._world.table, self._world.quotas, ask.part("name"), await self._may_list(ask)
        )
        if detail is None:
            raise Refused(404, f"quota {ask.part('name')}", "does not exist", "see /quotas")
        return detail

    async def _gang(self, ask: Ask) -> shapes.GangDetail:
        namespace, name = await self._pod_named(ask)
        min_member = None
        with suppress(NotFound, Forbidden):
            group = await ask.viewer.client.get(POD_GROUPS, name, namespace=namespace)
            min_member = group.spec.min_member
        world = self._world
        reasons = {pod.key: reason for pod, reason in world.pending() if pod.gang == name}
        detail = details.gang_detail(world.table, namespace, name, reasons, min_member, time.time())
        if detail is None:
            raise Refused(404, f"gang {namespace}/{name}", "does not exist", "see /pending")
        return detail

    async def _gang_explanation(self, ask: Ask) -> Answer:
        namespace, name = await self._pod_named(ask)
        return await self._soon(ask, "explain", f"podgroup/{name}", "-n", namespace)

    async def _settings(self, ask: Ask) -> shapes.Settings:
        world, pool = self._world, ask.text("pool")[:400]
        matcher = parse_labels(pool) if pool else None
        if world.config is None:
            raise Refused(503, "settings", "slo-controller-config has not been read yet", "try again")
        return settings_of(world.table, world.config, world.config_data, matcher, world.config_faults)

    async def _rollouts(self, ask: Ask) -> shapes.Rollouts:
        world, may_list = self._world, await self._may_list(ask)
        return rollouts_of(world.table, world.rollouts, tuple(world.rollout_faults), may_list)

    async def _find(self, ask: Ask) -> shapes.Finds:
        may_list = await self._may_list(ask)
        return details.find(self._world.table, self._world.quotas, ask.text("q")[:200], may_list)

    async def _worth(self, ask: Ask) -> WorthAnswer:
        by, since = _BY[ask.choice("by", *_BY)], ask.text("since", "24h")
        if not _SINCE.fullmatch(since):
            raise Refused(400, "query since", f"is {since[:20]!r}; it must be a duration, for example 7d or 12h")
        sizes = []
        for name, option, otherwise in _NODE_SIZE:
            if name in ask.request.query:
                least = 0.0 if name == "price" else 0.1
                sizes.append(f"{option}={ask.number(name, otherwise, least, 1e9):g}")
        report = await self._commands.json(ask.viewer, "report", "--since", since, *self._report_options, *sizes)
        now_s = time.time()
        seen = self._world.courses.worth(now_s - since_s(since), now_s, COURSE_POINTS)
        return worth_of(report, by, since, sizes, seen)

    # What handlers share.

    async def _may_list(self, ask: Ask) -> Callable[[str], bool]:
        return await ask.viewer.may_list(self._world.namespaces())

    async def _pod_named(self, ask: Ask) -> tuple[str, str]:
        namespace, name = _name(ask.part("namespace")), _name(ask.part("name"))
        if not (await self._may_list(ask))(namespace):
            raise Refused(403, f"pod {namespace}/{name}", f"{ask.viewer.user} lacks: list pods in {namespace}")
        return namespace, name


def _name(text: str) -> str:
    """A name of Kubernetes; others must not reach a command line."""
    if not _NAME.fullmatch(text):
        raise Refused(400, "path", f"{text[:60]!r} is not a name of an object")
    return text


def _explained(task: asyncio.Task[Any], ticket: str, began_s: float) -> Explanation:
    took_s, error = time.monotonic() - began_s, task.exception()
    if isinstance(error, Refused):
        return Explanation(ticket=ticket, explained=None, error=error.error.cause, took_s=took_s)
    if error is not None:
        log.error("an explanation failed", exc_info=error)
        return Explanation(ticket=ticket, explained=None, error="the console failed; see its log", took_s=took_s)
    return Explanation(ticket=ticket, explained=task.result(), error="", took_s=took_s)


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.2g}" if hours < 1 else f"{hours:.1f}"


def worth_of(
    report: dict[str, Any], by: shapes.WorthBy, since: str, sizes: Sequence[str], seen: Sequence[WorthMoment]
) -> WorthAnswer:
    """What `koord report -o json` prints, for the page. `seen`: the course as the console saw it."""

    def row(name: str, part: dict[str, Any]) -> WorthRow:
        return WorthRow(
            name=name,
            lent_cpu_hours=part["lent"]["coreHours"],
            used_cpu_hours=part["used"]["coreHours"],
            lent_gib_hours=part["lent"]["gibHours"],
            used_gib_hours=part["used"]["gibHours"],
            evictions=part["evicted"],
            node_hours_saved=part["saved"]["nodeHours"],
            cost_saved=part["saved"].get("cost"),
        )

    total, offered = report["total"], report["offered"]
    hours, used, nodes = total["lent"]["coreHours"], total["used"]["coreHours"], total["saved"]["nodeHours"]
    sentence = (
        f"In the last {duration(since_s(since))}, jobs got {_hours(hours)} core-hours that services left idle, and used"
        f" {_hours(used)} of them: as much as {_hours(nodes)} hours of nodes."
    )
    if not hours:
        sentence = f"In the last {duration(since_s(since))}, no job ran on lent resources."
    course = tuple(WorthMoment(**moment) for moment in report.get("course", ()))
    return WorthAnswer(
        sentence=sentence,
        by=by,
        since=since,
        source=report["source"],
        offered_cpu_hours=offered["coreHours"],
        offered_gib_hours=offered["gibHours"],
        total=row("all", total),
        rows=tuple(row(part[by], part) for part in report[f"{by}s"]),
        course=course or tuple(seen),
        right_sizing=report["rightSizing"],
        notes=tuple(report["notes"]),
        command=" ".join((f"koord report --since {since} --by {by}", *sizes)),
    )
