"""A new field of a decision is one line in the list of fields, and a migration of the sqlite table."""

import json
import subprocess
import sys
from pathlib import Path

from serving.generate import ROOT, sources

ADD_A_FIELD = """
import importlib.util, sys
name = "shadowprice.pacing.decision_log.records"
spec = importlib.util.find_spec(name)
text = open(spec.origin).read()
line = '    groups: str = ""\\n'
assert text.count(line) == 1
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
added = line + "    channel: Annotated[str, Field(returned=True)] = 'all'\\n"
exec(compile(text.replace(line, added), spec.origin, "exec"), module.__dict__)

from serving.generate import sources
for path, text in sources().items():
    name = path.removesuffix(".py").replace("/", ".")
    sys.modules[name] = written = type(sys)(name)
    exec(compile(text, path, "exec"), written.__dict__)
"""

USE_IT = """
import sqlite3, sys
from datetime import UTC, datetime
from pathlib import Path
import orjson
import pyarrow.parquet as pq
from pydantic import TypeAdapter
from serving.ledger.api import answers, authorize, messages
from serving.ledger.log import LogWriter
from serving.ledger.opening import open_store
from serving.ledger.sqlite import database
from serving.predictor.ledger.columns import Authorized, Proposals
from operations.common.workspace import read_campaign

folder, redis = Path(sys.argv[1]), sys.argv[2]
campaign = read_campaign(folder / "campaign.json")
incentives = campaign.terms("customer").incentives
database.SCHEMA_VERSION = "12"
database.UPGRADES["11"] = (
    "ALTER TABLE decision ADD COLUMN channel TEXT NOT NULL DEFAULT 'all';"
    "UPDATE about SET value = '12' WHERE key = 'schema';"
)
shares = [1.0] + [0.0] * (len(incentives) - 1)


def sent(request_id, **channel):
    proposals = Proposals(
        request_id=[request_id], account_id=["a"], side=["customer"], level=[0], incentive=[incentives[0]],
        response=[0.5], expected_cost=[0.0], propensity=[1.0], reason=["optimal"], response_unpaid=[0.5],
        propensities=[shares], features_at=[None], **channel,
    )
    body = {"campaign": campaign.name, "model_version": "m", "price_version": 1, "items": proposals}
    return messages.parse(TypeAdapter(messages.Authorizations), orjson.dumps(body))


def check(store, before):
    for batch in (sent("new", channel=["treated"]), sent("without")):
        calls = authorize.calls(batch, authorize.entries(campaign, batch, datetime.now(UTC)))
        found = store.authorize(calls, None, 1).result(20)
        recorded, places = answers.recorded_rows(batch, found)
        told = Authorized(**answers.content(recorded, places, found)["decisions"])
        assert list(told.channel) == [batch.items.channel[0] if batch.items.channel else "all"], told
    kept = {each: decision.channel for each, decision in store.find(["old", "new", "without"]).items()}
    assert kept == before | {"new": "treated", "without": "all"}, kept
    assert [each.channel for each in store.decisions_after(0, 9)] == [*before.values(), "treated", "all"]


store = open_store(campaign, folder / "ledger.db")
check(store, {"old": "all"})
LogWriter(store, folder / "log").write()
(segment,) = (folder / "log").glob("decisions-*.parquet")
assert pq.read_table(segment).column("channel").to_pylist() == ["all", "treated", "all"]
store.close()
columns = [row[1] for row in sqlite3.connect(folder / "ledger.db").execute("PRAGMA table_info(decision)")]
assert columns[-1] == "channel", columns
store = open_store(campaign, folder / "new.db")
check(store, {})
store.close()
if redis:
    store = open_store(campaign, folder / "unused.db", redis)
    check(store, {"old": "all"})
    store.close()
print("kept everywhere")
"""


def test_a_field_added_to_the_list_is_in_the_messages_the_stores_and_the_log(tmp_path, kit, durable_redis):
    campaign = kit.campaign()
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    for url in ("", durable_redis.url):
        earlier = kit.open(campaign, tmp_path / "ledger.db", url)
        earlier.authorize(kit.item("old"))
        earlier.close()
    command = [sys.executable, "-c", ADD_A_FIELD + USE_IT, str(tmp_path), durable_redis.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "kept everywhere\n"


def test_the_messages_are_those_that_the_fields_of_a_decision_give():
    assert sources() == {path: Path(ROOT, path).read_text() for path in sources()}
