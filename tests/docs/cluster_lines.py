"""Command lines of the guides that need a cluster or a registry."""

import re
from dataclasses import dataclass

from snippets import FENCED, ROOT, blocks_of, shell_of

CLUSTERED = r"/workspace|/ledger/|kubectl|http://(?!127)|address=\"auto\""
"""Marks blocks that need a cluster or its addresses; tests/allocation/executors/test_ray.py has that of Ray."""
GUIDES = (
    "build-images",
    "check-on-a-cluster",
    "install-on-a-cluster",
    "publish-to-a-model-registry",
    "release",
    "rotate-tokens",
    "run-pipelines",
    "run-steps-as-ray-jobs",
    "upgrade",
)
"""Guides that need a cluster or a registry as a whole."""
INLINE = re.compile(r"(?<!`)`((?:kubectl -n|helm test) [^`]+)`")


@dataclass(frozen=True)
class Line:
    """A command line of a guide."""

    guide: str
    text: str


def lines() -> list[Line]:
    """Return the lines, in the order of the pages, each once."""
    found = []
    for page in sorted((ROOT / "docs/how-to").glob("*.md")):
        mine = [block for block in blocks_of(page) if page.stem in GUIDES or re.search(CLUSTERED, block.text)]
        printed = [each for block in mine for each in re.sub(r"\\\n\s*", "", shell_of(block)).splitlines()]
        printed += [" ".join(each.split()) for each in INLINE.findall(FENCED.sub("", page.read_text()))]
        found += [Line(page.stem, each.strip()) for each in printed if each.strip() and not each.startswith("#")]
    return list(dict.fromkeys(found))
