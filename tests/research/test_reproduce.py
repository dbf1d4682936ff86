"""The framework of ``make reproduce``, on a real small experiment: the mean against the median of normal draws."""

import json
import math
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from research.__main__ import RESULTS, reproduce
from research.cache import Cache, digest
from research.index import INDEX, write_index
from research.papers import EXHIBITS, Exhibit
from research.primary import Primary
from research.registry import TABLES
from research.summary import Summary
from research.took import Took
from research.write import markdown, write
from shadowprice.errors import InvalidInput

MODULE = """
import numpy as np
from research.table import Primary, Table
from shadowprice.curves import check_levels

SAMPLES = 2000

def run(seed, quick):
    check_levels([1, 2])
    draws = np.random.default_rng(seed).normal(size=(SAMPLES, 101))
    return {
        "mean": {"variance": 101 * draws.mean(axis=1).var()},
        "median": {"variance": 101 * np.median(draws, axis=1).var()},
    }

TABLE = Table(
    title="Efficiency", source="theory", data="normal draws", run=run,
    seeds=3,
    published={"median": {"variance": 1.5708}, "trimmed": {"variance": 1.06}},
    primary=Primary("variance", "median", "mean", effect=0.5, spread=0.05), fewer_is_better=["variance"],
    reading=lambda found: found.sentence("variance", "median", "mean") + ".",
)
"""


SEEDS = range(100, 103)


@pytest.fixture
def module(tmp_path, monkeypatch, request) -> Path:
    path = tmp_path / f"efficiency_{request.node.name.replace('[', '_').rstrip(']')}.py"
    path.write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def test_a_table_is_measured_written_kept_and_measured_again_when_its_code_changes(module, tmp_path) -> None:
    cache, out = Cache(tmp_path / "cache"), tmp_path / "results"
    tables = {"efficiency": module.stem}
    assert reproduce(tables, cache, out) == []
    record = json.loads((out / "efficiency.json").read_text())
    # The asymptotic variance of a median is pi/2 of the mean's.
    assert record["rows"]["mean"]["variance"]["mean"] == pytest.approx(1.0, rel=0.1)
    assert record["rows"]["median"]["variance"]["mean"] == pytest.approx(math.pi / 2, rel=0.1)
    seeds = [rows["median"]["variance"] - rows["mean"]["variance"] for rows in record["by_seed"]]
    expected = stats.t.interval(0.95, 2, np.mean(seeds), stats.sem(seeds))
    assert (record["primary"]["low"], record["primary"]["high"]) == pytest.approx(expected)
    page = (out / "efficiency.md").read_text()
    assert "| variance ↓ | published |" in page
    assert "| trimmed |  | 1.06 |" in page
    assert "median is worse than mean on variance" in page

    parts = [json.loads(cache.path("efficiency", seed, False).read_text()) for seed in SEEDS]
    for key in ("seconds", "processor"):
        assert record[key] == pytest.approx(sum(part[key] for part in parts), abs=0.06)
    assert record["measured"] == max(part["measured"] for part in parts)
    write_index(out, ["absent", "efficiency"])
    row = (out / "README.md").read_text().split("|---|---|---|")[1].strip().splitlines()
    assert row[0] == "| [efficiency](efficiency.md) | median against mean on variance | worse |"

    written = cache.path("efficiency", 101, False)
    code = json.loads(written.read_text())["code"]
    assert {"shadowprice/curves.py", "shadowprice/errors.py"} <= set(code)
    assert not any("responses" in file for file in code), "only what was loaded counts"
    times = {seed: cache.path("efficiency", seed, False).stat().st_mtime_ns for seed in SEEDS}
    cache.path("efficiency", 100, False).unlink()
    assert reproduce(tables, cache, out) == []
    again = {seed: cache.path("efficiency", seed, False).stat().st_mtime_ns for seed in SEEDS}
    assert [seed for seed in SEEDS if again[seed] != times[seed]] == [100], "only the missing seed is measured"

    module.write_text(MODULE.replace("SAMPLES = 2000", "SAMPLES = 2001"))
    assert cache.read("efficiency", 102, False) is None
    assert cache.read("efficiency", 102, False, stale=True) is not None


