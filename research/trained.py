"""Models trained as the training step trains them, without its progress."""

from shadowprice.learning.calibrate import calibrate
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.sided import SidedModel
from shadowprice.responses.training import TrainingConfig


def config(seed: int, quick: bool, few: int = 40) -> TrainingConfig:
    """Configuration of a table; ``few`` epochs in quick mode."""
    return TrainingConfig(seed=seed, epochs=few if quick else 400)


def trained(data: TrainingSet, recipe: str, config: TrainingConfig, *, calibrated: bool = False) -> SidedModel:
    """Train a recipe."""
    model, _ = train(data, recipe, config, report=lambda _: None)
    if calibrated:
        calibrate(model, data)
    return model
