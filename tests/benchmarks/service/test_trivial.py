"""KServe itself as the rival of the decision service: it answers what the service answers."""

from benchmarks.service.trivial import VALUES
from serving.protocol import OUTPUTS


def test_the_constants_are_the_fields_of_an_answer_in_their_order() -> None:
    assert list(VALUES) == list(OUTPUTS)
