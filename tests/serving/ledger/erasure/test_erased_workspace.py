"""``shadowprice account`` over a whole workspace: every file that names accounts, killed at every write."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.main import main
from operations.erasure.files import Parquet
from operations.erasure.record import RECORD, Erasures, pseudonym_for
from serving.account import Places, erase, export
from serving.ledger.log import LogWriter
from serving.ledger.sqlite.backup import backup
from serving.reconcile import log_totals
from shadowprice.arms import Arm, Experiment, Holdout, Raise
from shadowprice.errors import NotFound
from shadowprice.files import write_whole
from shadowprice.graphs.snapshot import GraphSnapshot, rename
from shadowprice.groups import Groups
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.decision_log.served import read_log, read_parts

ODD = 'o\'ne "two" \\ <é日|*>'
TRIAL = [f"trial-{ODD}", "e1", "e2"]
OTHERS = ["a", ODD + "x", "zz"]
AT = datetime(2024, 5, 1, tzinfo=UTC)
TEST = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=2000), Arm(name="policy", kind="policy", share=300)),
    salt="spring",
    raises=(Raise(arm="policy", share=4000),),
)


@pytest.fixture
def workspace(kit, tmp_path):
    """A run whose files name the odd account and others."""
    place = tmp_path / "run"
    campaign = kit.campaign(
        limit=10**6, experiment=TEST, limits=Limits(caps=(Cap(name="once", per="account", count=9),))
    )
    write_whole(place / "campaign.json", json.dumps(campaign.to_dict()))
    ledger = kit.open(campaign, place / "ledger.db")
    ledger.at = AT + timedelta(days=1)
    for number, (account, partner) in enumerate([(ODD, "a"), ("a", ODD), (ODD + "x", "zz"), (ODD, "zz")]):
        ledger.authorize(kit.item(f"r{number}", account_id=account, partner_id=partner))
    ledger.authorize(kit.item(f"of {ODD}", account_id="zz"))
    ledger.settle(kit.event("r0", 50), kit.event("r1", 0))
    LogWriter(ledger.store, place / "served" / "ledger", rows=2).write()
    ledger.close()
    accounts = [*OTHERS, ODD]
    tables = {
        "account": {"account_id": accounts, "x_spend": [1.0, 2.0, 3.0, 4.0]},
        "edge": {"src": [ODD, "a", ODD], "dst": ["zz", ODD, ODD + "x"], "weight": [1.0, 2.0, 3.0]},
        "exposure": {
            "request_id": TRIAL,
            "account_id": [ODD, "a", ODD],
            "partner_id": [None, ODD, None],
            "decided_at": pd.to_datetime([AT] * 3),
            "c_friend": [None, ODD, None],
        },
        "outcome": {"request_id": TRIAL, "cost_paid": [5, 6, 7]},
        "truth": {"account_id": pd.Categorical(accounts), "curve": [[0.1], [0.2], [0.3], [0.4]]},
    }
    for name, columns in tables.items():
        write_whole(path := place / "tables" / f"{name}.parquet", b"")
        pd.DataFrame(columns).to_parquet(path, index=False, row_group_size=2)
    nodes = np.array(sorted(accounts))
    GraphSnapshot(
        account_id=nodes,
        is_side=np.array([[True] * 4, [False] * 4]),
        names={"customer": ("x",)},
        features={"customer": np.arange(4, dtype=np.float32)[:, None]},
        edge_index=np.array([[0], [1]]),
        edge_names=("n",),
        edge_features=np.ones((1, 1), dtype=np.float32),
        at=AT,
    ).save(place / "snapshot-000")
    people = place / "population" / "m" / "customer"
    people.mkdir(parents=True)
    pq.write_table(pa.table({"account_id": accounts}), people / "account_id.parquet")
    np.save(people / "response.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    np.save(people / "activity.npy", np.arange(4.0))
    Groups.of(accounts, [0, 1, 1, 2]).save(place / "groups.npy")
    write_whole(place / "logs" / "predictor.log", f"refused 'ax'\nrefused {json.dumps(ODD)}\n")
    (place / ".edge.parquet.draft").write_bytes(b"PAR1 and no more")
    return place


def frames(place):
    """Every table and array, by its path."""
    found = {}
    for path in sorted(place.rglob("*.parquet")):
        frame = pq.read_table(path).to_pandas()
        found[str(path.relative_to(place))] = json.loads(frame.to_json(orient="records", date_format="iso"))
    snapshot = GraphSnapshot.load(place / "snapshot-000")
    found["snapshot"] = {
        name: snapshot.features["customer"][snapshot.find([name])].tolist() for name in snapshot.account_id
    }
    return found


def renamed(content, pseudonym):
    """Content with the pseudonym in place of the account; that of other accounts stays."""
    if isinstance(content, dict):
        keep = {"c_friend"}
        return {
            renamed(key, pseudonym): each if key in keep else renamed(each, pseudonym) for key, each in content.items()
        }
    if isinstance(content, list):
        return [renamed(each, pseudonym) for each in content]
    new = {ODD: pseudonym, TRIAL[0]: f"trial-{pseudonym}"}
    return new.get(content, content) if isinstance(content, str) else content


def pseudonym_in(place):
    (found,) = {each.pseudonym for each in Erasures(place).every}
    return found


def test_an_export_has_the_rows_of_every_source(workspace, tmp_path):
    found = export(Places(workspaces=[workspace]), ODD, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == found
    held = {
        str(each["source"]).removeprefix(f"{workspace}/"): [
            json.loads(line) for line in (tmp_path / "out" / each["file"]).read_text().splitlines()
        ]
        for each in found["sources"]
    }
    assert {name: len(rows) for name, rows in held.items()} == {
        "ledger.db": 10,
        "served/ledger/decisions-000000000001-000000000002.parquet": 2,
        "served/ledger/decisions-000000000003-000000000004.parquet": 1,
        "served/ledger/outcomes-000000000001-000000000002.parquet": 1,
        "tables/account.parquet": 1,
        "tables/edge.parquet": 3,
        "tables/exposure.parquet": 3,
        "tables/outcome.parquet": 2,
        "tables/truth.parquet": 1,
        "snapshot-000/account_id.npy": 1,
        "population/m/customer/account_id.parquet": 1,
        "groups.npy": 1,
        "logs/predictor.log": 1,
    }
    assert held["tables/account.parquet"] == [{"account_id": ODD, "x_spend": 4.0}]
    assert held["population/m/customer/account_id.parquet"] == [
        {"account_id": ODD, "activity": 3.0, "response": [3.0, 7.0]}
    ]
    assert held["groups.npy"] == [{"account_id": ODD, "group": "group 2"}]
    assert [row["request_id"] for row in held["tables/outcome.parquet"]] == [TRIAL[0], "e2"]
    assert {row.get("request_id") for row in held["ledger.db"]} == {"r0", "r1", "r3", None}
    assert [each.split(": ")[0] for each in found["not_read"]] == [str(workspace / ".edge.parquet.draft")]


def test_an_erasure_reaches_every_file_and_tells_what_it_left(workspace):
    before, sums = frames(workspace), log_totals(read_parts(workspace / "served" / "ledger"))
    found = erase(Places(workspaces=[workspace]), ODD)
    new = pseudonym_in(workspace)
    assert frames(workspace) == renamed(before, new)
    assert log_totals(read_parts(workspace / "served" / "ledger")) == sums
    assert Groups.load(workspace / "groups.npy").units([new, "a", ODD]) == ["group 2", "group 0", ODD]
    assert pq.read_table(workspace / "tables" / "truth.parquet")["account_id"].to_pandas().dtype == "category"
    left = {each.removeprefix(f"{workspace}/").split(": ")[0]: each.rpartition(": ")[2] for each in found["left"]}
    assert left.pop(".edge.parquet.draft").startswith("cannot be read")
    told = "rows or lines contain the identifier"
    assert left == {
        "ledger.db": f"3 {told}",  # a request is named after it, in three tables
        "served/ledger/decisions-000000000005-000000000005.parquet": f"1 {told}",
        "tables/exposure.parquet": f"1 {told}",  # in a column of the user's own
        "logs/predictor.log": f"1 {told}",
    }
    assert ODD not in (workspace / RECORD).read_text()


def test_an_erased_account_stays_in_its_arm_also_before_a_raise():
    first, out = Experiment(arms=TEST.arms, salt=TEST.salt), Holdout(key="company", share=2500)
    for number in range(60):
        found = pseudonym_for(f"a{number}", [TEST], [out])
        assert len(set(out.holds([f"a{number}", found]))) == 1
        for stage in (first, TEST):
            (own, new) = stage.arm_of([f"a{number}", found])
            assert own == new


@pytest.mark.parametrize("early", [True, False], ids=["before the file has its name", "after"])
def test_an_erasure_that_is_killed_at_any_file_is_finished_by_the_next(workspace, tmp_path, early):
    before, replace = frames(workspace), os.replace
    for number in range(1, 99):
        place = tmp_path / f"copy{number}"
        shutil.copytree(workspace, place)
        child = os.fork()
        if not child:
            left = [number]

            def killed(source, target, left=left):
                left[0] -= 1
                if not left[0]:
                    _ = early or replace(source, target)
                    os._exit(9)
                replace(source, target)

            os.replace = killed
            erase(Places(workspaces=[place]), ODD)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = erase(Places(workspaces=[place]), ODD)
        assert frames(place) == renamed(before, pseudonym_in(place)), number
        assert Groups.load(place / "groups.npy").units([pseudonym_in(place), ODD]) == ["group 2", ODD]
        assert {each for each in found["left"] if "cannot be read" in each and ".draft" not in each} <= set()
        shutil.rmtree(place)
        if not ended:
            break
    assert 10 < number < 98


def test_restored_files_are_erased_again_by_the_record_alone(workspace, tmp_path):
    before = frames(workspace)
    shutil.copytree(workspace, tmp_path / "backup")
    erase(Places(workspaces=[workspace]), ODD)
    new = pseudonym_in(workspace)
    shutil.copytree(tmp_path / "backup", workspace, dirs_exist_ok=True)
    (workspace / "ledger.db-wal").unlink(missing_ok=True)
    assert frames(workspace) == before
    assert main(["account", "repeat", str(workspace)]) == 0
    assert frames(workspace) == renamed(before, new)


def test_a_decision_after_the_erasure_is_not_erased_again(workspace):
    erase(Places(workspaces=[workspace]), ODD)
    late = pd.DataFrame({"account_id": [ODD] * 2, "decided_at": pd.to_datetime([AT, datetime(2200, 1, 1, tzinfo=UTC)])})
    late.to_parquet(workspace / "late.parquet", index=False)
    erase(Places(workspaces=[workspace]))
    assert pd.read_parquet(workspace / "late.parquet")["account_id"].tolist() == [pseudonym_in(workspace), ODD]


def test_an_account_that_is_erased_twice_leaves_a_snapshot_with_unique_nodes(workspace):
    erase(Places(workspaces=[workspace]), ODD)
    path, new = workspace / "snapshot-000", pseudonym_in(workspace)
    assert rename(path, {"zz": ODD}) == 1
    erase(Places(workspaces=[workspace]), ODD)
    found = GraphSnapshot.load(path).account_id.tolist()
    assert len(set(found)) == 4
    assert sorted(name for name in found if name.startswith(new)) == [new, f"{new}-3"]


def test_campaigns_that_share_limits_get_one_pseudonym(workspace, tmp_path, kit):
    other = tmp_path / "other"
    campaign = kit.campaign()
    write_whole(other / "campaign.json", json.dumps(campaign.to_dict()))
    ledger = kit.open(campaign, other / "ledger.db")
    ledger.authorize(kit.item("r0", account_id=ODD))
    ledger.close()
    assert main(["account", "erase", ODD, str(workspace), str(other)]) == 0
    again = kit.open(campaign, other / "ledger.db")
    assert again.store.find(["r0"])["r0"].account_id == pseudonym_in(workspace) == pseudonym_in(other)
    again.close()


def test_a_log_and_a_backup_elsewhere_are_named(workspace, tmp_path, capsys):
    shutil.move(workspace / "served" / "ledger", tmp_path / "log")
    backup(workspace / "ledger.db", tmp_path / "backup.db")
    words = ["account", "erase", ODD, str(workspace), "--also", str(tmp_path / "log"), "--json"]
    assert main([*words, "--also", str(tmp_path / "backup.db")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["changed"][str(tmp_path / "backup.db")] == found["changed"][str(workspace / "ledger.db")] == 3
    assert ODD not in set(read_log(tmp_path / "log").decisions["account_id"])
    with pytest.raises(NotFound, match="there is no"):
        Places(workspaces=[tmp_path / "none"])


def test_behaviors_are_those_of_the_person_of_their_session(tmp_path):
    sessions = {"user_id": ["u1", "u2"], "session_id": ["r-u1", "s2"]}
    behaviors = {"session_id": ["r-u1", "s2", "r-u1"], "item_id": ["i1", "i2", "i3"]}
    for name, columns in (("session", sessions), ("behaviour", behaviors)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    session, behaviour = Parquet(tmp_path / "session.parquet"), Parquet(tmp_path / "behaviour.parquet")
    assert (session.owned, behaviour.owned) == (True, False)
    assert [row["item_id"] for row in behaviour.rows("u1", {"r-u1"})] == ["i1", "i3"]
    erasures = Erasures(tmp_path)
    erasures.add("u1", "erased-1")
    assert (session.erase(erasures), behaviour.erase(erasures)) == (1, 2)
    assert pq.read_table(session.place)["user_id"].to_pylist() == ["erased-1", "u2"]
    for table in (session, behaviour):
        assert set(pq.read_table(table.place)["session_id"].to_pylist()) == {"r-erased-1", "s2"}
