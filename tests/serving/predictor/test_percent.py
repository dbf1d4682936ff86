"""Answers of a campaign in percent: the model's amounts give the costs, and the caps are what is authorized."""

from dataclasses import replace

import numpy as np
import pytest
from local_ledger import customers

from serving.predictor.bundle import check_heads
from shadowprice.campaign import Percent, Terms
from shadowprice.campaign.percent import expected_payment
from shadowprice.errors import InvalidInput
from shadowprice.responses.layers.heads import curves_of, load_heads, save_heads

LEVELS, CAPS = (0, 1, 2, 3), (0, 500, 1000, 300)
SHARES = (None, Percent(share=10), Percent(share=20, least=3000), None)
AMOUNTS = np.array([8.2, 0.6], dtype=np.float32)


def coupons(campaign):
    terms = Terms(levels=LEVELS, offers=("a", "b", "c", "d"), amounts=CAPS, percent=SHARES, ordered=False)
    return replace(campaign, sides={**campaign.sides, "customer": terms})


@pytest.fixture
def heads(kit):
    own = kit.heads()
    customer = replace(own["customer"], levels=np.array(LEVELS), side_amounts=AMOUNTS)
    return {**own, "customer": customer}


def test_the_answers_are_those_of_the_expected_payments(build, campaign, heads, kit):
    price, names = 0.0004, [f"c{place}" for place in range(12)]
    answers = build(terms=coupons(campaign), price=kit.price(price=price))[0].answer(customers(*names))
    table = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    response = heads["customer"].response(np.stack([table["customer", name] for name in names])).astype(float)
    unit = [
        cap if share is None else float(expected_payment(share.share / 100, cap, share.least, *AMOUNTS))
        for share, cap in zip(SHARES, CAPS, strict=True)
    ]
    cost = response * np.array(unit)[:, None]
    best = np.argmax(response - price * cost, axis=0)
    assert list(answers.level) == best.tolist()
    assert len(set(answers.level)) > 1
    np.testing.assert_allclose(answers.expected_cost, cost[best, range(12)], rtol=1e-9)
    # The answer names the most that it may cost, which the ledger holds.
    assert list(answers.incentive) == [CAPS[level] for level in best]


def test_a_model_that_knows_no_amounts_is_refused(campaign, heads):
    check_heads(coupons(campaign), heads)
    plain = {**heads, "customer": replace(heads["customer"], side_amounts=None)}
    with pytest.raises(InvalidInput, match="knows no amounts of orders"):
        check_heads(coupons(campaign), plain)


def test_a_head_keeps_its_amounts_in_its_file_and_one_without_has_the_file_that_it_always_had(heads, kit, tmp_path):
    save_heads(heads, tmp_path)
    kept = load_heads(tmp_path)["customer"]
    np.testing.assert_array_equal(kept.side_amounts, AMOUNTS)
    curves = curves_of(kept, np.stack([kept.default_embedding] * 3))
    np.testing.assert_array_equal(curves.amounts, np.broadcast_to(AMOUNTS[:, None, None], (2, 4, 3)))
    save_heads(kit.heads(), tmp_path)
    assert b"amounts" not in (tmp_path / "heads.safetensors").read_bytes()
    assert load_heads(tmp_path)["customer"].side_amounts is None
