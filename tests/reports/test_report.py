import dataclasses
import re
from datetime import timedelta, timezone
from html.parser import HTMLParser

import numpy as np
import pytest

from shadowprice.campaign import Budget
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Estimate
from shadowprice.evaluation.policy.gate import Check, GateResult
from shadowprice.reports.data import ReportData
from shadowprice.reports.report import render, write_report
from shadowprice.reports.texts import unidentified

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Reads a page strictly: every element closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(example) -> str:
    return render(example)


def test_the_page_is_well_formed_and_its_ids_are_unique(page):
    read = Page(page)
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 20
    targets = {attributes["href"][1:] for _, attributes in read.tags if attributes.get("href", "").startswith("#")}
    assert targets <= set(ids)


def test_the_page_refers_to_nothing_outside_itself(page):
    assert "http" not in page.lower()
    assert "@import" not in page
    for tag, attributes in Page(page).tags:
        assert tag not in {"script", "link", "iframe", "img", "object"}
        assert "src" not in attributes
        for value in attributes.values():
            assert not re.search(r"url\((?!#)", value or "")


def test_the_page_holds_the_numbers_it_was_given(page, example):
    text = Page(page).text
    for expected in (
        "bring 4,292 more weighted responses [4,052, 4,532] than the lowest incentive for every request",
        "That is 112 more [52.4, 172] than the best flat mixture at the same cost",
        "$2,500.00 50 % 78.7 [36.7, 121] 84 3,005 [2,837, 3,173] 3,010 $0.41 [$0.37, $0.45] $2,495.00",
        "solved again every hour 4,292 98.1 % $4,991.00 0.18 % below",
        "% over",
        "$0.80 (rate ×2.7) and $1.00 (rate ×1.9)",
        "0.831 [0.825, 0.837]",
        "24 solves, 23 published",
        'north $2,994.00 $3,000.00 campaign customers, where account.c_region == "north" $3,000.00 99.8 % 0.042 binds',
        "new $3,010.00 at least $3,000.00 day all requests $3,000.00 100.3 % −0.01 binds",
        "151,200",
        "3 min 17 s in all",
        "0.67.0",
        "Gate before pricing: passed",
    ):
        assert expected in text, expected
    assert f"{example.sides[0].levels.observed[3]:.4g}" in text


def test_what_was_simulated_says_so_in_each_of_its_tables_and_what_was_observed_does_not(page, example):
    captions = re.findall(r"<caption>(.*?)</caption>", page, re.DOTALL)
    told = "As it ran|Doubled noon|Ways of|Further budgets|Response of|Hazard rate|held-out|gained"
    about_outcomes = [caption for caption in captions if re.search(told, caption)]
    assert len(about_outcomes) >= 9
    assert all('<span class="badge">simulated</span>' in caption for caption in about_outcomes)
    real = dataclasses.replace(
        example,
        simulated=False,
        notes=(),
        sides=tuple(dataclasses.replace(side, simulated=False) for side in example.sides),
        scenarios=tuple(dataclasses.replace(each, simulated=False) for each in example.scenarios),
    )
    assert "simulated" not in Page(render(real)).text
    mixed = dataclasses.replace(real, scenarios=example.scenarios)
    text = Page(render(mixed)).text
    assert "Ways of setting the price simulated" in text
    assert "Customers simulated" not in text


def test_hostile_texts_are_shown_and_never_run(example):
    evil = "<script>alert('x')</script>\"&<img src=x onerror=alert(1)> $\\frac{1}{0}$"
    side = example.sides[0]
    hostile = dataclasses.replace(
        example,
        title=evil,
        dataset=evil,
        value_unit=evil,
        currency=dataclasses.replace(example.currency, symbol=evil, minor=evil),
        facts={evil: {evil: evil}},
        sides=(dataclasses.replace(side, metrics={evil: {evil: 0.5}}),),
        gate=GateResult(False, (Check(evil, evil, evil, False),)),
        scenarios=tuple(
            dataclasses.replace(
                each,
                name=evil,
                description=evil,
                policies=tuple(dataclasses.replace(policy, name=evil) for policy in each.policies),
            )
            for each in example.scenarios
        ),
        solves=tuple(dataclasses.replace(solve, status=evil) for solve in example.solves[:1]),
        serving={evil: evil},
        steps={evil: 1.0},
        versions={evil: evil},
        notes=(evil,),
        absent={"run": evil},
    )
    read = Page(render(hostile))
    assert not {tag for tag, _ in read.tags} & {"script", "img"}
    assert not any("onerror" in attributes for _, attributes in read.tags)
    assert read.text.count("<script>alert('x')</script>") > 20


