"""The one-page summary of a run for the owner of its budget: answers in words, to be forwarded or printed."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shadowprice.campaign import Campaign
from shadowprice.evaluation.policy.worth import WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evidence.sentences import IMBALANCE
from shadowprice.files import write_whole
from shadowprice.reports import wording
from shadowprice.reports.data import ReportData
from shadowprice.reports.headline import EACH, lowest, over_flat, over_lowest, value_unit, weights_in_words
from shadowprice.reports.report import environment, level_names

FILE = "summary.html"
VERDICT = re.compile(r"^(Identified|Not identified|The wrong way): ")
"""Word that a verdict begins with, for those who know the method."""
SHARES = {"20 % less": 0.8, "today's budget": 1.0, "20 % more": 1.2}
"""Name of a budget → its share of the campaign's."""


@dataclass(frozen=True)
class Answer:
    """Answer to a question of the owner: yes, no or unknown, and why."""

    word: str
    why: str


@dataclass(frozen=True)
class Budget:
    """One budget: its name, the amount, and a sentence that says what it would bring."""

    name: str
    amount: str
    told: str


def render_one_page(data: ReportData, report: str) -> str:
    """Return the summary as an HTML page without a script; ``report`` is the address of the long report beside it."""
    data = data.told()
    return (
        environment(data)
        .get_template("one_page.html.jinja")
        .render(
            data=data,
            report=report,
            brought=[f"{_people(trial.side)}: {VERDICT.sub('', trial.sentence)}" for trial in data.evidence],
            given=given(data),
            worth_it=worth_it(data),
            budgets=budgets(data),
            weights=weights_in_words(data.campaign),
            plan=on_plan(data),
            checks=list(checks(data)),
        )
    )


def write_one_page(data: ReportData, folder: Path, report: str) -> Path:
    """Write the summary into a folder and return its path."""
    return write_whole(folder / FILE, render_one_page(data, report))


def worth_it(data: ReportData) -> Answer:
    """Say whether the budget is worth it by the evidence of the trial, and which trial would show it where that is not
    known.

    Where an extra response has no value in money, the answer names the value from which it is worth its cost. In money
    it is worth it where the return on what is paid is above the campaign's least, or above 1, by its interval.
    """
    data = data.told()
    if data.evidence and all(trial.verdict == "wrong way" for trial in data.evidence):
        return Answer("No", "The trial shows fewer responses where the incentive is larger.")
    open_questions = [trial for trial in data.evidence if trial.verdict != "identified"]
    plans = " ".join(
        f"A trial that would tell: {open_question.plan}" for open_question in open_questions if open_question.plan
    )
    compared = (
        next((check for check in data.gate.checks if check.rule.startswith("value ")), None) if data.gate else None
    )
    if compared is not None and not (data.worth or data.evidence or data.refused or "worth" in data.absent):
        # Vouchers and deliveries have no levels of one incentive: the gate compares them with what they replace.
        word = "Yes, compared with what it replaces" if compared.passed else "Unknown"
        return Answer(word, f"Of rows that the model had not learned from, {compared.rule}: {compared.found}.")
    if data.worth is None or "worth" in data.absent:
        reason = data.absent.get("worth") or "the trial does not show what incentives bring"
        sentence = f"{reason[:1].upper()}{reason[1:]}. {plans}".replace("..", ".").strip()
        # The first note of a refused run is what is served until then.
        return Answer("Unknown", f"{sentence} {data.notes[0]}" if data.refused and data.notes else sentence)
    now, least = data.worth.at(1.0), f"{lowest(data.campaign)} for every request"
    if now.lowest.high < 0:
        return Answer("No", f"The policy brings fewer {value_unit(data)} than {least}.")
    if not now.lowest.low > 0:
        sentence = (
            f"It is not shown that the policy brings more {value_unit(data)} than {least}. More accounts would tell."
        )
        return Answer("Unknown", f"{sentence} {plans}".strip())
    if data.campaign is not None and data.campaign.in_money:
        return _returns(data, data.campaign, now, plans)
    if now.each is None:
        shown = "Extra responses are shown; the cost of one is too uncertain to be named."
        return Answer("Unknown", f"{shown} {_personal(now.flat)} {plans}".strip())
    value, low, high = (wording.money(bound, data.currency) for bound in (now.each.value, now.each.low, now.each.high))
    word = f"Yes, if one extra response is worth more than {value} to you"
    sentence = f"That is what one costs at today's budget (95 % interval {low} to {high})."
    return Answer(word, f"{sentence} {_personal(now.flat)} {plans}".strip())


