"""Bodies made to cost much: each is refused at its first errors, in bounded memory."""

import asyncio
import json
import subprocess
import sys
import textwrap

import httpx
import pytest
from pydantic import TypeAdapter

from serving.http.limits import MAX_BODY_BYTES
from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.events import read_events
from serving.ledger.api.ledger import Ledger
from serving.ledger.api.messages import Authorizations, Releases, parse
from shadowprice.errors import InvalidRequest

SIZE = MAX_BODY_BYTES - 50_000
MEMORY = 512 * 1024 * 1024
COLUMNS = ("request_id", "account_id", "side", "level", "incentive", "response", "expected_cost", "propensity")
AUTHORIZATIONS = TypeAdapter(Authorizations)
RELEASES = TypeAdapter(Releases)


def many(value: str, size: int = SIZE) -> str:
    """A list of the value, as long as fits into a body."""
    return f"[{','.join([value] * (size // (len(value) + 1)))}]"


def fields(size: int = SIZE) -> str:
    """Members of an object, as many as fit."""
    return ",".join(f'"{number:06}":1' for number in range(size // 11))


def authorizations(**columns: str) -> str:
    own = dict.fromkeys((*COLUMNS, "reason", "propensities"), "[]") | columns
    items = ",".join(f'"{name}":{value}' for name, value in own.items())
    return f'{{"campaign":"spring","model_version":"m","price_version":1,"items":{{{items}}}}}'


EVENT = '{"specversion":"1.0","id":"e","source":"s","type":"t","data":%s}'
BODIES = {
    "columns of wrong values": authorizations(**dict.fromkeys(COLUMNS, many("-1", SIZE // 9))),
    "one long column": authorizations(level=many("-1")),
    "a long column of right values": authorizations(level=many("1")),
    "lists in a column": authorizations(request_id=many("[]")),
    "objects in a column": authorizations(side=many("{}")),
    "wrong shares": authorizations(propensities=f"[{','.join([many('9', 3900)] * 1000)}]"),
    "a long row of shares": authorizations(propensities=f"[{many('9')}]"),
    "text as shares": authorizations(propensities=f"[{','.join([many(chr(34) * 2, 3900)] * 1000)}]"),
    "a long text": authorizations(side=f'["{"x" * SIZE}"]'),
    "a long number": authorizations(level=f"[{'9' * SIZE}]"),
    "deep lists": authorizations(level="[" * (SIZE // 2) + "]" * (SIZE // 2)),
    "deep objects": authorizations(level='{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6)),
    "unknown columns": authorizations()[:-2] + "," + fields() + "}}",
    "unknown fields": authorizations()[:-1] + "," + fields() + "}",
    "one unknown field with a long name": authorizations()[:-1] + f',"{"x" * SIZE}":1}}',
    "not an object": many("1"),
    "identifiers to release": f'{{"campaign":"spring","request_ids":{many("1")}}}',
    "wrong events": many("{}"),
    "numbers for events": many("1"),
    "events with wrong data": many(EVENT % "{}"),
    "an event with unknown data": f"[{EVENT % ('{' + fields() + '}')}]",
    "an event with a list of data": EVENT % many("1"),
    "an event with attributes": EVENT[:-1] % "{}" + "," + fields() + "}",
}


def read(name: str) -> None:
    """Parse a body with each of the ledger's readers."""
    body = BODIES[name].encode()
    assert len(body) <= MAX_BODY_BYTES
    for reader in (lambda: parse(AUTHORIZATIONS, body), lambda: parse(RELEASES, body), lambda: read_events(body, {})):
        with pytest.raises(InvalidRequest) as caught:
            reader()
        told = str(caught.value)
        assert len(told) < 1000
        assert "more problems" not in told or int(told.split("(and ")[1].split()[0]) < 30


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_refused_with_few_errors(name):
    read(name)


def test_all_hostile_bodies_together_take_little_memory():
    program = f"""
        import resource
        import sys
        sys.path.insert(0, {str(__file__).rpartition("/")[0]!r})
        import test_hostile_bodies as bodies
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name in bodies.BODIES:
            bodies.read(name)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MEMORY


def test_the_data_of_a_binary_event_are_bounded_too():
    headers = {f"ce-{name}": "1.0" for name in ("specversion", "id", "source", "type")}
    for data in ("{" + fields() + "}", many("1"), "[" * 2_000_000):
        with pytest.raises(InvalidRequest) as caught:
            read_events(data.encode(), headers)
        assert len(str(caught.value)) < 1000


def test_other_calls_are_answered_while_hostile_bodies_are_refused(ledger):
    app = serve(Ledgers([Ledger(ledger.store, ledger.campaign)]))
    json_type = {"content-type": "application/json"}

    async def scenario():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            calls = []
            for body in list(BODIES.values())[:8]:
                calls.append(client.post("/v1/authorizations", content=body.encode(), headers=json_type))
                calls.append(client.get("/readyz"))
            statuses = [answer.status_code for answer in await asyncio.gather(*calls)]
            return statuses[::2], statuses[1::2]

    hostile, honest = asyncio.run(scenario())
    assert set(hostile) <= {400, 422}
    assert set(honest) == {200}


def test_messages_within_the_limits_are_read(kit):
    count, levels = 1000, 100
    items = {name: ["x" * 100] * count for name in ("request_id", "account_id")}
    items |= {"side": ["customer"] * count, "level": [0] * count, "incentive": [0] * count}
    items |= dict.fromkeys(("response", "expected_cost"), [0.5] * count) | {"propensity": [1.0] * count}
    items |= {"reason": ["tie"] * count, "propensities": [[1.0] + [0.0] * (levels - 1)] * count}
    body = {"campaign": "spring", "model_version": "m", "price_version": 1, "items": items}
    assert len(parse(AUTHORIZATIONS, json.dumps(body).encode()).items.request_id) == count
    data = {"request_id": "r", "redeemed": True, "cost": 5, "observed_at": kit.now.isoformat()}
    event = {"specversion": "1.0", "id": "e", "source": "s", "type": "t", "data": data, "traceparent": "00"}
    assert len(read_events(json.dumps([event] * count).encode(), {})) == count
