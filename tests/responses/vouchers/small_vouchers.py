"""A small log of vouchers and models fitted on it, each made once."""

from __future__ import annotations

from functools import cache

import torch

from research.models import make
from shadowprice.datasets.vouchers import VoucherData, generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.vouchers.sessions import Past

SHORT = TrainingConfig(epochs=2, learning_rate=1e-2, batch_rows=256, weight_decay=0.1)


@cache
def small() -> tuple[VoucherData, SessionLog]:
    data = generate(seed=5, sessions=500)
    return data, SessionLog.build(data.tables)


@cache
def fitted(name: str = "dmbgn"):
    data, log = small()
    return make(name, levels=log.levels, inputs=Inputs(sessions=log), training=SHORT, pretraining=1).fit(
        log.requests(data.part() == "train")
    )


def past_of(*rows: list[int]) -> Past:
    most = max(map(len, rows))
    return Past.of(torch.tensor([[*row, *[-1] * (most - len(row))] for row in rows]))
