"""The shape of one MAC layer's own loops: what it needs on chip, and what it keeps between shared iterations."""

from fadiff.execute.buffers import Shared
from fadiff.execute.tiles import INPUT_DIMS, OUTPUT_DIMS, WEIGHT_DIMS, chunk_count, longest, window_extent
from fadiff.hardware import Hardware
from fadiff.schedule import Mapping
from fadiff.workload import DIMS, Dims, Layer

Span = tuple[int, int]
SUM_BYTES = 4


class Geometry:
    """Loops of a layer inside its group's shared ones.

    `shared` are the group's trips of each dim, `nesting` those of its shared dims that have several trips, outer to
    inner. `channels_from_l3` counts the words that come from L3 under one row and column of the largest input tile.
    """

    def __init__(
        self,
        layer: Layer,
        mapping: Mapping,
        hardware: Hardware,
        shared: Dims,
        nesting: str,
        *,
        channels_from_l3: int,
        weights_from_l3: bool,
    ) -> None:
        self.layer, self.mapping, self.shared = layer, mapping, shared
        self.block = Dims(*(size // trips for size, trips in zip(layer.dims, shared, strict=True)))
        self.private = Dims(*(loop // trips for loop, trips in zip(mapping.l3, shared, strict=True)))
        self.loops = "".join(dim for dim in mapping.order3 if self.private_trips(dim) > 1)
        innermost = (nesting + self.loops)[-1:]
        self.slides_rows, self.slides_cols = innermost in ("P", "R"), innermost in ("Q", "S")
        self._channels_from_l3 = channels_from_l3
        self._weights_from_l3 = weights_from_l3
        self._bytes_per_sum = SUM_BYTES * hardware.cols // (mapping.spatial.K * mapping.spatial.G)
        self._x2, self._x1 = mapping.extent(2), mapping.extent(1)

    def private_trips(self, dim: str) -> int:
        """Trips of a dim's private L3 loop."""
        return self.private[DIMS.index(dim)]

    def _loops_over(self, dims: str) -> bool:
        return any(dim in dims for dim in self.loops)

    @property
    def weight_bytes(self) -> int:
        """Bytes of L2 that weights from L3 take while the layer runs."""
        x = self._x2
        return x.G * x.K * x.C * x.R * x.S if self._weights_from_l3 else 0

    def input_bytes(self, rows: Span, cols: Span) -> int:
        """Bytes of L2 that inputs from L3 take while the layer runs over a block of rows and columns."""
        return self._channels_from_l3 * self._height(rows) * self._width(cols)

    def sums_bytes(self, rows: Span, cols: Span) -> int:
        """Bytes of L1 the layer takes while it runs over a block; the banks of idle columns cannot be used."""
        x, t2 = self._x1, self.mapping.l2
        tall, wide = self._tile_rows(rows), self._tile_cols(cols)
        tall = longest(tall, chunk_count(tall, x.P, t2.P))
        wide = longest(wide, chunk_count(wide, x.Q, t2.Q))
        return x.G * x.N * x.K * tall * wide * self._bytes_per_sum

    def keeps_weight(self, at: Shared, then: Shared | None) -> bool:
        """Whether the weight tile from L3 is still the one wanted in the layer's next shared iteration."""
        wanted = then is not None and (then.g, then.x) == (at.g, at.x)
        return wanted and self._weights_from_l3 and not self._loops_over(WEIGHT_DIMS)

    def keeps_input(self, at: Shared, then: Shared | None) -> bool:
        """Whether the input tile, or a part of it, is still wanted in the layer's next shared iteration."""
        if then is None or self._loops_over(INPUT_DIMS):
            return False
        walks_over_input = self.shared.C > 1
        return (then._replace(x=at.x) == at and not walks_over_input) or self.slides_between(at, then)

    def kept_input_bytes(
        self, at: Shared, then: Shared | None, now: tuple[Span, Span], later: tuple[Span, Span]
    ) -> int:
        """Bytes of the input tile that the next shared iteration does not load again, from L3.

        `now` and `later` are the rows and columns computed in the two iterations.
        """
        if then is None or not self.keeps_input(at, then):
            return 0
        (rows, cols), (later_rows, later_cols) = now, later
        height, width = self._height(rows), self._width(cols)
        if self.slides_between(at, then):
            if self.slides_rows:
                height = max(0, height - (later_rows[0] - rows[0]) * self.layer.stride[0])
            else:
                width = max(0, width - (later_cols[0] - cols[0]) * self.layer.stride[1])
        return self._channels_from_l3 * height * width

    def keeps_sums(self, at: Shared, then: Shared | None) -> bool:
        """Whether unfinished sums stay in L1 for the layer's next shared iteration, which adds to the same ones."""
        t2 = self.mapping.l2
        in_one_tile = t2.G * t2.N * t2.K * t2.P * t2.Q == 1 and not self._loops_over(OUTPUT_DIMS)
        return self.shared.C > 1 and in_one_tile and then is not None and then._replace(x=at.x) == at

    def slides_between(self, at: Shared, then: Shared) -> bool:
        """Whether the step between two shared iterations moves the window along the innermost L3 loop."""
        if self.loops:
            return False
        if self.slides_rows:
            return at._replace(p=at.p + 1) == then
        return self.slides_cols and at._replace(q=at.q + 1) == then

    def _tile_rows(self, rows: Span) -> int:
        """Output rows of the largest L2 tile of a block."""
        length = rows[1] - rows[0]
        return longest(length, chunk_count(length, self._x2.P, self.private.P))

    def _tile_cols(self, cols: Span) -> int:
        length = cols[1] - cols[0]
        return longest(length, chunk_count(length, self._x2.Q, self.private.Q))

    def _height(self, rows: Span) -> int:
        return window_extent(self._tile_rows(rows), self._x2.R, self.layer.stride[0], self.layer.dilation[0])

    def _width(self, cols: Span) -> int:
        return window_extent(self._tile_cols(cols), self._x2.S, self.layer.stride[1], self.layer.dilation[1])