def test_a_section_without_content_is_left_out_or_says_why_it_is_missing(example):
    bare = ReportData(title="T", dataset="tables", created_at=example.created_at, simulated=False)
    text = Page(render(bare)).text
    assert "Data set tables" in text
    for name in ("What personalizing is worth", "Rehearsal", "The model", "Terms, data and run", "Notes"):
        assert name not in text
    stated = dataclasses.replace(bare, absent={"rehearsal": "this data set has no clock", "model": "no labels yet"})
    text = Page(render(stated)).text
    assert "Not in this report: this data set has no clock" in text
    assert "Not in this report: no labels yet" in text


def test_nothing_spent_and_nothing_brought_is_reported_as_it_is(example):
    scenario = example.scenarios[0]
    nothing = tuple(
        dataclasses.replace(policy, value=0.0, spend=np.zeros(24), price=np.full(24, np.nan))
        for policy in scenario.policies
    )
    empty = dataclasses.replace(scenario, budget=Budget(limit=0), policies=nothing, arrivals=np.zeros(24))
    text = Page(render(dataclasses.replace(example, scenarios=(empty, empty)))).text
    assert "$0.00 on the limit" in text
    assert "added" not in text
    assert "nan" not in text.lower()


def test_a_budget_per_response_is_reported_in_its_own_terms(example):
    scenario = example.scenarios[0]
    used = zip(scenario.policies, (139.2, 155.1, 140), strict=True)
    policies = tuple(dataclasses.replace(policy, used=minor) for policy, minor in used)
    ratio = dataclasses.replace(scenario, budget=Budget(form="per_response", limit=140), policies=policies)
    text = Page(render(dataclasses.replace(example, scenarios=(ratio,)))).text
    assert "Paid per response" in text
    assert "$1.39 0.57 % below" in text
    assert "10.79 % over" in text


def test_levels_in_whole_major_units_are_shown_in_them(example):
    side = example.sides[1]
    levels = dataclasses.replace(side.levels, levels=np.array([100, 500, 1000, 2000, 5000]))
    currency = dataclasses.replace(example.currency, symbol="¥", major="yuan", minor="fen")
    shown = dataclasses.replace(example, sides=(dataclasses.replace(side, levels=levels),), currency=currency)
    text = Page(render(shown)).text
    assert "Incentive, yuan" in text
    assert "fen" not in text


def test_a_time_of_another_zone_is_shown_in_utc_and_one_without_is_refused(example):
    there = example.created_at.astimezone(timezone(timedelta(hours=8)))
    bare = ReportData(title="T", dataset="world", created_at=there, simulated=True)
    assert "2025-06-01 08:30 UTC" in render(bare)
    with pytest.raises(InvalidInput, match="time zone"):
        dataclasses.replace(bare, created_at=there.replace(tzinfo=None))


def test_two_renderings_of_the_same_data_are_equal(page, example, drawn):
    drawn.clear()
    assert render(example) == page


def test_a_report_is_written_whole_or_not_at_all(tmp_path, example):
    path = tmp_path / "runs" / "report.html"
    bare = ReportData(title="first", dataset="world", created_at=example.created_at, simulated=True)
    assert write_report(bare, path) == path
    before = path.read_text(encoding="utf-8")
    assert before == render(bare)
    with pytest.raises(TypeError):
        write_report(dataclasses.replace(bare, steps={"train": "long"}), path)
    assert path.read_text(encoding="utf-8") == before
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


def test_a_solve_that_was_refused_says_why_and_one_outside_its_limits_is_not_certified(example):
    good, bad, refused = (
        dataclasses.replace(example.solves[0], **changes)
        for changes in (
            {},
            {"version": 2, "certificate": "not certified: gap 0.02 above the limit of 1.000e-6"},
            {"version": 0, "status": "refused", "certificate": "NotCertified: the spend is stale", "published": False},
        )
    )
    page = render(dataclasses.replace(example, solves=(good, bad, refused)))
    cells = [
        " ".join(re.sub(r"<[^>]+>", "", cell).split()) for cell in re.findall(r"<td class=\"text\">.*?</td>", page)
    ]
    assert "✓ certified" in cells
    assert "✗ not certified: gap 0.02 above the limit of 1.000e-6" in cells
    assert "✗ not published: NotCertified: the spend is stale" in cells


def test_the_page_has_one_calibration_error_per_side_and_it_is_that_of_the_metrics(page, example):
    text = Page(page).text
    assert text.count("0.00810") == 1
    # 0.0081 over the incentive levels; the error over equally filled bins is another number and is not told.
    for table in (example.sides[0].calibration, example.sides[0].repaired):
        assert f"{table.ece:.3g}" not in text


def test_the_worth_comes_first_and_the_simulated_day_is_a_later_section(page):
    sections = re.findall(r'<section id="([a-z]+)">', page)
    assert sections[:2] == ["evidence", "worth"]
    assert sections.index("rehearsal") > sections.index("model")
    rehearsed = page[page.index('<section id="rehearsal">') :]
    for told in ("The day shows", "As it ran", "Doubled noon", "Every price with its certificate"):
        assert told in rehearsed
        assert told not in page[: page.index('<section id="rehearsal">')]


