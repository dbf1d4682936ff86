from pathlib import Path

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups


def test_every_account_is_in_the_group_it_was_given_and_a_stranger_is_its_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [f"account-{number}" for number in random.permutation(5000)]
    group = random.integers(0, 40, len(names))
    Groups.of(names, group).save(tmp_path / "groups.npy")
    found = Groups.load(tmp_path / "groups.npy")
    asked = random.permutation(len(names))
    assert found.units([names[row] for row in asked]) == [f"group {group[row]}" for row in asked]
    assert found.units(["", "stranger"]) == ["", "stranger"]
    assert Groups.of([], []).units(["anyone"]) == ["anyone"]


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "groups.npy"
    Groups.of(["a", "b"], [0, 1]).save(path)
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        np.save(path, np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match=r"groups\.npy"):
        Groups.load(path)
