"""Delivery of events to a sink by HTTP, tried again where that can help."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from shadowprice.calls import Answer, call, read_line
from shadowprice.errors import InvalidRequest, Unavailable

TIMEOUT_SECONDS = 30.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second try, which double with each further one, and their most."""
LATER = (408, 425, 429)
"""Statuses below 500 after which the same call may be sent again."""
SHOWN = 200
"""Characters of a refusal that are shown."""


@dataclass(frozen=True)
class Sink:
    """Receiver of CloudEvents.

    url         http or https address that takes POST
    token_file  file with a bearer token, read before each call; empty: none
    ca_file     certificates of its authority; empty: the system's
    """

    url: str
    token_file: str = ""
    ca_file: str = ""

    def deliver(
        self, body: bytes, content_type: str, *, wait: Callable[[float], bool], on_trouble: Callable[[str], None]
    ) -> bool:
        """Send a body until the sink takes it; return False where the wait was interrupted.

        Args:
            body, content_type: of the call.
            wait: sleeps for some seconds and returns whether it was interrupted.
            on_trouble: is told why a try failed.

        Raises:
            InvalidRequest: the sink refuses the events, and would refuse them again.
            InvalidInput: the token's file cannot be read.
        """
        delay = FIRST_WAIT
        while True:
            asked = 0.0
            try:
                answer = self._post(body, content_type)
            except Unavailable as error:
                trouble = str(error)
            else:
                if 200 <= answer.status < 300:
                    return True
                text = answer.body[:SHOWN].decode(errors="replace").strip()
                trouble = f"{self.url}: HTTP {answer.status} {answer.reason}{': ' * bool(text)}{text}"
                if answer.status < 500 and answer.status not in LATER:
                    raise InvalidRequest(trouble)
                told = answer.headers.get("retry-after", "")
                asked = min(float(told), LONGEST_WAIT) if told.isdecimal() else 0.0
            on_trouble(trouble)
            # Streams that failed together do not try again together.
            if wait(max(asked, delay * random.uniform(0.5, 1.0))):
                return False
            delay = min(2 * delay, LONGEST_WAIT)

    def _post(self, body: bytes, content_type: str) -> Answer:
        token = read_line(self.token_file, "sink_token_file")
        return call(
            self.url,
            TIMEOUT_SECONDS,
            method="POST",
            body=body,
            content_type=f"{content_type}; charset=UTF-8",
            token=token,
            ca_file=self.ca_file,
        )
