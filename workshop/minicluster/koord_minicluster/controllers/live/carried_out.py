"""Carries out the actions decided for one object, and handles errors.

If an object has changed since it was read, its event is coming or has arrived, so the loop retries and logs nothing. A
terminating namespace accepts no new objects, so there is nothing to retry. Any other error is recorded as an event and
raised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from koord.api.kubernetes.meta import ObjectReference
from koord.kube.controller import Requeue
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord_minicluster.controllers.actions import Action, Tell
from koord_minicluster.controllers.live.cluster import Cluster, refused


async def carried_out(
    cluster: Cluster,
    actions: Sequence[Action],
    who: ObjectReference,
    *,
    again_in_s: float | None = None,
    failure: str = "FailedCreate",
    taken: Callable[[AlreadyExists], Awaitable[None]] | None = None,
) -> Requeue | None:
    """Carries out the actions. Reconciles again `again_in_s` later; None waits for an event.

    `failure` is the reason of the event about an error; if empty, no event is recorded. `taken` is called if a name is
    already in use.
    """
    try:
        await cluster.writer.carry_out(actions, who)
    except (NotFound, Conflict) as error:
        if taken is not None and isinstance(error, AlreadyExists):
            await taken(error)
        return Requeue()
    except ApiError as error:
        if refused(error):
            return None
        if failure:
            cluster.writer.tell(who, Tell(failure, str(error), type="Warning"))
        raise
    return None if again_in_s is None else Requeue(again_in_s)
