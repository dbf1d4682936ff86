"""Conditions and rules: what is refused when a campaign is read, and what holds for a request."""

import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput
from shadowprice.limits import Asked, GroupBudget, Limits, Rule, name_of
from shadowprice.limits.attributes import Attributes, columns_file
from shadowprice.limits.conditions import Condition
from shadowprice.limits.coverage import SideRequests


def campaign(*rules: Rule, budgets: tuple[GroupBudget, ...] = ()) -> Campaign:
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50, 100)), "merchant": Terms(levels=(20, 80))},
        budget=Budget(limit=1000),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        limits=Limits(budgets=budgets),
        rules=rules,
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("account.c_region == ", "rules.r.expression: at line 1, column 21: Syntax error"),
        ('true &&\n region == "x"', "rules.r.expression: at line 2, column 2: no 'region'"),
        ('account.region == "x"', r"at line 1, column 1: no 'account.region'; account has \['x_… \(a number\)'"),
        ("offer.price > 3", "at line 1, column 1: no 'offer.price'; offer has"),
        ("account.c_region > 3", "cannot be evaluated"),
        ("account.x_age + 1.0", "must be true or false"),
        ("nothing(side)", "cannot be evaluated"),
        # Parts that an evaluation on typical values leaves out.
        ('account.c_region == "x" && context.x_basket * 2 > 3.0', r"cannot be evaluated.*context.x_basket \* 2 > 3.0"),
        ("side == 'merchant' ? account.x_age > 1.0 : account.c_region > 3", r"account.c_region > 3"),
        ("true || account.x_age", "must be true or false, not 0.0: account.x_age"),
        ('["a", "b"].exists(v, v == account.c_region && account.x_age % 2 == 0)', "cannot be evaluated"),
        ('(true ? ["a"] : ["b"]).all(v, v == "q" || v)', "must be true or false"),
        ("1 / 0 == 1 || account.x_age > 1.0", "division by zero"),
        # What would cost too much, or hides something from the bound.
        ("[1, 2].map(x, x) == [1]", "at line 1, column 8: 'map' is not taken"),
        ("[[1]].exists(x, x.exists(y, y == 1))", "'exists' must not stand inside another comprehension"),
        ("(" * 25 + "true" + ")" * 25, "at line 1, column 25: has more than 24 brackets inside one another"),
        ("[" + "0," * 300 + "0].exists(x, " + " || ".join(["x > 1"] * 60) + ")", "costs too much: .* elements"),
        ('account.c_region.matches("(a{1,300}){1,300}")', "without counted repetitions"),
        ("account.c_region.matches(account.c_region)", "takes a plain text"),
        ('account.c_region.matches("' + "a" * 120 + '")', "a pattern has at most 100 characters"),
        ('r"\\" == "a"', "raw texts and bytes are not taken"),
        ('true // "', "comments and texts of several lines are not taken"),
        ('"""a"b""" == "x"', "comments and texts of several lines are not taken"),
        ("true" + " && true" * 300, "at most 2000 characters"),
        ("(true", "at line 1, column 1: the bracket is not closed"),
        ("true)", "at line 1, column 5: closes no bracket"),
        ("account.x_age ~ 1.0", "what is this: '~ 1.0'"),
    ],
)
def test_a_wrong_expression_is_refused_when_the_campaign_is_read(expression: str, message: str) -> None:
    given = campaign().to_dict() | {"rules": [{"name": "r", "expression": expression}]}
    with pytest.raises(InvalidInput, match=message):
        Campaign.from_dict(given)


def test_a_rule_of_an_unknown_offer_or_twice_the_same_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"rules\.r\.offers: there is no offer 'customer-70'"):
        campaign(Rule(name="r", expression="true", offers=("customer-70",)))
    with pytest.raises(InvalidInput, match="names of rules must differ"):
        campaign(Rule(name="r", expression="true"), Rule(name="r", expression="false"))


def test_rules_and_groups_survive_the_file_of_the_campaign() -> None:
    given = campaign(
        Rule(name="r", expression='account.c_region == "x"', offers=("merchant-80",), side="merchant"),
        budgets=(
            GroupBudget(name="g", limit=7, where="partner.x_age > 3", sense="at_least"),
            GroupBudget(name="m", limit=2.5, form="per_response", side="customer"),
        ),
    )
    assert Campaign.from_dict(given.to_dict()) == given


