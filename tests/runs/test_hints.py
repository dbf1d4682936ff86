"""Hints of error messages, followed: a fault is made for real, and the command that its message names mends it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from messages import marked, texts
from snippets import ROOT

from cli.codes import read_list
from cli.doctor.command import examine
from cli.doctor.finding import Target
from cli.main import main
from feature_repo.columns import read_columns
from feature_repo.offline import training_frame
from feature_repo.online import OnlineReader, publish_embeddings
from feature_repo.store import open_store
from operations.common.workspace import CAMPAIGN, read_campaign
from operations.questions.draws import propose_draws
from serving.client.client import LedgerClient
from serving.local.launch import Service, free_port
from serving.local.policy import shares_in_words
from shadowprice.datasets.folder import open_tables
from shadowprice.datasets.inputs import input_files
from shadowprice.datasets.package import load_dataset
from shadowprice.errors import InvalidInput, ShadowpriceError
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.bundle import read_meta
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits.attributes import columns_file, read_attributes
from shadowprice.pacing.history import Traffic

pytestmark = pytest.mark.timeout(900)

DATA = ROOT / "docs/examples/mapping"
OUTSIDE = '{"outside": true}'
FIELDS = {
    "prepare": ["--dataset", "mapping", "--data", f"{DATA}/mapping.yaml", "--options", OUTSIDE, "--tables", "tables"],
    "featurize": ["--tables", "tables", "--training", "training", "--workspace", "run"],
    "train": ["--training", "training", "--model", "bundle", "--epochs", "1"],
    "register": ["--model", "bundle", "--workspace", "run"],
    "resolve": ["--workspace", "run"],
    "decide": ["people.csv", "--campaign", "run", "--out", "list.parquet", "--no-ledger"],
    "init": ["shop", "--trials", f"{DATA}/gutscheine.csv"],
}
"""Last word of the command of a hint, and the words that its reader adds."""
RUN, TABLES, TRAINING, BUNDLE, LIST = (Path(each) for each in ("run", "tables", "training", "bundle", "list.parquet"))
FEATURES, SNAPSHOT = RUN / "features", TRAINING / "snapshot-000"
DOCTOR, INPUTS, HISTORY = "cli/doctor/workspace.py", "shadowprice/responses/inputs.py", "shadowprice/pacing/history.py"
PACKAGE, GRAPHS = "shadowprice/datasets/package.py", "shadowprice/graphs/snapshot.py"
EXPOSURES = pd.DataFrame({"account_id": ["K00130"], "decided_at": [pd.Timestamp("2026-05-01T00:00Z")]})


def followed(command: str) -> int:
    """Run the command of a hint as its reader does."""
    words = shlex.split(command)
    return main([*words[1:], *FIELDS[words[-1]]])


def doctor(check: str) -> None:
    """Raise the faults that the doctor finds of one check, and that a command mends."""
    found = [each.sentence for each in examine(Target(place=RUN)) if each.check == check and marked(each.mend)]
    if found:
        raise InvalidInput(" ".join(found))


def ask_mapping() -> None:
    made = Path("shop/mapping.yaml")
    input_files("mapping", str(made) if made.exists() else "", {})


def ask_embeddings() -> None:
    version = str(read_meta(BUNDLE)["model_version"])
    publish_embeddings(open_store(FEATURES), pd.read_parquet(BUNDLE / "embeddings.parquet"), version, progress=False)


@dataclass(frozen=True)
class Fault:
    """A fault of a folder with a small run.

    source, words  file of the sources with the message, and words of it
    ask            raises the error
    file, content  file that is removed, or gets the content; none: the fault is there already
    """

    source: str
    words: str
    ask: Callable[[], object]
    file: Path | None = None
    content: bytes | None = None


FAULTS = {
    "shadowprice job prepare": [
        Fault(
            "shadowprice/datasets/folder.py",
            "no such table; run",
            lambda: open_tables(TABLES / "tables"),
            TABLES / "tables/exposure.parquet",
        ),
        Fault(PACKAGE, "cannot be read", lambda: load_dataset(TABLES), TABLES / "dataset.json", b"{"),
        Fault(PACKAGE, "no data set in", lambda: load_dataset(TABLES), TABLES / "dataset.json"),
    ],
    "shadowprice job featurize": [
        # The folder is a copy, whose features name the files of the other one.
        Fault("feature_repo/offline.py", "again", lambda: training_frame(open_store(FEATURES), EXPOSURES, "customer")),
        Fault(INPUTS, "no training set", lambda: TrainingSet.load(TRAINING), TRAINING / "training_set.json"),
        Fault(INPUTS, "cannot be read", lambda: TrainingSet.load(TRAINING), TRAINING / "training_set.json", b"{"),
        Fault(GRAPHS, "no graph snapshot", lambda: GraphSnapshot.load(SNAPSHOT), SNAPSHOT / "snapshot.json"),
        Fault(GRAPHS, "is not the file", lambda: GraphSnapshot.load(SNAPSHOT), SNAPSHOT / "start.npy", b"x"),
        Fault(
            "shadowprice/limits/attributes.py",
            "featurize",
            lambda: read_attributes(RUN, "customer", []),
            RUN / columns_file("customer"),
            b"x",
        ),
        Fault(HISTORY, "no 1 in 1; run", lambda: Traffic.load(RUN), RUN / "traffic.json"),
        Fault(HISTORY, "cannot be read", lambda: Traffic.load(RUN), RUN / "traffic.json", b"{"),
        Fault("feature_repo/store.py", "is missing; ", lambda: open_store(FEATURES), FEATURES / "registry.db"),
        Fault(
            "feature_repo/columns.py",
            "remove it, then",
            lambda: read_columns(FEATURES),
            FEATURES / "features.json",
            b"x",
        ),
        Fault("feature_repo/columns.py", "makes it", lambda: read_columns(FEATURES), FEATURES / "features.json"),
        Fault(DOCTOR, "name the folder of a run, or", lambda: doctor("campaign"), RUN / CAMPAIGN, b"{"),
        Fault(
            DOCTOR, "for this campaign", lambda: doctor("features"), FEATURES / "feature_store.yaml", b"project: other"
        ),
        Fault(DOCTOR, "run `shadowprice job featurize`$", lambda: doctor("features"), FEATURES / "feature_store.yaml"),
    ],
    "shadowprice job train": [
        Fault("shadowprice/learning/bundle.py", "no model bundle", lambda: read_meta(BUNDLE), BUNDLE / "model.json"),
    ],
    "shadowprice job register": [
        Fault(
            "feature_repo/online/reader.py",
            "is not registered",
            lambda: OnlineReader(FEATURES, str(read_meta(BUNDLE)["model_version"])),
        ),
        Fault("feature_repo/online/publish.py", "is not registered", ask_embeddings),
    ],
    "shadowprice resolve": [
        Fault("operations/questions/draws.py", "has no price", lambda: propose_draws(RUN, 0.1), RUN / "prices"),
        Fault("serving/local/policy.py", "has no price", lambda: shares_in_words(RUN), RUN / "prices"),
    ],
    "shadowprice decide": [
        Fault("cli/codes.py", "is no list", lambda: read_list(LIST), LIST, b"x"),
        Fault("cli/codes.py", "no such list", lambda: read_list(LIST), LIST),
    ],
    "shadowprice init": [Fault("shadowprice/datasets/inputs.py", "a mapping", ask_mapping)],
}
"""Command of hints, and faults that it mends."""
ELSEWHERE = {
    (
        "shadowprice/arms.py",
        "clusters need",
    ): "needs ties between accounts; tests/operations/test_featurize.py makes such groups",
    ("shadowprice/learning/recipes.py", "is trained by"): "tests/runs/test_vouchers.py runs that pipeline",
    ("shadowprice/mapping/sources.py", "allow it"): "test_files_that_lie_outside_are_allowed_as_the_message_says",
    ("operations/common/model_registry.py", "to publish it"): "tests/operations/test_model_registry.py",
    ("serving/ledger/log.py", "went back"): "test_a_ledger_that_went_back_is_recovered_by_the_command_of_its_message",
    ("serving/ledger/witness.py", "restore"): "test_a_ledger_that_went_back_is_recovered_by_the_command_of_its_message",
    ("serving/recover.py", "held back"): "tests/runs/test_guides.py",
    ("serving/local/policy.py", "--resume"): "tests/runs/test_whole_runs.py",
    ("serving/local/run.py", "makes one"): "tests/runs/test_whole_runs.py",
    (DOCTOR, "begins another"): "tests/serving/test_served_window.py",
    ("pipelines/backend.py", "no schedule"): "tests/pipelines/test_alarm.py",
    (
        "pipelines/days/instead.py",
        "until then",
    ): "tests/runs/test_flat.py",
    ("pipelines/local/listing.py", "explains them"): "tests/docs/test_command_lines.py",
    ("cli/main.py", "there is no command"): "tests/cli/test_main.py",
    ("feature_repo/packed.py", "is not registered"): "the same as that of the reader, with Redis",
}
"""Hints that are followed in other tests, or not at all."""
HELP = {("cli/codes.py", "list that"), ("cli/decide.py", "CSV file of codes"), ("serving/generate.py", "Written by")}
"""Texts of options and files, which are no hints."""


def test_every_command_of_a_message_is_followed_or_named_with_a_reason() -> None:
    known = [*((fault.source, fault.words) for faults in FAULTS.values() for fault in faults), *ELSEWHERE, *HELP]
    hints = [(str(path), text) for path, text in texts() if marked(text) or "\nto publish it: python" in text]
    assert len(hints) > 40
    for source, words in known:
        found = [text for path, text in hints if path == source and re.search(words, text)]
        assert found, (source, words)
    assert [hint for hint in hints if not any(hint[0] == at and re.search(words, hint[1]) for at, words in known)] == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a small run, by the last command that made them."""
    place = tmp_path_factory.mktemp("small") / "place"
    place.mkdir()
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("people.csv").write_text("account_id\nK00130\nK00131\n")
        for command in ("job prepare", "job featurize", "job train", "job register", "resolve"):
            assert followed(f"shadowprice {command}") == 0
            if command in ("job train", "resolve"):
                made[command] = Path(shutil.copytree(place, place.with_name(command.replace(" ", "-")), symlinks=True))
    return made


