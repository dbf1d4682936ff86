"""The optimiser over one vector against torch's over many."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn
from torch.optim import AdamW

from shadowprice.responses.vouchers.flat import FlatAdamW


def test_steps_are_those_of_adamw() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(5, 7), nn.PReLU(7), nn.Linear(7, 1))
    theirs = deepcopy(ours)
    x, y = torch.randn(40, 5), torch.randn(40, 1)
    options = {"lr": 0.02, "weight_decay": 0.3}
    descents = [FlatAdamW(ours.parameters(), **options), AdamW(theirs.parameters(), **options)]
    schedules = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in descents]
    for step in range(60):
        for module, descent, schedule in zip((ours, theirs), descents, schedules, strict=True):
            descent.zero_grad()
            (module(x) - y).square().mean().backward()
            norm = [each for group in descent.param_groups for each in group["params"]]
            torch.nn.utils.clip_grad_norm_(norm, 0.5)
            descent.step()
            if step % 20 == 19:
                schedule.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_parameters_are_views_that_a_state_can_be_put_back_into() -> None:
    module = nn.Linear(3, 2)
    before, kept = deepcopy(module.state_dict()), [each.detach().clone() for each in module.parameters()]
    descent = FlatAdamW(module.parameters(), lr=0.1, weight_decay=0.0)
    for one, other in zip(module.parameters(), kept, strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=0, atol=0)
    descent.zero_grad()
    module(torch.ones(1, 3)).sum().backward()
    descent.step()
    assert not torch.equal(module.weight, before["weight"])
    module.load_state_dict(before)
    torch.testing.assert_close(descent.flat.detach(), torch.cat([each.flatten() for each in kept]), rtol=0, atol=0)


def test_what_a_step_does_not_reach_decays_all_the_same() -> None:
    reached, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    descent = FlatAdamW([reached, other], lr=0.1, weight_decay=0.5)
    descent.zero_grad()
    reached.sum().backward()
    descent.step()
    torch.testing.assert_close(other.detach(), torch.full((2,), 1 - 0.1 * 0.5))
