"""One Hadoop RPC call: connect, ask, read the answer, all within a time limit."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

from koord.yarn.hadoop import frames
from koord.yarn.hadoop.frames import FrameError, RpcAnswer

CONNECT_S: Final = 10.0
ANSWER_S: Final = 5.0
LONGEST_ANSWER: Final = 256 << 20
_ACCESS: Final = ("AccessControlException", "AuthorizationException")


class YarnError(Exception):
    """Why a ResourceManager or NodeManager cannot be asked, in one line."""

    is_unanswered: bool = False


class YarnUnreachable(YarnError):
    """Nothing was sent, or no answer came: a call may have happened."""

    is_unanswered = True


class YarnRefused(YarnError):
    """The server answered, and said no."""


class YarnForbidden(YarnRefused):
    """The server does not allow this user to do that, whatever the arguments."""


class YarnStandby(YarnRefused):
    """A ResourceManager that is not active: it starts, or another one is."""


async def call(
    address: str, user: str, protocol: str, method: str, argument: bytes, answer_s: float | None = None
) -> bytes:
    """The result. Raises YarnUnreachable and YarnRefused."""
    answer = await _answer(address, user, protocol, method, argument, ANSWER_S if answer_s is None else answer_s)
    if answer.error:
        if "StandbyException" in answer.error_class or "not Active" in answer.error:
            raise YarnStandby(f"{address} is not active: it starts, or is a standby")
        raise _refusal(address, method, user, answer)
    return answer.result


def _refusal(address: str, method: str, user: str, answer: RpcAnswer) -> YarnRefused:
    # A ResourceManager wraps it: the class is then a general one, and the text begins with the true one.
    is_access = any(word in answer.error_class or word in answer.error for word in _ACCESS)
    if is_access and ("SIMPLE" in answer.error or "TOKEN" in answer.error):
        return YarnForbidden(f"{address} wants Kerberos or a token, which koord does not speak: {answer.error}")
    if is_access:
        return YarnForbidden(
            f"{address} does not let {user} call {method}: add {user} to yarn.admin.acl, or set --user ({answer.error})"
        )
    return YarnRefused(f"{address} refused {method}: {answer.error}")


async def _answer(address: str, user: str, protocol: str, method: str, argument: bytes, answer_s: float) -> RpcAnswer:
    host, _, port = address.rpartition(":")
    client_id = os.urandom(16)
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), limit=1 << 20)
    except TimeoutError:
        raise YarnUnreachable(f"{address} does not answer within {CONNECT_S:g} s") from None
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise YarnUnreachable(f"{address} cannot be reached: {why or error}") from None
    try:
        async with asyncio.timeout(answer_s):
            writer.write(frames.opening(user, protocol, client_id))
            writer.write(frames.call(0, client_id, protocol, method, argument))
            await writer.drain()
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > LONGEST_ANSWER:
                raise YarnUnreachable(f"{address} does not speak Hadoop's RPC; is it an admin or client port?")
            return frames.answer(await reader.readexactly(length))
    except TimeoutError:
        raise YarnUnreachable(f"{address} does not answer {method} within {answer_s:g} s") from None
    except (OSError, asyncio.IncompleteReadError):
        raise YarnUnreachable(f"{address} closed the connection during {method}") from None
    except FrameError as error:
        raise YarnUnreachable(f"{address}: {error}") from None
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
