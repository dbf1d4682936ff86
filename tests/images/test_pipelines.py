"""Training and re-solve with every step in a container of the project's own image, beside the same run without."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from containers import USER
from safetensors.numpy import load_file

from pipelines.local import PipelineFailed, run
from shadowprice.price import PriceRecord

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def prices(
    in_image: Callable[..., dict[str, float]],
    trained_in_image: Path,
    trained: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[PriceRecord, PriceRecord]:
    """What a re-solve has published: in the image, and as processes of this machine."""
    arguments = {"workspace": str(trained_in_image / "workspace")}
    steps = in_image("resolve", trained_in_image / "pipeline", arguments)
    assert list(steps) == ["measure", "solve", "publish"]
    # The services' tests want the trained workspace without a price.
    here = tmp_path_factory.mktemp("here")
    shutil.copytree(trained, here / "workspace", symlinks=True)
    run("resolve", here / "pipeline", {"workspace": str(here / "workspace")})
    return record(trained_in_image / "workspace"), record(here / "workspace")


def record(workspace: Path) -> PriceRecord:
    [path] = sorted((workspace / "prices" / "world").glob("*.json"))
    return PriceRecord.from_json(path.read_text())


def test_the_image_learns_the_model_that_this_machine_learns(trained_in_image: Path, trained: Path) -> None:
    ours, theirs = (folder / "model" for folder in (trained_in_image / "workspace", trained))
    heads, expected = load_file(ours / "heads.safetensors"), load_file(theirs / "heads.safetensors")
    assert heads.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(heads[name], values, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_price_published_by_the_image_is_certified_and_spends_the_budget(prices) -> None:
    price, _ = prices
    assert (price.version, price.status) == (1, "optimal")
    assert abs(price.gap) <= 1e-6
    # Where money has a price, all of it is spent and no more.
    assert price.prices["day"] > 0
    assert abs(price.violation) <= 1e-6
    assert price.plan[-1] == pytest.approx(price.remaining, rel=0.01)


def test_it_is_the_price_that_this_machine_publishes(prices) -> None:
    ours, theirs = prices
    assert ours.prices == pytest.approx(theirs.prices, rel=1e-4)
    for name in ("tie_share", "primal", "dual", "remaining", "sample_rows", "expected"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name


def test_the_steps_ran_as_the_owner_of_the_workspace(trained_in_image: Path, prices) -> None:
    for place in ("workspace/prices", "workspace/model", "pipeline"):
        found = (trained_in_image / place).stat()
        assert (found.st_uid, found.st_gid) == (USER, USER), place


def test_a_bad_table_is_named_by_the_step_in_its_container(
    in_image: Callable[..., Any], tmp_path: Path, examples: Path
) -> None:
    data, workspace = tmp_path / "data", tmp_path / "workspace"
    for folder in (data, workspace):
        folder.mkdir()
    os.chown(workspace, USER, USER)
    for path in examples.glob("*.csv"):
        (data / path.name).write_text(path.read_text())
    lines = (data / "exposure.csv").read_text().splitlines()
    cells = lines[3].split(",")
    cells[lines[0].split(",").index("propensity")] = "1.7"
    lines[3] = ",".join(cells)
    (data / "exposure.csv").write_text("\n".join(lines))
    arguments = {"workspace": str(workspace), "dataset": "tables", "data": str(data), "workers": 0}
    with pytest.raises(PipelineFailed, match=r"(?s)exposure.*propensity.*2"):
        in_image("train", tmp_path / "pipeline", arguments)
    assert not list(workspace.iterdir())


def test_a_workspace_of_roots_is_refused(in_image: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(PipelineFailed, match="belongs to root"):
        in_image("resolve", tmp_path / "pipeline", {"workspace": str(tmp_path)})
