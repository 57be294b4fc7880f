"""One object's failure is its own: what is done for one object after another, by the clock or by an event.

A loop over objects handles each of them under `about`, and goes on with the next. A `Failure` is data, and the driver
reports it: a live component logs and counts it, and writes an event (`koord.kube.malformed.FailureTeller`).
Without a reporter, a failure is raised: in tests and offline nothing is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from koord.api.machinery.faults import BadInput

if TYPE_CHECKING:
    from koord.api.kinds import Kind
    from koord.api.kubernetes.meta import ObjectMeta


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that could not be done for an object."""

    doing: str
    "What it was, as the end of `cannot ...`: `write its status`."
    error: Exception
    kind: Kind[Any] | None = None
    meta: ObjectMeta | None = None
    "Whose it is; None where what failed is about no single object."

    @property
    def is_defect(self) -> bool:
        """Whether it is a fault of the program, rather than of a stored value."""
        return not isinstance(self.error, BadInput)


Tell: TypeAlias = Callable[[Failure], None]


def raised(failure: Failure) -> None:
    """Nobody is there to tell: the error is what it was."""
    raise failure.error


class Shield:
    """Keeps one object's failure from all others. `tell` hears of each."""

    def __init__(self, tell: Tell = raised) -> None:
        self._tell = tell

    def about(self, doing: str, kind: Kind[Any] | None = None, meta: ObjectMeta | None = None) -> Shielded:
        """A block in which something is done for one object: it ends where it fails."""
        return Shielded(self, doing, kind, meta)

    def failed(
        self, doing: str, error: Exception, kind: Kind[Any] | None = None, meta: ObjectMeta | None = None
    ) -> None:
        self._tell(Failure(doing, error, kind, meta))


class Shielded:
    __slots__ = ("_doing", "_kind", "_meta", "_shield")

    def __init__(self, shield: Shield, doing: str, kind: Kind[Any] | None, meta: ObjectMeta | None) -> None:
        self._shield, self._doing, self._kind, self._meta = shield, doing, kind, meta

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._shield.failed(self._doing, error, self._kind, self._meta)
        return True