def test_figures_of_the_first_seed_are_kept_and_shown_and_several_tables_are_timed(module, tmp_path, capsys) -> None:
    drawing = "lambda seed, quick: {'spread': f'<svg>{seed} {quick}</svg>'}"
    module.write_text(MODULE.replace("seeds=3", f"seeds=2, figures={drawing}"))
    cache, out = Cache(tmp_path / "cache"), tmp_path / "results"
    tables = {"efficiency": module.stem, "other": module.stem}
    for again in range(2):
        assert reproduce(tables, cache, out) == []
        lines = capsys.readouterr().out.strip().splitlines()[-3:]
        seconds = [re.fullmatch(r"(\w+) +(\d+) s \((\d+) s of processor\)", line) for line in lines]
        assert [each[1] for each in seconds] == [*tables, "total"]
        assert all(abs(int(seconds[0][k]) + int(seconds[1][k]) - int(seconds[2][k])) <= 1 for k in (2, 3))
        assert (out / "efficiency_spread.svg").read_text() == "<svg>100 False</svg>", again
        assert "![efficiency spread](efficiency_spread.svg)" in (out / "efficiency.md").read_text()
        assert json.loads((out / "efficiency.json").read_text())["figures"] == ["efficiency_spread.svg"]
        (out / "efficiency_spread.svg").unlink()
    assert json.loads(cache.path("efficiency", 101, False).read_text())["figures"] == {}


def test_a_failing_table_is_named_and_leaves_the_last_page(module, tmp_path, capfd) -> None:
    module.write_text(MODULE.replace("check_levels([1, 2])", "check_levels([2, 1])"))
    out = tmp_path / "results"
    out.mkdir()
    (out / "broken.md").write_text("before")
    assert reproduce({"broken": module.stem}, Cache(tmp_path / "cache"), out) == ["broken"]
    assert (out / "broken.md").read_text() == "before"
    assert "strictly ascending" in capfd.readouterr().err


def test_a_table_without_its_data_is_skipped_with_the_reason(module, tmp_path, capsys) -> None:
    module.write_text(MODULE.replace("seeds=3", "missing=lambda: 'no such folder'"))
    assert reproduce({"absent": module.stem}, Cache(tmp_path / "cache"), tmp_path / "results") == []
    assert "skipped: no such folder" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_comments_and_docstrings_are_not_code(tmp_path) -> None:
    path = tmp_path / "a.py"
    path.write_text('"""One."""\nx = 1\n')
    was = digest(path)
    path.write_text('"""Two."""\n# more\nx  =  1\n')
    assert digest(path) == was
    path.write_text('"""Two."""\nx = 2\n')
    assert digest(path) != was


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(1.0, 2.0), (1.1, 2.0), (0.9, 2.1)], "better"),
        ([(1.0, 1.1), (1.1, 1.0), (0.9, 0.9)], "not significantly different"),
        ([(1.0, 1.0), (2.0, 2.0)], "equal"),
        ([(2.0, 1.0)], "not tested"),
        ([(1.0, 2.0), (2.0, 3.0)], "better"),
    ],
)
def test_the_primary_verdict_follows_the_paired_interval(values, expected) -> None:
    pair = ("loss", "a", "b")
    summary = Summary([{"a": {"loss": a}, "b": {"loss": b}} for a, b in values], ["loss"], pair)
    assert summary.verdict(*pair) == expected


def noisy(columns: int, seeds: int = 12, effect: float = 0.0) -> list[dict[str, dict[str, float]]]:
    random = np.random.default_rng(7)
    return [
        {"a": dict(enumerated(random.normal(effect, 1.0, columns))), "b": dict(enumerated(random.normal(size=columns)))}
        for _ in range(seeds)
    ]


def enumerated(values: np.ndarray) -> list[tuple[str, float]]:
    return [(str(k), float(value)) for k, value in enumerate(values)]


def test_other_comparisons_are_adjusted_by_holm_and_the_primary_one_is_not() -> None:
    values, others = noisy(8, effect=0.9), tuple((str(k), "a", "b") for k in range(1, 8))
    summary = Summary(values, (), ("0", "a", "b"), others)
    alone = [
        stats.ttest_rel([rows["a"][str(k)] for rows in values], [rows["b"][str(k)] for rows in values]).pvalue
        for k in range(8)
    ]
    assert summary.p_value("0", "a", "b") == pytest.approx(alone[0])
    # Holm (1979) written out: the k-th smallest of m times (m - k), never below the one before.
    order = np.argsort(alone[1:])
    expected = np.minimum(np.maximum.accumulate(np.array(alone[1:])[order] * np.arange(7, 0, -1)), 1.0)
    found = np.array([summary.p_value(*pair) for pair in others])
    assert found[order] == pytest.approx(expected)
    significant = [pair for pair in others if summary.verdict(*pair) == "better"]
    assert 0 < len(significant) < sum(p < 0.05 for p in alone[1:]), "some stand alone and fall among the others"


def test_a_comparison_that_the_table_does_not_name_has_no_verdict() -> None:
    summary = Summary(noisy(2), (), ("0", "a", "b"))
    with pytest.raises(InvalidInput, match="a against b on 1 is not named"):
        summary.verdict("1", "a", "b")


