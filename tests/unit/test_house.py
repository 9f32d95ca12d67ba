"""The rules of the packages: who imports whom, and which libraries stay in one place."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import videoload
from videoload.trainer.client import Client
from videoload.trainer.serial import decode_serially

HOUSE = Path(videoload.__file__).parent
TESTS = Path(__file__).parents[1]
SLOW = r"pytest\.mark\.slow|pytest\.mark\.usefixtures\('tf'\)"

# pyproject.toml says for import-linter which package may import which.
DOORS = ("__init__", "__main__", "jax", "keras", "ray", "torch")  # they lead to all rooms

# Each module has its tests in tests/unit, in the same place with the same name. These modules are
# tested with real files and real processes instead.
TRIED_ELSEWHERE = {
    "clips.edges": "unit/clips/test_windows.py",
    "clips.facts": "integration/test_views.py",
    "commands.cli": "integration/test_cli.py",
    "commands.cli_workers": "integration/test_cli.py",
    "commands.cli_batches": "integration/test_preview.py",
    "scanning.scan": "integration/test_scan.py",
    "index.avi_index": "integration/test_packets.py",
    "reading.avi_video": "integration/test_packets.py",
    "reading.image_video": "integration/test_image_sequences.py",
    "index.complete_decode": "integration/test_every_codec.py",
    "storage.content": "integration/test_packets.py",
    "storage.remote_file": "unit/storage/test_remote.py",
    "storage.stores": "unit/storage/test_roots.py",
    "pixels.chains": "unit/pixels/test_clip_pixels.py",
    "pixels.planes": "unit/pixels/test_clip_pixels.py",
    "decoding.decoder": "integration/test_decode.py",
    "frame_store.clip_frames": "integration/test_frame_store.py",
    "frame_store.stored_video": "unit/frame_store/test_store.py",
    "decoding.expected": "unit/storage/test_remote.py",
    "decoding.video_clips": "integration/test_decode.py",
    "index.indexes": "integration/test_decode.py",
    "reading.frames": "integration/test_decode.py",
    "reading.video": "integration/test_decode.py",
    "decoding.prepared": "integration/test_decode.py",
    "decoding.pieces": "integration/test_pieces.py",
    "decoding.samples": "integration/test_side_by_side.py",
    "decoding.transforms": "integration/test_decode.py",
    "decoding.sounds": "integration/test_sound.py",
    "sound.reader": "integration/test_sound.py",
    "sound.track": "integration/test_sound.py",
    "decoding.native_size": "faults/test_native_size.py",
    "index.index": "integration/test_every_codec.py",
    "reading.containers": "integration/test_decode.py",
    "reading.frame_decoder": "integration/test_every_codec.py",
    "index.packets": "integration/test_packets.py",
    "recordings.tools": "unit/recordings/test_recording.py",
    "predictions.predict": "integration/test_predict.py",
    "commands.cli_extract": "integration/test_predict.py",
    "commands.help_page": "integration/test_cli.py",
    "commands.cli_prepare": "unit/preparing/test_prepare.py",
    "errors": "unit/test_docstrings.py",
    "catalog.table": "unit/catalog/test_catalog.py",
    "listings.columns": "unit/listings/test_lists.py",
    "listings.rows": "unit/listings/test_tables.py",
    "listings.there": "unit/listings/test_tables.py",
    "trainer.client_metrics": "integration/test_metrics.py",
    "trainer.last_batch": "integration/test_pages.py",
    **{
        f"comparison.{name}": "integration/test_benchmarks.py"
        for name in (
            "bare",
            "check",
            "compare",
            "loaders",
            "measure",
            "ours",
            "readers",
            "run",
            "keras_data",
            "spdl_data",
            "tf_data",
            "torch_data",
            "work",
        )
    },
    "trainer.client": "integration/test_client.py",
    "trainer.planning": "integration/test_sampling.py",
    "clips.choices": "unit/clips/test_clip_spec.py",
    "clips.layouts": "unit/clips/test_item_spec.py",
    "trainer.client_code": "integration/test_edited_code.py",
    "trainer.directory_dataset": "integration/test_directory_dataset.py",
    "leases.commands": "unit/leases/test_table.py",
    "leases.records": "unit/leases/test_table.py",
    "engine.readers": "integration/test_stream.py",
    "frameworks.label_modes": "integration/test_directory_dataset.py",
    "frameworks.keras_layers": "integration/test_sequence.py",
    "frameworks.sequence": "integration/test_sequence.py",
    "engine.local_workers": "faults/test_kill.py",
    "engine.membership": "faults/test_kill.py",
    "engine.file_checker": "faults/test_copies.py",
    "engine.listener": "unit/engine/test_engine.py",
    "trainer.ray_workers": "integration/test_ray.py",
    "trainer.receipts": "integration/test_replay.py",
    "stats.snapshots": "integration/test_top.py",
    "stats.stats": "unit/stats/test_meter.py",
    "trainer.serial": "integration/test_sampling.py",
    "trainer.stream": "integration/test_stream.py",
    "frameworks.tfdata": "integration/test_tfdata.py",
    "transport.context": "faults/test_surroundings.py",
    "transport.connections": "faults/test_endless.py",
    "transport.watching": "integration/test_top.py",
    "processes.native_size": "faults/test_native_size.py",
    "processes.supervisor": "faults/test_kill.py",
    "worker.decoders": "integration/test_stream.py",
    "worker.trainer_connection": "unit/worker/test_trainers.py",
}

# Quick tests (`pytest -m "not slow"`) also start real processes, in all these ways.
QUICK = {
    "worker processes": "integration/test_stream.py::test_every_stream_equals_the_serial_one",
    "memory": "integration/test_memory.py::"
    "test_a_stream_that_is_dropped_frees_its_memory_here_and_in_the_workers",
    "a fault": "faults/test_kill.py::test_a_local_worker_that_dies_in_mid_epoch_changes_nothing",
    "a stranger": "faults/test_garbage.py::test_messages_outside_of_the_protocol_disturb_nothing",
    "the command line": "integration/test_cli.py::"
    "test_a_worker_ends_within_two_seconds_of_the_signal",
    "a deployment": "integration/test_services.py::"
    "test_a_worker_is_healthy_while_it_waits_for_a_trainer_and_not_after_its_end",
}

# The modules that may import a heavy library, anywhere in the module.
HOMES = {
    "msgspec": {
        "clips.video_info",
        "clips.windows",
        "comparison.compare",
        "comparison.report",
        "comparison.run",
        "comparison.work",
        "index.index",
        "pages.page",
        "stats.snapshots",
        "transport.messages",
        "transport.private_messages",
    },
    "ray": {"trainer.ray_workers"},
    "ctypes": {"comparison.loaders", "native"},
    "threadpoolctl": {"user_code.functions"},
    "obstore": {"storage.roots", "storage.fetching", "storage.stores"},
    "av": {
        "index.complete_decode",
        "reading.containers",
        "reading.avi_video",
        "reading.frame_decoder",
        "reading.image_video",
        "index.packets",
        "pages.page",
        "reading.frames",
        "reading.video",
        "sound.reader",
        "sound.resampling",
        "sound.track",
        "pixels.chains",
        "pixels.clip_pixels",
        "pixels.planes",
        "pixels.scaled_frames",
        "pixels.software",
        "reading.display",
        "decoding.video_clips",
        "frame_store.clip_frames",
        "preparing.encoding",  # writes videos
        "native",
        "commands.made_videos",  # writes videos
        "comparison.bare",
        "comparison.check",
        "comparison.files",
    },
    # the loops own a context and a poller
    "zmq": {
        "comparison.report",  # tells its version
        "transport.sockets",
        "transport.connections",
        "transport.context",
        "transport.keys",
        "transport.watching",
        "engine.engine",
        "engine.listener",
        "worker.trainer_connection",
        "worker.trainers",
        "worker.worker",
    },
    "tensorflow": {
        "comparison.tf_data",
        "frameworks.label_modes",
        "frameworks.python_datasets",
        "frameworks.tfdata",
        "commands.demo",
    },
    "keras": {
        "comparison.keras_data",
        "commands.demo",
        "trainer.position",
        "frameworks.keras_layers",
        "frameworks.sequence",
    },
    "typer": {
        "commands.cli",
        "commands.cli_batches",
        "commands.cli_extract",
        "commands.help_page",
        "commands.cli_prepare",
        "commands.cli_workers",
        "commands.verbosity",
    },
    "prometheus_client": {"transport.metrics_port"},
    "rich": {
        "predictions.predict",
        "comparison.compare",
        "comparison.report",
        "commands.cli",
        "commands.verbosity",
        "commands.demo",
        "commands.store",
        "scanning.tables",
        "commands.top",
    },
}
WITHOUT_NUMPY = {
    "errors", "recordings.tools", "journal",
    "commands.cli_extract", "arguments", "clips.call_text", "processes.supervisor",
    "processes.metrics",
    "transport.metrics_port", "engine.rate_limited_log", "engine.file_checker",
    "frameworks.interrupts", "engine.call_queue", "engine.local_workers", "engine.membership",
    "leases.paces", "leases.silence", "stats.waiting", "stats.work", "stats.verdict",
    "stats.full_store",
    "engine.auto_workers", "logs", "patched", "stopwatch", "scanning.scan", "scanning.tables",
    "scanning.journal", "commands.sources", "commands.store", "commands.top",
    "commands.cli",
    "commands.cli_batches",
    "commands.cli_workers", "commands.verbosity", "plan.permutation",
}  # fmt: skip

# These decide what is correct: they use no clock, no files, no sockets, no threads.
PURE = (
    "arguments", "clips.call_text", "clips.layouts", "clips.regions", "clips.choices",
    "clips.sounds", "sound.timeline", "clips.moments", "reading.clock",
    "clips.affine", "clips.edges", "clips.facts", "clips.pieces", "storage.paths",
    "clips.clip_spec", "clips.windows", "clips.clip_params", "clips.item_spec",
    "catalog.crop_boxes", "catalog.table", "catalog.target_columns", "catalog.targets",
    "catalog.splitting", "catalog.turns", "plan.identity", "plan.options",
    "plan.permutation", "plan.plan", "plan.quarantine", "plan.weighted", "plan.windows",
    "plan.padding",
    "transport.messages", "transport.private_messages", "transport.limits", "engine.admission",
    "leases.records", "leases.pool",
    "leases.batches", "leases.blame", "leases.table", "leases.paces", "leases.silence",
    "leases.affinity", "leases.splitting",
    "leases.files", "stats.waiting", "stats.work", "stats.verdict", "engine.auto_workers",
    "predictions.table", "predictions.windows",
    "stats.full_store",
    "stats.metrics", "stats.snapshots", "stats.stats", "processes.restarts", "processes.metrics",
    "bitstreams.pictures",
    "storage.blocks", "bitstreams.h264", "bitstreams.mpeg4",
    "bitstreams.nal_units", "bitstreams.hevc", "bitstreams.vp9", "bitstreams.av1",
    "bitstreams.proofs",
)  # fmt: skip
IMPURE = {
    "asyncio", "concurrent", "multiprocessing", "os", "pathlib", "select", "selectors", "signal",
    "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip


class Import(NamedTuple):
    """One imported module, dotted; ``top``: whenever the importing module is imported."""

    module: str
    top: bool


@cache
def modules() -> list[str]:
    """All modules, dotted, as seen from the front door; a package's `__init__` is its own name."""
    paths = [path.relative_to(HOUSE).with_suffix("").parts for path in HOUSE.rglob("*.py")]
    return sorted(".".join(p for p in parts if p != "__init__") or "__init__" for parts in paths)


