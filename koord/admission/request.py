"""What admission is asked, and what it answers.

A request holds the object as plain data, unchanged: fields that koord's types do not have stay in it. The answer has
the object to be stored, and the JSON patch that leads there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from koord.api.configuration.features import ManagerGate
from koord.api.machinery.faults import BadInput, Fault

Json: TypeAlias = Mapping[str, Any]
"""An object as plain data. Rules never change one in place: they return another that shares what stayed the same."""

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Gates: TypeAlias = Mapping[ManagerGate, bool]

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
FAILED: Final = 500


@dataclass(frozen=True, slots=True)
class Request:
    """An object that someone wants to create, change or delete. `namespace` may be in the request alone."""

    operation: Operation
    resource: str
    object: Json | None = None
    old: Json | None = None
    subresource: str = ""
    group: str = ""
    version: str = "v1"
    namespace: str = ""
    name: str = ""
    uid: str = ""
    "Of the request, not of the object: each asks under a new one."
    user: str = ""
    groups: tuple[str, ...] = ()
    node: str = ""
    "The node that the user's token belongs to, if it names one."
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionAnswer:
    allowed: bool
    object: Json | None = None
    "The object to be stored; the original if the request is refused."
    patch: tuple[dict[str, Any], ...] = ()
    "The operations of a JSON patch that lead from the object as it came to the one to be stored."
    code: int = 200
    message: str = ""
    warnings: tuple[str, ...] = ()


class Refused(BadInput):
    """A request that is turned down: what is wrong, where, and what would be accepted."""

    def __init__(self, faults: Iterable[Fault], code: int = BAD_REQUEST) -> None:
        self.faults, self.code = tuple(faults), code
        super().__init__("; ".join(map(str, self.faults)))


def refused(path: str, message: str, code: int = BAD_REQUEST) -> Refused:
    """A refusal for one fault."""
    return Refused([Fault(path, message)], code)
