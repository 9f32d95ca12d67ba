"""``tf.data`` datasets of Python functions. They cost less than TensorFlow's own, and a wait in a
function ends with its iterator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

# It takes a number of its dataset, and returns one or the arrays for it, nested.
Function = Callable[..., Any]


class PythonDatasets:
    """Creates datasets, which work as long as this object lives.

    A function returns arrays like ``into``, which is nested tf.TensorSpec. With StopIteration it
    ends its dataset.
    """

    def __init__(self) -> None:
        self._kept: list[Any] = []  # In debug mode, TensorFlow forgets its functions.

    def map(self, numbers: Any, function: Function, into: Any) -> Any:
        """Return ``numbers.map(function)``. If the function returns None, it is called again, by a
        loop in the graph that TensorFlow can break off. The first of its arrays has rows, at least
        one.

        The thread that requests the next element runs it. With a thread of TensorFlow's pool, it
        would wait three times as long.
        """
        import tensorflow as tf

        specs = tf.nest.flatten(into)
        mapped = tf.raw_ops.MapDataset(
            input_dataset=tf.data.experimental.to_variant(numbers),
            other_arguments=[],
            f=self._traced(self._looped(function, specs), [tf.TensorSpec((), tf.int64)]),
            output_types=[spec.dtype for spec in specs],
            output_shapes=[spec.shape for spec in specs],
            use_inter_op_parallelism=False,
            preserve_cardinality=False,
        )
        return tf.data.experimental.from_variant(mapped, into)

    def generator(
        self, given: Sequence[Any], begin: Function, function: Function, end: Function, into: Any
    ) -> Any:
        """Return a dataset of the results of ``function(number)``, called again and again.

        ``begin(*given)`` returns the number when an iteration begins. ``end(number)`` is called
        when the iteration has ended or its iterator is freed. An error of the function reaches the
        user in its own words; to an error of a map, TensorFlow adds the names of all datasets.
        """
        import tensorflow as tf

        specs, number = tf.nest.flatten(into), tf.TensorSpec((), tf.int64)

        def traced(function: Function, numbers: int, specs: list[Any]) -> Any:
            return self._traced(partial(_call, function, specs), [number] * numbers)

        made = tf.raw_ops.GeneratorDataset(
            init_func_other_args=given,
            next_func_other_args=[],
            finalize_func_other_args=[],
            init_func=traced(begin, len(given), [number]),
            next_func=traced(function, 1, specs),
            finalize_func=traced(end, 1, [number]),
            output_types=[spec.dtype for spec in specs],
            output_shapes=[spec.shape for spec in specs],
        )
        return tf.data.experimental.from_variant(made, into)

    def _looped(self, function: Function, specs: list[Any]) -> Function:
        """Return a function for the graph that calls ``function`` until it returns arrays."""
        import tensorflow as tf

        nothing = [np.empty([0] * spec.shape.rank, spec.dtype.as_numpy_dtype) for spec in specs]
        state = [tf.TensorSpec((), tf.int64), *(tf.TensorSpec(None, spec.dtype) for spec in specs)]

        def values_or_nothing(number: np.int64) -> Any:
            values = function(number)
            return nothing if values is None else values

        def called(number: Any, *before: Any) -> list[Any]:
            return [number, *_call(values_or_nothing, specs, number)]

        def is_missing(number: Any, first: Any, *others: Any) -> Any:
            return tf.equal(tf.size(first), 0)

        loop = self._traced(is_missing, state), self._traced(called, state)

        def element(number: Any) -> list[Any]:
            # As an operation, the loop runs in this thread.
            return list(tf.raw_ops.While(input=called(number), cond=loop[0], body=loop[1]))[1:]

        return element

    def _traced(self, function: Function, signature: list[Any]) -> Any:
        import tensorflow as tf

        self._kept.append(tf.function(function, input_signature=signature, autograph=False))
        return self._kept[-1].get_concrete_function()


def itself(number: np.int64) -> np.int64:
    """For a generator that needs no beginning or no end."""
    return number


def _call(function: Function, specs: list[Any], *numbers: Any) -> list[Any]:
    """Call the function from a graph. It returns values that NumPy converts to arrays like
    ``specs``. Their shapes are not checked: each operation costs as much as a line of Python."""
    import tensorflow as tf

    kinds = [spec.dtype.as_numpy_dtype for spec in specs]

    def arrays(*numbers: np.int64) -> list[npt.NDArray[Any]]:
        return list(map(np.asarray, tf.nest.flatten(function(*numbers)), kinds))

    return list(tf.numpy_function(arrays, numbers, [spec.dtype for spec in specs]))
