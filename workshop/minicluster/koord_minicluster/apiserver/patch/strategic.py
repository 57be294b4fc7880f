"""Strategic merge patch, with the answers that the real server gives to a patch that cannot be merged."""

from __future__ import annotations

from typing import Any

from koord.api.machinery import strategic_merge
from koord.api.machinery.object_schema import Schema
from koord.api.machinery.strategic_merge import MergeError
from koord_minicluster.apiserver.status import StatusError, bad_request


def apply(doc: dict[str, Any], patch: object, schema: Schema) -> dict[str, Any]:
    """The document with the patch merged into it. 400, 422 or 500 as the real server answers for a malformed patch."""
    try:
        return strategic_merge.apply(doc, patch, schema)
    except MergeError as error:
        raise _answer(error) from None


def _answer(error: MergeError) -> StatusError:
    match error.cause:
        case "malformed":
            return bad_request(str(error))
        case "unprocessable":
            return StatusError(422, "Invalid", str(error))
        case "failed":
            return StatusError(500, "", str(error), details=False)
