"""The readers that ``make fuzz`` tries survive its first inputs, and what becomes of them by random changes."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from readers import READERS, SEEDS

CHANGES = 150
"""Changed inputs of each reader."""
TOKENS = (
    b"",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b'"',
    b"'",
    b",",
    b"\r",
    b"\n",
    b"{",
    b"[",
    b": ",
    b"*a",
    b"1e999",
    b"-1",
)


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in SEEDS.items() for seed in seeds])
def test_a_reader_takes_its_input_or_refuses_it(name: str, seed: bytes) -> None:
    READERS[name](seed)
    READERS[name](seed[: len(seed) // 2])
    READERS[name](seed + seed)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_a_changed_input_or_refuses_it(name: str) -> None:
    random = Random(name)
    for _ in range(CHANGES):
        text = random.choice(SEEDS[name])
        for _ in range(random.randint(1, 4)):
            start, end = sorted(random.choices(range(len(text) + 1), k=2))
            part = random.choice([random.choice(TOKENS), random.choice(SEEDS[name]), random.randbytes(2)])
            end = random.choice([start, min(end, start + 3), end])
            text = text[:start] + part + text[end:]
        READERS[name](text[:10_000])


def test_the_fuzzer_names_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "atheris.py").write_text("raise ImportError")
    fuzzer = Path(__file__).with_name("fuzz.py")
    done = subprocess.run(
        [sys.executable, fuzzer], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "the fuzzer needs atheris: install the extra shadowprice[fuzz]"
