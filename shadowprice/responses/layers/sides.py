"""Files of a bundle with one part for each side, such as heads, encoders and towers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.responses.state import KEY, State, load_state, save_state

Part = TypeVar("Part")
Arrays = Mapping[str, NDArray[Any]]


def save_sides(parts: Mapping[Side, tuple[Arrays, Any]], path: Path, *, key: str = KEY) -> None:
    """Write arrays and JSON of the part of every side to one file; the file goes where there are no parts."""
    if not parts:
        path.unlink(missing_ok=True)
        return
    arrays = {f"{side}.{name}": value for side, (own, _) in parts.items() for name, value in own.items()}
    save_state(State(arrays, {side: meta for side, (_, meta) in parts.items()}), path, key=key)


def load_sides(path: Path, make: Callable[[Arrays, Any], Part], *, kind: str, key: str = KEY) -> dict[Side, Part]:
    """Read what :func:`save_sides` wrote.

    Args:
        path: the file.
        make: a part from its arrays and its JSON; whatever it raises means that the file is not one of the kind.
        kind: what the file holds, for messages.
        key: of the JSON in the file's header.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is not such a file.
    """
    state = load_state(path, key=key, kind=kind)
    parts: dict[Side, Part] = {}
    try:
        for side, meta in cast(Mapping[Side, Any], state.meta).items():
            start = f"{side}."
            own = {name.removeprefix(start): value for name, value in state.arrays.items() if name.startswith(start)}
            parts[side] = make(own, meta)
    except Exception as error:
        raise InvalidInput(f"not a file of {kind}: {error}", field=str(path)) from error
    return parts
