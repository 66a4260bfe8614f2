"""What a vector operator is called in an epilogue, also where a framework writes it as several.

Frameworks decompose: GELU arrives as division, erf, addition and two products, a norm as means, differences, a power
and a root. All of these read one stored tensor, and together they are one vector operator.
"""

from collections.abc import Set as AbstractSet

from fadiff.workload.layer import VECTOR_OPS, VectorOp

SILENT = frozenset({"identity"})
"""Functions that change no word: casts, dropout at run time."""
AFFINE = frozenset({"mul", "div", "add", "sub"})

_NAMES: dict[str, VectorOp] = {
    "add": "bias",
    "sub": "bias",
    "relu6": "relu",
    "leaky_relu": "relu",
    "prelu": "relu",
    "elu": "relu",
    "selu": "relu",
    "celu": "relu",
    "thresholded_relu": "relu",
    "hard_sigmoid": "sigmoid",
    "hard_swish": "silu",
    "swish": "silu",
    "mish": "silu",
    "quick_gelu": "gelu",
    "erf": "gelu",
    "softsign": "tanh",
    "log_softmax": "softmax",
    "rms_norm": "layer_norm",
    "group_norm": "layer_norm",
    "instance_norm": "layer_norm",
    "lrn": "layer_norm",
}


def named(function: str) -> VectorOp:
    """The epilogue operator for a function; what has no name of its own is a scale, a function of single words.

    >>> named("leaky_relu"), named("tanh"), named("sqrt")
    ('relu', 'tanh', 'scale')
    """
    if function in VECTOR_OPS:
        return function  # pyright: ignore[reportReturnType]  (just compared with them)
    return _NAMES.get(function, "scale")


def continues(functions: AbstractSet[str], before: AbstractSet[str]) -> bool:
    """Whether functions with a reduction among them are one operator with the step before them.

    A norm subtracts the mean in one step and divides by the deviation in another. A softmax subtracts the largest word,
    takes the exponential, and divides by the sum.

    >>> continues({"reduce", "pow", "sqrt", "div"}, {"reduce", "mean", "sub"}), continues({"reduce", "div"}, {"exp"})
    (True, True)
    >>> continues({"mul", "sigmoid"}, {"reduce", "mean", "sub"})
    False
    """
    if "reduce" not in functions:
        return False
    if "exp" in functions:
        return "reduce" in before and before <= {"reduce", "max", "sub"}
    return before == {"exp"} or ("reduce" in before and "softmax" not in before and "exp" not in before)


def compound(functions: AbstractSet[str]) -> VectorOp | None:
    """The one operator that several functions of one tensor amount to; None where it only guards against no numbers.

    >>> compound({"reduce", "sub", "pow", "sqrt", "div"}), compound({"div", "erf", "add", "mul"})
    ('layer_norm', 'gelu')
    >>> compound({"reduce", "sub", "exp", "div"}), compound({"sigmoid", "mul"}), compound({"neg", "mul", "add"})
    ('softmax', 'silu', 'scale')
    """
    if functions <= {"is_nan", "is_inf", "where"}:
        return None
    if "reduce" in functions:
        return "layer_norm" if functions.isdisjoint({"exp", "softmax"}) else "softmax"
    if "erf" in functions or {"tanh", "pow"} <= functions:
        return "gelu"
    if (
        not functions.isdisjoint({"sigmoid", "hard_sigmoid", "softplus", "relu", "relu6", "clip"})
        and "mul" in functions
    ):
        return "silu"
    return "scale"


def kept_together(name: VectorOp | None) -> frozenset[str]:
    """Directions in which the rule *whole* keeps the words of an operator together: channels (k), groups (g)."""
    return frozenset("kg" if name == "layer_norm" else "k" if name == "softmax" else "")
