"""Lines of kubectl and Helm in the pages: the programs take their options, and the chart has the objects they name."""

import re
import subprocess
from pathlib import Path

from rendering import CASES, render, values_of
from snippets import ROOT, blocks, commands, pages, shell_of

KINDS = {"deploy": "Deployment", "cronjob": "CronJob"}
PROGRAMS = ("kubectl", "helm")
TEXT = {str(page.relative_to(ROOT)): page.read_text() for page in pages()}


def lines() -> list[tuple[str, list[str]]]:
    """Words of every line, from blocks and from sentences, with the page it is on."""
    written = [(str(block), words) for block in blocks() for words in commands(shell_of(block))]
    inline = re.compile(r"(?<!`)`((?:kubectl|helm) [^`\n]+)`(?!`)")
    written += [
        (page, words) for page, text in TEXT.items() for line in inline.findall(text) for words in commands(line)
    ]
    return [(page, words) for page, words in written if words[0] in PROGRAMS and "…" not in words]


def test_the_programs_take_the_options_of_every_line(kubectl: str, helm: str, tmp_path: Path) -> None:
    """Help comes after the options were read, so an unknown one is told."""
    found, at = lines(), {"kubectl": kubectl, "helm": helm}
    assert len(found) > 30
    for page, words in found:
        if words[-1].startswith("-"):
            words = [*words, "given"]
        end = words.index("--") if "--" in words else len(words)
        asked = [at[words[0]], *words[1:end], "--help"]
        done = subprocess.run(asked, capture_output=True, text=True, env={"HOME": str(tmp_path)})
        assert done.returncode == 0, f"{page}: {' '.join(words)}: {done.stderr}"
        # Both print their general help for a verb that they do not have.
        usage = done.stdout.partition("Usage:")[2].split()
        assert usage[1] in words, f"{page}: {' '.join(words)}"


def test_the_chart_has_every_object_and_component_that_a_page_names() -> None:
    objects = [entry for case in CASES for entry in render(values_of(case))]
    names = {(entry["kind"], entry["metadata"]["name"]) for entry in objects}
    components = {entry["metadata"].get("labels", {}).get("app.kubernetes.io/component") for entry in objects}
    named = {match for text in TEXT.values() for match in re.findall(r"\b(deploy|cronjob)/<\w+>(-[a-z-]+)", text)}
    assert len(named) >= 3
    for kind, suffix in named:
        assert any(found == KINDS[kind] and name.endswith(suffix) for found, name in names), f"{kind}/…{suffix}"
    selected = {match for text in TEXT.values() for match in re.findall(r"kubernetes\.io/component=([a-z-]+)", text)}
    assert len(selected) >= 3
    assert selected <= components
