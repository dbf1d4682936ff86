"""Response models by name."""

from dataclasses import fields

import pandas as pd
import pytest

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.responses import make, names
from shadowprice.responses.inputs import SUBJECTS, Inputs
from shadowprice.responses.registry import MODELS

LEVELS = [20, 50, 100]


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(NotFound, match="hazard"):
        make("hazzard", levels=LEVELS)


@pytest.mark.parametrize("levels", [[20, 10], [10, 10], [-5, 5], [], [1.5, 2.5], ["a"]])
def test_levels_that_cannot_be_are_refused(levels: list) -> None:
    with pytest.raises(InvalidInput, match="levels"):
        make("hazard", levels=levels)


def test_every_name_is_of_one_kind_of_data_set() -> None:
    kinds = [names(about) for about in ("", *SUBJECTS)]
    assert sorted(name for each in kinds for name in each) == names()
    assert ["hazard" in each for each in kinds] == [True, False, False]
    assert ["din" in each for each in kinds] == [False, True, False]
    assert ["esdpm" in each for each in kinds] == [False, False, True]


def test_a_model_gets_the_inputs_that_it_is_registered_to_read_and_no_others() -> None:
    """An input that no entry of the registry names never reaches a model."""
    given = Inputs(snapshots=[object()], offers=pd.DataFrame({"level": [0]}))
    assert make("hazard", levels=LEVELS, inputs=given).given.there == {"snapshots"}
    assert make("lr", levels=LEVELS, inputs=given).given.there == set()
    assert make("esmm", levels=range(3), inputs=given).given.there == {"snapshots", "offers"}
    known = {field.name for field in fields(Inputs)}
    assert {name for entry in MODELS.values() for name in entry.reads} == known
