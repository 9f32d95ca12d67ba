"""Folders as public data sets have them: files with their names, empty or filmed, and small
tables."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np

from tests.support.catalogs import tree
from tests.support.lerobot import make_lerobot
from tests.support.videos import make_avi

ECHONET = """FileName,EF,ESV,EDV,FrameHeight,FrameWidth,FPS,NumberOfFrames,Split
0X1,55.5,60,120,112,112,50,90,TRAIN
0X2,61,60,120,112,112,50,120,TRAIN
0X3,32.25,60,120,112,112,50,77,VAL
0X4,20,60,120,112,112,50,61,TEST
0X5,64.5,60,120,112,112,50,80,TEST
"""
DEEPLABCUT = """scorer,,,me,me
bodyparts,,,nose,nose
coords,,,x,y
labeled-data,m{n},img0000.png,1.5,2
labeled-data,m{n},img0123.png,3,4.5
"""
SOMETHING = """[{"id": "78687", "label": "holding potato", "template": "Holding [something]",
"placeholders": ["potato"]}, {"id": "42326", "label": "put", "template": "Put", "placeholders": []}]
"""
DAISEE = """ClipID,Boredom,Engagement,Confusion,Frustration\x20
1100011002.avi,0,3,0,1
1100021003.avi,2,1,0,0
"""
KTH = """Training: person11, 12

person01_boxing_d1\tframes\t1-95, 96-140, 141-200
person02_walking_d1\tframes\t1-50, 51-99
"""

FPS = 30
TIMES = np.arange(192) / FPS
WAVE = np.sin(2 * np.pi * 1.2 * TIMES)  # 72 beats a minute
GROUND_TRUTH = "".join(
    " ".join(f"{number:.4f}" for number in row) + "\n" for row in (WAVE, 0 * WAVE + 72, TIMES)
)


def layouts(out: Path) -> Path:
    """Make all twelve."""
    for name in ("wave", "brush_hair"):
        tree(out, *(f"hmdb51/{name}/{i} ({i}).avi" for i in range(4)))
        lines = "".join(f"{i} ({i}).avi {side} \n" for i, side in enumerate((1, 1, 2, 0)))
        write(out, f"testTrainMulti_7030_splits/{name}_test_split1.txt", lines)
    tree(out, "20bn/78687.webm", "20bn/42326.webm")
    write(out, "train.json", SOMETHING)
    write(out, "labels.json", '{"Put": "0", "Holding something": "1"}')
    write(out, "EchoNet-Dynamic/FileList.csv", ECHONET)
    tree(out, *(f"EchoNet-Dynamic/Videos/0X{n}.avi" for n in (1, 2, 3, 4, 5)))
    for n in (0, 1):
        tree(out, f"deepethogram/DATA/mouse{n}/mouse{n}.avi", f"dlc/videos/m{n}.avi")
        rows = [",background,groom,rear", *(f"{i},{behaviour(i)}" for i in range(60 + n)), ""]
        write(out, f"deepethogram/DATA/mouse{n}/mouse{n}_labels.csv", "\n".join(rows))
        write(out, f"dlc/labeled-data/m{n}/CollectedData_me.csv", DEEPLABCUT.format(n=n))
        write(out, f"UBFC/subject{n}/ground_truth.txt", GROUND_TRUTH)
        tree(out, f"UBFC/subject{n}/vid.avi")
        tree(out, *(f"miniscope/m{n}/10_23_51/My_V4_Miniscope/{part}.avi" for part in range(12)))
        write(
            out, f"JIGSAWS/Suturing/transcriptions/Suturing_B00{n}.txt", "40 90 G1 \n91 150 G5 \n"
        )
        tree(out, *(f"JIGSAWS/Suturing/video/Suturing_B00{n}_capture{c}.avi" for c in (1, 2)))
    write(out, "DAiSEE/Labels/TrainLabels.csv", DAISEE)
    for clip in ("1100011002", "1100021003"):
        tree(out, f"DAiSEE/DataSet/Train/{clip[:6]}/{clip}/{clip}.avi")
    write(out, "KTH/00sequences.txt", KTH)
    tree(
        out,
        "KTH/boxing/person01_boxing_d1_uncomp.avi",
        "KTH/walking/person02_walking_d1_uncomp.avi",
    )
    tree(out, *(f"CASIA-B/{p:03}-{s}-000.avi" for p in (1, 2) for s in ("bg-01", "nm-01")))
    for part, count in (("train", 3), ("val", 2)):
        for kind in ("Fight", "NonFight"):
            tree(out, *(f"RWF-2000/{part}/{kind}/clip{n}.avi" for n in range(count)))
    return out


def films(out: Path) -> Path:
    """Make those that pages about jobs read, with videos in the place of empty files."""
    with TemporaryDirectory() as folder:
        made = layouts(Path(folder))
        for name in ("EchoNet-Dynamic", "dlc", "UBFC"):
            shutil.copytree(made / name, out / name)
        shutil.copytree(made / "deepethogram/DATA", out / "mice")
    for name, frames, size in (("EchoNet-Dynamic", 70, 112), ("dlc", 124, 64), ("mice", 60, 64)):
        for number, path in enumerate(sorted((out / name).rglob("*.avi"))):
            make_avi(path, frames=frames + number % 2, size=(size, size), seed=number)
    make_lerobot(out / "aloha", [30, 41, 25, 38])
    make_lerobot(out / "more", [20, 33], seed=9)
    for path in sorted((out / "UBFC").rglob("*.avi")):
        with av.open(str(path), "w") as container:
            stream = container.add_stream("rawvideo", FPS)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr24"
            for beat in WAVE:
                picture = np.full((48, 64, 3), 60, np.uint8)
                picture[8:40, 16:40] = 150 - round(10 * beat)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "bgr24")))
            container.mux(stream.encode())
    return out


def behaviour(frame: int) -> str:
    """A row of DeepEthogram: some grooming, some rearing, and frames that nobody looked at."""
    if frame >= 55:
        return "-1,-1,-1"
    return "0,1,0" if 20 <= frame < 30 else "0,0,1" if 40 <= frame < 50 else "1,0,0"


def write(out: Path, name: str, text: str) -> None:
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
