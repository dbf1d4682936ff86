"""Refusals of a request before it is handled, one class per HTTP status."""

from shadowprice.errors import InvalidRequest, ShadowpriceError, Unavailable


class Unauthorized(ShadowpriceError):
    """The bearer token is missing or wrong."""

    status = 401


class Forbidden(ShadowpriceError):
    """The caller's token has another role, or the request comes from a page in a browser."""

    status = 403


class TooSlow(ShadowpriceError):
    """The body did not arrive in time."""

    status = 408


class BodyTooLarge(InvalidRequest):
    """The body is longer than this service reads."""

    status = 413


class NotJson(InvalidRequest):
    """The content type is not one of JSON."""

    status = 415


class TooManyCalls(ShadowpriceError):
    """The caller has used up its rate; ``retry_after`` seconds later a call is taken."""

    status = 429

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(Unavailable):
    """Too many bytes of other requests are being read or handled."""

    retry_after = 1
