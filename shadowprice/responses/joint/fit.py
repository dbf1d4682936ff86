"""Training of the joint network."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from shadowprice.responses.joint.batches import EPOCH_STEPS, Batches, Step, TrainingData, make_batches, of_process
from shadowprice.responses.joint.network import ResponseNetwork
from shadowprice.responses.training.config import FitResult, Progress, TrainingConfig
from shadowprice.responses.training.loop import BestEpoch, GradientDescent
from shadowprice.responses.training.processes import this_process
from shadowprice.responses.training.team import share_out


def scheduled(config: TrainingConfig, steps: int) -> TrainingConfig:
    """The configuration for epochs of so many steps.

    An epoch of one step is the default; where it has more, there are fewer epochs, sooner given up, that learn faster
    at first. The rate falls by 3 % an epoch, and every ``EPOCH_STEPS`` steps of one that has more.
    """
    if steps == 1:
        return config
    epochs = max(1, config.epochs // 4)
    decay = 0.97 ** max(1.0, steps / EPOCH_STEPS)
    return replace(config, learning_rate=2.5 * config.learning_rate, decay=decay, epochs=epochs, patience=8)


def fit_rows(
    network: ResponseNetwork, data: TrainingData, config: TrainingConfig, progress: Progress | None = None
) -> FitResult:
    """Train in place on all rows, in this process or shared out by account.

    Args:
        network: untrained.
        data: graph and rows. Snapshots that are mapped files are mapped by every process, of which each reads the
            features and ties that its rows need.
        config: see :func:`scheduled`.
        progress: called after every epoch.
    """

    def fit(network: ResponseNetwork, own: TrainingData, progress: Progress | None) -> FitResult:
        batches = make_batches(own, config.seed, config.device)
        return fit_network(network, batches, scheduled(config, batches.count), progress=progress)

    def deal(rank: int, count: int) -> TrainingData:
        return of_process(data, rank, count)

    least = min(sum(map(len, rows.values())) for rows in (data.train, data.validation))
    result = share_out(fit, network, deal, least, progress)
    refit_amounts(network, data)
    return result


@torch.no_grad()
def refit_amounts(network: ResponseNetwork, data: TrainingData) -> None:
    """Fit the layers of amounts anew on what the trained network makes of all rows; the others stay as they are."""
    if not network.amounts:
        return
    network.eval()
    nodes = data.graph.embed(network.encoder)
    for side in data.train:
        if side not in network.amounts:
            continue
        parts = [rows[side].take(rows[side].amount > 0) for rows in (data.train, data.validation)]
        each = [part.tensors() for part in parts]
        embedding = torch.cat([network.requests(side, nodes, rows) for rows in each])
        names = ("level", "amount", "weight", "response")
        level, amount, weight, response = (torch.cat([getattr(rows, name) for rows in each]) for name in names)
        units = network.layer(side).cut(level, response)
        network.amount_layer(side).refit(embedding, level, amount, weight * units)


def fit_network(
    network: ResponseNetwork,
    batches: Batches,
    config: TrainingConfig,
    **options: Any,
) -> FitResult:
    """Train in place and leave the network at its best validation epoch.

    Args:
        network: what is trained.
        batches: the steps of this process, which has its own rows: several processes divide by the mean weight of all,
            so that their mean gradient, and their mean loss on held-out rows, are those of one with all rows.
        config: see :func:`scheduled`; ``batch_rows`` is not read.
        options: of :func:`~shadowprice.responses.training.loop.GradientDescent.run`, such as ``progress``.

    O(steps · (edges · width + rows · width · levels)).
    """

    def total(step: Step) -> Tensor:
        graph, rows = step
        weights = {side: this_process().share(row.weight.sum()) for side, row in rows.items()}
        loss: Tensor = network(graph, rows, weights)
        return loss

    def steps(epoch: int) -> Any:
        # Dropout masks depend on the epoch alone, so that all processes draw the same.
        torch.manual_seed(config.seed * 1_000_003 + epoch)
        return batches.steps(epoch)

    def shrink(optimizer: torch.optim.Optimizer) -> None:
        for side in batches.held_out[1]:
            network.layer(side).shrink(lambda parameter: _step_length(optimizer, parameter))

    return GradientDescent(
        network,
        steps,
        lambda step, _: total(step),
        lambda: float(total(batches.held_out)),
        after_step=shrink,
        places=True,
    ).run(config, best=BestEpoch(least_gain=1e-6), **options)


def _step_length(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> Tensor:
    """Length of Adam's last step per unit of gradient, per coordinate: the metric a proximal step must use."""
    group = optimizer.param_groups[0]
    state = optimizer.state[parameter]
    second = state["exp_avg_sq"] / (1.0 - group["betas"][1] ** float(state["step"]))
    return torch.as_tensor(group["lr"] / (second.sqrt() + group["eps"]))
