"""Which rows (or columns) of an input tile are loaded, where strides leave some of them out."""

from fadiff.execute.tiles import window_extent

Span = tuple[int, int]


class Loader:
    """Loads rows of input tiles; columns likewise.

    A tile of the mapping has `outputs` output rows and `kernel` kernel rows, and takes all rows from the first to the
    last it uses. A taller tile, where a layer leads, is as good as several of those: it is loaded in one run, or
    without the rows that strides leave out between them, whichever moves fewer words over the `slides` positions of a
    window that slides over the kernel.
    """

    def __init__(self, outputs: int, kernel: int, stride: int, dilation: int, slides: int) -> None:
        self._extent = window_extent(outputs, kernel, stride, dilation)
        self._step = outputs * stride
        self._slide = kernel * dilation
        self._slides = slides
        self._known: dict[int, list[Span]] = {}

    def runs(self, first: int, extent: int) -> list[Span]:
        """The rows of a tile that are loaded, as runs in order."""
        if extent <= self._extent:
            return [(first, first + extent)]
        if extent not in self._known:
            whole = [(0, extent)]
            pieces = [(start, min(start + self._extent, extent)) for start in range(0, extent, self._step)]
            disjoint = self._extent < self._step
            self._known[extent] = pieces if disjoint and self._rows(pieces) < self._rows(whole) else whole
        return [(first + start, first + end) for start, end in self._known[extent]]

    def _rows(self, runs: list[Span]) -> int:
        """Rows loaded while a window of these runs slides over the kernel."""
        total = sum(end - start for start, end in runs)
        for _ in range(self._slides - 1):
            moved = [(start + self._slide, end + self._slide) for start, end in runs]
            total += sum(end - start for start, end in split_runs(moved, runs)[1])
            runs = moved
        return total


def split_runs(wanted: list[Span], there: list[Span]) -> tuple[list[Span], list[Span]]:
    """(kept, left): what of the runs wanted is there, and what is not. Windows only move forward."""
    kept: list[Span] = []
    left: list[Span] = []
    for first, end in wanted:
        middle = min(end, max((old_end for old, old_end in there if old <= first < old_end), default=first))
        if first < middle:
            kept.append((first, middle))
        if middle < end:
            left.append((middle, end))
    return kept, left
