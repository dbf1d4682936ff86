"""The messages of decisions are those of the list of fields; tests/docs/test_recipes.py adds one to it."""

from pathlib import Path

from serving.generate import ROOT, sources


def test_the_messages_are_those_that_the_fields_of_a_decision_give():
    assert sources() == {path: Path(ROOT, path).read_text() for path in sources()}
