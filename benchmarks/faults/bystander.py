"""A process that is attacked in place of a service: it reads what comes, and closes each connection after a moment.

``python -m benchmarks.faults.bystander KIND PORT``, at the lowest priority. What honest callers lose beside it is the
machine's share, and not that of a service. The kind is ``http``, or ``grpc``: it refuses every call.
"""

import asyncio
import os
import sys

OPEN_SECONDS = 0.15


class Connection(asyncio.Protocol):
    """Reads for ``OPEN_SECONDS``."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        asyncio.get_running_loop().call_later(OPEN_SECONDS, transport.abort)


async def refuse(port: int) -> None:
    """Answer gRPC calls with UNIMPLEMENTED until the process ends."""
    from grpc import aio

    server = aio.server()
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


async def serve(port: int) -> None:
    """Accept connections until the process ends."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=2048)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    os.nice(19)
    asyncio.run({"grpc": refuse, "http": serve}[sys.argv[1]](int(sys.argv[2])))
