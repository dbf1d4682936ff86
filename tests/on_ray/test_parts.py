"""Parts that Ray actors share: the results of this process in its order, also where actors die or refuse."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.on_ray import parts as module
from shadowprice.on_ray.local import start_ray
from shadowprice.on_ray.parts import exchange_folder, in_parts, on_actors


@pytest.fixture(scope="module")
def ray():
    import ray

    start_ray(ray, num_cpus=2, include_dashboard=False)
    yield ray
    ray.shutdown()


def process_of(part: int) -> tuple[int, int]:
    time.sleep(0.05 * (part % 3))
    return part, os.getpid()


@pytest.mark.usefixtures("ray")
def test_actors_share_the_parts_and_give_them_back_in_order(tmp_path: Path) -> None:
    assert exchange_folder() is None
    with on_actors(2, tmp_path):
        assert exchange_folder() == tmp_path
        found = list(in_parts(process_of, range(12)))
    assert [part for part, _ in found] == list(range(12))
    assert len({process for _, process in found}) == 2
    assert {process for _, process in in_parts(process_of, range(12))} == {os.getpid()}


def test_few_parts_start_no_actor(tmp_path: Path) -> None:
    with on_actors(2, tmp_path):
        assert {process for _, process in in_parts(process_of, range(3))} == {os.getpid()}


@pytest.mark.usefixtures("ray")
def test_parts_are_asked_for_when_their_turn_comes(tmp_path: Path) -> None:
    asked = []

    def parts() -> Iterator[int]:
        for part in range(100):
            asked.append(part)
            yield part

    with on_actors(2, tmp_path):
        found = in_parts(process_of, parts())
        for _ in range(10):
            next(found)
    assert len(asked) <= 10 + 2 * module.AHEAD + 1


class DiesOnce:
    """Work whose process is killed at part 3, unless it was before."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, part: int) -> int:
        if part == 3 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return part * part


@pytest.mark.usefixtures("ray")
def test_an_actor_that_is_killed_costs_no_part(tmp_path: Path) -> None:
    with on_actors(2, tmp_path):
        assert list(in_parts(DiesOnce(tmp_path / "killed"), range(8))) == [part * part for part in range(8)]
        assert list(in_parts(str, range(4))) == ["0", "1", "2", "3"]
    assert (tmp_path / "killed").exists()


def refuse(part: int) -> int:
    if part == 1:
        raise InvalidInput("is too small", field="parts", rows=[7])
    if part == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.usefixtures("ray")
def test_an_error_of_the_work_is_raised_here_and_an_actor_that_dies_again_and_again_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS", 1)
    with on_actors(2, tmp_path):
        with pytest.raises(InvalidInput, match="is too small") as error:
            list(in_parts(refuse, [0, 0, 0, 1]))
        assert error.value.field == "parts"
        assert list(error.value.rows) == [7]
        with pytest.raises(Unavailable, match="a Ray actor died 2 times"):
            list(in_parts(refuse, [2] * 4))


@pytest.mark.usefixtures("ray")
def test_more_actors_than_free_processors_are_said_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 3)
    with on_actors(3, tmp_path), pytest.raises(Unavailable, match="has the Ray cluster 3 processors that are free"):
        list(in_parts(process_of, range(6)))
