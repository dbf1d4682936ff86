"""Commands of ``shadowprice``: a name, or two for a command of a group, and the module that does the work."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A module with a ``main`` that takes the arguments and returns the exit status.

    module  name of the module
    about   one line of the help
    extra   optional dependencies of the package that the module imports
    """

    module: str
    about: str
    extra: str


COMMANDS: Mapping[str, Command] = {
    "init": Command("cli.init", "Write a first mapping of your own files", "cli"),
    "check": Command("cli.check", "Check your own files, without training", "cli"),
    "doctor": Command("cli.doctor.command", "Name each fault of an installation or workspace, and its mend", "cli"),
    "run": Command("cli.run", "Run the whole loop on your own files", "all"),
    "quickstart": Command("pipelines.quickstart", "Run the whole main job on one machine", "all"),
    "report": Command("cli.report", "Write the report of a run again", "cli,report,pacing"),
    "explain": Command("cli.explain.decision", "Explain the decision of a running predictor", "cli,serve"),
    "receipt": Command("cli.explain.receipt", "Prove a decision of the served log to a stranger", "all"),
    "whatif": Command("cli.whatif", "Ask what another budget or other terms bring", "all"),
    "diff": Command("cli.diff", "Say what a change of a campaign's terms will do", "all"),
    "portfolio": Command("cli.portfolio.propose", "Divide one sum of money between campaigns", "all"),
    "portfolio lift": Command("cli.portfolio.lift", "Estimate what all campaigns bring, against the holdout", "all"),
    "portfolio move": Command("serving.portfolio.__main__", "Move unspent budget between campaigns, once", "all"),
    "plan": Command("cli.plan", "Plan a trial: arms, accounts, money and power", "cli,experiments"),
    "decide": Command("cli.decide", "Decide a list of accounts at once", "all"),
    "price": Command("cli.price", "Show prices of a workspace, or go back to an earlier one", "all"),
    "codes": Command("cli.codes", "Give the rows of a list their codes, for an e-mail or push tool", "all"),
    "settle": Command("cli.settle", "Book the redemptions of an order export in the ledger", "all"),
    "account": Command("cli.account", "Export what is held about an account, or erase it", "all"),
    "pipelines": Command("pipelines.__main__", "List, compile, run, upload or schedule pipelines", "all"),
    "job": Command("operations.__main__", "Run one job: its name and its fields as JSON", "all"),
    "rolling": Command("pipelines.rolling", "Evaluate a recipe by rolling origin", "all"),
    "predictor": Command("serving.predictor.__main__", "Serve decisions of a campaign", "serve"),
    "ledger": Command("serving.ledger.__main__", "Serve the ledger of a campaign", "ledger"),
    "ledger reconcile": Command("serving.reconcile", "Compare ledger, outcomes and decision log", "ledger"),
    "ledger recover": Command("serving.recover", "Recover a ledger database", "ledger"),
    "console": Command("serving.console.__main__", "Serve pages about the money of a campaign", "console"),
    "serve": Command("serving.local.run", "Start predictor, ledger and console of a finished run", "all"),
    "ready": Command("serving.client.check", "Check a deployed campaign", "serve"),
    "resolve": Command("serving.resolve", "Solve and publish the price of the remaining budget", "serve"),
}
