"""Which videos, which labels. All ranks and workers must mean the same clip by the same number."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from videoload.arguments import suggests
from videoload.catalog import data_sets, lerobot, side_by_side, splitting
from videoload.catalog import targets as targets_
from videoload.catalog.columns import (
    ClassNames,
    Listed,
    PathLike,
    as_path,
    checked_names,
    is_list,
)
from videoload.catalog.concatenation import concatenated
from videoload.catalog.fields import fields_in, requested, with_fields
from videoload.catalog.folders import (
    BY_FOLDER,
    read_folder,
    train_and_test,
)
from videoload.catalog.missing_files import root_of
from videoload.catalog.shards import read_shards
from videoload.catalog.table import HINTS, Column, Ints, MixPart, Seconds, Table
from videoload.catalog.table_rows import rows_of
from videoload.catalog.tables import (
    PartColumns,
    TargetColumns,
    classes_of_scan,
    labels_of,
    read_table,
)
from videoload.clips.rows import Video
from videoload.clips.sample_spec import By
from videoload.errors import CatalogError
from videoload.storage.paths import files_of

_log = logging.getLogger(__name__)


class Catalog:
    """An immutable sequence of `Video`: paths, labels and targets.

    Examples:
        >>> catalog = vl.Catalog(["a.avi", "b.avi"], ["sit", "wave"], root="ucf101")
        >>> len(catalog), catalog[1].path, catalog[1].label
        (2, 'b.avi', 1)

    ``catalog[i]`` and iteration give `Video`, in the order of the arguments. No file is opened.

    Args:
        paths: Paths of the videos, at least one, relative to the root; or all of them absolute,
            without a root. A list of paths is one recording in these pieces, in this order.
        labels: Index into ``classes`` of each video, or without ``classes`` its name or names, as
            in `from_table`: [N]. -1, and None, the default: no label.
        classes: Names of the classes. Default None: those of the labels.
        root: Folder that the paths are relative to, or a URL (``s3://``, ``gs://``, ``az://``,
            ``http://``, ``hf://datasets/ORG/NAME@REVISION``). None, the default: the working
            directory if all files lie in it, else the files are only on the workers' hosts.
        starts: First source frame of each segment, int [N]. Default None: 0, for one or for all.
        ends: Source frame after each segment's last, int [N]; -1, the default: the file's end.
        frames: True frame count of each file, int [N]; -1: not known. Default None.
        starts_s: When each segment starts, in seconds from its file's first frame, float [N],
            instead of ``starts``; its frames are those that a player begins to show from then on.
            NaN, and None, the default: not given, also in ``ends_s``.
        ends_s: When each segment ends, in seconds, instead of ``ends``. Default None.
        at: The frame that matters in each, int [N]; -1: none. Default None.
        at_s: The same in seconds, float [N]. Default None.
        box: What ``crop="box"`` shows: left, top, right, bottom in pixels, float [N, 4]; NaN: the
            whole frame. Default None.
        duplicates: The same segment may come several times. Default False.

    Raises:
        CatalogError: A path, label or segment is not valid, or a segment occurs twice.
    """

    __slots__ = ("_table",)

    @suggests
    def __init__(
        self,
        paths: Sequence[str | PurePath | Sequence[str | PurePath]],
        labels: Column | Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        root: PathLike | None = None,
        starts: Column | None = None,
        ends: Column | None = None,
        *,
        frames: Column | None = None,
        starts_s: Seconds | None = None,
        ends_s: Seconds | None = None,
        at: Column | None = None,
        at_s: Seconds | None = None,
        box: Any = None,
        duplicates: bool = False,
    ) -> None:
        for name, given in (("paths", paths), ("labels", [] if labels is None else labels)):
            if not is_list(given):
                raise CatalogError(f"{name} are a list, not {given!r:.80}")
        files = list(map(as_path, paths))
        root, files = root_of(files, root)
        known: tuple[str, ...] = ()
        found, hot = labels, None  # several labels of a video
        if classes is None and labels is not None:
            found, known, hot = labels_of(list(labels), None, "video {}".format)
        elif classes is not None and (len(classes) or labels is not None):
            known = checked_names(classes, "classes")
        columns = {
            "label": found, "start": starts, "end": ends, "frames": frames, "start_s": starts_s,
            "end_s": ends_s, "at": at, "at_s": at_s, "box": box,
        }  # fmt: skip
        self._table = Table(Listed(files, columns, known, root, hot), duplicates=duplicates)

    @classmethod
    def _of(cls, listed: Listed, *, duplicates: bool = False, by: By = "time") -> Catalog:
        table = Table(listed, duplicates=duplicates)
        if listed.parts is not None:
            table = side_by_side.laid(table, *listed.parts, by)
        return catalog_of(table)

    @classmethod
    @suggests
    def from_table(
        cls,
        table: Any,
        root: PathLike | None = None,
        classes: ClassNames | None = None,
        *,
        path: str = "path",
        label: str | None = "label",
        labels: str | None = "labels",
        targets: TargetColumns | None = "targets",
        start: str | None = "start",
        end: str | None = "end",
        start_s: str | None = "start_s",
        end_s: str | None = "end_s",
        frames: str | None = "frames",
        at: str | None = "at",
        at_s: str | None = "at_s",
        box: str | Sequence[str] | None = "box",
        width: str | None = "width",
        height: str | None = "height",
        parts: PartColumns | None = None,
        by: By = "time",
        where: Mapping[str, Any] | None = None,
        duplicates: bool = False,
    ) -> Catalog:
        """Return the rows of a table: a DataFrame of pandas or polars, a dict of columns, rows
        (dicts), or the path of a file: ``.parquet``, ``.jsonl`` (a row in each line), or CSV with a
        header, as ``videoload scan --output`` writes it.

        Examples:
            >>> catalog = vl.Catalog.from_table("train.csv", root="ntu")  # path,label,start,end
            >>> table = {"file": ["S001.avi"], "what": ["sit"], "from_s": [0.2], "to_s": [0.8]}
            >>> catalog = vl.Catalog.from_table(
            ...     table, root="ntu", path="file", label="what", start_s="from_s", end_s="to_s"
            ... )

        A keyword names a column. By default it is the column of the same name, if there is one;
        None: none. A start without an end is an error, unless ``end=None`` makes each segment end
        with its file, and so is an end without a start. The log names columns that are not used.

        Args:
            table: The table. Rows count by their place, not by an index of pandas. An empty cell,
                None or NaN is not given. A CSV file is UTF-8, separated by ``,``, ``;`` or tabs;
                ``.parquet`` needs polars, pyarrow or pandas.
            root: Folder that the paths are relative to, or a URL. Default: as in `Catalog`.
            classes: Path of a file (a name a line, or lines ``3 Archery``), or the names in
                their order. Default: those of the labels, sorted; of a scan's table, those in the
                file that it wrote beside it.
            path: The files: a column, or a pattern of columns, as ``"Videos/{FileName}.avi"`` or
                ``"{subject:03}/{take}.avi"``. A pattern that begins with ``**/`` finds files by
                their name below the root, with any suffix if it ends with ``.*``. A cell with a
                list is one recording in these pieces. Default ``path``.
            label: Classes: names, or whole numbers from 0; -1: no label. Several in a cell (a list,
                or ``cook;talk``) are multi-hot targets, float32 [N, classes]; the first is the
                ``label``. Without such a column, all labels are -1. Default ``label``.
            labels: The same, and always multi-hot. Default ``labels``.
            targets: Numbers to use instead of labels: ``"x"`` gives float32 [N], ``("x", "y")``
                [N, 2], and a dict of these named targets; where there are labels as well, they are
                the target ``label``. Or text, as captions: str in arrays of objects; tf.string, and
                lists for PyTorch. Lists of text in a column are `OneOf`. Default ``targets``.
            start: First source frame of a segment, from 0. Default ``start``.
            end: Source frame after its last. Default ``end``.
            start_s: When a segment starts, in seconds from its file's first frame, instead of
                ``start``. Default ``start_s``.
            end_s: When it ends. Default ``end_s``.
            frames: True frame count of the file. Default ``frames``.
            at: The frame that matters. Default ``at``.
            at_s: The same in seconds. Default ``at_s``.
            box: What ``crop="box"`` shows: left, top, right and bottom in pixels, in a column (a
                list, or text) or in four. Default ``box``.
            width: Of the frames as players show them, in pixels. With ``height``, it decides which
                of several sizes clips have (a list in ``ClipSpec.size``). Default ``width``, unless
                it has other things than whole numbers.
            height: The same. Default ``height``.
            parts: Columns or patterns instead of path, for several files as one sample: names, or
                a dict of names. The column ``depth_offset_s`` says in each row how much later the
                file of the part depth begins. Default None.
            by: As in `side_by_side`. Default ``"time"``.
            where: Which rows: ``{"Split": "TRAIN"}``, or a list of values. The classes are those of
                all rows. Default None: all.
            duplicates: The same segment may come several times. Default False.

        Returns:
            A catalog in the order of the rows.

        Raises:
            CatalogError: A column is missing, a row is not valid, or no file is there.
        """
        rows = rows_of(table)
        if classes is None and label is not None:
            classes = classes_of_scan(table, rows)
        found = read_table(
            rows, root, classes,
            {
                "path": path, "label": label, "labels": labels, "targets": targets, "start": start,
                "end": end, "start_s": start_s, "end_s": end_s, "frames": frames, "at": at,
                "at_s": at_s, "box": box, "width": width, "height": height, "parts": parts,
                "where": where,
            },
        )  # fmt: skip
        return cls._of(found, duplicates=duplicates, by=by)

    @classmethod
    @suggests
    def from_list(
        cls,
        list_file: PathLike,
        root: PathLike | None = None,
        classes: ClassNames | None = None,
    ) -> Catalog:
        """Return a split file of UCF-101 (Soomro et al. 2012): ``Archery/v_Archery_g01_c01.avi 3``.

        Examples:
            >>> train = vl.Catalog.from_list("trainlist01.txt", "ucf101", "classInd.txt")
            >>> train[0].path
            'Archery/v_Archery_g01_c01.avi'

        Args:
            list_file: trainlist01.txt or the like. The number is the class, from 1; without one, it
                is the first folder of the path.
            root: As in `from_table`. Default None.
            classes: As in `from_table`. Default: the sub-folders of ``root``.

        Returns:
            A catalog in the order of the lines.

        Raises:
            CatalogError: The file cannot be read, or a line has no such class.
        """
        return cls._of(data_sets.read_list(list_file, root, classes))

    @classmethod
    @suggests
    def from_lerobot(
        cls,
        root: PathLike,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        cameras: Sequence[str] | None = None,
        episodes: Iterable[int] | None = None,
        tolerance_s: float = 1e-4,
    ) -> Catalog:
        """Return a robot dataset in LeRobot's format 3.0. Needs the extra ``[lerobot]``.

        Examples:
            >>> ahead = {"action": [i / 50 for i in range(100)]}
            >>> catalog = vl.Catalog.from_lerobot("aloha", ahead)  # doctest: +SKIP
            >>> now = vl.ClipSpec(offsets=(-2, -1, 0), sampling="dense", hop=1, edges="hold")

        A row is an episode, and with ``sampling="dense", hop=1, edges="hold"`` a sample is a step.
        Each camera is a part, and the ``offsets`` of its spec are the steps that it shows around
        it. A single camera is a catalog of plain videos. As LeRobot does, each camera shows the
        frame nearest to ``from_timestamp + timestamp`` of a step, by the times of its file. An
        episode with a step that has none within ``tolerance_s`` is a bad video, and is named.

        Args:
            root: The folder of the dataset, or a URL.
            delta_timestamps: For features that are no camera, LeRobot's own word: the seconds from
                the step at which values are wanted, multiples of 1 / fps. Default None: all
                features have the values of the step.
            cameras: Names of cameras; the first one leads. Default None: all of them.
            episodes: Numbers of episodes, in the order that is wanted. Default None: all.
            tolerance_s: How far from the time of a step its frame may be, in seconds. Default 1e-4.

        Returns:
            A catalog whose targets have LeRobot's names: ``action``, ``observation.state`` and what
            else its tables have, ``NAME_is_pad`` beside those in ``delta_timestamps``, ``task``
            (text), ``index``, ``episode_index`` and ``frame_index``. ``targets["action"].values``
            contains them all, for statistics of the chosen episodes; `stats` contains those of the
            dataset. The log names features that cannot be used.

        Raises:
            CatalogError: The dataset has another version, images in its tables, or contradicting
                rows; or an argument does not fit it.
        """
        found = lerobot.read_episodes(root, delta_timestamps, cameras, episodes, tolerance_s)
        (leading, paths), *_ = found.files.items()
        catalog = cls(
            paths, root=root, starts_s=found.begins_s, ends_s=found.ends_s, duplicates=True
        )
        if len(found.files) > 1:
            others = {
                name: cls(paths, root=root, duplicates=True)
                for name, paths in found.files.items()
                if name != leading
            }
            parts: dict[str, Any] = {leading: catalog, **others}
            catalog = cls.side_by_side(**parts)
        bounds = found.begins, found.ends
        targets: dict[str, Any] = {
            name: targets_.Steps(values, *bounds, found.offsets.get(name))
            for name, values in found.steps.items()
        }
        catalog = catalog.with_targets({**targets, "episode_index": found.numbers})
        return catalog_of(catalog._table.replaced(steps=found.times, stats=found.stats))

    @classmethod
    @suggests
    def from_shards(
        cls,
        shards: str | Sequence[str],
        root: PathLike | None = None,
        *,
        video: str | None = None,
        label: str | None = None,
        targets: TargetColumns | None = None,
        parts: PartColumns | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Catalog:
        """Return the samples in tar or uncompressed zip archives, as WebDataset writes them. The
        videos are read in place.

        Examples:
            >>> catalog = vl.Catalog.from_shards(  # doctest: +SKIP
            ...     "ego/{000000..000099}.tar", label="cls", targets={"worker": "json:worker_id"}
            ... )

        A sample is a row. Its key is the path of its members up to the first dot of the base name,
        and the rest names a field: ``mp4``, ``cam1.mp4``, ``txt``, ``cls``. Members of one key are
        adjacent. The log reports how many samples have no video and are left out, and how many lack
        a requested field.

        Args:
            shards: Their names; ``{000000..000099}``, ``{a,b}``, ``*`` and ``?`` stand for several.
            root: Folder or URL that these names are relative to. Default None: the folder in them.
            video: The field that is the video. Default None: the one that is named like a video;
                several of them are parts.
            label: The field that has the label, or a key of JSON: ``"json:action"``. Default None.
            targets: As in `from_table`, of such fields; ``"__key__"`` is the key. Default None.
            parts: Fields that are several files as one sample, or a dict of names. Default None.
            where: As in `from_table`, of such fields. Default None: all.

        Returns:
            A catalog in the order of the shards and their members, with paths such as
            ``000000.tar/KEY.mp4``.

        Raises:
            CatalogError: A shard cannot be read, has no videos, or has compressed ones; or a column
                is missing.
        """
        return cls._of(read_shards(shards, root, video, label, targets, parts, where))

    @classmethod
    @suggests
    def from_folder(
        cls,
        folder: PathLike,
        *,
        root: PathLike | None = None,
        classes: ClassNames | None = None,
        label: str | None = BY_FOLDER,
        targets: TargetColumns | None = None,
        chain: str | None = None,
    ) -> Catalog:
        """Return the videos ``folder/<class>/**/*``, by class and then by path.

        Examples:
            >>> catalog = vl.Catalog.from_folder("ucf101")
            >>> catalog.classes
            ('Archery', 'Bowling', 'Diving')
            >>> by_name = vl.Catalog.from_folder("ucf101", label=r"v_([A-Za-z]+)_g")
            >>> texts = {"caption": "json:caption", "text": "txt"}
            >>> web = vl.Catalog.from_folder("web", label=None, targets=texts) # doctest: +SKIP

        Hidden names are skipped, and symlinks to a folder that is searched anyway. Others may lead
        anywhere below ``root``. The log warns of what cannot be used.

        Args:
            folder: Has a sub-folder for each class. It may be in a bucket (``s3://...``).
            root: Folder that paths are relative to, ``folder`` or a parent. Default: ``folder``.
            classes: As in `from_table`. Default: all visible sub-folders, sorted by name.
            label: Default: the sub-folders are the classes. A regular expression finds the class in
                each path, wherever the videos lie: ``r"A(\\d{3})"`` in NTU RGB+D. None: there are
                no labels.
            targets: As in `from_table`, of the files beside the videos: ``"txt"`` is the text of
                ``a.txt`` beside ``a.mp4``, and ``"json:caption"`` what the object in ``a.json`` has
                under this key. Default None.
            chain: A regular expression for files that are pieces of recordings, whose groups name
                the recording: ``r"(.*)/\\d+\\.avi"``. Its files, in natural order (2.avi before
                10.avi), are one video. Default None: each file is a video.

        Returns:
            A catalog of these videos.

        Raises:
            CatalogError: There are no videos, or a folder or a link (out of the root) is wrong.
        """
        found = read_folder(folder, root, classes, label, chain, fields_in(requested(targets)))
        if targets is not None:
            if chain is not None:
                raise CatalogError("targets= are of single files: omit chain=")
            found = with_fields(found, str(folder), targets)
        return cls._of(found)

    @classmethod
    def train_and_test(cls, folder: PathLike, seed: int = 0) -> tuple[Catalog, Catalog]:
        """Return the videos of a folder to train on, and those to test on.

        Args:
            folder: Has ``train/`` and ``test/`` (or ``val/`` and the like), or only class folders.
            seed: Decides the split if ``folder`` has only class folders. Default 0.

        Returns:
            ``train/`` and ``test/`` if both exist. Else four fifths of the videos of each class, or
            of the recordings if all are named like UCF-101's (``v_Tai_g01_c01``), and the rest.

        Raises:
            CatalogError: There are no videos, or only ``test/`` has a class.
        """
        parts = train_and_test(folder)
        if parts is None:
            catalog = cls.from_folder(folder)
            return catalog.split(0.8, seed, by=splitting.recordings(catalog))
        train = cls.from_folder(parts[0], root=folder)
        return train, cls.from_folder(parts[1], root=folder, classes=train.classes)

    @classmethod
    def concat(cls, catalogs: Iterable[Catalog]) -> Catalog:
        """Return several catalogs as one, one after the other.

        A stream has one root. So catalogs with several roots get the nearest folder above all of
        them as root, and paths from there (``ucf101/Archery/v_1.avi``); remote workers then
        need their copy of that folder as ``--root``. The classes are those of the first catalog,
        then the new classes of the others. Labels follow by name.

        Args:
            catalogs: At least one. Either all have targets of one kind and the same classes, or
                none has targets.

        Returns:
            A new catalog.

        Raises:
            CatalogError: Only some catalogs have a root, targets differ in kind or belong to
                different classes, or samples have other parts; or a catalog is a mixture.
        """
        parts = list(catalogs)
        if not parts or not all(isinstance(part, cls) for part in parts):
            raise CatalogError("concat takes catalogs, at least one")
        tables = {f"catalogs[{at}]": part._table for at, part in enumerate(parts)}
        return catalog_of(concatenated(tables))

    @classmethod
    def side_by_side(
        cls,
        *,
        match: str | None = None,
        by: By = "time",
        offset_s: Mapping[str, side_by_side.Offset] | None = None,
        **parts: Catalog,
    ) -> Catalog:
        """Return several files as one sample: RGB with depth and skeletons, or cameras in step.

        Examples:
            >>> top, side = vl.Catalog(["a.avi"]), vl.Catalog(["b.avi"])
            >>> catalog = vl.Catalog.side_by_side(top=top, side=side)
            >>> stream_takes = {"top": vl.ClipSpec(frames=16), "side": vl.ClipSpec(frames=8)}

        A stream takes a dict of specs. Labels, targets and segments are the first part's.

        Args:
            match: A regular expression for what partners have in common. Default: their place.
            by: Parts show the same ``"time"``, the default, or ``"frames"`` of one number.
            offset_s: Seconds by which files of a part begin later, for all or each. Default None.
            parts: The catalogs, by name. Roots become one, as in `join`.

        Returns:
            A catalog whose paths are those of all parts, one a line.

        Raises:
            CatalogError: A file has no partner, or a catalog cannot be a part.
        """
        for name, part in parts.items():
            if not isinstance(part, cls):
                raise CatalogError(
                    f"part {name!r} must be a Catalog, as Catalog.from_folder returns it, got "
                    f"{part!r}"
                )
            if part.parts or part._table.sample_parts:
                kind = "a mixture" if part.parts else "a catalog of several parts"
                raise CatalogError(f"{kind} cannot be a part: {name!r} is one")
            if part._table.steps is not None:
                raise CatalogError(
                    f"part {name!r} is of from_lerobot: choose its cameras there, with cameras="
                )
        tables = {name: part._table for name, part in parts.items()}
        return catalog_of(side_by_side.combined(tables, match, by, offset_s))

    @property
    def root(self) -> Path | str | None:
        """The folder that paths are relative to, resolved, or the URL; None: workers have it."""
        return self._table.root

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names; a label is an index into them."""
        return self._table.classes

    @property
    def labels(self) -> Ints:
        """Label of each video, an index into ``classes``; -1: none. int64 [N], read-only."""
        return self._table.column("label")

    @property
    def targets(self) -> targets_.Targets | None:
        """The targets from `with_targets`, read-only; None: the labels are the targets."""
        return self._table.targets

    @property
    def stats(self) -> Mapping[str, Mapping[str, npt.NDArray[Any]]]:
        """Of `from_lerobot`: ``stats["action"]["mean"]`` and what else ``meta/stats.json`` has, of
        all episodes of the data set. Other catalogs have none."""
        return self._table.stats

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of each video, relative to the root; of several files as one sample, all of them."""
        return self._table.paths

    @property
    def parts(self) -> tuple[MixPart, ...]:
        """The parts of a mixture, in their order; other catalogs have none."""
        return self._table.parts

    @property
    def files(self) -> int:
        """Number of files. Several segments of one file count once."""
        return len(set(self.paths))

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Video: ...

    @overload
    def __getitem__(self, index: slice) -> Catalog: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Video | Catalog:
        if isinstance(index, slice):
            return self.subset(np.arange(len(self))[index])
        return self._table.video(index, HINTS)

    def __iter__(self) -> Iterator[Video]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalog):
            return NotImplemented
        return self._table == other._table

    def __hash__(self) -> int:
        return hash((self.root, self.classes, len(self)))

    def __repr__(self) -> str:
        rows, classes = f"{len(self)} rows", f", {len(self.classes)} classes"
        if (steps := self._table.steps) is not None:
            rows, classes = f"{len(self)} episodes of {sum(each.count for each in steps)} steps", ""
        files = len({file for path in {*self.paths} for file in files_of(path)})
        return f"Catalog({rows} in {files} files{classes}, root={self.root})"

    def with_targets(self, targets: object) -> Catalog:
        """Return this catalog with other targets than labels. `split` and ``balance`` use the
        labels.

        Examples:
            >>> ages = catalog.with_targets(np.linspace(20, 60, len(catalog)))

        Args:
            targets: An array [N, ...] with a row for each video: numbers of any type, or text.
                `PerFrame`: a row for each source frame. `Points` and `Boxes`: places in the
                picture, which follow it. `OneOf`: several values for each video. Or a dict of
                these.

        Returns:
            A new catalog.

        Raises:
            CatalogError: A video has no row, or the type is none of these.
        """
        checked = targets_.checked(targets, len(self), self.paths)
        return catalog_of(self._table.replaced(targets=checked))

    def subset(self, indices: Iterable[int]) -> Catalog:
        """Return some of the videos, with all classes. ``catalog[10:20]`` is a subset too.

        Args:
            indices: In the new order (``np.flatnonzero(mask)``). Negative ones count from the end,
                and one may come several times.

        Returns:
            A new catalog, with the targets of these videos.

        Raises:
            CatalogError: There are no whole numbers, or this is a mixture.
            IndexError: There is no video with an index.
        """
        if self.parts:
            raise CatalogError("a mixture has no subsets: take subsets of its parts, and mix those")
        return catalog_of(self._table.take(splitting.chosen(indices, len(self))))

    def explode(self, name: str | None = None) -> Catalog:
        """Return a catalog with a row for each value of a target that is `OneOf`, as pandas'
        ``explode``.

        Examples:
            >>> both = catalog.with_targets(vl.OneOf([["a bow", "somebody aims"]] * len(catalog)))
            >>> len(both.explode()) == 2 * len(catalog)
            True

        Args:
            name: Of the target. Default None: the only one.

        Returns:
            A new catalog, with the videos in this order.

        Raises:
            CatalogError: There is no such target.
        """
        rows, targets = targets_.exploded(self.targets, name)
        return catalog_of(self.subset(rows)._table.replaced(targets=targets))

    @suggests
    def split(
        self, fraction: float, seed: int = 0, *, by: splitting.By | None = None
    ) -> tuple[Catalog, Catalog]:
        """Return two catalogs: ``fraction`` of the files of each class, and the rest.

        Examples:
            >>> train, test = catalog.split(0.8, seed=0, by=r"_(g[0-9]+)_")  # groups stay together

        A file of several classes counts for the rarest. A class of n files gives ``round(fraction *
        n)`` to the first side, at least one.

        Args:
            fraction: Share of the files for the first catalog, between 0 and 1; with ``by``, share
                of the groups.
            seed: Any int. Default 0.
            by: What goes to one side together: a regular expression that finds a video's group in
                its path (``r"_(g\\d+)_"``), a function of a `Video`, or a value for each.
                Default None: each file by itself; of `from_lerobot`, each episode.

        Returns:
            (first, rest), in this catalog's order, with all classes.

        Raises:
            CatalogError: One side would be empty, or a path does not name its group.
        """
        if by is None and self._table.steps is not None:
            pairs = zip(self.paths, self._table.steps, strict=True)
            by = [f"{path} {steps.episode}" for path, steps in pairs]
        mask = splitting.is_first(fraction, operator.index(seed), self, by)
        return self.subset(np.flatnonzero(mask)), self.subset(np.flatnonzero(~mask))


def table_of(catalog: Catalog) -> Table:
    """Return the table of a catalog, for the other packages of videoload."""
    return catalog._table


def catalog_of(table: Table) -> Catalog:
    """Return a catalog with this table."""
    catalog = object.__new__(Catalog)
    catalog._table = table
    return catalog
