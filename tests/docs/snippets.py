"""Blocks of code of the pages: their language, text and place, and the command lines among them."""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.MULTILINE)
PROGRAMS = {"buildah", "cat", "container", "cp", "curl", "echo", "export", "feast", "folder", "git", "helm", "kubectl"}
PROGRAMS |= {"make", "mkdir", "podman", "python", "redis-cli", "shadowprice", "ssh-keygen"}
PORT = re.compile(r"127\.0\.0\.1:(\d{4})\b")
"""Address of a service that runs here on another port: predictor, ledger, console, Redis, Prometheus, sink."""
SERVICE = re.compile(r"shadowprice (?:serve|console) |python -m serving\.(?:ledger|predictor) ")
"""Command of services, which run until they are stopped."""
Machine = Callable[[Path, str], subprocess.CompletedProcess[str]]
"""Follows commands in a folder."""


@dataclass(frozen=True)
class Block:
    """Code of a page; indented code without a fence has no language."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def markdown_files() -> list[Path]:
    """Every Markdown file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.split() if (path := ROOT / name).is_file()]


def pages() -> list[Path]:
    """Every page that a reader follows: not the history, the records and the results."""
    other = ("CHANGELOG.md", "docs/decisions/", "docs/results/")
    return [path for path in markdown_files() if not str(path.relative_to(ROOT)).startswith(other)]


def blocks() -> list[Block]:
    """All code of all pages, in order."""
    found = []
    for page in pages():
        text, name = page.read_text(), str(page.relative_to(ROOT))
        for match in FENCED.finditer(text):
            inside = "".join(line.removeprefix(match[1]) for line in match[3].splitlines(keepends=True))
            found.append(Block(name, _line(text, match), match[2], inside))
        rest = FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
        found += [
            Block(name, _line(text, match), "", re.sub(r"^ +", "", match[0], flags=re.MULTILINE))
            for match in INDENTED.finditer(rest)
        ]
    return found


def shell_of(block: Block) -> str:
    """The commands of a block, without their output; empty where it has none."""
    if block.language == "console":
        lines, text = block.text.splitlines(), ""
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                continue
            command = line[2:]
            while lines and not _whole(command):
                command += "\n" + lines.pop(0)
            text += command + "\n"
        return text
    first = block.text.split(maxsplit=1)[0]
    shell = block.language in ("sh", "bash") or (block.language in ("", "text") and first.partition("=")[0] in PROGRAMS)
    if block.language in ("", "text") and first == "#":
        shell = any(line.split(" ")[0] in PROGRAMS for line in block.text.splitlines())
    return block.text if shell else ""


def commands(shell: str) -> Iterator[list[str]]:
    """Words of each command of a shell text, without variables before it, pipes and redirections."""
    lines, text = shell.splitlines(), ""
    while lines:
        text += lines.pop(0) + "\n"
        if lines and not _whole(text.rstrip("\n")):
            continue
        lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set("|&;<>"):
                words.append(word)
                continue
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        text = ""


def masked(text: str) -> list[str]:
    """Words of a text, without figures, folders, lines of tables and digests, which differ between processors."""
    text = re.sub(r"\S*runs\d*/\S+|\S*/report\.html", "RUN", text)
    text = re.sub(r"-[0-9a-f]{12}\b", "-VERSION", text)
    text = re.sub(r"[−-]?\d[\d.,:T+e-]*\d|[−-]?\d", "#", text)
    return re.sub(r"[^\w#→.:,;%λ]+", " ", text).split()


def printed(text: str) -> str:
    """Output that a block of the console shows below its commands."""
    found, command = "", ""
    for line in text.splitlines():
        if not command and not line.startswith("$ "):
            found += line + "\n"
            continue
        command += line.removeprefix("$ ") if not command else "\n" + line
        command = "" if _whole(command) else command
    return found


def blocks_of(page: Path) -> list[Block]:
    """Code of one page, in order."""
    mine = [block for block in blocks() if block.page == str(page.relative_to(ROOT))]
    return sorted(mine, key=lambda each: each.line)


def follow(
    code: list[Block],
    folder: Path,
    machine: Machine,
    ports: Mapping[str, int],
    start: Callable[[str], str] | None = None,
) -> str:
    """Run blocks in order, with services at other ports than those that they name; return what they print.

    ``start`` starts services by their command and returns what it prints.
    """
    names: dict[str, object] = {}
    told = []
    for block in code:
        commands = PORT.sub(lambda found: f"127.0.0.1:{ports[found[1]]}", shell_of(block))
        if commands:
            if start is not None and SERVICE.match(commands):
                stdout = start(commands)
            else:
                done = machine(folder, commands)
                assert done.returncode == 0, f"{block}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
                stdout = done.stdout
            if block.language == "console" and (shown := printed(block.text)):
                assert masked(stdout) == masked(shown), f"{block}: {stdout}"
            told.append(stdout)
        elif block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)
            told.append("")
    assert told
    return "".join(told)


def _whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
