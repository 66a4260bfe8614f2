"""Operations of vector operators: every operator has a number, and values are counted where it works."""

import pytest

from fadiff.workload import Dims, Input, Layer
from fadiff.workload.layer import VECTOR_OPS
from fadiff.workload.vector_ops import OPERATIONS_PER_VALUE, vector_operations


def test_every_vector_operator_has_its_number_of_operations():
    assert set(OPERATIONS_PER_VALUE) == set(VECTOR_OPS)


@pytest.mark.parametrize(
    ("epilogue", "out", "operations"),
    [
        ((), None, 0),
        (("bias", "relu"), None, 2 * 32),
        (("softmax",), None, 5 * 32),
        (("transpose", "flatten"), None, 0),
        (("relu", "max_pool"), (2, 2), 2 * 32),  # the pooling reads 32 values
        (("avg_pool", "relu"), (2, 2), 32 + 8),  # and leaves 8
        (("global_pool", "sigmoid"), (1, 1), 32 + 4 * 2),
        (("upsample", "relu"), (8, 8), 128 + 128),  # 128 values are written
    ],
)
def test_operators_work_on_the_values_that_reach_them(epilogue, out, operations):
    layer = Layer("a", "mac", Dims(K=2, C=3, P=4, Q=4), (Input(None),), epilogue=epilogue, out=out)
    assert vector_operations(layer) == operations


def test_an_add_layer_takes_an_addition_for_each_operand_but_the_first():
    operands = tuple(Input(None, "addend") for _ in range(3))
    assert vector_operations(Layer("s", "add", Dims(K=2, P=4), operands, epilogue=("relu",))) == (2 + 1) * 8
