"""The behaviour encoder is multi-head self-attention, its weights laid into torch's own layer."""

import torch
from torch import nn

from shadowprice.encoders.behaviour import HEADS, BehaviourEncoder, Behaviours


def test_it_is_torchs_multi_head_attention_over_the_events_and_the_account() -> None:
    torch.manual_seed(0)
    n, most, hidden = 9, 6, 32
    made = BehaviourEncoder(offers=4, actions=3, hidden=hidden).double()
    events = Behaviours(
        torch.randint(4, (n, most)),
        torch.randint(3, (n, most)),
        torch.rand(n, most, dtype=torch.float64),
        torch.arange(most) < torch.arange(n)[:, None] % (most + 1),
    )
    reference = nn.MultiheadAttention(hidden, HEADS, batch_first=True).double()
    with torch.no_grad():
        for ours, theirs in ((made.attend, reference.in_proj_weight), (made.mix, reference.out_proj.weight)):
            theirs.copy_(ours.weight)
        for ours, theirs in ((made.attend, reference.in_proj_bias), (made.mix, reference.out_proj.bias)):
            theirs.copy_(ours.bias)
    found = made(events)

    expected = []
    for row in range(n):
        own = [made.account]
        for event in range(most):
            if events.there[row, event]:
                what = made.offer(events.offer[row, event]) + made.action(events.action[row, event])
                own.append(what + made.ago(events.ago[row, event, None]))
        token = torch.stack(own)
        seen, _ = reference(token[None], token[None], token[None])
        token = torch.relu(token + seen[0])
        expected.append(torch.relu(made.out(token.sum(dim=0) / len(own) ** 0.5)))
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=1e-12)

    weight = torch.randn(found.shape, dtype=torch.float64)
    asked = [made.account, *made.offer.parameters(), *made.action.parameters(), *made.ago.parameters()]
    ours, theirs = (torch.autograd.grad((each * weight).sum(), asked) for each in (found, torch.stack(expected)))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)
