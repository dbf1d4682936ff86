"""The names that ``import shadowprice`` offers."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

import shadowprice


def test_the_example_of_the_package_runs() -> None:
    result = doctest.testmod(shadowprice)
    assert result.attempted
    assert not result.failed


def test_each_name_is_the_one_of_its_room_and_typed() -> None:
    stub = ast.parse(Path(shadowprice.__file__).with_suffix(".pyi").read_text())
    typed = {name.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert set(shadowprice.__all__) == set(typed)
    for name, module in typed.items():
        assert getattr(shadowprice, name) is getattr(import_module(module), name)
        assert getattr(shadowprice, name).__doc__


def test_a_mistyped_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'sovle'; it offers .*solve"):
        shadowprice.sovle  # noqa: B018
