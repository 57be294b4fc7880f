"""Nodes that go down soon take only short pods: a plugin for koord's scheduler.

    kubectl label node n1 example.com/maintenance=soon      n1 takes no more pods,
    labels: {example.com/short: "true"}                     except those that say this of themselves

Of the nodes that will do, those with fewer pods score higher.
"""

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers, least
from koord.scheduler.framework.change import Change, relabelled
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row

MAINTENANCE = "example.com/maintenance"
SHORT = "example.com/short"


class Maintenance(Plugin):
    name = "Maintenance"
    wakes_on = Reason.NODE | Reason.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> bool:
        """All that this plugin looks at in a pod."""
        return ask.meta.labels.get(SHORT) == "true"

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        return _Judge(cluster, is_short=self.key(ask, cluster))


class _Judge(Judge):
    filters_on = Reason.NODE | Reason.LABELS
    scores_on = Reason.NODE | Reason.REQUESTED

    def __init__(self, cluster: Cluster, *, is_short: bool) -> None:
        self._cluster, self._is_short = cluster, is_short

    def feasible(self, cells: Cells) -> Numbers:
        soon = self._cluster.labels.values(MAINTENANCE).get("soon")
        return 0 if self._is_short or soon is None else (cells["label", MAINTENANCE] == soon) * 1

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) go down soon"]

    def score(self, cells: Cells) -> Numbers:
        return 100 - least(cells["pod count"], 100)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        return relabelled(self._cluster.nodes[row], {MAINTENANCE: None})
