"""A client in the wrong process: in a fork of its own process, and in a worker."""

from __future__ import annotations

import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND

pytestmark = pytest.mark.timeout(60 * SECOND)


@pytest.mark.slow
def test_a_stream_in_a_fork_says_so_and_the_parent_continues(
    videos: Videos, programs: Programs
) -> None:
    script = programs.script(
        """
        import os, sys
        from videoload import Catalog, Client, ClipSpec, ClosedError

        with Client(workers=1) as client:
            catalog = Catalog.from_folder(sys.argv[1])
            stream = client.stream(catalog, ClipSpec(frames=2, resize=32, size=(32, 32)), 2)
            batches = iter(stream)
            next(batches)
            child = os.fork()
            if not child:
                try:
                    list(batches)
                except ClosedError as error:
                    print("child:", error, flush=True)
                client.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print("parent:", 1 + len(list(batches)), len(stream), flush=True)
        """,
        str(videos.root),
    )
    assert script.wait(30 * SECOND) == 0, script.err
    assert "child: " in script.out
    assert "parent: 4 4" in script.out


def test_an_unguarded_script_with_a_transform_does_not_run_itself_again(
    videos: Videos, programs: Programs
) -> None:
    script = programs.script(
        """
        import sys
        from pathlib import Path
        from videoload import Catalog, Client, ClipSpec, TransformError

        def invert(clip, rng):
            return 255 - clip

        print("runs", flush=True)
        sys.path.insert(0, str(Path(__file__).parent))
        with Client(workers=1) as client:
            catalog = Catalog.from_folder(sys.argv[1] if len(sys.argv) > 1 else ".")
            spec = ClipSpec(2, resize=32, size=(32, 32), transform=f"{Path(__file__).stem}:invert")
            try:
                next(iter(client.stream(catalog, spec, 2)))
            except TransformError as error:
                print("told:", error, flush=True)
        """,
        str(videos.root),
    )
    assert script.wait(30 * SECOND) == 0, script.err
    assert "told: transform script0:invert cannot be imported" in script.out
    assert "if __name__ == '__main__'" in script.out
    assert script.out.count("runs\n") == 2, "once by the user, once by the worker"