def spoil(fault: Fault) -> None:
    if fault.file is None:
        return
    if fault.file.is_dir():
        shutil.rmtree(fault.file)
    elif fault.content is None:
        fault.file.unlink(missing_ok=True)
    else:
        fault.file.write_bytes(fault.content)


@pytest.mark.parametrize("command", FAULTS)
def test_the_command_of_a_hint_mends_its_fault(
    command: str, small: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = small["job train" if command.endswith("register") else "resolve"]
    monkeypatch.chdir(shutil.copytree(before, tmp_path / "place", symlinks=True))
    for fault in FAULTS[command]:
        kept = fault.file.read_bytes() if fault.file is not None and fault.file.is_file() else None
        spoil(fault)
        with pytest.raises(ShadowpriceError) as refused:
            fault.ask()
        assert command in marked(str(refused.value)), fault.source
        if kept is not None and fault.file is not None:
            fault.file.write_bytes(kept)
    for fault in FAULTS[command]:
        spoil(fault)
    assert followed(command) == 0
    for fault in FAULTS[command]:
        fault.ask()


def test_files_that_lie_outside_are_allowed_as_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DATA / "mapping.yaml").read_text()
    Path("mapping.yaml").write_text(re.sub(r"file: (\w+\.csv)", rf"file: {DATA}/\1", text))
    assert main(["check", "mapping.yaml"]) == 1
    check, run = marked(" ".join(capsys.readouterr().err.split()))
    assert main([*shlex.split(check)[1:], "mapping.yaml"]) == 0
    assert shlex.split(run)[:2] == ["shadowprice", "run"]
    # What the run would do first.
    assert (
        main(
            [
                "job",
                "prepare",
                *shlex.split(run)[2:],
                *FIELDS["prepare"][:2],
                "--data",
                "mapping.yaml",
                "--tables",
                "out",
            ]
        )
        == 0
    )


