"""Migrations: they end or are undone, and their limits hold at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import Manifest, Objects, key_of, meta, node_of, uid_of

OVER: Final = frozenset({"Succeeded", "Failed", "Aborted"})


@dataclass(frozen=True, slots=True)
class Migrations:
    """One moment. None: no limit."""

    objects: Objects
    per_node: int | None = None
    per_namespace: int | None = None
    globally: int | None = None
    should_be_over: bool = False
    "Whether the time of every migration has passed."


def _phase(job: Manifest) -> str:
    return str(job.get("status", {}).get("phase") or "Pending")


def _endless_moves(moves: Migrations) -> Iterator[str]:
    reservations = {meta(reservation)["name"]: reservation for reservation in moves.objects.get("Reservation", ())}
    for job in moves.objects.get("PodMigrationJob", ()):
        phase = _phase(job)
        if moves.should_be_over and phase not in OVER and not job["spec"].get("paused"):
            yield f"the migration {key_of(job)} is {phase}, and its time has passed"
        if phase not in ("Failed", "Aborted"):
            continue
        reference = (job["spec"].get("reservationOptions") or {}).get("reservationRef") or {}
        reservation = reservations.get(reference.get("name") or uid_of(job))
        if reservation is not None and reservation.get("status", {}).get("phase") == "Available" and _made(reservation):
            yield f"the migration {key_of(job)} failed, and left the reservation {key_of(reservation)}"


def _made(reservation: Manifest) -> bool:
    """Whether a migration made it, and not a user."""
    labels = meta(reservation).get("labels") or {}
    return str(labels.get("app.kubernetes.io/created-by", "")).startswith("koord")


def _exceeded_limits(moves: Migrations) -> Iterator[str]:
    pods = {uid_of(pod): pod for pod in moves.objects.get("Pod", ())}
    running = [job for job in moves.objects.get("PodMigrationJob", ()) if _phase(job) == "Running"]
    moving = [pods[uid] for job in running if (uid := job["spec"].get("podRef", {}).get("uid")) in pods]
    counts: tuple[tuple[str, int | None, Counter[str]], ...] = (
        ("node", moves.per_node, Counter(node_of(pod) for pod in moving if node_of(pod))),
        ("namespace", moves.per_namespace, Counter(str(meta(pod).get("namespace", "")) for pod in moving)),
        ("cluster", moves.globally, Counter({"": len(running)})),
    )
    for scope, limit, numbers in counts:
        for name, number in numbers.items():
            if limit is not None and number > limit:
                yield f"{number} pods of {scope} {name or 'together'} are migrated at once; the limit is {limit}"


MOVING: Final[tuple[Invariant[Migrations], ...]] = (
    Invariant(
        "finished-migrations",
        "A migration ends within its time, and leaves no reservation behind if it fails.",
        _endless_moves,
    ),
    Invariant(
        "migration-limits", "No more pods of a node, namespace or cluster move at once than allowed.", _exceeded_limits
    ),
)
