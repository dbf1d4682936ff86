"""The house keeps its shape: floors, public names, and what may be imported without what."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = (
    "shadowprice",
    "components",
    "pipelines",
    "feature_repo",
    "serving",
    "operations",
    "benchmarks",
    "research",
    "cli",
)
LARGEST_ROOM = 20


def imports(statement: str, forbidden: list[str]) -> str:
    """Which of ``forbidden`` are loaded after ``statement``, in a fresh interpreter."""
    code = f"import sys; {statement}; print(','.join(m for m in {forbidden!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_imports_go_only_downwards() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


ROOMS = sorted({path.parent.relative_to(ROOT) for name in CODE for path in (ROOT / name).rglob("*.py")})


def test_the_policy_alone_calls_the_rule_and_assigns_arms() -> None:
    callers = set()
    for path in (path for name in CODE for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            of = isinstance(node, ast.ImportFrom) and node.module in (
                "shadowprice",
                "shadowprice.decision",
                "shadowprice.arms",
            )
            if of and any(each.name in ("decide", "decision", "treatment") for each in node.names):
                callers.add(str(path.relative_to(ROOT)))
            if isinstance(node, ast.Import) and any(each.name == "shadowprice.decision" for each in node.names):
                callers.add(str(path.relative_to(ROOT)))
    assert callers - {"research/tables/lift.py"} == {"shadowprice/policy.py"}


MOST_PARAMETERS = 8
MANY_PARAMETERS = {
    # A user's options of a registered model.
    "shadowprice/responses/goal/model.py: __init__",
    "shadowprice/responses/tabular/gbdt.py: __init__",
    # Arguments of a command.
    "cli/decide.py: decide",
    "cli/explain/decision.py: explain",
    "cli/init.py: init",
    "cli/plan.py: plan",
    "cli/whatif.py: whatif",
    # Artifacts and options of a step, of which kfp reads the signature.
    "components/evaluate.py: evaluate",
}


def test_few_functions_have_more_than_eight_parameters() -> None:
    many = set()
    for path in (path for name in set(CODE) - {"benchmarks", "research"} for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len(own) - (own[:1] in (["self"], ["cls"])) > MOST_PARAMETERS:
                    many.add(f"{path.relative_to(ROOT)}: {node.name}")
    assert many == MANY_PARAMETERS


def test_no_room_has_more_files_than_one_can_know() -> None:
    crowded = {str(room): len(list((ROOT / room).glob("*.py"))) for room in ROOMS}
    assert {room: files for room, files in crowded.items() if files > LARGEST_ROOM} == {}


def test_the_feature_repository_is_pure_feast() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "feature_repo").rglob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import)]
    names = {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    above = ("shadowprice.learning", "shadowprice.pacing", "shadowprice.responses")
    assert not {name for name in names if name.startswith(above)}


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import shadowprice.decision, shadowprice.campaign, shadowprice.price",
            ["torch", "pandas", "kfp", "ray", "feast"],
        ),
        ("import shadowprice.allocation", ["torch", "pandas", "ray", "scipy"]),
        ("import shadowprice.responses.layers.heads", ["torch", "pandas", "ray"]),
        ("import shadowprice.pacing.price_store", ["torch", "ray", "feast", "kfp"]),
        ("import feature_repo", ["feast", "torch"]),
        # The help of a command waits for no package.
        ("import cli.main", ["typer", "rich", "pandas", "torch"]),
        ("import operations.__main__", ["typer", "rich", "pandas", "torch"]),
        # What the images of the services leave out.
        ("import serving.resolve, serving.client.check", ["torch", "pandera", "ray", "kfp", "sklearn", "scipy"]),
        ("import serving.stream.__main__", ["torch", "pandas", "feast", "kserve", "httpx", "scipy"]),
        ("import serving.ledger.__main__", ["torch", "pandas", "feast", "kserve", "httpx", "scipy"]),
        ("import shadowprice.learning.train", ["torch_geometric"]),
    ],
)
def test_a_room_does_not_load_what_it_does_not_need(statement: str, forbidden: list[str]) -> None:
    assert imports(statement, forbidden) == ""


def test_the_contract_names_are_there() -> None:
    from shadowprice import allocation, decision, evaluation, responses
    from shadowprice.evaluation import metrics

    assert {"Problem", "Resource", "on_response", "solve"} <= set(dir(allocation))
    assert {"make", "names"} <= set(dir(responses))
    assert callable(decision.decide)
    assert {"auc", "logloss", "mae", "mse", "rpr", "epr", "mlss", "ece"} <= set(metrics.__all__)
    assert evaluation.__doc__


CLAUSE = re.compile(r"(What|Who|Whose|Of|How|The same|Where|Whether|Why|When|Which|That|Those|As|In|At most) ?\b")
PRIVATE = re.compile(
    r"\b(the books|in force|scouts?|stakes|told apart|hears?|heard|who asks|he|his|him)\b", re.IGNORECASE
)


def test_docstrings_start_with_a_verb_or_a_noun_and_use_standard_words() -> None:
    found = []
    for path in (path for name in CODE for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if CLAUSE.match(text) or PRIVATE.search(text):
                    found.append(f"{path.relative_to(ROOT)}: {text[:80]}")
    assert found == []


def test_the_makefile_has_the_contract_targets() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = [
        "quickstart",
        "test",
        "test-fast",
        "bench",
        "install",
        "serve",
        "lint",
        "reproduce",
        "images",
        "chart",
        "help",
    ]
    assert [target for target in targets if f"\n{target}:" not in text] == []
