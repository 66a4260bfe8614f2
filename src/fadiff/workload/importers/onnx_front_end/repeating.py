"""The translation of loops: a step as operators that repeat."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx

from fadiff.workload.importers.loops import FROM_THE_STEP_BEFORE, STATE, STEP_BY_STEP, note
from fadiff.workload.importers.onnx_front_end.iterations import Iteration
from fadiff.workload.importers.onnx_front_end.nodes import label, ordered
from fadiff.workload.importers.onnx_front_end.statics import Known, Statics
from fadiff.workload.importers.operators import (
    Carry,
    Convolution,
    Operator,
    Product,
    Recurrent,
    Reshape,
    Slice,
    Tensor,
)


class Repeater:
    """Adds loops to a graph under construction.

    `register` makes a tensor known to operators, `walk` translates nodes.
    """

    def __init__(
        self,
        statics: Statics,
        tensors: dict[str, Tensor],
        operators: list[Operator],
        register: Callable[[str], None],
        walk: Callable[[Sequence[onnx.NodeProto]], None],
    ) -> None:
        self._statics, self._tensors, self._operators = statics, tensors, operators
        self._register, self._walk = register, walk
        self.notes: dict[str, None] = {}
        """What there is to say about loops."""

    def repeat(self, loop: Iteration) -> bool:
        """Translate a loop as steps that repeat; False, and nothing is done, where only the run tells what a step is.

        Weights are the same in every step: with some, the first step stands apart, and the others read them again.
        """
        before = len(self._operators)
        for tensor in loop.body.initializer:
            self._statics.add_stored(f"{label(loop.node)}/{tensor.name}", tensor)
        left = [self._step(loop, "", [outer for outer, _ in loop.states])]
        count = loop.count
        if left[0] is None:
            del self._operators[before:]
            return False
        weighted = (o for o in self._operators[before:] if isinstance(o, Convolution | Product | Recurrent))
        if count > 1 and any(self._tensors[name].role == "parameter" for o in weighted for name in o.inputs if name):
            before, count = len(self._operators), count - 1
            left.append(self._step(loop, "rest/", left[0][: len(loop.states)]))
        for number in range(before, len(self._operators)):
            operator = self._operators[number]
            again = operator.again or len(left) > 1
            self._operators[number] = replace(operator, repeat=operator.repeat * count, again=again)
        self._leave(loop, [step for step in left if step is not None])
        self.notes[note(loop.count)] = None
        return True

    def _step(self, loop: Iteration, name: str, given: Sequence[str]) -> list[str] | None:
        """Translate one step from given states; the tensors it leaves, or None where their shapes are not the same."""
        statics = self._statics
        nodes, new = loop.step(name)
        if loop.number:
            zero, go = (np.asarray(word) for word in (np.int64(0), np.bool_(True)))
            statics.set(new[loop.number], Known((), onnx.TensorProto.INT64, fixed=True, words=zero))
            statics.set(new[loop.goes_on[0]], Known((), onnx.TensorProto.BOOL, fixed=True, words=go))
        for outer, (_, inner) in zip(given, loop.states, strict=True):
            known = statics[outer]
            statics.set(new[inner], Known(known.shape, known.elem_type))
            self._register(outer)
            is_made = self._tensors[outer].role == "activation"
            self._tensors[new[inner]] = Tensor(new[inner], known.shape or (), "activation" if is_made else "input")
            if is_made:
                self._carry(loop, (outer,), (new[inner],), FROM_THE_STEP_BEFORE)
        for outer, inner, axis in loop.sliced:
            self._cut(loop, outer, new[inner], axis)
        self._walk(ordered(nodes, set(new.values()) - {made for node in nodes for made in node.output}))
        left = [new.get(inner, inner) for inner in loop.left]
        if (
            loop.number
            and (word := statics.words(new.get(loop.goes_on[1], loop.goes_on[1]))) is not None
            and word.all()
        ):
            pass
        elif loop.number:
            return None
        if any(statics[made].shape is None for made in left):
            return None
        if any(statics[made].shape != statics[outer].shape for outer, made in zip(given, left, strict=False)):
            return None
        for made in left:
            self._register(made)
        return left

    def _cut(self, loop: Iteration, outer: str, inner: str, axis: int) -> None:
        """What the first step reads of a tensor."""
        known = self._statics[outer]
        shape = known.shape or ()
        part = (*shape[:axis], 1, *shape[axis + 1 :])
        self._statics.set(inner, replace(known, shape=(*shape[:axis], *shape[axis + 1 :]), words=None))
        self._register(outer)
        self._register(inner)
        if known.fixed:
            return
        self._tensors[f"{inner}/slice"] = Tensor(f"{inner}/slice", part)
        own, kind = label(loop.node), loop.node.op_type
        start, step = (0,) * len(shape), (1,) * len(shape)
        self._operators += [
            Slice(name=own, type=kind, inputs=(outer,), outputs=(f"{inner}/slice",), start=start, step=step),
            Reshape(name=own, type=kind, inputs=(f"{inner}/slice",), outputs=(inner,)),
        ]

    def _leave(self, loop: Iteration, steps: Sequence[Sequence[str]]) -> None:
        """What a loop leaves: the states of the last step, and tensors of all steps."""
        held = len(loop.states)
        for place, (outer, last) in enumerate(zip(loop.node.output, steps[-1], strict=False)):
            known = self._statics[last]
            shape = known.shape or ()
            if place < held:
                self._carry(loop, (last,), (), FROM_THE_STEP_BEFORE)
            else:
                axis = loop.axes[place - held] % (len(shape) + 1)
                shape = (*shape[:axis], loop.count, *shape[axis:])
            if outer:
                self._statics.set(outer, Known(shape, known.elem_type))
                self._register(outer)
                made = tuple(step[place] for step in (steps[-1:] if place < held else steps))
                self._carry(loop, made, (outer,), STEP_BY_STEP)

    def _carry(self, loop: Iteration, inputs: tuple[str, ...], outputs: tuple[str, ...], reason: str) -> None:
        name = f"{label(loop.node)}.state"
        self._operators.append(Carry(name=name, type=STATE, inputs=inputs, outputs=outputs, reason=reason))