LEDGER = ["--campaign-file", "run/campaign.json", "--db", "ledger.db", "--log-dir", "log"]
PYTHON = [sys.executable, "-W", "ignore", "-m"]


@contextmanager
def running(*options: str) -> Iterator[str]:
    """Run the ledger of the run, and give its address."""
    port = free_port()
    words = ["serving.ledger", *LEDGER, *options, "--port", str(port)]
    service = Service("ledger", words, port, "/readyz", Path("ledger.txt"))
    try:
        service.wait_ready(120)
        yield service.url
    finally:
        service.stop()


@pytest.mark.parametrize("options", [(), ("--witness", "witness.json")], ids=["log", "witness"])
def test_a_ledger_that_went_back_is_recovered_by_the_command_of_its_message(
    options: tuple[str, ...], small: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(small["resolve"], tmp_path / "place", symlinks=True))
    campaign = json.loads((RUN / CAMPAIGN).read_text())
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    (RUN / CAMPAIGN).write_text(json.dumps(campaign | {"starts_at": now.isoformat()}))
    assert followed("shadowprice resolve") == 0
    with running(*options) as url:
        assert main(["decide", "people.csv", "--campaign", "run", "--out", "list.parquet", "--ledger-url", url]) == 0
    Path("ledger.db").unlink()
    started = [*PYTHON, "serving.ledger", *LEDGER, *options, "--port", str(free_port())]
    refused = subprocess.run(started, capture_output=True, text=True)
    assert refused.returncode == 2
    (command,) = marked(refused.stderr)
    words = [*PYTHON, *shlex.split(command)[2:], *LEDGER, *options]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with running(*options) as url, LedgerClient(url, read_campaign(RUN).name) as client:
        assert sum(client.totals()["requests"].values()) == 2
