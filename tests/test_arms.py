import hashlib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from shadowprice.arms import COMPANY, UNASSIGNED, WHOLE, Arm, Experiment, Holdout, treatment, units_of
from shadowprice.decision import EXPLORE, uniform
from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups

ARMS = (
    Arm(name="holdout", kind="holdout", share=1000),
    Arm(name="new", kind="policy", share=500),
    Arm(name="explore", kind="explore", share=300),
)
TEST = Experiment(arms=ARMS, salt="spring")
UNITS = [f"account-{row}" for row in range(40_000)]


def test_the_arm_is_a_keyed_hash_that_another_program_can_compute() -> None:
    for unit, arm in zip(UNITS[:300], TEST.arm_of(UNITS[:300]).tolist(), strict=True):
        digest = hashlib.blake2b(unit.encode(), digest_size=8, key=b"spring", person=b"arm").digest()
        place = int.from_bytes(digest, "big") / 2**64
        expected = "holdout" if place < 0.1 else "new" if place < 0.15 else "explore" if place < 0.18 else UNASSIGNED
        assert arm == expected


def test_the_shares_of_the_units_are_those_of_the_arms() -> None:
    names, counts = np.unique(TEST.arm_of(UNITS), return_counts=True)
    expected = np.array([TEST.shares[name] for name in names.tolist()]) / WHOLE * len(UNITS)
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_raising_shares_in_any_order_moves_no_unit_that_has_an_arm() -> None:
    test, rng = TEST, np.random.default_rng(3)
    before = test.arm_of(UNITS)
    while test.shares[UNASSIGNED] > 200:
        arm = str(rng.choice([each.name for each in ARMS]))
        test = test.raised(arm, test.share(arm) + int(rng.integers(1, 200)))
        after = test.arm_of(UNITS)
        assert np.all((after == before) | (before == UNASSIGNED))
        before = after
    counts = {name: int(np.count_nonzero(before == name)) for name in test.shares}
    assert all(abs(counts[name] - share * 4) < 4 * np.sqrt(share * 4 + 1) for name, share in test.shares.items())


def test_the_arms_of_two_salts_and_the_other_draws_are_independent() -> None:
    units = UNITS[:20_000]
    place = TEST.places(units)
    for other in (
        Experiment(arms=ARMS, salt="summer").places(units),
        np.array([uniform(unit, EXPLORE) for unit in units]),
        np.array([uniform(unit) for unit in units]),
    ):
        assert abs(stats.spearmanr(place, other).statistic) < 4 / np.sqrt(len(units))


def test_an_experiment_survives_json_and_refuses_what_cannot_be() -> None:
    grown = TEST.raised("new", 2000)
    assert Experiment.from_dict(grown.to_dict()) == grown
    assert grown.share("new") == 2000
    assert TEST.raised("new", 500) == TEST
    with pytest.raises(InvalidInput, match="can only grow"):
        grown.raised("new", 100)
    with pytest.raises(InvalidInput, match="at most 10000"):
        TEST.raised("new", 9000)
    with pytest.raises(InvalidInput, match="no arm 'other'"):
        TEST.raised("other", 9000)
    for wrong in ({"salt": ""}, {"salt": "x" * 65}, {"unit": "week"}, {"arms": ()}, {"arms": (ARMS[0], ARMS[0])}):
        with pytest.raises(InvalidInput):
            Experiment(**({"arms": ARMS, "salt": "a"} | wrong))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"none of .*'unassigned'"):
        Arm(name=UNASSIGNED, kind="policy", share=1)


def test_a_holdout_is_left_its_lowest_allowed_level_and_an_exploring_arm_always_draws() -> None:
    units = UNITS[:200]
    found = treatment(TEST, units, 0.1)
    assert found.arm.tolist() == TEST.arm_of(units).tolist()
    kinds = {"holdout": 0.0, "new": 0.1, "explore": 1.0, UNASSIGNED: 0.1}
    assert found.exploration.tolist() == [kinds[arm] for arm in found.arm.tolist()]
    allowed = np.random.default_rng(1).random((4, 200)) < 0.6
    allowed[3] = True
    for given in (None, allowed):
        mask = found.allowed(4, given)
        assert mask is not None
        for column, held in enumerate(found.held.tolist()):
            may = np.ones(4, dtype=bool) if given is None else given[:, column]
            expected = [level for level in range(4) if may[level]][: 1 if held else 4]
            assert np.flatnonzero(mask[:, column]).tolist() == expected