PACKAGES = sorted(path.parent.name for path in HOUSE.glob("*/__init__.py"))


def path_of(module: str) -> Path:
    path = HOUSE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


@cache
def nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(tree(module)))


@cache
def imports(module: str) -> list[Import]:
    return list(_imports(tree(module), top=True))


def _imports(node: ast.AST, *, top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(name.name, top) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            module = child.module or ""
            if module.split(".")[0] == "videoload" and module.count(".") < 2:
                # from videoload import native, from videoload.commands import scan
                names = [f"{module}.{name.name}" for name in child.names]
                yield from (Import(name if _is_module(name) else module, top) for name in names)
            else:
                yield Import(module, top)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.expr):  # which holds no statement
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, top=top and not inside)


def _is_module(name: str) -> bool:
    return name.removeprefix("videoload.") in modules()


def rooms_of(module: str, *, top: bool = True) -> list[str]:
    """The modules of this house that a module imports: when it is imported, or at all."""
    return [
        found.module.removeprefix("videoload.")
        for found in imports(module)
        if found.module.startswith("videoload.") and (found.top or not top)
    ]


def package_of(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def test_packages_stand_in_layers_and_no_files_import_each_other_in_a_circle() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=HOUSE.parent, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_no_module_imports_the_front_door() -> None:
    assert [m for m in modules() if "__init__" in rooms_of(m, top=False)] == []


def test_packages_are_two_levels_deep_and_each_opens_with_a_docstring() -> None:
    for module in modules():
        assert module.count(".") <= 1, module
    for package in PACKAGES:
        assert len(tree(package).body) == 1, f"{package}/__init__.py is a docstring, nothing else"
        assert ast.get_docstring(tree(package))


def test_every_module_has_its_tests() -> None:
    for module in modules():
        if module in DOORS or module.endswith(".__main__") or module in PACKAGES:
            continue
        *package, name = module.split(".")
        here = TESTS.joinpath("unit", *package, f"test_{name}.py").is_file()
        assert here != (module in TRIED_ELSEWHERE), module
    for file in TRIED_ELSEWHERE.values():
        assert (TESTS / file).is_file(), file


def test_quick_tests_touch_every_room() -> None:
    for room in [*PACKAGES, "services"]:
        files = TESTS.joinpath("unit", room).glob("test_*.py")
        assert any(quick_tests(path) for path in files), room


def test_quick_tests_start_real_processes_in_every_way() -> None:
    for what, test in QUICK.items():
        file, name = test.split("::")
        assert name in quick_tests(TESTS / file), what


def quick_tests(path: Path) -> set[str]:
    """The tests of a module that are not slow, or not in all cases."""
    found = ast.parse(path.read_text())
    marks = [
        ast.unparse(node.value)
        for node in found.body
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["pytestmark"]
    ]
    if any(re.search(SLOW, mark) for mark in marks):
        return set()
    return {
        node.name
        for node in found.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not any(argument.arg == "tf" for argument in node.args.args)
        and not any(re.fullmatch(SLOW, ast.unparse(mark)) for mark in node.decorator_list)
    }


def test_slow_tests_are_seen() -> None:
    assert not quick_tests(TESTS / "integration/test_resume.py")
    assert not quick_tests(TESTS / "unit/trainer/test_position.py")
    assert "test_no_fault_on_the_wire_changes_the_stream" not in quick_tests(
        TESTS / "faults/test_proxy.py"
    )


def test_the_imports_are_seen() -> None:
    assert {"leases.table", "errors", "processes.supervisor"} < set(rooms_of("engine.engine"))
    assert Import("tensorflow", top=False) in imports("frameworks.tfdata")
    assert Import("tensorflow", top=True) not in imports("frameworks.tfdata")  # TYPE_CHECKING only
    assert "commands.demo" in rooms_of("commands.cli", top=False)


def test_the_package_itself_imports_no_room_before_it_is_asked() -> None:
    assert rooms_of("__init__") == []


def test_what_is_heavy_is_imported_in_its_own_home_only() -> None:
    for package, homes in HOMES.items():
        assert importers(package) <= homes, package


def importers(package: str) -> set[str]:
    return {m for m in modules() if package in {i.module.split(".")[0] for i in imports(m)}}


def test_numpy_is_not_imported_where_there_are_no_arrays() -> None:
    assert not importers("numpy") & WITHOUT_NUMPY


def test_each_home_is_lived_in() -> None:
    at_type_checking = {"worker.trainer_connection", "worker.trainers"}
    for package, homes in HOMES.items():
        assert homes - {"commands.demo"} - at_type_checking <= importers(package), package


@pytest.mark.parametrize(
    ("package", "homes"),
    [
        ("tensorflow", []),
        # base classes; the modules are loaded on first use
        (
            "keras",
            [
                "comparison.keras_data",
                "frameworks.keras_layers",
                "frameworks.sequence",
                "trainer.position",
            ],
        ),
    ],
)
def test_what_takes_seconds_is_imported_where_it_is_used(package: str, homes: list[str]) -> None:
    at_top = [
        module
        for module in modules()
        if any(found.top and found.module.split(".")[0] == package for found in imports(module))
    ]
    assert at_top == homes


@pytest.mark.parametrize("module", ["frameworks.keras_layers", "trainer.position"])
def test_what_imports_keras_is_imported_by_its_door_alone(module: str) -> None:
    assert [other for other in modules() if module in rooms_of(other, top=False)] == ["keras"]
    assert [other for other in modules() if "keras" in rooms_of(other, top=False)] == []


def test_the_pure_modules_know_no_clock_and_no_machine() -> None:
    for module in PURE:
        impure = {found.module.split(".")[0] for found in imports(module)} & IMPURE
        assert impure == set(), module


def test_nothing_reads_the_environment() -> None:
    reading = {
        module
        for module in modules()
        if used(module) & {"environ", "environb", "getenv", "getenvb", "putenv", "expandvars"}
    }
    # It is passed on to children; quiets TensorFlow; says where the user's cache is, and how many
    # ranks a launcher started (for a warning only).
    assert reading == {
        "processes.child",
        "comparison.compare",
        "commands.demo",
        "index.cache_folder",
        "trainer.ranks",
    }
    for module in reading:
        assert not used(module) & {"getenv", "getenvb", "putenv", "expandvars"}, module


def used(module: str) -> set[str]:
    """All names and attributes in a module."""
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in nodes(module)
        if isinstance(node, ast.Attribute | ast.Name)
    }


