"""Answers of a campaign with a limit on a second outcome: the model's means by level are charged its price."""

from dataclasses import replace

import numpy as np
import pytest
from local_ledger import customers

from serving.predictor.bundle import check_heads
from shadowprice.errors import InvalidInput
from shadowprice.limits import GroupBudget, Limits
from shadowprice.responses.layers.heads import curves_of, load_heads, save_heads

GUARD = GroupBudget(name="calm", limit=0.04, form="per_account", outcome="x_complaints", side="customer")
COMPLAINTS = np.array([0.01, 0.02, 0.05, 0.2])


@pytest.fixture
def heads(kit):
    own = kit.heads()
    return {**own, "customer": replace(own["customer"], guards={"x_complaints": COMPLAINTS})}


def with_guard(campaign, guard=GUARD):
    return replace(campaign, limits=Limits(budgets=(guard,)))


def test_the_answers_pay_the_prices_of_money_and_of_the_outcome(build, campaign, heads, kit):
    price, names = 0.002, [f"c{place}" for place in range(12)]
    table = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    response = heads["customer"].response(np.stack([table["customer", name] for name in names])).astype(float)
    net = response * (1 - price * np.array([0, 50, 80, 130])[:, None])
    chosen = []
    for rate in (0.0, 1.5):
        published = kit.price(prices={"budget": price, "calm": rate})
        answers = build(terms=with_guard(campaign), price=published)[0].answer(customers(*names))
        assert list(answers.level) == np.argmax(net - rate * COMPLAINTS[:, None], axis=0).tolist()
        chosen.append(COMPLAINTS[list(answers.level)].mean())
    assert chosen[1] < chosen[0]


def test_a_model_without_the_outcome_is_refused_and_one_of_another_side_is_not(campaign, heads, kit):
    check_heads(with_guard(campaign), heads)
    check_heads(with_guard(campaign, replace(GUARD, side="merchant", outcome="x_complaints")), merchants(heads))
    with pytest.raises(InvalidInput, match="x_complaints: of side 'customer' is not known, and limit 'calm' needs it"):
        check_heads(with_guard(campaign), kit.heads())
    with pytest.raises(InvalidInput, match="of side 'merchant' is not known"):
        check_heads(with_guard(campaign, replace(GUARD, side=None)), heads)


def merchants(heads):
    """Return the heads with the outcome on the other side alone."""
    of_three = {"x_complaints": COMPLAINTS[:3]}
    return {
        "customer": replace(heads["customer"], guards={}),
        "merchant": replace(heads["merchant"], guards=of_three),
    }


def test_a_head_keeps_its_outcomes_in_its_file_and_one_without_has_the_file_that_it_always_had(heads, kit, tmp_path):
    save_heads(heads, tmp_path)
    kept = load_heads(tmp_path)
    np.testing.assert_array_equal(kept["customer"].guards["x_complaints"], COMPLAINTS)
    curves = curves_of(kept["customer"], np.stack([kept["customer"].default_embedding] * 3))
    np.testing.assert_array_equal(curves.guards["x_complaints"], COMPLAINTS)
    assert not kept["merchant"].guards
    save_heads(kit.heads(), tmp_path)
    written = (tmp_path / "heads.safetensors").read_bytes()
    assert b"outcome" not in written
    assert b"guards" not in written
