"""Bad requests, drawn at random: bodies that are nearly right or nothing at all, odd paths and headers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

PATHS = (
    "/v1/models/spring:predict",
    "/v2/models/spring/infer",
    "/v1/models/autumn:predict",
    "/v2/models/spring/versions/1/infer",
    "/v2/repository/models/spring/unload",
    "/v1/models/%00%ff:predict",
    "/v2/models/../../infer",
    "/openapi.json",
    "/",
)
SCALARS: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**30, "", "a" * 300, "\x00", "ü", "c1", "customer", "merchant", "BYTES", "INT64",
    [], {},
)  # fmt: skip
NAMES = ("request_id", "account_id", "side")


def bad_requests(seed: int) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Method, path, further header lines, and body, without end; the same for the same seed.

    None of them is a request that may be decided: each lacks something, or has it wrong.
    """
    draw = random.Random(seed)
    while True:
        path = draw.choices(PATHS, [20, 20, *[1] * (len(PATHS) - 2)])[0]
        method = draw.choices(("POST", "GET", "PUT", "DELETE"), [40, 1, 1, 1])[0]
        headers = draw.choices(
            (
                b"",
                b"ce-id: 1\r\nce-specversion: 1.0\r\n",
                b"Inference-Header-Content-Length: -5\r\n",
                b"Authorization: Bearer " + bytes(draw.choices(b"abcXYZ0123", k=draw.randrange(60))) + b"\r\n",
                b"X-Long: " + b"y" * 4000 + b"\r\n",
            ),
            [20, 1, 1, 2, 1],
        )[0]
        yield method, path, headers, _body(draw)


def _body(draw: random.Random) -> bytes:
    kind = draw.randrange(10)
    if kind == 0:
        return draw.randbytes(draw.randrange(200))
    if kind == 1:
        return b"[" * draw.randrange(1, 5000)
    content = _v1(draw) if kind < 6 else _v2(draw)
    text = json.dumps(content).encode()
    return text[: draw.randrange(len(text))] if kind == 9 else text


def _v1(draw: random.Random) -> Any:
    good = {"request_id": f"bad-{draw.randrange(10**9)}", "account_id": "c1", "side": "customer"}
    rows = [dict(good) for _ in range(draw.choice((0, 1, 1, 1, 3, 40)))]
    for row in rows:
        _spoil(draw, row)
    return draw.choice(({"instances": rows}, {"instances": draw.choice(SCALARS)}, rows, {"inputs": rows}))


def _v2(draw: random.Random) -> Any:
    size = draw.choice((1, 1, 2, 40))
    values = {"request_id": f"bad-{draw.randrange(10**9)}", "account_id": "c1", "side": "nobody"}
    tensors = [{"name": name, "datatype": "BYTES", "shape": [size], "data": [values[name]] * size} for name in NAMES]
    _spoil(draw, draw.choice(tensors))
    return {"inputs": tensors[: draw.choice((1, 2, 3, 3))], "id": draw.choice(SCALARS)}


def _spoil(draw: random.Random, item: dict[str, Any]) -> None:
    """Take a field away, add one, or set one to what it may not be."""
    name = draw.choice(sorted(item))
    how = draw.randrange(3)
    if how == 0:
        del item[name]
    elif how == 1:
        item[f"extra{draw.randrange(100)}"] = draw.choice(SCALARS)
        item.pop(name)
    else:
        item[name] = draw.choice((None, True, 7, "", "a" * 300, "\x00", [], {}))
