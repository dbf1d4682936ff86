"""Redis behind TLS and a password, as a cluster's secret names it; both readers and the publisher."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import FeatureColumns
from feature_repo.names import REDIS_VARIABLE
from feature_repo.online import OnlineReader, publish_embeddings
from feature_repo.packed import PackedReader
from feature_repo.store import create
from shadowprice.errors import Unavailable


def certificate(folder, name):
    """A certificate of its own authority for 127.0.0.1, and its key."""
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return folder / f"{name}.crt", folder / f"{name}.key"


@pytest.fixture
def guarded(tmp_path, tool):
    """Address with the options but without the password, and the password."""
    for name in ("redis-server", "openssl"):
        tool(name)
    cert, key = certificate(tmp_path, "server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_hex(16)
    settings = tmp_path / "redis.conf"
    settings.write_text(
        f"port 0\ntls-port {port}\nbind 127.0.0.1\nsave ''\ndir {tmp_path}\nrequirepass {password}\n"
        f"tls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {cert}\ntls-auth-clients no\n"
    )
    server = subprocess.Popen(["redis-server", str(settings)], stdout=subprocess.DEVNULL)
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert server.poll() is None, "redis-server does not speak TLS"
            time.sleep(0.05)
    yield f"127.0.0.1:{port},ssl=true,ssl_ca_certs={cert}", password
    server.terminate()
    server.wait(20)


def test_embeddings_travel_encrypted_and_a_wrong_secret_is_refused_without_telling_it(
    guarded, tmp_path, monkeypatch, caplog
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

    stranger, _ = certificate(tmp_path, "stranger")
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
