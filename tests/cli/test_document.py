"""The reference of the command line is what the commands say of themselves."""

from cli.commands import COMMANDS
from cli.document import lines


def test_the_reference_has_every_command_with_its_options() -> None:
    text = "\n".join(lines())
    assert all(f"`shadowprice {name}`" in text or f"## shadowprice {name} " in text for name in COMMANDS)
    assert "## shadowprice price rollback WORKSPACE VERSION" in text
    assert "- `--token-file`: file with the predictor's tokens" in text
