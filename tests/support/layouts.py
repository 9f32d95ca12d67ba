"""Folders as public data sets have them: empty files with their names, and small tables."""

from __future__ import annotations

from pathlib import Path

from tests.support.catalogs import tree

ECHONET = """FileName,EF,ESV,EDV,FrameHeight,FrameWidth,FPS,NumberOfFrames,Split
0X1,55.5,60,120,112,112,50,90,TRAIN
0X2,61,60,120,112,112,50,120,TRAIN
0X3,32.25,60,120,112,112,50,77,VAL
0X4,20,60,120,112,112,50,61,TEST
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
    tree(out, *(f"EchoNet-Dynamic/Videos/0X{n}.avi" for n in (1, 2, 3, 4)))
    for n in (0, 1):
        tree(out, f"deepethogram/DATA/mouse{n}/mouse{n}.avi", f"dlc/videos/m{n}.avi")
        rows = "".join(f"{i},1,0,0\n" for i in range(5 + n))
        write(out, f"deepethogram/DATA/mouse{n}/mouse{n}_labels.csv", f",background,a,b\n{rows}")
        write(out, f"dlc/labeled-data/m{n}/CollectedData_me.csv", DEEPLABCUT.format(n=n))
        write(out, f"UBFC/subject{n}/ground_truth.txt", "1 2 3\n72 72 72\n0 0.1 0.2\n")
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


def write(out: Path, name: str, text: str) -> None:
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
