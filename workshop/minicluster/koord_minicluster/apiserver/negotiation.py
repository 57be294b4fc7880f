"""In which form an answer is wanted: plain objects, a table for people, or metadata alone; as JSON or YAML.

Read from the Accept header as kubectl and client-go send it. Protobuf is not spoken: a client that also takes JSON
gets JSON, one that does not gets 406.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from koord.api.machinery.short_cache import short_cache
from koord_minicluster.apiserver.status import StatusError

Shape = Literal["object", "table", "partial"]

SERVED_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer. `meta_version` is the version of the Table or PartialObjectMetadata kinds."""

    shape: Shape = "object"
    yaml: bool = False
    meta_version: str = "v1"
    of_list: bool = False
    "Whether metadata of a list were asked for."

    @property
    def content_type(self) -> str:
        # Without the shape: that is in the body, and the real server names the encoding alone.
        return "application/yaml" if self.yaml else "application/json"


class NotAcceptable(Exception):
    """None of the forms that a client takes can be given. `shape` is set where it is the shape that is not known."""

    def __init__(self, shape: bool) -> None:
        super().__init__()
        self.shape = shape


@short_cache(256)
def negotiate(accept: str) -> Form:
    """The first form in the header that can be given."""
    is_known_kind = False
    for _, kind, parameters in sorted(_ranges(accept), key=lambda range_: -range_[0]):
        if kind in ("*/*", "application/json"):
            yaml = False
        elif kind == "application/yaml":
            yaml = True
        else:
            is_known_kind = is_known_kind or kind == "application/vnd.kubernetes.protobuf"
            continue
        is_known_kind = True
        wanted = parameters.get("as", "")
        if not wanted:
            return Form("object", yaml)
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        if wanted == "Table":
            return Form("table", yaml, parameters["v"])
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form("partial", yaml, parameters["v"], wanted.endswith("List"))
    raise NotAcceptable(is_known_kind)


def not_acceptable(refused: NotAcceptable, *, custom: bool, collection: bool) -> StatusError:
    """406. The router of the real server refuses types that it does not know, before a handler refuses shapes."""
    listed = ", ".join((*SERVED_TYPES, *_STREAMS) if collection and not refused.shape and not custom else SERVED_TYPES)
    if refused.shape or custom:
        text = f"only the following media types are accepted: {listed}"
        return StatusError(406, "NotAcceptable", text, details=False)
    text = f"406: Not Acceptable\n\nAvailable representations: {listed}"
    return StatusError(406, "NotAcceptable", text, empty_details=True)


def as_yaml(value: object) -> bytes:
    """YAML as the real server writes it: with sorted keys."""
    from koord.api.text.yaml import dump

    return dump(msgspec.json.decode(msgspec.json.encode(value, order="sorted"))).encode()


def _ranges(accept: str) -> list[tuple[float, str, dict[str, str]]]:
    ranges = []
    for part in (accept or "*/*").split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        ranges.append((quality, kind.lower(), parameters))
    return ranges
