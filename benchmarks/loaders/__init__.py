"""The loaders of `python -m benchmarks`: those of `videoload bench`, and more."""

from __future__ import annotations

from videoload.comparison.loaders import BENCH, WITH_STORE, Loader

_OURS, _TORCH = "benchmarks.loaders.ours", "benchmarks.loaders.torch_data"
LOADERS = {
    loader.name: loader
    for loader in (
        *BENCH[:3],
        WITH_STORE,
        Loader("videoload watched", _OURS, ("tensorflow",), "watched"),
        Loader("videoload tcp", _OURS, ("tensorflow",), "tcp"),
        Loader("videoload tcp curve", _OURS, ("tensorflow",), "tcp curve"),
        Loader("videoload tcp yuv420p", _OURS, ("tensorflow",), "tcp yuv420p"),
        *BENCH[3:5],
        Loader("DataLoader decord", _TORCH, ("torch", "decord"), "decord"),
        BENCH[5],
        Loader("DataLoader pyav usual", _TORCH, ("torch",), "usual"),
        *BENCH[6:8],
        Loader("tf.data pyav", "videoload.comparison.tf_data", ("tensorflow",), "pyav"),
        BENCH[8],
        Loader(
            "Keras processes",
            "videoload.comparison.keras_data",
            ("keras", "tensorflow"),
            "processes",
        ),
        BENCH[9],
    )
}
