"""Texts of the product in its sources, and the commands that they tell a person to run."""

import ast
import re
from pathlib import Path

from snippets import ROOT

PRODUCT = ("shadowprice", "operations", "serving", "cli", "components", "pipelines", "feature_repo")
QUOTED = re.compile(r"`([^`]+)`")
LINE = re.compile(r"(?:^|: )((?:shadowprice|python -m) [a-z][^:→]*)$", re.MULTILINE)
COMMAND = re.compile("(shadowprice|python|make) (?!1)")
Text = tuple[Path, str]


def texts() -> list[Text]:
    """Texts of the product, each with its file, without docstrings; what a text fills in is ``1``."""
    found = []
    for path in (path for room in PRODUCT for path in sorted((ROOT / room).rglob("*.py"))):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        whole = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        inner |= {id(part) for node in whole for part in ast.walk(node) if part is not node}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
                text = node.value
            else:
                continue
            if " " in text:
                found.append((path.relative_to(ROOT), text))
    return found


def marked(text: str) -> list[str]:
    """Commands of a text in backticks."""
    return [each for each in QUOTED.findall(text) if COMMAND.match(each)]
