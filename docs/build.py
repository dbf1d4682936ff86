"""Build the site of the documentation; every warning is an error.

The pages are those of the repository, at the same places, so that a link works on the site and in the repository. Their
order is that of docs/README.md, which lists each page once.
"""

import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config

from shadowprice.command.options import main_of

ROOT = Path(__file__).resolve().parents[1]
START = "docs/README.md"
PAGES = ("*.md", "docs/*")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
WRITTEN = {"docs/reference/command-line.md": ["-m", "cli.document"], "helm/shadowprice/README.md": ["helm/document.py"]}
"""Pages whose end is printed by a command."""


def stage(folder: Path) -> None:
    """Copy the pages of the working tree, with their pictures and examples, to an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.endswith(".py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    for name, command in WRITTEN.items():
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
        with (folder / name).open("a", encoding="utf-8") as page:
            page.write("\n" + done.stdout)


def navigation(folder: Path) -> list[Any]:
    """Return the sections and pages that docs/README.md lists, in their order.

    A heading is a section; a line that ends with a colon before a list is a group in it. Records of decisions and pages
    of results follow by their titles.
    """
    sections: list[tuple[str, list[Any]]] = []
    pages: list[Any] = []
    for line in (folder / START).read_text().splitlines():
        if line.startswith("## "):
            pages = []
            sections.append((line[3:].partition(":")[0], pages))
        elif sections and re.fullmatch(r"[A-Z].*:", line):
            pages = []
            sections[-1][1].append({line.rstrip(":").partition(",")[0]: pages})
        elif line.startswith("- ") and (found := LINK.search(line)):
            pages.append({found[1]: place(found[2])})
    records, results = (
        sorted(str(page.relative_to(folder)) for page in folder.glob(f"docs/{part}/*.md"))
        for part in ("decisions", "results")
    )
    more = [{"Decision records": records}, {"Results": results}, {"Contributing": "CONTRIBUTING.md"}]
    listed = ({name: pages} for name, pages in sections if pages)
    return [{"Home": "README.md"}, {"All pages": START}, *listed, *more]


def place(link: str) -> str:
    """Return the path, from the root, of a page that docs/README.md links to."""
    return str((Path(START).parent / link).as_posix()).replace("docs/../", "")


def build_site(folder: Annotated[Path, typer.Argument(help="gets pages/ and site/")] = ROOT / "build") -> None:
    """Build the site of the documentation."""
    folder = folder.resolve()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    stage(folder / "pages")
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(folder / "pages"),
        site_dir=str(folder / "site"),
        nav=navigation(folder / "pages"),
        strict=True,
    )
    build(config)
    print(f"the site is in {folder / 'site'}")


main = main_of(build_site, "python docs/build.py")

if __name__ == "__main__":
    sys.exit(main())
