"""A TCP proxy that can be slow, silent or cut: what a network does between two hosts."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any

from serving.local.launch import HOST

CHUNK = 65536


class Proxy:
    """Forwards connections to ``upstream_port`` of this machine from a port of its own, on a thread."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream = upstream_port
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._open = True
        self._rate: float | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server = self._call(lambda: asyncio.start_server(self._accept, HOST, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset every connection and every new one."""
        self._open = False
        self._call(self._abort)

    def silence(self) -> None:
        """Keep connections open and let nothing through."""
        self._call(self._set(self._flowing.clear))

    def throttle(self, bytes_per_second: float) -> None:
        """Let only so much through, each way and connection."""
        self._rate = bytes_per_second

    def heal(self) -> None:
        """Be a good network again; what was held back arrives."""
        self._open, self._rate = True, None
        self._call(self._set(self._flowing.set))

    def close(self) -> None:
        self.cut()
        self._server.close()
        self._call(self._settled)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, make: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await make()

        future: Future[Any] = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return future.result(20)

    def _set(self, act: Callable[[], None]) -> Callable[[], Awaitable[Any]]:
        async def run() -> None:
            act()

        return run

    async def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _settled(self) -> None:
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        self._writers.add(writer)
        try:
            if not self._open:
                return
            there_reader, there_writer = await asyncio.open_connection(HOST, self._upstream)
            self._writers.add(there_writer)
            try:
                await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
            finally:
                self._writers.discard(there_writer)
                there_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._pumps.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            await self._flowing.wait()
            while data:
                # In parts, so that healing helps what is under way.
                size = len(data) if self._rate is None else max(1, int(self._rate * 0.02))
                part, data = data[:size], data[size:]
                if self._rate is not None:
                    await asyncio.sleep(len(part) / self._rate)
                sink.write(part)
                await sink.drain()
        raise ConnectionResetError
