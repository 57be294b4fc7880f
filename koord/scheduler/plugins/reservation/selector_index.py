"""Rooms by their labels: which ones a `reservationSelector` can mean at all, without a look at all others.

Only labels that the plugin's arguments name are in it, by key (with the value) or by prefix (whatever the value). What
it finds is compared with the whole selector all the same, so that nothing depends on it but time. A room has the
labels of its node, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from koord.api.configuration.scheduler_args import ReservationSelectorIndex
from koord.scheduler.framework.controller import Measure
from koord.scheduler.plugins.reservation.room import Room

QUERIES: Final = "scheduler_reservation_selector_index_query_total"
CANDIDATES: Final = "scheduler_reservation_selector_index_candidates_count"


class SelectorIndex:
    def __init__(self, args: ReservationSelectorIndex) -> None:
        self.is_on = args.enabled
        self._keys = tuple(sorted({key for key in args.keys if key.strip()}))
        self._prefixes = tuple(sorted({prefix for prefix in args.key_prefixes if prefix.strip()}))
        self._by_value: dict[tuple[str, str], dict[str, Room]] = {}
        self._by_prefix: dict[str, dict[str, Room]] = {}
        self._entries: dict[str, list[tuple[dict[str, Room], str]]] = {}
        self._asked = {"hit": 0, "miss": 0}
        self._found: list[int] = []

    def put(self, room: Room, labels: Mapping[str, str]) -> None:
        """A room can be used, and has these labels, with those of its node."""
        if not self.is_on:
            return
        uid, listed = room.terms.uid, list[dict[str, Room]]()
        for key in self._keys:
            if key in labels:
                listed.append(self._by_value.setdefault((key, labels[key]), {}))
        for prefix in self._prefixes:
            if any(key.startswith(prefix) for key in labels):
                listed.append(self._by_prefix.setdefault(prefix, {}))
        if listed:
            for rooms in listed:
                rooms[uid] = room
            self._entries[uid] = [(rooms, uid) for rooms in listed]

    def remove(self, room: Room) -> None:
        for rooms, uid in self._entries.pop(room.terms.uid, ()):
            del rooms[uid]

    def candidates(self, selector: Mapping[str, str]) -> list[Room] | None:
        """The rooms that a selector may mean; None where no label of it is in the index."""
        if not self.is_on or not selector:
            return None
        lists = [self._by_value.get((key, selector[key]), {}) for key in self._keys if key in selector]
        lists += [
            self._by_prefix.get(prefix, {})
            for prefix in self._prefixes
            if any(key.startswith(prefix) for key in selector)
        ]
        self._asked["hit" if lists else "miss"] += 1
        if not lists:
            return None
        shortest = min(lists, key=len)
        rooms_listed = [room for uid, room in shortest.items() if all(uid in rooms for rooms in lists)]
        if rooms_listed:
            self._found.append(len({room.row for room in rooms_listed}))
        return rooms_listed

    def figures(self, names: Sequence[str], *, detail: bool) -> dict[str, object]:
        """For people who look into a running scheduler. `names`: of nodes, by row."""

        def counted(rooms: Iterable[Room]) -> dict[str, object]:
            return _told(rooms, names, detail)

        figures: dict[str, object] = {"enabled": self.is_on, "prefixes": list(self._prefixes), "keys": list(self._keys)}
        if not self.is_on:
            return figures
        by_key: dict[str, dict[str, dict[str, Room]]] = {}
        for (key, value), rooms in sorted(self._by_value.items()):
            if rooms:
                by_key.setdefault(key, {})[value] = rooms
        of_keys = {
            key: {uid: room for rooms in of.values() for uid, room in rooms.items()} for key, of in by_key.items()
        }
        figures["indexedReservations"] = len(self._entries)
        figures["byPrefix"] = {
            prefix: counted(rooms.values()) for prefix, rooms in sorted(self._by_prefix.items()) if rooms
        }
        figures["byKey"] = {key: counted(rooms.values()) for key, rooms in of_keys.items()}
        if detail:
            figures["byKeyValue"] = {
                key: {value: counted(rooms.values()) for value, rooms in of.items()} for key, of in by_key.items()
            }
        return figures

    def measures(self) -> Iterator[Measure]:
        """How often it was asked since the last call, and how many nodes it left."""
        for result, number in self._asked.items():
            if number:
                self._asked[result] = 0
                yield Measure(QUERIES, {"result": result}, number)
        numbers, self._found = self._found, []
        for number in numbers:
            yield Measure(CANDIDATES, {}, number)


def _told(rooms: Iterable[Room], names: Sequence[str], detail: bool) -> dict[str, object]:
    by_node: dict[str, list[str]] = {}
    for room in rooms:
        by_node.setdefault(names[room.row], []).append(room.terms.uid)
    figures: dict[str, object] = {"nodes": len(by_node), "reservations": sum(map(len, by_node.values()))}
    return {**figures, "byNode": {node: sorted(uids) for node, uids in sorted(by_node.items())}} if detail else figures
