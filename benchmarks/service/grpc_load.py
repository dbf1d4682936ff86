"""The closed loop of :mod:`benchmarks.service.load` over gRPC: as many channels, each with one call under way.

gRPC's own client takes some 200 µs of processor time a call, most of it in its C core: ``generator_us`` says how much.
"""

import asyncio
import json
import resource
import sys
import time
from typing import Any

from grpc import aio
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

from benchmarks.service.load import found, names

METHOD = "/inference.GRPCInferenceService/ModelInfer"


def message(batch: int, serial: int, accounts: int) -> bytes:
    request = messages.ModelInferRequest(model_name="spring")
    ids, account_ids = names(batch, serial, accounts)
    for name, values in (("request_id", ids), ("account_id", account_ids), ("side", ["customer"] * batch)):
        tensor = request.inputs.add(name=name, datatype="BYTES", shape=[batch])
        tensor.contents.bytes_contents.extend([value.encode() for value in values])
    return bytes(request.SerializeToString())


async def drive(port: int, batch: int, connections: int, seconds: float, serial: int, accounts: int) -> dict[str, Any]:
    """Load one service for ``seconds``; arguments and result are those of :func:`benchmarks.service.load.drive`."""
    times: list[float] = []
    refused = 0

    async def one(number: int) -> None:
        nonlocal serial, refused
        # Channels of one address would share a connection.
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.channel_number", number)]) as channel:
            infer = channel.unary_unary(METHOD)
            await channel.channel_ready()
            while time.perf_counter() < end:
                content = message(batch, serial, accounts)
                serial += 1
                sent = time.perf_counter()
                try:
                    await infer(content)
                except aio.AioRpcError:
                    refused += 1
                times.append(time.perf_counter() - sent)

    started = time.perf_counter()
    end = started + seconds
    await asyncio.gather(*(one(number) for number in range(connections)))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return found(times, refused, batch, time.perf_counter() - started, usage, serial)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    assert arguments.pop("protocol") == "grpc"
    print(json.dumps(asyncio.run(drive(**arguments))))
