"""The reference of the command line is what the commands say of themselves."""

from __future__ import annotations

from cli.commands import COMMANDS
from cli.document import PAGE, page


def test_the_page_is_that_of_the_commands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run python -m cli.document"
    assert all(f"`shadowprice {name}`" in text or f"## shadowprice {name} " in text for name in COMMANDS)
    assert "## shadowprice price rollback WORKSPACE VERSION" in text