def test_allowed_levels_and_budgets_follow_account_partner_context_and_offer() -> None:
    rules = (
        Rule(name="minors", expression="account.x_age < 18 && offer.incentive > 50"),
        Rule(name="shop", expression='partner.c_kind == "bank" || context.c_channel == "app"', offers=("customer-50",)),
    )
    budgets = (
        GroupBudget(name="old", limit=5, where="has(account.x_age) && account.x_age >= 60"),
        GroupBudget(name="shops", limit=5, partners=("s1",)),
        GroupBudget(name="merchants", limit=5, side="merchant"),
    )
    attributes = {
        "customer": Attributes.of(["kid", "old"], {"x_age": [12.0, 70.0]}),
        "merchant": Attributes.of(["s1", "s2"], {"c_kind": ["bank", "bar"]}),
    }
    covers = campaign(*rules, budgets=budgets).coverage(attributes)  # type: ignore[arg-type]
    assert covers.columns() == {"customer": ["c_kind", "x_age"], "merchant": ["c_kind", "x_age"]}
    who, where = ["kid", "old", "stranger", "old"], ["s2", "s1", "s2", ""]
    asked = SideRequests("customer", who, where, {"c_channel": ["web", "web", "web", "app"]})
    allowed = covers.allowed(asked)
    # A stranger's age is absent, so the rule cannot be evaluated, and forbids.
    np.testing.assert_array_equal(
        allowed, [[True, True, True, True], [True, False, True, False], [False, True, False, True]]
    )
    assert covers.bits(asked).tolist() == [0, 3, 0, 1]
    assert covers.bits(SideRequests("merchant", ["s1"])).tolist() == [4]
    assert covers.named(covers.bits(asked)) == ["", "old", "", "old"]


def test_what_cannot_be_evaluated_holds() -> None:
    condition = Condition("account.x_age > 3", "where")
    assert condition.holds({("account", "x_age"): [None, 2.0, 5.0]}, 3).tolist() == [True, False, True]
    # An unknown value is no fault of the expression.
    assert condition.faults == 0


def test_a_condition_that_counts_for_want_of_a_value_says_so_once(caplog) -> None:
    condition = Condition("account.x_age > context.x_least", "limits.budgets.old.where")
    values = {("account", "x_age"): [None, None, 1.0], ("context", "x_least"): [1.0, 1.0, None]}
    assert condition.holds(values, 3).all()
    assert [each.getMessage() for each in caplog.records] == [
        f"limits.budgets.old.where: cannot be evaluated without {name}; it counts as true"
        for name in ("account.x_age", "context.x_least")
    ]


NORTH = 'account.c_region == "north"'


@pytest.mark.parametrize(
    ("expression", "side", "refused"),
    [
        (NORTH, None, 'account.c_region has no value for any request of side \'merchant\'.*"side": "customer"'),
        (NORTH, "merchant", r"test for it with has\(account.c_region\)"),
        (NORTH, "customer", ""),
        (f"has(account.c_region) && {NORTH}", None, ""),
        (f"side == 'customer' && {NORTH}", None, ""),
        (f"side == 'merchant' && {NORTH}", None, "side 'merchant'"),
        (f'side == "merchant" && context.c_channel == "app" && {NORTH}', None, "side 'merchant'"),
        (f"has(account.x_age) && {NORTH}", None, "side 'merchant'"),
        ('partner.c_region == "north"', None, "partner.c_region has no value for any request of side 'customer'"),
        ("account.x_age > 3.0", None, ""),
    ],
)
@pytest.mark.parametrize("kind", ["budget", "shared", "rule"])
def test_a_column_without_a_value_on_a_side_is_refused_and_never_counts_the_whole_side(
    expression: str, side: str | None, refused: str, kind: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"account_id": ["a", "b"], "c_region": ["north", None], "x_age": [20.0, None]})
    frame.to_parquet(tmp_path / columns_file("customer"))
    frame.assign(c_region=pd.Series([None, None], dtype=object)).to_parquet(tmp_path / columns_file("merchant"))
    own = {"campaigns": ("spring", "autumn")} if kind == "shared" else {}
    if kind == "rule":
        given = campaign(Rule(name="r", expression=expression, side=side))
    else:
        given = campaign(budgets=(GroupBudget(name="north", limit=5, where=expression, side=side, **own),))
    if refused:
        with pytest.raises(InvalidInput, match=refused):
            given.coverage().reading(tmp_path)
        return
    covers = given.coverage().reading(tmp_path)
    if kind != "rule" and "region" in expression:
        assert not covers.bits(SideRequests("merchant", ["a", "b"])).any()


@pytest.mark.parametrize("numbers", [[200, 600], [600.0, 200], [np.int64(600), np.float32(200)], [200.0, True]])
def test_a_number_of_a_request_is_a_double_whatever_its_caller_wrote(numbers: list[float]) -> None:
    # A cache that takes 200 and 200.0 for one key would give the first caller's fault to the others.
    condition = Condition("context.x_basket * 2.0 > 1000.0", "rules.r.expression")
    for values in (numbers, [float(each) for each in numbers]):
        found = condition.holds({("context", "x_basket"): values}, 2)
        assert found.tolist() == [float(each) * 2 > 1000 for each in numbers]
    assert condition.faults == 0


