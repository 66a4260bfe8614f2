"""Names where there is little room: files may hold names of any length."""

from collections.abc import Sequence

ELLIPSIS = "…"
NAME_LENGTH, MOST_NAMES = 40, 4
"""Signs of a name, and names, that a sentence tells."""


def shorten(name: str, most: int) -> str:
    """A name in at most so many characters: its end tells more than its middle, its beginning says where it belongs.

    >>> shorten("l1.0.conv1", 16), shorten("/features/features.1/conv/Conv", 16)
    ('l1.0.conv1', '/feat…/conv/Conv')
    """
    if len(name) <= most:
        return name
    head = (most - 1) // 3
    return f"{name[:head]}{ELLIPSIS}{name[head + 1 - most :]}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them; of many, the first ones and how many more there are.

    >>> listed(["a", "b"]), listed([f"l{i}" for i in range(20)])
    ('a, b', 'l0, l1, l2 and 17 more')
    """
    shown = names if len(names) <= MOST_NAMES else names[: MOST_NAMES - 1]
    more = len(names) - len(shown)
    return ", ".join(shorten(name, NAME_LENGTH) for name in shown) + (f" and {more} more" if more else "")
