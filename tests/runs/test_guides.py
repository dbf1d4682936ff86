"""Guides that need one machine, followed from their first line to their last in a fresh folder."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import cluster_lines
import company
import httpx
import pytest
from company import CAMPAIGNS, ask_all, code, started
from event_sink import event_sink
from messages import marked
from services import SERVICES, served
from snippets import PORT, ROOT, Block, Machine, blocks_of, follow, shell_of

from benchmarks.faults.redis_server import RedisServer
from operations.common.workspace import read_campaign
from serving.client.client import LedgerClient
from serving.local.launch import free_port
from shadowprice.currency import Currency
from shadowprice.errors import Unavailable
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.pacing.prometheus import PrometheusSpend

pytestmark = pytest.mark.timeout(1500)

START = re.compile(r"^Start in the repository.*?(?:\n\n)", re.MULTILINE | re.DOTALL)
AFTER = re.compile(r"after\s+(?:`([^`]+)`|the run of \[[^]]+\]\(([\w-]+\.md)\))")
FOLLOWED = (
    "ask-what-another-budget-brings",
    "check-what-a-log-identifies",
    "compare-the-ledger",
    "correct-an-outcome",
    "decide-a-list",
    "divide-a-budget-between-campaigns",
    "erase-an-account",
    "estimate-another-policy",
    "fill-segments-of-exact-sizes",
    "find-a-fault",
    "hand-out-codes",
    "open-the-console",
    "prove-a-decision",
    "restore",
    "retrain",
    "run-a-re-solve",
    "run-an-experiment",
    "see-what-a-change-does",
    "serve-the-flat-policy",
    "set-several-budgets",
    "solve-large-problems",
    "stream-decisions",
    "watch-a-model",
    "your-own-files",
)
"""Guides whose commands run here."""
NOT_FOLLOWED = {
    **dict.fromkeys(
        cluster_lines.GUIDES, "tests/chart/platform/test_guide_lines.py runs what needs no cluster or registry"
    ),
    "a-list-and-back": "followed by test_tutorial.py",
    "decide-for-long-term-value": "followed by test_amounts.py",
    "first-run": "its first line installs the project; test_quickstart.py has its run",
    "offer-a-percentage": "followed by test_percent.py",
    "offer-without-an-amount": "followed by test_offers.py",
    "run-a-voucher-campaign": "followed by test_vouchers.py",
    "use-public-trials": "followed by tests/docs/test_snippets.py on made-up rows, as the reader downloads the files",
}
"""Guides that nothing follows here, and the reason."""
REDIS, PROMETHEUS, SINK, CONSOLE = "6379", "9090", "9000", "8083"
ELSEWHERE = {
    "open-the-console": (r"campaigns/(\*|autumn)", "followed below with several campaigns"),
    "retrain": ("--days", "followed by test_whole_runs.py"),
    "your-own-files": ("mapping.yaml --workers|serve|localhost|explain", "followed by test_tutorial.py"),
}
"""Guide → pattern of its blocks that other tests follow, and where."""


def run_of(guide: Path) -> str:
    """Command of the run that a guide uses; empty where it needs none."""
    (start,) = START.findall(guide.read_text())
    after = AFTER.search(start)
    if after is None:
        assert "no run is needed" in start, guide.name
        return ""
    # A line break in code is read and copied as a space.
    return after[1].replace("\n", " ") if after[1] else run_of(guide.with_name(after[2]))


@pytest.fixture(scope="module")
def made(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the run that a command makes; each is made once."""
    found: dict[str, Path] = {}

    def make(command: str) -> Path:
        if command not in found:
            folder = tmp_path_factory.mktemp("made")
            (folder / "docs").symlink_to(ROOT / "docs")
            done = machine(folder, command)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            found[command] = (folder / "runs/latest").resolve()
        return found[command]

    return make