def _returns(data: ReportData, campaign: Campaign, now: WorthAt, plans: str) -> Answer:
    """Say whether value that is shown to be more than nothing is also more than what is paid for it."""
    one, least = data.currency.one, campaign.least_return or 1.0
    if now.each is None:
        shown = f"Extra {value_unit(data)} are shown; what {one} returns is too uncertain to be named."
        return Answer("Unknown", f"{shown} {_personal(now.flat)} {plans}".strip())
    if now.each.high <= 0:
        return Answer("Yes", f"The policy brings more {value_unit(data)} and costs no more. {_personal(now.flat)}")
    # Cost per unit of value, upside down: a cost that may be nothing returns without end.
    low, value, high = (
        data.currency.unit / bound if bound > 0 else math.inf for bound in (now.each.high, now.each.value, now.each.low)
    )
    mean, least_of, most = (wording.money(data.currency.unit * amount, data.currency) for amount in (value, low, high))
    most = most if math.isfinite(high) else "more"
    sentence = f"Each {one} that is paid returns {mean} of {campaign.earned} (95 % interval {least_of} to {most})"
    if low >= least:
        return Answer("Yes", f"{sentence}. {_personal(now.flat)}")
    if high < least:
        return Answer(
            "No", f"{sentence}: less than the {wording.money(data.currency.unit * least, data.currency)} asked."
        )
    asked = f"It is not shown that this is the {wording.money(data.currency.unit * least, data.currency)} asked."
    return Answer("Unknown", f"{sentence}. {asked} {plans}".strip())


def _personal(flat: Estimate) -> str:
    if flat.low > 0:
        return "Personal incentives bring more than the best mixture for everybody at the same cost."
    if flat.high < 0:
        return "The best mixture for everybody brings more at the same cost: serve the flat policy."
    return "That personal incentives bring more than the best mixture for everybody is not shown."


def budgets(data: ReportData) -> list[Budget]:
    """Say what the campaign's budget, and 20 % less or more, would bring; empty where nothing is claimed."""
    if data.worth is None or "worth" in data.absent:
        return []
    now, rows = data.worth.at(1.0), []
    for name, share in SHARES.items():
        point = data.worth.at(share)
        sentence = over_lowest(data, point)
        sentence = f"{sentence[0].upper()}{sentence[1:]}. "
        change, paid = point.lowest.value - now.lowest.value, point.cost.value - now.cost.value
        if point is now:
            sentence += over_flat(data, now)
        elif point.lowest.low > 0 and change * paid > 0:
            more, costs = ("more", "costs") if change > 0 else ("fewer", "saves")
            unit_cost = wording.money(paid / change, data.currency)
            sentence += f"That is {wording.rounded(abs(change))} {more} than today; each of them {costs} {unit_cost}."
        rows.append(Budget(name, wording.money(point.budget, data.currency), sentence.strip()))
    return rows


def given(data: ReportData) -> dict[str, str]:
    """Say which incentive most requests of each segment got, and the segment's share of the money."""
    facts: dict[str, str] = {}
    if data.mix is None:
        return facts
    for side in data.mix.sides():
        names, cells = level_names(data, side), data.mix.by(side, "segment", "level")
        for segment, rows in cells.groupby("segment"):
            requests, level = rows["requests"].to_numpy(), rows["level"].to_numpy()
            most = int(requests.argmax())
            name = names[int(level[most])] if level[most] >= 0 else "nothing"
            share = wording.percent(float(requests[most] / requests.sum()), 0)
            paid = wording.percent(float(rows["cost"].sum() / max(data.mix.cost.sum(), 1)), 0)
            facts[f"{_people(side)}, {segment!s}"] = f"{share} got {name}; {paid} of all that was paid"
    return facts


def on_plan(data: ReportData) -> str:
    """Say whether the rehearsal spent its budget as planned; empty without one."""
    if not data.scenarios:
        return ""
    run = data.scenarios[0]
    ours = run.policies[0]
    paid, limit = wording.money(run.used(ours), data.currency), wording.money(run.budget.limit, data.currency)
    allotted = "of its budget of" if run.budget.form == "total" else f"{EACH[run.budget.form].strip()}, of at most"
    word = "No" if run.overspent(ours) else "Yes"
    day = "a rehearsed day, with drawn outcomes," if run.simulated else "the day"
    return f"{word}: {day} paid {paid} {allotted} {limit}. The console shows the running campaign."


def checks(data: ReportData) -> Iterator[tuple[bool, str]]:
    """Yield what the figures rest on: whether it holds, and a sentence."""
    for trial in data.evidence:
        if trial.sample_ratio_p is not None:
            held = trial.sample_ratio_p >= IMBALANCE
            yield held, f"{_people(trial.side)}: the groups have {'' if held else 'not '}the sizes that were planned."
        if trial.balance is not None:
            held = trial.balance.p_value >= IMBALANCE
            yield held, f"{_people(trial.side)}: before the trial the groups were {'' if held else 'not '}alike."
    if data.gate is not None:
        broken = len(data.gate.broken)
        sentence = (
            "The model passed all its checks."
            if data.gate.passed
            else f"The model does not meet {broken} of its rules."
        )
        yield data.gate.passed, sentence
    if data.worth is not None and "worth" not in data.absent:
        rows, accounts = sum(data.worth.rows.values()), sum(data.worth.accounts.values())
        sentence = f"Judged on {wording.number(rows)} rows of {wording.number(accounts)} accounts"
        yield True, f"{sentence} that no model had learned from."
    published = [solve for solve in data.solves if solve.published]
    if published:
        proven = all(solve.certificate.startswith("certified") for solve in published)
        yield proven, f"Every price {'is' if proven else 'is not'} proven to be the best for its budget."
    if data.simulated:
        yield False, "The data come from a generator and not from people."


def _people(side: str) -> str:
    return f"{side.capitalize()}s"
