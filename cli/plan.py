"""``shadowprice plan``: levels, shares, accounts, money and power of a trial; or the draws of exploration."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from cli.options import numbers
from operations.common.workspace import read_campaign
from operations.plan import PlanJob, run
from shadowprice.command.options import application, main_of
from shadowprice.currency import Currency


def plan(
    campaign: Annotated[Path, typer.Argument(help="file of the campaign, or its workspace")],
    accounts: Annotated[int, typer.Option(help="accounts of the trial, with the company's holdout")] = 0,
    response: Annotated[str, typer.Option(help="believed mean response at each level, such as 0.10,0.14,0.16")] = "",
    money: Annotated[str, typer.Option(help="amount per request that the policy may spend, such as 0.06")] = "",
    lift: Annotated[float | None, typer.Option(help="wanted half-width of the lift per assigned account")] = None,
    curve: Annotated[float | None, typer.Option(help="wanted half-width of the response at each level")] = None,
    price: Annotated[float | None, typer.Option(help="wanted half-width of λ, as a share of it")] = None,
    requests_per_account: Annotated[float, typer.Option(help="of an assigned account, in the trial")] = 1.0,
    correlation: Annotated[float, typer.Option(help="of two responses of one account")] = 0.0,
    variance: Annotated[float | None, typer.Option(help="of one response; left out for a probability")] = None,
    side: Annotated[str, typer.Option(help="side that is tried")] = "customer",
    explore: Annotated[
        float | None,
        typer.Option(
            help="in place of a trial: share of uniform draws whose loss draws near the newest price may have"
        ),
    ] = None,
    salt: Annotated[str, typer.Option(help="of the experiment, which the JSON then holds; empty: none")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="print the plan as JSON, whose money is in minor units")
    ] = False,
) -> None:
    """Plan the trial of the least cost that gives the wanted precision; wants one of lift, curve and price.

    With --explore it proposes the weights by which explored requests draw their level, and needs no other option.
    """
    if explore is not None:
        # A trial is planned without the packages that a model needs.
        from operations.questions.draws import propose_draws

        proposed = propose_draws(campaign, explore)
        if as_json:
            print(json.dumps(proposed.to_dict()))
        else:
            # The last lines are to be pasted, so they stay as they are.
            text, _, fields = "\n".join(proposed.page()).partition("```yaml\n")
            Console().print(Markdown(text))
            print("\n" + fields.removesuffix("\n```"))
        return
    for name, given in (("accounts", accounts), ("response", response), ("money", money)):
        if not given:
            raise typer.BadParameter("is needed for a trial", param_hint=f"--{name}")
    currency = Currency.of(read_campaign(campaign).currency)
    believed = numbers(response, "response")
    prior: dict[str, Any] = {
        "response": believed,
        "money": currency.read(money, field="--money", whole=False),
        "requests_per_account": requests_per_account,
        "correlation": correlation,
        "variance": None if variance is None else [variance] * len(believed),
    }
    wanted = {name: value for name, value in (("lift", lift), ("curve", curve), ("price", price)) if value is not None}
    with TemporaryDirectory(prefix="shadowprice-") as scratch:
        job = PlanJob(
            campaign=campaign,
            result=Path(scratch) / "plan.json",
            page=Path(scratch) / "plan.md",
            side=side,
            accounts=accounts,
            prior=prior,
            precision=wanted,
            salt=salt,
        )
        run(job)
        result, page = job.result.read_text(), job.page.read_text()
    if as_json:
        print(
            json.dumps(
                {"currency": read_campaign(campaign).currency, "money_unit": "minor units", **json.loads(result)}
            )
        )
    else:
        Console().print(Markdown(page))


app = application(plan)
main = main_of(app, "shadowprice plan")
