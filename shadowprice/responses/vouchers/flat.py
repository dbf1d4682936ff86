"""AdamW over one vector: for modules of many small parameters, of which each costs more to look up than to step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW


class FlatAdamW(AdamW):
    """The same steps as AdamW's, to the last bits, where every parameter has a gradient in every step.

    From here on parameters and their gradients are views of one vector each, the only parameter of this optimiser. One
    that a step does not reach has a gradient of zeros, and is moved by momentum and decay; AdamW leaves it alone.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], **options: Any) -> None:
        own = list(parameters)
        self.flat = nn.Parameter(torch.cat([each.detach().flatten() for each in own]))
        self.gradient = self.flat.grad = torch.zeros_like(self.flat)
        sizes = [each.numel() for each in own]
        pieces = [torch.split(whole, sizes) for whole in (self.flat.data, self.gradient)]
        for each, value, gradient in zip(own, *pieces, strict=True):
            each.data, each.grad = value.view_as(each), gradient.view_as(each)
        super().__init__([self.flat], fused=True, **options)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zeros: the gradient is written in place."""
        del set_to_none
        self.gradient.zero_()