def test_a_campaign_without_an_experiment_assigns_nobody() -> None:
    found = treatment(None, UNITS[:3], 0.2)
    assert found.arm.tolist() == [UNASSIGNED] * 3
    assert found.allowed(2, None) is None
    assert found.exploration.tolist() == [0.2] * 3


def test_a_unit_is_what_the_request_names_of_it() -> None:
    arms = (Arm(name="on", kind="policy", share=5000), Arm(name="off", kind="holdout", share=5000))
    at = [
        datetime(2026, 5, 1, 13, 59, 59, tzinfo=UTC),
        datetime(2026, 5, 1, 16, 0, tzinfo=timezone(timedelta(hours=2))),
    ]
    accounts, partners = ["a", "b"], ["m", ""]
    named = {
        unit: units_of(Experiment(arms=arms, salt="s", unit=unit), accounts, partners, at)
        for unit in ("account", "partner", "hour")
    }
    assert named == {"account": accounts, "partner": partners, "hour": ["2026-05-01T13", "2026-05-01T14"]}
    by_partner = Experiment(arms=arms, salt="s", unit="partner")
    assert treatment(by_partner, partners, 0.0).arm.tolist()[1] == "unassigned"
    with pytest.raises(InvalidInput, match="need the groups"):
        units_of(Experiment(arms=arms, salt="s", unit="cluster"), accounts, partners, at)
    by_cluster = Experiment(arms=arms, salt="s", unit="cluster")
    assert units_of(by_cluster, accounts, partners, at, Groups.of(["a"], [3])) == ["group 3", "b"]


def test_every_account_is_in_the_group_it_was_given_and_a_stranger_is_its_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [f"account-{number}" for number in random.permutation(5000)]
    group = random.integers(0, 40, len(names))
    Groups.of(names, group).save(tmp_path / "groups.npy")
    found = Groups.load(tmp_path / "groups.npy")
    asked = random.permutation(len(names))
    assert found.units([names[row] for row in asked]) == [f"group {group[row]}" for row in asked]
    assert found.units(["", "stranger"]) == ["", "stranger"]
    assert Groups.of([], []).units(["anyone"]) == ["anyone"]


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "groups.npy"
    Groups.of(["a", "b"], [0, 1]).save(path)
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        np.save(path, np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match=r"groups\.npy"):
        Groups.load(path)


def test_the_holdout_of_a_company_is_sticky_and_independent_of_every_arm() -> None:
    out = Holdout(key="spring", share=500)
    held = out.holds(UNITS)
    digest = hashlib.blake2b(UNITS[7].encode(), digest_size=8, key=b"spring", person=b"company").digest()
    assert held[7] == (int.from_bytes(digest, "big") / 2**64 < 0.05)
    assert stats.binomtest(int(held.sum()), len(UNITS), 0.05).pvalue > 1e-3
    # A larger share lets no account go, and a key that is also a salt gives arms nothing.
    assert (Holdout(key="spring", share=900).holds(UNITS) | ~held).all()
    arms = TEST.arm_of(UNITS)
    for arm, share in TEST.shares.items():
        assert stats.binomtest(int((held & (arms == arm)).sum()), int((arms == arm).sum()), 0.05).pvalue > 1e-3, share
    other = Experiment(arms=ARMS, salt="summer")
    for test in (None, TEST, other):
        found = treatment(test, UNITS, 0.2, held)
        assert ((found.arm == COMPANY) == held).all()
        assert found.held[held].all()
        assert not found.exploration[held].any()
        own = treatment(test, UNITS, 0.2)
        for name in ("arm", "held", "exploration"):
            assert (getattr(found, name)[~held] == getattr(own, name)[~held]).all()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": "", "share": 5}, "1 to 64 bytes"),
        ({"key": "a", "share": 0}, "above 0"),
        ({"key": "a", "share": WHOLE}, "below"),
    ],
)
def test_a_holdout_of_nobody_or_everybody_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Holdout.from_dict(fields)
