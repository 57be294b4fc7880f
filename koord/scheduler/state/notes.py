"""What plugins must know about pods on nodes: their CPUs, devices, reservation, gang, quota.

A note is made from the pod itself whenever the pod is put, kept in its record, and counted as the record comes and
goes. So a restart, a re-list, a node that flaps and a new configuration all lead to the same state: put everything
again. One `Notes` counts for all profiles of a cluster; plugins find it by `cluster.notes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from operator import itemgetter
from typing import ClassVar

from koord.api.kubernetes.pod import Pod, PodSpec
from koord.scheduler.state.pods import NotesOf, PodRecord, Template
from koord.scheduler.state.table import Row
from koord.scheduler.state.watchers import Index


class Notes(Index):
    """Makes one plugin's notes, and counts them. Only `moved` changes its own state, and is also called for what is
    undone; columns are written through the table. As an index, it may look at nodes as well."""

    name: ClassVar[str]
    from_pod: ClassVar[bool] = True
    """Whether the note follows from the pod itself. A note that does not (what was promised before the binding) stays
    unchanged when the pod is put again on the same node."""

    heeds: ClassVar[frozenset[str]] = frozenset()
    "Annotations: `of` notes something only if the pod has at least one. Empty: it looks at more than annotations."
    shared: ClassVar[bool] = False
    "Whether equal notes are one object and kept once, like notes that follow from the template."
    changes_views: ClassVar[bool] = True
    "Whether views may show something else when a pod with this note moves."

    def of(self, pod: Pod) -> object | None:
        """What a pod says of itself; None where it has nothing to note."""
        return None

    def by_spec(self, spec: PodSpec) -> bool:
        """Whether `of` reads only the spec of pods that have this spec: then it is called once for all pods of a
        template, and again after `Cluster.settle_anew`."""
        return False

    def by_name(self, pod: Pod) -> bool:
        """Whether `of` may give different notes to pods that differ from this one only in their names, uids, times and
        conditions. For speed: if no index does, `of` is called once for all members of a job."""
        return True

    def of_alike(self, pod: Pod, template: Template) -> object | None:
        """As `of`, where it is known what the pod has in common with others."""
        return self.of(pod)

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        """What a pod with this note adds to columns of its row. A view that hides the pod subtracts it again."""
        return ()

    def counts_as(self, record: PodRecord, row: Row) -> object | None:
        """The note that counts for a pod on a row: for a pod that holds room for others, what they have not taken."""
        return record.note(self.name)

    def words(self, note: object) -> str:
        """What a pod has by its note, for people: `gpu 0 and 1`. Empty: nothing to tell."""
        return ""

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        """A pod with this note came to a row (+1), or left it (-1)."""
        raise NotImplementedError(type(self).__name__)


def with_note(notes: NotesOf, name: str, note: object | None) -> NotesOf:
    """The same with another note under a name, or without one."""
    others = [named_note for named_note in notes if named_note[0] != name]
    if note is not None:
        others.append((name, note))
    if len(others) > 1:
        others.sort(key=itemgetter(0))
    return tuple(others)
