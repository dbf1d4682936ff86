"""Documents are read in bounded time and memory, whatever their name leads to."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from shadowprice.documents import read_document, read_json

BRACKETS = "[" * 100_000


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


IRREGULAR = [pipe, zeros, folder, circle, listener]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("make", IRREGULAR)
def test_only_regular_files_are_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x.json")
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(ValueError, match="is not a regular file"):
            read_document(tmp_path / "x.json")
    assert len(os.listdir("/proc/self/fd")) < opened + 20


def test_a_document_larger_than_its_bound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    assert read_document(tmp_path / "x", 5) == b"12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_document(tmp_path / "x", 4)
    os.truncate(tmp_path / "x", 1 << 40)
    with pytest.raises(ValueError, match="more than"):
        read_document(tmp_path / "x")


@pytest.mark.parametrize("text", [BRACKETS, BRACKETS.replace("[", '{"a":'), BRACKETS + "]" * len(BRACKETS)])
def test_nesting_that_exhausts_the_stack_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(json.dumps({"a": [1]}))
    assert read_json(tmp_path / "x.json") == {"a": [1]}


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "x.json")
