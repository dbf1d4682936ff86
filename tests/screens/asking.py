"""Pages of a console in this process, and a ledger that does not answer."""

import asyncio
from typing import Any, NoReturn

import httpx

from shadowprice.errors import Unavailable


class Down:
    """A ledger that does not answer."""

    def totals(self) -> NoReturn:
        raise Unavailable("http://ledger does not answer")


async def answer(app: Any, path: str, **options: Any) -> httpx.Response:
    """Return what an app answers; options are those of httpx."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        return await client.get(path, **options)


def ask(app: Any, path: str, **options: Any) -> httpx.Response:
    """Return what an app answers, outside of an event loop."""
    return asyncio.run(answer(app, path, **options))
