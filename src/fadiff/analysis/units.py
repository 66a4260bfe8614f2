"""Numbers with units, as sentences say them.

Amounts of data are told in bytes, B, KB, MB, GB and TB, each 1,024 of the one before. What has no width is told in
values (the sizes of a network), and accesses that are counted one by one in words of their memory.
"""

_UNITS = ("B", "KB", "MB", "GB", "TB")


def size_text(size_bytes: float) -> str:
    """Bytes in the unit that fits, three digits that matter; the page's `bytes` writes the same.

    >>> size_text(96), size_text(98304), size_text(1258291), size_text(602112), size_text(1023 * 1024)
    ('96 B', '96 KB', '1.2 MB', '588 KB', '1,023 KB')
    """
    scale, unit = size_unit(size_bytes)
    amount = size_bytes / scale
    return f"{amount:,.0f} {unit}" if amount >= 1000 else f"{amount:.3g} {unit}"


def capacity_text(size_bytes: int) -> str:
    """Bytes as they are, in the largest unit in which they have at most two decimals.

    >>> capacity_text(8704), capacity_text(65536), capacity_text(1000)
    ('8.5 KB', '64 KB', '1,000 B')
    """
    power = next(p for p in (4, 3, 2, 1, 0) if size_bytes >= 1024**p and 4 * size_bytes % 1024**p == 0)
    return f"{size_bytes / 1024**power:,g} {_UNITS[power]}" if power else f"{size_bytes:,} B"


def size_unit(size_bytes: float) -> tuple[int, str]:
    """The unit that fits an amount of bytes: how many there are of them in it, and its name.

    >>> size_unit(1258291)
    (1048576, 'MB')
    """
    power = next((p for p in range(4) if size_bytes < 0.9995 * 1024 ** (p + 1)), 4)
    return 1024**power, _UNITS[power]


def significant(value: float, digits: int = 3) -> str:
    """A number with so many digits that matter, and separators between thousands.

    >>> significant(1234567.8), significant(3.14159), significant(0.0012345), significant(0.9996), significant(0)
    ('1,234,568', '3.14', '0.00123', '1.00', '0')
    """
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 0.9996 is 1.00
    decimals = max(0, digits - 1 - exponent)
    return f"{value:,.{decimals}f}"


def count_text(count: float) -> str:
    """A count with a unit of thousands where it needs one, three digits that matter.

    >>> count_text(512), count_text(1_424_012), count_text(999_900), count_text(0.5)
    ('512', '1.42 M', '1 M', '0.5')
    """
    power = next((p for p in range(4) if count < 999.5 * 1000**p), 4)
    return f"{count / 1000**power:.3g} {('', 'K', 'M', 'G', 'T')[power]}".rstrip()


def plural(number: int, noun: str) -> str:
    """A number of things.

    >>> plural(1, "layer"), plural(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def change_text(change: float) -> str:
    """A relative change.

    >>> change_text(0.0663), change_text(-0.0033), change_text(0.0)
    ('+6.6%', '-0.33%', 'unchanged')
    """
    if abs(change) < 5e-7:
        return "unchanged"
    return f"{change:+.1%}" if abs(change) >= 0.01 else f"{100 * change:+.2g}%"
