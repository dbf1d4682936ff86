import asyncio

import pytest

from serving.http.limits import MAX_WAITING
from serving.predictor.batching import MicroBatcher
from serving.protocol import Requests
from shadowprice.errors import Conflict, Unavailable


def call(name, size=1):
    return Requests([f"{name}-{row}" for row in range(size)], ["c"] * size, ["customer"] * size)


class Echo:
    """Answers each call with its request ids; keeps what came together."""

    def __init__(self, seconds=0.0):
        self.batches = []
        self._seconds = seconds

    async def __call__(self, calls):
        self.batches.append([requests.request_id[0] for requests in calls])
        await asyncio.sleep(self._seconds)
        return [
            Conflict("refused") if requests.request_id[0].startswith("bad") else requests.request_id
            for requests in calls
        ]


def test_what_waits_goes_together_and_everybody_gets_his_own():
    echo = Echo(0.05)

    async def many():
        batcher = MicroBatcher(echo, most=1000, at_once=1)
        return await asyncio.gather(*(batcher.answer(call(f"n{i}", 1 + i % 3)) for i in range(60)))

    answers = asyncio.run(many())
    assert answers == [call(f"n{i}", 1 + i % 3).request_id for i in range(60)]
    assert [len(each) for each in echo.batches] == [60]


def test_a_batch_holds_no_more_requests_than_it_may_and_a_longer_call_goes_alone():
    echo = Echo()

    async def many():
        batcher = MicroBatcher(echo, most=10, at_once=1)
        sizes = [4, 4, 4, 25, 1, 1]
        await asyncio.gather(*(batcher.answer(call(f"n{i}", size)) for i, size in enumerate(sizes)))

    asyncio.run(many())
    assert echo.batches == [["n0-0", "n1-0"], ["n2-0"], ["n3-0"], ["n4-0", "n5-0"]]


def test_one_refusal_is_one_callers_and_a_fault_does_not_end_the_service():
    async def fails(calls):
        if any(requests.request_id[0].startswith("crash") for requests in calls):
            raise ZeroDivisionError
        return await Echo()(calls)

    async def several():
        batcher = MicroBatcher(fails, most=10, at_once=1)
        mixed = await asyncio.gather(batcher.answer(call("a")), batcher.answer(call("bad")), return_exceptions=True)
        crashed = await asyncio.gather(batcher.answer(call("crash")), return_exceptions=True)
        return [*mixed, *crashed, await batcher.answer(call("b"))]

    good, refused, crashed, after = asyncio.run(several())
    assert (good, after) == (["a-0"], ["b-0"])
    assert isinstance(refused, Conflict)
    assert isinstance(crashed, ZeroDivisionError)


def test_a_caller_who_gives_up_does_not_disturb_the_others():
    echo = Echo(0.05)

    async def several():
        batcher = MicroBatcher(echo, most=10, at_once=1)
        patient = asyncio.ensure_future(batcher.answer(call("patient")))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batcher.answer(call("hasty")), 0.01)
        return await patient

    assert asyncio.run(several()) == ["patient-0"]


def test_a_call_whose_caller_gave_up_while_it_waited_is_not_answered():
    echo = Echo(0.05)

    async def several():
        batcher = MicroBatcher(echo, most=10, at_once=1)
        first = asyncio.ensure_future(batcher.answer(call("first")))
        await asyncio.sleep(0.01)
        hasty = [asyncio.ensure_future(batcher.answer(call(name, 8))) for name in ("hasty", "hastier")]
        await asyncio.sleep(0)
        later = asyncio.ensure_future(batcher.answer(call("later", 9)))
        await asyncio.sleep(0)
        for each in hasty:
            each.cancel()
        answers = await asyncio.gather(first, later)
        # Where nobody waits any more, no micro-batch begins.
        again = asyncio.ensure_future(batcher.answer(call("again")))
        await asyncio.sleep(0.01)
        gone = asyncio.ensure_future(batcher.answer(call("gone", 3)))
        await asyncio.sleep(0)
        gone.cancel()
        await again
        await asyncio.sleep(0.01)
        return [each[0] for each in answers], batcher._requests

    assert asyncio.run(several()) == (["first-0", "later-0"], 0)
    assert echo.batches == [["first-0"], ["later-0"], ["again-0"]]


def test_several_batches_are_under_way_and_nothing_beyond_the_limit_waits():
    met = []

    async def meets(calls):
        met.append(calls)
        async with asyncio.timeout(10):
            while len(met) < 2:
                await asyncio.sleep(0)
        return await Echo()(calls)

    async def both():
        batcher = MicroBatcher(meets, most=1, at_once=2, enough=1)
        return await asyncio.gather(batcher.answer(call("a")), batcher.answer(call("b")))

    assert asyncio.run(both()) == [["a-0"], ["b-0"]]

    async def crowd():
        batcher = MicroBatcher(Echo(0.2), most=1000, at_once=1)
        first = [asyncio.ensure_future(batcher.answer(call(f"n{i}", 1000))) for i in range(MAX_WAITING // 1000 + 1)]
        await asyncio.sleep(0.05)
        first += [asyncio.ensure_future(batcher.answer(call("more", 1000)))]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too many"):
            await batcher.answer(call("late"))
        for each in first:
            each.cancel()

    asyncio.run(crowd())


class Slow:
    """Answers with the size of the micro-batch, each when it is told to."""

    def __init__(self):
        self.sizes = []
        self.go_on = asyncio.Semaphore(0)

    async def __call__(self, calls):
        self.sizes.append(len(calls))
        await self.go_on.acquire()
        return [len(calls)] * len(calls)


async def turns(number=10):
    for _ in range(number):
        await asyncio.sleep(0)


def test_calls_that_arrive_one_by_one_wait_for_each_other_and_the_first_for_nobody():
    async def arriving():
        slow = Slow()
        batcher = MicroBatcher(slow, most=1000, at_once=3, enough=16)
        calls = []
        for number in range(15):
            calls.append(asyncio.ensure_future(batcher.answer(call(f"n{number}"))))
            await turns()
        assert slow.sizes == [1]
        slow.go_on.release()
        await turns()
        assert slow.sizes == [1, 14]
        slow.go_on.release()
        return await asyncio.gather(*calls)

    assert asyncio.run(arriving()) == [1, *[14] * 14]


def test_another_batch_begins_beside_one_when_enough_requests_wait():
    async def arriving():
        slow = Slow()
        batcher = MicroBatcher(slow, most=1000, at_once=3, enough=16)
        calls = []
        for number, size in enumerate((1, 10, 5, 1, 100, 100, 1)):
            calls.append(asyncio.ensure_future(batcher.answer(call(f"n{number}", size))))
            await turns()
        # The first; 10 + 5 + 1 are enough; so are 100; three are all there may be.
        assert slow.sizes == [1, 3, 1]
        for _ in range(4):
            slow.go_on.release()
            await turns()
        return await asyncio.gather(*calls), slow.sizes

    answers, sizes = asyncio.run(arriving())
    assert sizes == [1, 3, 1, 2]
    assert answers == [1, 3, 3, 3, 1, 2, 2]
