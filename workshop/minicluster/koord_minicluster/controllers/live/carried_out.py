"""How a loop carries out what was decided for one object, and what it makes of a refusal.

What is not as it was read has changed: the change comes, or has come, so the loop looks again and logs nothing. A
namespace that is going away takes nothing new: there is nothing to retry. Any other refusal is told and raised.
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
    """Carries out the actions. Looks again `again_in_s` later; None waits for an event.

    `failure` is the reason of the event about a refusal; empty tells nothing. `taken` is called if a name is taken.
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