def test_whole_numbers_of_one_caller_forbid_nothing_to_others() -> None:
    covers = campaign(Rule(name="rich", expression="context.x_basket * 2.0 > 1000.0")).coverage()
    for basket in (200, 200.0, 600, 600.0):
        allowed = covers.allowed(SideRequests("customer", ["a"], context={"x_basket": [basket]}))
        assert allowed.all() == (basket == 200)
    assert covers.faults == 0


def test_a_fault_of_an_expression_is_logged_once_and_counted_and_the_rule_forbids(caplog) -> None:
    rule = Rule(name="zip", expression="int(account.c_zip) > 5000")
    attributes = {"customer": Attributes.of(["a", "b", "c"], {"c_zip": ["4000", "none", "?"]})}
    covers = campaign(rule).coverage(attributes)  # type: ignore[arg-type]
    allowed = covers.allowed(SideRequests("customer", ["a", "b", "c", "stranger"]))
    # A stranger's text is unknown, which is no fault.
    assert allowed[0].tolist() == [True, False, False, False]
    assert covers.faults == rule.condition.faults == 2
    assert [each.getMessage().partition(":")[0] for each in caplog.records if each.levelname == "ERROR"] == [
        "rules.zip.expression"
    ]
    assert "account.c_zip" in caplog.text


def test_an_evaluation_that_takes_too_long_is_given_up() -> None:
    condition = Condition("account.x_age > 3.0", "where")
    with pytest.raises(InvalidInput, match=r"where: took longer than -1 s"):
        condition.holds({("account", "x_age"): list(range(2000))}, 2000, -1.0)


@pytest.mark.parametrize(
    "expression",
    [
        '["a", "b"].exists(v, v == account.c_region) && !(account.x_age < 3)',
        '[1, 2].filter(x, x > 1).size() > 0 || account.c_region.matches("^[a-c]+$")',
        "side == 'customer' ? offer.level > 1 : offer.incentive >= 100 && has(partner.c_kind)",
        'int(account.c_zip) > 3 && timestamp(account.c_born) < timestamp("2008-01-01T00:00:00Z")',
        'account.x_age > 1e-3 && account.x_age < 1.5e+3 && "it\\"s" != account.c_region',
    ],
)
def test_usual_expressions_are_taken(expression: str) -> None:
    assert Condition(expression, "r", of_offer=True).reads


WORDS = [
    *("true", "account.x_a", "1.0", '"a"', "x", "&&", "||", "!", ">", "==", "?", ":", ","),
    *("(", ")", "[", "]", ".exists(x,", ".all(x,"),
]


@settings(max_examples=300, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS), max_size=24))
def test_any_expression_is_taken_or_refused_by_name_and_soon(words: list[str]) -> None:
    started = time.perf_counter()
    with suppress(InvalidInput):
        Condition(" ".join(words), "r")
    assert time.perf_counter() - started < 1.0


def test_budgets_of_one_arm_and_of_several_campaigns_are_told_to_the_ledger_by_their_condition() -> None:
    budgets = (
        GroupBudget(name="tried", limit=5, where="account.x_age > 60.0", arm="try"),
        GroupBudget(name="both", limit=5, where="account.x_age > 30.0", campaigns=("spring", "autumn")),
        GroupBudget(name="own", limit=5, where="account.x_age > 20.0"),
    )
    given = replace(
        campaign(),
        limits=Limits(budgets=budgets),
        experiment=Experiment(arms=(Arm(name="try", kind="policy", share=9),), salt="s"),
    )
    ages = Attributes.of(["a", "b", "c"], {"x_age": [25.0, 40.0, 70.0]})
    covers = given.coverage({"customer": ages})
    named = covers.named(covers.bits(SideRequests("customer", ["a", "b", "c"])))
    assert [set(names.split(",")) for names in named] == [{"own"}, {"both", "own"}, {"both", "own", "tried"}]
    # The ledger counts a request by the names that it is told.
    asked = [Asked("c", "customer", "", "try", names.split(",")) for names in named]
    assert [[name_of(each) for each in given.limits.sums(one, given.starts_at)] for one in asked] == [
        ["own"],
        ["both", "own"],
        ["tried", "both", "own"],
    ]
    # A budget of one arm has no price.
    assert given.priced == ("budget", "both", "own")
    charges = given.charges("customer", np.full((3, 1), 0.5), covers.bits(SideRequests("customer", ["c"])))
    assert charges.shape == (3, 3, 1)
    assert not covers.context_names("customer")
    assert not given.coverage().reads_partner("customer")