def test_the_primary_comparison_gets_the_seeds_that_its_power_needs() -> None:
    primary = Primary("AUC", "a", "b", effect=0.5, spread=1.0)
    random = np.random.default_rng(3)

    def found(seeds: int) -> float:
        return float(np.mean(stats.ttest_1samp(random.normal(0.5, 1.0, (20_000, seeds)), 0.0, axis=1).pvalue < 0.05))

    assert found(primary.seeds) >= 0.9 - 0.01 > found(primary.seeds - 3)
    assert Primary("AUC", "a", "b", effect=9.0, spread=1.0).seeds == 10
    assert primary.seeds > 10
    with pytest.raises(InvalidInput, match=r"primary\.effect"):
        Primary("AUC", "a", "b", effect=0.0, spread=1.0)


def test_a_table_is_measured_on_seeds_that_nothing_was_chosen_on(module) -> None:
    table = import_module(module.stem).TABLE
    assert min(table.seed_numbers()) == 100
    assert list(table.seed_numbers(quick=True)) == [0, 1]
    assert len(table.seed_numbers(seeds=4)) == 4


def test_the_page_opens_with_the_primary_verdict_and_the_index_shows_no_other(module, tmp_path) -> None:
    module.write_text(MODULE.replace("    seeds=3,\n", ""))
    table, out = import_module(module.stem).TABLE, tmp_path / "results"
    summary = table.summary([table.run(seed, False) for seed in table.seed_numbers()])
    write(out, "efficiency", table, summary, Took(1.0), False, {})
    page = (out / "efficiency.md").read_text().splitlines()
    assert page[2].startswith("**Verdict.** median is worse than mean on variance (+0.")
    assert page[2].endswith(" 10 seeds detect 0.5.")
    write_index(out, ["efficiency"])
    assert "| [efficiency](efficiency.md) | median against mean on variance | worse |\n" in (out / INDEX).read_text()


def test_a_page_shows_half_the_interval_differences_from_zeros_in_the_grid_and_what_its_words_use(module) -> None:
    gains = [0.9, 1.0, 1.1]
    by_seed = [
        {
            "ours": {"gain": gain, "cost": 1.0},
            "plain": {"gain": 0.0, "cost": 0.0},
            "other": {"gain": 13_000 - gain, "cost": 2.0},
            "third": {"gain": 7.0, "cost": 2.0},
        }
        for gain in gains
    ]
    table = replace(
        import_module(module.stem).TABLE,
        primary=Primary("gain", "other", "ours", effect=1.0, spread=1.0),
        compare=[("gain", "ours", "plain"), ("gain", "third", "ours"), ("cost", "other", "ours")],
        published={},
        reading=lambda found: f"{found.finding('gain', 'other', 'ours')}.",
    )
    page = markdown("page", table, table.summary(by_seed), False)
    half = stats.t.ppf(0.975, 2) * np.std(gains, ddof=1) / math.sqrt(3)
    assert f"| ours | 1 ±{half:.2g} better |" in page
    assert f"| other | 12999 ±{half:.2g} |" in page
    assert not any(word in page for word in ("plain", "third", "cost", "paired difference"))
    assert "**Reading.** other is better than ours.\n" in page

    told = replace(table, reading=lambda found: f"It costs {found.cell('third', 'cost').value:g}.")
    page = markdown("page", told, table.summary(by_seed), False)
    assert "| third | 7 | 2 |" in page
    also = replace(table, also=("third", ("cost", "other", "ours")))
    page = markdown("page", also, table.summary(by_seed), False)
    assert "| third | 7 |" in page
    assert "| other − ours | +1 better |" in page
    exhibit = Exhibit("S9", "table 1", "claim", "page", "", needs=(("gain", "third", "ours"),))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("research.write.EXHIBITS", [exhibit])
        assert "| third − ours | +6 " in markdown("page", table, table.summary(by_seed), False)


def test_an_exhibit_is_reproduced_only_when_its_comparisons_have_the_verdicts_that_it_needs() -> None:
    exhibit = Exhibit("S9", "table 1", "claim", "page", "simulated", own_data=True)
    primary, other = ("AUC", "ours", "theirs"), ("AUC", "ours", "other")

    def page(*verdicts: str) -> dict[str, dict[str, Any]]:
        names = [dict(zip(("column", "row", "other"), pair, strict=True)) for pair in (primary, other)]
        of = [{"verdict": v, "sentence": f"{v}.", **each} for v, each in zip(verdicts, names, strict=True)]
        return {"page": {"primary": of[0], "differences": of[1:]}}

    assert exhibit.status(page("better", "worse")) == ("reproduced", "better.")
    assert replace(exhibit, own_data=False).status(page("better", "worse"))[0] == "reproduced in kind"
    assert exhibit.status(page("equal", "better")) == ("not reproduced", "equal.")
    assert exhibit.status({})[0] == "not reproduced"
    wider = replace(exhibit, needs=(primary, other))
    assert wider.status(page("better", "worse")) == ("not reproduced", "worse.")
    assert wider.status(page("better", "better")) == ("reproduced", "better.; better.")
    # A claim of the other sign does not follow from the primary comparison, nor one of another pair.
    opposite = replace(exhibit, worse=(other,))
    assert opposite.status(page("better", "better")) == ("not reproduced", "better.")
    assert opposite.status(page("equal", "worse"))[0] == "reproduced"


