"""Training and re-solve with every step in a container of the project's own image, beside the same run without."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from containers import USER, price_of
from docker import DockerClient
from kfp.local.logging_utils import indented_print
from safetensors.numpy import load_file

from pipelines.local import PipelineFailed
from pipelines.local.containers import HARDENED, run_container
from shadowprice.price import PriceRecord

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def price(published: PriceRecord, in_image: Callable[..., dict[str, float]], trained_in_image: Path) -> PriceRecord:
    """What a re-solve on two Ray actors in the image has published; this machine's is solved in one process."""
    arguments = {"workspace": str(trained_in_image / "workspace"), "workers": 2}
    steps = in_image("resolve", trained_in_image / "pipeline", arguments)
    assert list(steps) == ["measure", "solve", "publish"]
    return price_of(trained_in_image / "workspace")


def test_the_image_learns_the_model_that_this_machine_learns(trained: Path, trained_in_image: Path) -> None:
    ours, theirs = (folder / "model" for folder in (trained_in_image / "workspace", trained))
    heads, expected = load_file(ours / "heads.safetensors"), load_file(theirs / "heads.safetensors")
    assert heads.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(heads[name], values, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_price_published_by_the_image_is_certified_and_spends_the_budget(price: PriceRecord) -> None:
    assert (price.version, price.status) == (1, "optimal")
    assert abs(price.gap) <= 1e-6
    # Where money has a price, all of it is spent and no more.
    assert price.prices["day"] > 0
    assert abs(price.violation) <= 1e-6
    assert price.plan[-1] == pytest.approx(price.remaining, rel=0.01)


def test_it_is_the_price_that_this_machine_publishes(published: PriceRecord, price: PriceRecord) -> None:
    assert price.prices == pytest.approx(published.prices, rel=1e-4)
    for name in ("tie_share", "primal", "dual", "remaining", "sample_rows", "expected"):
        assert getattr(price, name) == pytest.approx(getattr(published, name), rel=1e-4, abs=1e-6), name


def test_the_steps_ran_as_the_owner_of_the_workspace(trained_in_image: Path, price: PriceRecord) -> None:
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
    with pytest.raises(PipelineFailed, match=r"(?s)step 'prepare'.*exposure.*propensity.*2"):
        in_image("train", tmp_path / "pipeline", arguments)
    assert not list(workspace.iterdir())


@pytest.mark.parametrize("status", [0, 3])
def test_a_container_that_ends_at_once_is_known_by_its_status_and_leaves_nothing(
    status: int, docker_host: str, built: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(DockerClient(base_url=docker_host)) as client:
        before = {each.id for each in client.containers.list(all=True)}
        script = ["sh", "-c", f"printf to; sleep 0.3; echo ld; exit {status}"]
        with indented_print():
            assert run_container(client, built("base"), script, {}, **HARDENED) == status
        # One line, though it came in two pieces.
        assert capsys.readouterr().out.split() == ["told"]
        assert {each.id for each in client.containers.list(all=True)} == before


def test_a_workspace_of_roots_is_refused(in_image: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(PipelineFailed, match="belongs to root"):
        in_image("resolve", tmp_path / "pipeline", {"workspace": str(tmp_path)})
