"""Attention over a history, the scores that stand beside it, and the auxiliary loss."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from small_vouchers import past_of

from shadowprice.responses.vouchers.dmbgn_history import Encoded, Memory, read_histories, score_features
from shadowprice.responses.vouchers.sessions import Past, TargetAttention


def test_with_one_session_in_the_history_attention_is_its_weight_times_it() -> None:
    torch.manual_seed(0)
    attention = TargetAttention(3)
    keys, target, past = torch.randn(2, 3), torch.randn(3, 3), past_of([7], [], [9])
    weight = attention.weights(keys, target, past)
    found = attention(keys, target, past)
    torch.testing.assert_close(found, torch.stack([weight[0] * keys[0], torch.zeros(3), weight[1] * keys[1]]))


def test_weights_are_not_normalized_and_see_query_key_difference_and_product() -> None:
    torch.manual_seed(1)
    attention = TargetAttention(2)
    keys, target, past = torch.randn(3, 2), torch.randn(2, 2), past_of([1, 2], [4])
    weight = attention.weights(keys, target, past).detach()
    for p, row in enumerate((0, 0, 1)):
        read = torch.cat([target[row], keys[p], target[row] - keys[p], target[row] * keys[p]])
        torch.testing.assert_close(weight[p], attention.unit(read[None])[0].detach())
    assert abs(float(weight[:2].sum()) - 1) > 1e-3


def test_scores_of_a_history_stand_latest_first_with_their_max_mean_and_min() -> None:
    found = score_features(torch.tensor([0.9, 0.2, 0.4]), past_of([5, 3], [], [8]))
    expected = [[0.9, 0.2, 0.9, 0.55, 0.2], [0.0] * 5, [0.4, 0.0, 0.4, 0.4, 0.4]]
    torch.testing.assert_close(found, torch.tensor(expected))


def encoded(scores: list[float]) -> Encoded:
    """Embeddings whose score is given, with a voucher that is the first unit vector."""
    behaviour = torch.zeros(len(scores), 16)
    behaviour[:, 0] = torch.tensor(scores)
    return Encoded(behaviour, torch.eye(16)[:1].expand(len(scores), -1))


def test_the_auxiliary_loss_is_the_mean_of_means_and_vanishes_as_scores_reach_1() -> None:
    past, attention = past_of([5, 3], [], [8]), TargetAttention(32)

    def of(scores: list[float]) -> list[float]:
        memory = Memory(past, past.session, np.arange(3), encoded(scores))
        return read_histories(memory, encoded([0.0] * 3), attention)[1].tolist()

    s = expit([0.3, -1.0, 2.0])
    assert of([0.3, -1.0, 2.0]) == pytest.approx([-np.log(s[:2]).mean(), 0, -np.log(s[2])], rel=1e-6)
    assert sum(of([5.0, 5.0, 5.0])) > sum(of([20.0, 20.0, 20.0])) > 0
    assert of([200.0, 200.0, 200.0]) == [0, 0, 0]


def test_rows_without_any_past_read_themselves_alone() -> None:
    past, nobody = Past.of(torch.full((3, 2), -1)), np.zeros(0, dtype=np.int64)
    own = Encoded(torch.randn(3, 16), torch.randn(3, 16))
    memory = Memory(past, nobody, nobody, Encoded(torch.zeros(0, 16), torch.zeros(0, 16)))
    read, auxiliary = read_histories(memory, own, TargetAttention(32))
    torch.testing.assert_close(read, torch.cat([torch.zeros(3, 32), own.both, torch.zeros(3, 5)], dim=1))
    assert auxiliary.tolist() == [0, 0, 0]
