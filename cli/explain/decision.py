"""``shadowprice explain``: explain the decision of a running predictor."""

import json
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.options import number, pairs
from serving.client.client import DecisionClient
from serving.http.tokens import Tokens
from shadowprice.command.options import application, main_of
from shadowprice.currency import USD, Currency
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput


def explain(
    account: Annotated[str, typer.Argument(help="identifier of the account that asks")],
    campaign: Annotated[str, typer.Option(help="name of the campaign")],
    url: Annotated[str, typer.Option(help="address of the predictor")] = "http://127.0.0.1:8080",
    side: Annotated[str, typer.Option(help="customer or merchant")] = "customer",
    request_id: Annotated[str, typer.Option(help="of the request; without it a new one")] = "",
    partner: Annotated[str, typer.Option(help="identifier of the partner")] = "",
    context: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: a number of x_… or a text of c_…; may be repeated")
    ] = None,
    session: Annotated[Path | None, typer.Option(help="JSON file with the list of behaviors of the session")] = None,
    token_file: Annotated[Path | None, typer.Option(help="file with the predictor's tokens")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the answer as JSON")] = False,
) -> None:
    """Ask the predictor for the curve, the costs and the scores behind a decision; nothing is authorized."""
    token = None if token_file is None else Tokens(token_file).secret("decide")
    values = pairs(context or (), "context")
    features: dict[str, list[float | str | None]] = {
        name: [number(text, "context") if name.startswith("x_") else text] for name, text in values.items()
    }
    with DecisionClient(url, campaign, token) as client:
        answer = client.explain(
            [request_id or f"explain-{uuid.uuid4().hex}"],
            [account],
            [side],
            [partner] if partner else None,
            features,
            None if session is None else [_behaviors(session)],
        )
    if as_json:
        print(json.dumps(answer))
    else:
        show(answer["explanations"][0], answer, Console())


def show(one: dict[str, Any], answer: dict[str, Any], console: Console) -> None:
    """Print the explanation of one request."""
    money = Currency.of(answer.get("currency", USD)).write
    names = {level["level"]: level["name"] for level in one["levels"]}
    paid = all(level["name"] == money(level["incentive"]) for level in one["levels"])
    chosen = f"incentive {money(one['incentive'])}" if paid else names.get(one["level"], one["offer_id"])
    head = f"{one['account_id']}, {one['side']}: {chosen} (level {one['level']})"
    console.print(head, markup=False, highlight=False)
    console.print(f"{one['reason']}: {one['reason_text']}", markup=False, highlight=False, soft_wrap=True)
    if one["levels"]:
        table = Table(
            "", "level", "incentive" if paid else "offer", "response", "expected cost", "score", "propensity", "allowed"
        )
        for level in one["levels"]:
            table.add_row(
                "→" if level["level"] == one["level"] else "",
                str(level["level"]),
                level["name"],
                f"{level['response']:.4g}",
                money(level["expected_cost"]),
                *(f"{level[name]:.4g}" for name in ("score", "propensity")),
                "yes" if level["allowed"] else "no",
            )
        console.print(table)
    if one.get("margin") is not None:
        console.print(f"level {one['best_level']} leads level {one['runner_up']} by {one['margin']:.4g}")
    if one.get("behaviors") is not None:
        console.print(f"the curve is that of the session of the request, with {one['behaviors']} behaviors")
    features = one.get("features_at") or "none: the mean of all accounts stands for it"
    console.print(
        f"price version {answer['price_version']}, model {answer['model_version']}, embedding: {features}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _behaviors(path: Path) -> Any:
    try:
        return read_json(path)
    except ValueError as error:
        raise InvalidInput(f"is not JSON: {error}", field=str(path)) from error


app = application(explain)
main = main_of(app, "shadowprice explain")
