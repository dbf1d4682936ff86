"""Redis behind TLS and a password, as a cluster's secret names it; both readers and the publisher."""

import asyncio
import secrets
import ssl
import subprocess
from contextlib import contextmanager, suppress
from functools import partial
from queue import Queue
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from benchmarks.faults.redis_server import RedisServer
from feature_repo.columns import FeatureColumns
from feature_repo.names import REDIS_VARIABLE
from feature_repo.online import OnlineReader, publish_embeddings
from feature_repo.packed import PackedReader
from feature_repo.store import create
from shadowprice.errors import Unavailable


def certificate(folder, openssl, name):
    """A certificate of its own authority for 127.0.0.1, and its key."""
    command = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return folder / f"{name}.crt", folder / f"{name}.key"


@pytest.fixture
def guarded(tmp_path, tool):
    """Address with the options but without the password, and the password; TLS ends before the server.

    The server of the Python package speaks no TLS.
    """
    tool("redis-server")
    cert, key = certificate(tmp_path, tool("openssl"), "server")
    password = secrets.token_hex(16)
    server = RedisServer(tmp_path / "redis", "--requirepass", password)
    server.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    try:
        with decrypted(context, server.port) as port:
            yield f"127.0.0.1:{port},ssl=true,ssl_ca_certs={cert}", password
    finally:
        server.stop()


@contextmanager
def decrypted(context, target):
    """Port at which TLS ends; the bytes inside go on to another port."""

    async def serve():
        ended = asyncio.Event()
        async with await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context) as listener:
            end = partial(asyncio.get_running_loop().call_soon_threadsafe, ended.set)
            started.put((listener.sockets[0].getsockname()[1], end))
            await ended.wait()
        for writer in writers:
            writer.transport.abort()
        # A connection is let go of in a later turn of the loop.
        await asyncio.sleep(0.1)

    async def pass_on(reader, writer):
        source, sink = await asyncio.open_connection("127.0.0.1", target)
        writers.extend((writer, sink))
        with suppress(OSError):
            await asyncio.gather(carry(reader, sink), carry(source, writer))

    async def carry(reader, writer):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
        writer.close()

    started, writers = Queue(), []
    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, end = started.get(timeout=20)
    try:
        yield port
    finally:
        end()
        thread.join(20)


def test_embeddings_travel_encrypted_and_a_wrong_secret_is_refused_without_telling_it(
    guarded, tmp_path, monkeypatch, caplog, tool
):
    address, password = guarded
    monkeypatch.setenv(REDIS_VARIABLE, f"{address},password={password}")
    folder = tmp_path / "features"
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=3, model_versions=("m",))
    store = create(folder, columns, online="redis")
    frame = pd.DataFrame(
        {
            "account_id": ["a"],
            "side": "customer",
            "computed_at": pd.Timestamp("2026-03-02", tz="UTC"),
            "embedding": [np.array([1, 2, 3], np.float32)],
        }
    )
    publish_embeddings(store, frame, progress=False)
    for reader in (OnlineReader(folder, "m"), PackedReader(folder, "m")):
        assert reader.embeddings("customer", ["a"])[0].tolist() == [[1, 2, 3]]

    stranger, _ = certificate(tmp_path, tool("openssl"), "stranger")
    plain = address.split(",")[0]
    wrong = secrets.token_hex(16)
    for secret, value in (
        (wrong, f"{address},password={wrong}"),
        (password, f"{plain},password={password}"),
        (password, f"{plain},ssl=true,ssl_ca_certs={stranger},password={password}"),
        (password, address),
    ):
        monkeypatch.setenv(REDIS_VARIABLE, value)
        for reader in (OnlineReader, PackedReader):
            with pytest.raises(Unavailable) as caught:
                reader(folder, "m")
            assert secret not in str(caught.value)
    assert password not in caplog.text
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert password.encode() not in written
