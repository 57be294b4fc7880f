"""What subresources that are posted to share: an object in the body, and an answer that says it was done."""

from __future__ import annotations

from koord.apiserver.bodies import decoding
from koord.apiserver.http import Request
from koord.apiserver.resource import Obj
from koord.apiserver.status import bad_request

CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def object_in(request: Request) -> Obj:
    decoded = decoding.decode_any(await request.body(), request.content_type)
    if not isinstance(decoded, dict):
        raise bad_request("the body must be an object")
    return decoded