def test_every_exhibit_of_the_index_names_a_registered_page() -> None:
    pages = [each.page for each in EXHIBITS if each.page]
    assert set(pages) <= set(TABLES)
    assert all(each.reason or each.own_data for each in EXHIBITS)
    for each in EXHIBITS:
        if each.page:
            table = import_module(TABLES[each.page]).TABLE
            assert {*each.needs, *each.worse} <= {table.primary.comparison, *table.compare}


def test_the_index_claims_no_more_than_its_pages_show() -> None:
    """P1 has the other sign, P2 is open, the exact plan is faster and AUC falls behind a history of 1."""
    pages = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in TABLES}
    found = {(each.paper, each.number, each.claim): each.status(pages)[0] for each in EXHIBITS}
    assert len(found) == len(EXHIBITS)
    numbers = {(paper, number) for paper, number, _ in found}
    assert {("S1", "table 5"), ("S2", "figure 5"), ("S3", "table 4")} <= numbers
    refused = {(paper, number) for (paper, number, _), status in found.items() if status == "not reproduced"}
    assert {("S2", "table 3, P1"), ("S2", "table 3, P2"), ("S2", "figure 6"), ("S3", "figure 4")} <= refused


def test_the_share_of_the_attainable_gain_lies_between_the_flat_policy_and_the_best() -> None:
    found = Summary([{"flat": {"x": 2.0}, "ours": {"x": 5.0 + step}, "best": {"x": 6.0}} for step in (-1.0, 1.0)])
    assert found.share("x", "ours", "flat", "best") == pytest.approx(0.75)


def test_seeds_with_other_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="seed 1 has other rows"):
        Summary([{"a": {"x": 1.0}}, {"b": {"x": 1.0}}])


def test_every_registered_table_says_what_it_answers_and_on_which_data() -> None:
    for name, module in TABLES.items():
        table = import_module(module).TABLE
        assert all((table.title, table.source, table.data)), name
        assert callable(table.run)
        assert callable(table.reading)
        assert len(table.seed_numbers()) >= 1


def test_every_written_page_is_of_a_registered_table_in_full_mode() -> None:
    for path in RESULTS.glob("*.json"):
        assert path.stem in TABLES
        assert not json.loads(path.read_text())["quick"]
        assert path.with_suffix(".md").exists()
        assert f"]({path.stem}.md)" in (RESULTS / INDEX).read_text()


@pytest.mark.parametrize("name", [path.stem for path in sorted(RESULTS.glob("*.json"))])
def test_every_written_page_says_what_today_s_code_says_of_its_figures(name) -> None:
    """A text that was edited without writing the page again would tell readers something else than the code."""
    path = RESULTS / f"{name}.json"
    record, table = json.loads(path.read_text()), import_module(TABLES[name]).TABLE
    summary, figures = table.summary(record["by_seed"]), record.get("figures", [])
    assert all((RESULTS / file).read_text().lstrip().startswith("<?xml") for file in figures)
    assert path.with_suffix(".md").read_text() == markdown(name, table, summary, False, figures)


def test_a_reading_of_more_than_three_sentences_is_refused(module) -> None:
    table = replace(import_module(module.stem).TABLE, reading=lambda found: "It is 1. 5 % more. Two. Three.")
    summary = table.summary([{"mean": {"variance": 1.0}, "median": {"variance": 2.0}}])
    assert "**Reading.** It is 1. 5 % more. Two. Three." in markdown("efficiency", table, summary, False)
    with pytest.raises(InvalidInput, match="at most 3 sentences"):
        markdown("efficiency", replace(table, reading=lambda found: "One. Two. Three. Four."), summary, False)


def test_time_that_was_not_taken_is_not_made_up() -> None:
    whole = Took.together([{"seconds": 1.0, "processor": 0.5, "measured": "2026-01-02"}, {"seconds": 2.0}])
    assert whole == Took(3.0, None, "2026-01-02")
    assert str(whole) == "3 s"
