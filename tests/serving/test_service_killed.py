"""Both services killed while callers go on."""

import shutil
import threading
import time
from contextlib import contextmanager

from serving.client.client import DecisionClient
from serving.ledger.sqlite.database import open_for_reading
from shadowprice.errors import Unavailable


@contextmanager
def damaged_newest(world):
    """A damaged file for the next price, and damage to the newest model; the one of the active price is whole."""
    newest, version = world.deployment.model_dir, world.prices.next_version("spring")
    shutil.copytree(newest, newest.parent / "models" / world.price.model_version)
    heads = newest / "heads.safetensors"
    whole = heads.read_bytes()
    heads.write_bytes(whole[:-1])
    (world.deployment.prices_dir / "spring" / f"{version:010d}.json").write_text('{"version": ')
    try:
        yield
    finally:
        heads.write_bytes(whole)
        shutil.rmtree(newest.parent / "models")


def passed_over(world, samples):
    found = samples(world.predictor.url)
    return sum(value for (name, _), value in found.items() if name == "shadowprice_price_passed_over")


def test_killed_under_load_the_services_lose_no_answer_and_contradict_none(world, samples):
    """SIGKILL to the ledger, then to the predictor, while callers go on with the ids that were not answered.

    The predictor starts again over a store whose newest price and newest model are damaged.
    """
    answers, contradicted, stop = {}, [], threading.Event()

    def call(number):
        serial, pending = 0, []
        with DecisionClient(world.predictor.url, "spring") as client:
            while not stop.wait(0.02):
                while len(pending) < 3:
                    serial += 1
                    pending.append(f"killed-{number}-{serial}")
                asked = pending + [name for name in list(answers)[-1:] if name.startswith(f"killed-{number}-")]
                try:
                    told = client.decide(asked, [f"c{number}"] * len(asked), ["customer"] * len(asked))
                except Unavailable:
                    stop.wait(0.2)
                    continue
                for name, level, incentive in zip(asked, told.level.tolist(), told.incentive.tolist(), strict=True):
                    if answers.setdefault(name, (level, incentive)) != (level, incentive):
                        contradicted.append(name)
                pending.clear()

    def answered_again():
        so_far, deadline = len(answers), time.monotonic() + 120
        while len(answers) < so_far + 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(answers) >= so_far + 10

    world.publish(price=0.001)
    callers = [threading.Thread(target=call, args=(number,)) for number in range(3)]
    for caller in callers:
        caller.start()
    try:
        assert answered_again()
        world.kill_ledger()
        assert answered_again()
        with damaged_newest(world):
            world.kill_predictor()
            assert answered_again()
            assert passed_over(world, samples) == 1
        world.publish(price=0.001)
        assert passed_over(world, samples) == 0
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    assert contradicted == []
    ledger = open_for_reading(world.deployment.ledger_db)
    rows = ledger.execute(
        "SELECT request_id, level, incentive FROM decision WHERE request_id LIKE 'killed-%'"
    ).fetchall()
    sums = ledger.execute("SELECT SUM(authorized), SUM(decisions) FROM tally").fetchone()
    everything = ledger.execute("SELECT SUM(incentive), COUNT(*) FROM decision").fetchone()
    ledger.close()
    kept = {name: (level, incentive) for name, level, incentive in rows}
    assert len(kept) == len(rows)
    assert {name: kept.get(name) for name in answers} == answers
    assert sums == everything
    budget = (("budget", "budget"), ("campaign", "spring"))
    assert samples(world.ledger.url)["shadowprice_overspend_minor_units", budget] == 0