def test_nothing_is_unpickled_or_evaluated() -> None:
    banned = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
    for module in modules():
        assert {found.module.split(".")[0] for found in imports(module)} & banned == set(), module
        called = {
            node.func.id
            for node in nodes(module)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called & {"eval", "exec", "compile", "__import__"} == set(), module


def test_a_worker_process_loads_nothing_that_only_a_trainer_needs() -> None:
    script = (
        "import json, sys\n"
        "import videoload\n"
        "package = sorted(sys.modules)\n"
        "import videoload.worker.worker\n"
        "print(json.dumps([package, sorted(sys.modules)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=HOUSE.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    package, worker = json.loads(done.stdout)
    heavy = {"tensorflow", "keras", "typer", "rich", "prometheus_client", "multiprocessing"}
    assert not (heavy | {"threadpoolctl"}) & set(worker)
    assert {"videoload.decoding.decoder", "zmq", "av", "msgspec", "numpy"} <= set(worker)
    rooms = {name.removeprefix("videoload.") for name in worker if name.startswith("videoload.")}
    assert not {"trainer", "commands"} & set(map(package_of, rooms))
    assert not {"plan.plan", "processes.supervisor"} & rooms
    assert [name for name in package if name.startswith("videoload")] == ["videoload"]
    assert not {"numpy", "zmq", "av", "msgspec"} & set(package)


def test_a_client_loads_nothing_that_only_a_decoder_needs() -> None:
    script = "import sys, videoload\nvideoload.Client\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=HOUSE.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert not {"av", "tensorflow", "keras", "typer", "rich"} & set(done.stdout.split())


# The public face


def test_every_public_name_is_to_be_had_and_nothing_else() -> None:
    for name in videoload._HOME_OF:
        assert name in dir(videoload)
        assert getattr(videoload, name) is not None
    assert videoload.Client is Client
    with pytest.raises(AttributeError, match="module 'videoload' has no attribute 'Cleint'"):
        _ = videoload.Cleint


def test_type_checkers_see_the_same_names() -> None:
    [block] = [node for node in tree("__init__").body if isinstance(node, ast.If)]
    seen = {
        (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    homes = {(f"videoload.{home}", name) for name, home in videoload._HOME_OF.items()}
    assert seen == homes | {("videoload", door) for door in videoload._DOORS}


def test_the_reference_is_read_as_a_stream_is() -> None:
    batches = inspect.signature(videoload.Stream.batches).parameters
    serial = inspect.signature(decode_serially).parameters
    for name in batches.keys() - {"self"}:
        assert serial[name].default == batches[name].default


def test_all_names_can_be_imported_without_a_framework_and_hide_no_name_of_python() -> None:
    script = "import sys\nfrom videoload import *\nprint(*sys.modules, *globals())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=HOUSE.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = {*done.stdout.split()}
    assert "decode_serially" in found
    assert not {"tensorflow", "keras", "torch", "ray"} & found
    assert not {*vars(builtins)} & {*videoload.__all__}
