import numpy as np
import pytest

from shadowprice.learning.distributed import train_with_ray
from shadowprice.learning.train import train
from shadowprice.responses.training import TrainingConfig

QUICK = TrainingConfig(epochs=6, save_seconds=0)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 2])
def test_ray_workers_train_the_same_model_as_this_process(make_set, tmp_path, workers: int) -> None:
    data = make_set("world", 0, customers=200, merchants=60, both=5, trials=2)[1]
    data.save(tmp_path / "data")
    model, result = train_with_ray(tmp_path / "data", "joint_gnn", QUICK, tmp_path / "out", workers=workers)
    here, expected = train(data, "joint_gnn", QUICK, report=lambda row: None)
    assert result.epochs == expected.epochs
    assert result.validation_loss == pytest.approx(expected.validation_loss, rel=1e-4)
    for name, tensor in here.network.state_dict().items():
        np.testing.assert_allclose(model.network.state_dict()[name].numpy(), tensor.numpy(), atol=1e-4, err_msg=name)
