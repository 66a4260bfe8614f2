"""Which edges can be fused, and the finished layers.

An edge is fusible where the model says exactly what a fused consumer reads. The last word has the workload itself: an
edge whose shapes it does not accept is not fusible. Reasons against an edge, in the order they are found:

- its tensor is scattered, moved or complete too late (found while lowering),
- the producer stores another tensor: one pools what another reads whole, one flattens what another reads as an image,
- the producer's tensor is a network output too, and a fused tensor is not written,
- groups or channels are in another order, and a shared loop over G or X would mix them up,
- the two run different numbers of times, or their shapes do not agree.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from fadiff.workload.graph import Workload
from fadiff.workload.importers.lowering.drafts import Draft, Net, Operand
from fadiff.workload.importers.lowering.values import Resizes
from fadiff.workload.importers.operators import printable
from fadiff.workload.layer import Input, Layer, VectorOp, WorkloadError

Place = tuple[int, int]
"""An operand: the number of its layer, and its place there."""
SHOWN_LOST = 3
VIEWS: tuple[VectorOp, ...] = ("reshape", "transpose", "flatten")


class Edges:
    """All operands of a network, with the reasons that keep them from being fused."""

    def __init__(self, net: Net) -> None:
        self.net = net
        untold: list[str] = []
        for draft in net.drafts:
            draft.operands, lost = _bounded(draft)
            untold += self._lose(draft, [operand for operand in (*lost, *draft.waits) if operand.layer is not None])
        more = f" (and {len(untold) - 1} more such wait{'s' * (len(untold) > 2)})" if len(untold) > 1 else ""
        self.notes = [f"{told} as well, which the network does not say{more}" for told in untold[:1]]
        """Dependencies that the network cannot say: networks of equal blocks have the same one in each."""
        self.reasons: dict[Place, str | None] = {}
        self.readers: dict[int, list[Place]] = {layer: [] for layer in range(len(net.drafts))}
        for target, draft in enumerate(net.drafts):
            for i, operand in enumerate(draft.operands):
                self.reasons[target, i] = operand.reason
                if operand.layer is not None:
                    self.readers[operand.layer].append((target, i))
        self.stored = [self._stored(layer) for layer in range(len(net.drafts))]
        for layer in range(len(net.drafts)):
            self._judge_tensor(layer)
        for place in list(self.reasons):
            self._judge_edge(place)
        self._judge_shapes()

    def _lose(self, draft: Draft, lost: Sequence[Operand]) -> list[str]:
        """Dependencies without an operand: their tensors are written all the same, as outputs are. What is untold."""
        untold: list[str] = []
        for operand in lost:
            assert operand.layer is not None
            self.net.drafts[operand.layer].is_output.append(operand.resizes)
            others = [self.net.drafts[o.layer].needs for o in draft.operands if o.layer is not None]
            if not any(needs >> operand.layer & 1 for needs in others):
                untold.append(self.net.label(operand.layer))
        told = ", ".join(untold[:SHOWN_LOST])
        more = f" and {len(untold) - SHOWN_LOST} more" if len(untold) > SHOWN_LOST else ""
        return [f"{draft.name} waits for {told}{more}"] if untold else []

    def operand(self, place: Place) -> Operand:
        """The operand at a place."""
        return self.net.drafts[place[0]].operands[place[1]]

    def _stored(self, layer: int) -> Resizes:
        """The resizings that all readers of a layer want: these happen before its tensor is stored."""
        wanted = [self.operand(place).resizes for place in self.readers[layer]] + self.net.drafts[layer].is_output
        if not wanted:
            return ()
        levels = takewhile(lambda level: len(set(level)) == 1, zip(*wanted, strict=False))
        return tuple(level[0] for level in levels)

    def _judge_tensor(self, layer: int) -> None:
        """Reasons that lie in what a layer stores."""
        draft, stored = self.net.drafts[layer], self.stored[layer]
        readers = [place for place in self.readers[layer] if self.reasons[place] is None]
        for place in readers:
            resizes = self.operand(place).resizes
            if resizes != stored:
                operator = self.net.graph.operators[resizes[len(stored)]]
                self._refuse(
                    place, f"{operator.type} {operator.name} is for this reader alone: others read it as it was"
                )
            elif draft.is_output:
                self._refuse(
                    place, f"{draft.name} is an output of the network too, or the state of a loop, and must be written"
                )
        if draft.image(stored) == (1, 1):
            return
        flat = [place for place in readers if self.operand(place).view == "flatten"]
        if len(flat) < sum(self.reasons[place] is None for place in readers):
            for place in flat:
                self._refuse(
                    place, f"it is flattened for this reader alone: {draft.name} keeps rows and columns for others"
                )

    def _judge_edge(self, place: Place) -> None:
        """Reasons that lie in the two layers of an edge."""
        operand = self.operand(place)
        if operand.layer is None or self.reasons[place] is not None:
            return
        u, v = self.net.drafts[operand.layer], self.net.drafts[place[0]]
        if u.repeat != v.repeat:
            self._refuse(place, f"{u.name} runs {u.repeat} times and {v.name} {v.repeat}")
        elif not operand.exact and v.kind == u.kind == "mac" and u.dims.G == v.dims.G:
            may_share_x = operand.port == "input" and u.dims.K == v.dims.C and v.dims.R == v.dims.S == 1
            if u.dims.G > 1 or may_share_x:
                self._refuse(place, f"{v.name} reads the groups or channels of {u.name} in another order")

    def _refuse(self, place: Place, reason: str) -> None:
        if self.reasons[place] is None:
            self.reasons[place] = reason

    def _judge_shapes(self) -> None:
        """Let the workload judge each edge; all edges between two layers share one fate."""
        while True:
            before = sum(reason is None for reason in self.reasons.values())
            layers = self.layers()
            for target, draft in enumerate(self.net.drafts):
                self._judge_consumer(target, draft, layers)
            if before == sum(reason is None for reason in self.reasons.values()):
                return

    def _judge_consumer(self, target: int, draft: Draft, layers: Sequence[Layer]) -> None:
        fused = [i for i, o in enumerate(draft.operands) if o.layer is not None and self.reasons[target, i] is None]
        for i in fused:
            twins = [j for j, o in enumerate(draft.operands) if o.layer == draft.operands[i].layer]
            blocked = next((r for j in twins if (r := self.reasons[target, j]) is not None), None)
            if blocked is not None:
                self._refuse((target, i), blocked)
            elif (problem := _disagreement(layers, draft, target, (i,))) is not None:
                self._refuse((target, i), problem)
        left = tuple(i for i in fused if self.reasons[target, i] is None)
        if left and (problem := _disagreement(layers, draft, target, left)) is not None:
            for i in left:
                self._refuse((target, i), problem)

    def layers(self) -> list[Layer]:
        """The layers, with the edges that are fusible by now."""
        return [self._layer(number, draft) for number, draft in enumerate(self.net.drafts)]

    def _layer(self, number: int, draft: Draft) -> Layer:
        inputs: list[Input] = []
        for i, operand in enumerate(draft.operands):
            source = None if operand.layer is None else self.net.label(operand.layer)
            reason = self.reasons[number, i]
            told = None if reason is None else printable(reason)
            inputs.append(Input(source, operand.port, fusible=reason is None, reason=told))
        image = draft.image(self.stored[number])
        return Layer(
            name=draft.name,
            kind=draft.kind,
            dims=draft.dims,
            inputs=tuple(inputs),
            stride=draft.stride,
            dilation=draft.dilation,
            epilogue=self.epilogue(number),
            out=None if image == (draft.dims.P, draft.dims.Q) else image,
            repeat=draft.repeat,
            pad=draft.pad,
        )

    def epilogue(self, number: int) -> tuple[VectorOp, ...]:
        """Vector operators on what is stored, in the order they run, and the views that its readers take."""
        draft, stored = self.net.drafts[number], self.stored[number]
        steps: dict[int, VectorOp] = {step: draft.resizes[step][0] for step in stored}
        for step, vector in draft.vectors.items():
            if vector.name is not None and vector.resizes == stored[: len(vector.resizes)]:
                steps[step] = vector.name
        wanted = {self.operand(place).view for place in self.readers[number] if self.reasons[place] is None}
        once: list[VectorOp] = []
        for step in sorted(steps):
            if not once or once[-1] != steps[step]:
                once.append(steps[step])
        return (*once, *filter(wanted.__contains__, VIEWS))


def _bounded(draft: Draft) -> tuple[list[Operand], list[Operand]]:
    """Operands of a layer that fit on its input port, where each brings a channel at least, and those that do not.

    The latest stay: those that others wait for anyway are left away first.
    """
    inputs = [operand for operand in draft.operands if operand.port == "input"]
    most = max(1, draft.dims.G * draft.dims.C)
    if draft.kind != "mac" or len(inputs) <= most:
        return draft.operands, []
    latest = sorted(inputs, key=lambda operand: -1 if operand.layer is None else operand.layer, reverse=True)
    return [*latest[:most], *(operand for operand in draft.operands if operand.port != "input")], latest[most:]


def _disagreement(layers: Sequence[Layer], draft: Draft, target: int, fused: tuple[int, ...]) -> str | None:
    """What the workload has against some edges of a layer; all its other operands count as network inputs."""
    consumer = layers[target]
    inputs = tuple(o if i in fused else Input(None, o.port) for i, o in enumerate(consumer.inputs))
    sources = {draft.operands[i].layer for i in fused}
    producers = tuple(_on_its_own(layers[source]) for source in sorted(s for s in sources if s is not None))
    try:
        Workload("edge", (*producers, replace(consumer, inputs=inputs)))
    except WorkloadError as error:
        return str(error).removeprefix("shapes: ")
    return None


def _on_its_own(layer: Layer) -> Layer:
    return replace(layer, inputs=tuple(Input(None, operand.port) for operand in layer.inputs))
