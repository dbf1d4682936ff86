"""Snippets of the pages run, and their data are what the project reads."""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from jsonschema import validate
from served_log import CAMPAIGN, write_log
from snippets import ROOT, blocks, pages

from serving.http.tokens import Tokens
from shadowprice.arms import Experiment
from shadowprice.campaign import SIDES
from shadowprice.campaign.draws import FIELD as EXPLORATION
from shadowprice.campaign.draws import read_weights
from shadowprice.limits import Limits
from shadowprice.mapping import read_mapping
from shadowprice.price import PriceRecord

BLOCKS = blocks()
PYTHON = [block for block in BLOCKS if block.language == "python"]
DATA = [block for block in BLOCKS if block.language in ("json", "yaml")]
ELSEWHERE = {
    "CONTRIBUTING.md": "test_recipes.py and tests/test_docs.py put each example into its place",
    "docs/reference/decision-service.md": "tests/serving/test_client.py runs it on services",
    "docs/how-to/serve-several-campaigns.md": "tests/runs/test_guides.py runs it beside a run",
    "docs/how-to/restore.md": "tests/feature_repo/test_register.py runs it on a lost store",
}
CLUSTER = 'address="auto"'
"""Marks a block that tests/allocation/executors/test_ray.py runs on a cluster."""
NAMED = re.compile(r"`((?:shadowprice|serving|feature_repo|operations|pipelines)(?:\.\w+)+)")
Names = dict[str, Any]


def public_trial(folder: Path) -> Names:
    from research.data.trials.layout import LAYOUTS

    rng, layout = np.random.default_rng(0), LAYOUTS["criteo"]
    rows = pd.DataFrame({name: rng.normal(size=400) for name in layout.numbers})
    for name in ("treatment", "visit", "conversion", "exposure"):
        rows[name] = rng.integers(0, 2, 400)
    (folder / "path/to").mkdir(parents=True)
    rows.to_csv(folder / "path/to/criteo-research-uplift-v2.1.csv.gz", index=False)
    return {}


def logged(folder: Path) -> Names:
    (folder / "runs/latest/served").mkdir(parents=True)
    write_log(folder / "runs/latest/served/ledger")
    return {"campaign": CAMPAIGN}


def features(_: Path) -> Names:
    at = pd.Timestamp("2026-03-02T12:00:00Z")
    people = pd.DataFrame({"account_id": ["a1", "a2"], "side": "customer", "snapshot_ts": at})
    embeddings = people.rename(columns={"snapshot_ts": "computed_at"})
    record = PriceRecord(
        **dict.fromkeys(("version", "slot", "sample_rows"), 1),
        **dict.fromkeys(("tie_share", "primal", "dual", "gap", "violation"), 0.0),
        **dict.fromkeys(("spent", "remaining"), 0),
        campaign="spring",
        prices={"budget": 0.1},
        status="optimal",
        model_version="gcn2-1",
        solved_at=at.to_pydatetime(),
        expires_at=at.to_pydatetime() + timedelta(hours=2),
    )
    return {
        "account": people.assign(x_spend=[1.0, 2.0]),
        "aggregates": people.assign(h_events=[3.0, 4.0]),
        "exposures": pd.DataFrame({"account_id": ["a1"], "request_id": ["r1"], "decided_at": at + timedelta(days=1)}),
        "embeddings": embeddings.assign(embedding=list(np.ones((2, 64), np.float32))),
        "record": record.sealed(),
    }


GIVEN: Mapping[str, Callable[[Path], Names]] = {
    "docs/how-to/use-public-trials.md": public_trial,
    "docs/reference/ledger.md": logged,
    "feature_repo/README.md": features,
}


@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON} - set(ELSEWHERE)))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    names: Names = GIVEN[page](tmp_path) if page in GIVEN else {}
    for _ in range(2):  # a reader who repeats a page in the same folder gets the same
        own = dict(names)
        for block in PYTHON:
            if block.page == page and CLUSTER not in block.text:
                exec(compile(block.text, str(block), "exec"), own)


ATTRIBUTES = ("shadowprice.calls", "shadowprice.request_id")
"""Attributes of traces; types of events end in their version."""


def test_every_module_that_a_sentence_names_has_what_it_names() -> None:
    """Read the sources: importing Feast and torch takes seconds."""
    named = {
        (page.relative_to(ROOT), name)
        for page in pages()
        for name in re.findall(
            r"`((?:shadowprice|serving|feature_repo|operations|pipelines)(?:\.\w+)+)", page.read_text()
        )
    }
    assert len(named) > 20
    for page, name in sorted(named):
        if name.endswith(".v1") or name in ATTRIBUTES:
            continue
        at, parts = ROOT, name.split(".")
        while parts and (at / parts[0]).is_dir():
            at /= parts.pop(0)
        module = at / f"{parts.pop(0)}.py" if parts and (at / f"{parts[0]}.py").is_file() else at / "__init__.py"
        assert not parts or re.search(rf"\b{parts[0]}\b", module.read_text()), f"{page}: {name}"


def read(data: Any, folder: Path) -> str:
    """Read the data by what reads them in the project, and return its name."""
    if "limits" in data:
        assert Limits.from_dict(data["limits"]).names
        return "limits"
    if EXPLORATION in data:
        assert set(read_weights(data[EXPLORATION])) <= set(SIDES)
        return "exploration"
    if "arms" in data:
        assert Experiment.from_dict(data).to_dict()
        return "experiment"
    if "decide" in data:
        number = itertools.count(10)
        text = re.sub("…", lambda _: f"{next(number)}" * 16, json.dumps(data, ensure_ascii=False))
        (folder / "tokens").write_text(text)
        assert Tokens(folder / "tokens").secret("read")
        return "tokens"
    if "campaigns" in data:
        schema = json.loads((ROOT / "helm/shadowprice/values.schema.json").read_text())
        validate(data, schema | {"required": []})
        return "campaigns"
    if "exposure" in data:
        example = yaml.safe_load((ROOT / "docs/examples/mapping/mapping.yaml").read_text())
        example["sources"]["trials"] = example["sources"]["coupons"]
        example["tables"] |= data
        (folder / "mapping.yaml").write_text(yaml.safe_dump(example))
        assert read_mapping(folder / "mapping.yaml")
        return "mapping"
    # tests/runs/test_tutorial.py compares the answer of the tutorial with the service's.
    return "answer" if "predictions" in data else "?"


def test_the_data_of_the_pages_are_what_the_project_reads(tmp_path: Path) -> None:
    found = []
    for block in DATA:
        text = block.text if block.language == "yaml" or block.text.startswith("{") else f"{{{block.text}}}"
        found.append(read((yaml.safe_load if block.language == "yaml" else json.loads)(text), tmp_path))
    assert sorted(found) == [
        "answer",
        "campaigns",
        "experiment",
        "exploration",
        "limits",
        "mapping",
        "tokens",
    ]


GUIDES = sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md")])


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_begins_with_where_to_stand_and_ends_with_what_to_do_next(guide: Path) -> None:
    text = guide.read_text()
    title, start, *_ = text.split("\n\n")
    assert title.startswith("# ")
    assert start.startswith("Start in the repository")
    assert text.rstrip().splitlines()[-1].startswith("Next: [")