def test_every_guide_is_followed_or_named_with_a_reason() -> None:
    guides = [guide.stem for part in ("how-to", "tutorials") for guide in (ROOT / "docs" / part).glob("*.md")]
    assert sorted((*FOLLOWED, *company.FOLLOWED, *NOT_FOLLOWED)) == sorted(guides)


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_guide_runs_as_printed_and_prints_what_it_shows(
    name: str,
    machine: Machine,
    made: Callable[[str], Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    (guide,) = (ROOT / "docs").glob(f"*/{name}.md")
    # Not a link: a mapping whose files lie elsewhere is told to be checked with --outside.
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    if command := run_of(guide):
        shutil.copytree(made(command), tmp_path / "runs/guide", symlinks=True)
        (tmp_path / "runs/latest").symlink_to("guide")
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        ports: dict[str, int] = {}
        named = {port for block in here(guide) for port in PORT.findall(block.text)}
        first = free_port()
        ports |= {name: first + number for number, name in enumerate(SERVICES)}
        if named & {*SERVICES} and not serves(guide):
            stack.enter_context(served(tmp_path / "runs/latest", first))
        if REDIS in named:
            request.getfixturevalue("tool")("redis-server")
            request.getfixturevalue("tool")("redis-cli")
            server = RedisServer(tmp_path_factory.mktemp("redis"))
            stack.callback(server.stop)
            server.start()
            ports[REDIS] = server.port
        if PROMETHEUS in named:
            run_prometheus = request.getfixturevalue("run_prometheus")
            # Beside other tests a ledger answers a scrape late, and a scrape in vain makes its series stale.
            scraped = {"others": [ports["8081"]], "often": "3s"}
            prometheus = stack.enter_context(run_prometheus(tmp_path_factory.mktemp("prometheus"), **scraped))
            spend, campaign = PrometheusSpend(prometheus.url), read_campaign(tmp_path / "runs/latest").name
            request.getfixturevalue("eventually")(lambda: readable(spend, campaign))
            ports[PROMETHEUS] = urlsplit(prometheus.url).port or 0
        if SINK in named:
            ports[SINK] = urlsplit(stack.enter_context(event_sink()).url).port or 0
        if CONSOLE in named:
            ports[CONSOLE] = free_port()

        def start(commands: str) -> str:
            if " serve " in commands:
                return stack.enter_context(served(tmp_path / "runs/latest", first))
            stack.enter_context(started(commands, {CONSOLE: ports[CONSOLE]}, CONSOLE, "/readyz"))
            return ""

        assert named <= ports.keys()
        follow(here(guide), tmp_path, machine, ports, start)


CONSOLE_GUIDE = "open-the-console"


def test_several_campaigns_are_served_and_budget_moves_between_them(
    machine: Machine,
    made: Callable[[str], Path],
    eventually: Callable[[Callable[[], bool]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    serve, move, hold = company.FOLLOWED
    run = made(run_of(ROOT / f"docs/how-to/{serve}.md"))
    Path("runs").mkdir()
    Path("runs/latest").symlink_to(run)
    first = free_port()
    ports = {name: first + number for number, name in enumerate(SERVICES)}
    predictor_url, ledger_url = (f"http://127.0.0.1:{ports[name]}" for name in ("8080", "8081"))
    of_ledger, of_predictor = code(serve, "python -m serving.ledger").splitlines()
    with ExitStack() as clients, ExitStack() as stack:

        def start(commands: str) -> str:
            for each in commands.splitlines():
                port = "8081" if "serving.ledger" in each else "8080"
                stack.enter_context(started(each, ports, port, company.READY[port]))
            return ""

        ledgers = {name: clients.enter_context(LedgerClient(ledger_url, name)) for name in CAMPAIGNS}
        follow(company.guide(serve), tmp_path, machine, ports, start)
        for name in CAMPAIGNS:
            eventually(lambda name=name: httpx.get(f"{predictor_url}/v2/models/{name}/ready").status_code == 200)
            assert httpx.get(f"{ledger_url}/readyz?campaign={name}").json()["campaign"] == name

        terms, see, carry, *take_back, restore = company.guide(move)
        stack.close()
        follow([terms], tmp_path, machine, ports)
        start(of_ledger)
        follow([see], tmp_path, machine, ports)
        assert ledgers["winter"].moves() == []
        follow([carry], tmp_path, machine, ports)
        (row,) = ledgers["winter"].moves()
        assert row.state == "taken"
        assert {name: ledger.totals()["moved"] for name, ledger in ledgers.items()} == {
            "autumn": row.move.amount,
            "winter": -row.move.amount,
        }
        follow(take_back, tmp_path, machine, ports)
        assert {ledger.totals()["moved"] for ledger in ledgers.values()} == {0}

        share, *lift_of_all = company.guide(hold)
        stack.close()
        follow([share], tmp_path, machine, ports)
        start(f"{of_ledger}\n{of_predictor}")
        paid, asked = ask_all(run, ports)
        assert {name: ledger.totals()["net_spent"] for name, ledger in ledgers.items()} == paid

        eventually(lambda: all(logged(Path("served") / name) == asked for name in CAMPAIGNS))
        follow(lift_of_all, tmp_path, machine, ports)
        portfolio = [block for block in company.guide(CONSOLE_GUIDE) if "campaigns/*" in block.text]
        follow(portfolio, tmp_path, machine, ports)
        lift = json.loads(Path("campaigns/portfolio-lift.json").read_text())
        assert lift["requests"] == dict.fromkeys(CAMPAIGNS, asked)
        treated = lift["accounts"] - lift["held"]
        assert lift["lift"]["cost"]["value"] * treated == pytest.approx(sum(paid.values()), rel=1e-6)
        of_console = code(CONSOLE_GUIDE, "shadowprice console --campaign-file campaigns/autumn")
        stack.enter_context(started(of_console, ports, "8082", company.READY["8082"]))
        page = httpx.get(f"http://127.0.0.1:{ports['8082']}/portfolio").raise_for_status().text
        assert "cannot be read" not in page
        assert Currency.of(lift["currency"]).write(lift["saved"][0]) in page

        stack.close()
        for file in Path("ledgers").glob("winter.db*"):
            file.unlink()
        places = "--campaign-file campaigns/winter/campaign.json --db ledgers/winter.db --log-dir served/winter"
        recovered = machine(tmp_path, f"python -m serving.recover {places}")
        assert recovered.returncode == 0, recovered.stderr
        (hint,) = marked(recovered.stderr)
        assert set(hint.split()) < set(restore.text.split())
        start(of_ledger)
        planned = PORT.sub(lambda found: f"127.0.0.1:{ports[found[1]]}", shell_of(see))
        assert "holds its money back; run the job with --restore" in machine(tmp_path, planned).stdout
        follow([restore], tmp_path, machine, ports)
        assert "--restore" not in machine(tmp_path, planned).stdout
        assert {name: ledger.totals()["net_spent"] for name, ledger in ledgers.items()} == paid


def logged(folder: Path) -> int:
    """Return the number of outcomes in a decision log, which begins some seconds after its ledger."""
    return len(read_log(folder).outcomes) if folder.is_dir() else 0


def readable(spend: PrometheusSpend, campaign: str) -> bool:
    try:
        return bool(spend.read(campaign))
    except Unavailable:
        return False


def serves(guide: Path) -> bool:
    """Return whether a guide starts the services itself."""
    return any(shell_of(block).startswith("shadowprice serve ") for block in here(guide))


def here(guide: Path) -> list[Block]:
    """Blocks of a guide that can be run here, in order."""
    left_out = cluster_lines.CLUSTERED
    if guide.stem in ELSEWHERE:
        left_out += f"|{ELSEWHERE[guide.stem][0]}"
    return [block for block in blocks_of(guide) if not re.search(left_out, block.text)]
