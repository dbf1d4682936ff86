import pytest

from pipelines.local import PipelineFailed, run


@pytest.mark.timeout(300)
def test_a_bad_table_stops_the_pipeline_at_its_first_step_and_nothing_is_written(tmp_path, examples) -> None:
    broken = tmp_path / "data"
    broken.mkdir()
    for path in examples.glob("*.csv"):
        (broken / path.name).write_text(path.read_text())
    exposure = (broken / "exposure.csv").read_text().splitlines()
    header = exposure[0].split(",")
    cells = exposure[3].split(",")
    cells[header.index("propensity")] = "1.7"
    exposure[3] = ",".join(cells)
    (broken / "exposure.csv").write_text("\n".join(exposure))
    workspace = tmp_path / "run"
    arguments = {"workspace": str(workspace), "dataset": "tables", "data": str(broken), "workers": 0}
    with pytest.raises(PipelineFailed, match=r"(?s)step 'prepare'.*exposure.*propensity.*2") as failed:
        run("train", tmp_path / "pipeline", arguments)
    assert "InvalidTable" in str(failed.value)
    assert not workspace.exists()
    assert not list((tmp_path / "pipeline").glob("*/prepare/tables/tables/*"))
