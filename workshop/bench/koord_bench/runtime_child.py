"""A runtime that does nothing and an agent that always wants the same, for `koord_bench.runtime`, until killed.

python -m koord_bench.runtime_child RUNTIME.sock AGENT.sock
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import grpc
import grpc.aio

from koord.agent.adjustment import Adjustment
from koord.agent.announced import Asking
from koord.agent.live import asked
from koord.api.machinery.protobuf import text
from koord.kube.shell import loop_factory

WANTED = Adjustment(cpu_shares=512, cpu_quota_us=50_000, cpu_period_us=100_000, env={"A": "b"})


class Runtime(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        is_list = "/List" in handler_call_details.method

        async def answer(request: bytes, context: object) -> bytes:
            return b"" if is_list else text(1, "id")

        return grpc.unary_unary_rpc_method_handler(answer)


def wants(asking: Asking) -> Adjustment:
    return WANTED


async def serve(runtime: str, agent: str) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Runtime(),))
    server.add_insecure_port(f"unix:{runtime}")
    await server.start()
    answering = await asked.serve(Path(agent), wants)
    await server.wait_for_termination()
    await answering.cleanup()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(*sys.argv[1:]))