def test_a_worth_that_is_withheld_says_why_and_shows_no_figure_of_it(example):
    withheld = dataclasses.replace(example, absent={"worth": "the trial does not identify the effect"})
    text = Page(render(withheld)).text
    assert "Not in this report: the trial does not identify the effect" in text
    for figure in ("[4,052, 4,532]", "[52.4, 172]", "best flat mixture"):
        assert figure not in text


def test_an_interval_without_width_is_not_printed_as_one(example):
    side = example.sides[1]
    exact = dataclasses.replace(side, metrics={"m": {"paid_units": Estimate(1.8767, 1.8767, 1.8767)}})
    text = Page(render(dataclasses.replace(example, sides=(exact,)))).text
    assert "1.88" in text
    assert "[1.88" not in text


class Boxes(Page):
    """Reads the classes around every table and picture."""

    def __init__(self, text: str) -> None:
        self.around: list[str] = []
        self.found: dict[str, list[str]] = {"table": [], "svg": []}
        super().__init__(text)

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        own = dict(attrs).get("class") or ""
        if tag not in VOID:
            self.around.append(own)
        if tag in self.found:
            self.found[tag].append(" ".join(self.around))

    def handle_endtag(self, tag):
        super().handle_endtag(tag)
        self.around.pop()


def test_no_table_and_no_picture_can_push_a_narrow_page_sideways(page):
    boxes = Boxes(page)
    assert len(boxes.found["table"]) > 8
    # A table scrolls in a box of its own or breaks its lines; a picture scrolls in its box or shrinks with its column.
    assert all({"scroll", "terms"} & set(classes.split()) for classes in boxes.found["table"])
    assert all({"wide", "pair"} & set(classes.split()) for classes in boxes.found["svg"])
    style = page[page.index("<style>") : page.index("</style>")]
    assert ".scroll { overflow-x: auto" in style
    assert "figure .wide { overflow-x: auto" in style
    assert not re.search(r'style="[^"]*width:\s*[\d.]+(px|rem|em)', page)


def test_the_evidence_is_the_first_section_with_its_table_picture_and_the_command_of_a_trial(page, example):
    sections = re.findall(r'<section id="([^"]+)">', page)
    assert sections[0] == "evidence"
    part = page[page.index('<section id="evidence">') : page.index('<section id="worth">')]
    assert part.count("<svg") == 2
    assert part.index("The sentence of customers.") < part.index("<table>")
    assert "shadowprice plan RUN" in part
    assert Page(render(dataclasses.replace(example, evidence=example.evidence[:1]))).text.count("plans a trial") == 0
    # The key figures stand in the first columns, which a narrow screen shows.
    heads = re.findall(r"<th scope=\"col\">(.*?)</th>", part)[:4]
    assert heads == ["Incentive", "Response", "More than at $0.00", "One extra costs"]


def test_figures_of_held_out_rows_are_called_so_and_the_trials_slope_is_of_all_rows(example):
    sides = tuple(dataclasses.replace(side, slope=None) for side in example.sides)
    text = Page(render(dataclasses.replace(example, sides=sides))).text
    assert "From all rows with a final outcome, before any model;" in text
    assert "Response of customers by incentive, held-out rows" in text
    assert "Customers simulated , held-out rows: mean response to each incentive" in text
    assert "the trial, all rows" in text


def test_where_an_effect_is_not_identified_no_budget_has_a_known_value(example):
    assert unidentified(example.evidence[:1]) == ""
    reason = unidentified(example.evidence)
    assert reason.startswith("the trial does not identify the effect of the incentives of merchants")


def test_a_refused_model_has_no_rising_line_and_no_slope_on_the_page(example):
    refused = dataclasses.replace(example, gate=dataclasses.replace(example.gate, passed=False))
    figures = {name: picture(render(data), "response-customer") for name, data in (("in", example), ("out", refused))}
    assert ">model<" in figures["in"]
    assert ">model<" not in figures["out"]
    assert figures["out"].count("<path") < figures["in"].count("<path")
    assert ">model<" not in picture(render(refused), "hazard-customer")
    text = Page(render(refused)).text
    assert "not passed" in text
    for told in ("the model's curves", "and the model's"):
        assert told in Page(render(example)).text
        assert told not in text
    assert f"{example.sides[0].levels.predicted[3]:.4g}" not in text


def picture(page: str, name: str) -> str:
    """The figure of the page whose ids begin with a name."""
    return next(each for each in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if f'id="{name}-' in each)


def test_no_interval_and_no_figure_of_the_headline_is_printed_twice_where_nothing_is_unfolded(page):
    text = Page(re.sub(r"<(details|svg|style).*?</\1>", " ", page, flags=re.DOTALL)).text
    intervals = re.findall(r"\[[^\]]+\]", text)
    assert len(intervals) > 15
    assert len(set(intervals)) == len(intervals)
    for told in ("From all rows", "4,292 more", "112 more", "$0.82", "$4,990.00", "26,000 rows"):
        assert text.count(told) == 1, told
