"""What a file is that cannot be opened as a video, by its first bytes."""

from __future__ import annotations

from contextlib import closing

from videoload.storage.video_file import VideoFile

_LOOKED_AT = 512  # bytes
_HEADER = 4096  # bytes in which most AVI files describe their streams
_TEXT = b"\xef\xbb\xbf \t\r\n"  # what may stand before the first word of a text
_CONVERT = "; convert it first, for example to MP4 with ffmpeg"

# Containers that ffmpeg reads and that are not on the list here.
_CONTAINERS = {
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11": "a WMV or ASF file",
    b"\x06\x0e\x2b\x34\x02\x05\x01\x01": "an MXF file",
    b"GIF8": "a GIF",
    b".RMF": "a RealMedia file",
    b"YUV4MPEG2": "a YUV4MPEG file",
    b"DKIF": "an IVF file",
}
_OTHERS = {
    b"version https://git-lfs": "it is a Git LFS pointer; `git lfs pull` fetches the file",
    b"#EXTM3U": "it is a playlist, which may name other files",
    b"ffconcat": "it is a list for ffmpeg's concat, which may name other files",
    b"v=0": "it is a session description (SDP), which names a network address",
    b"\x89PNG": "it is a PNG picture",
    b"\xff\xd8\xff": "it is a JPEG picture",
    b"PK\x03\x04": "it is a ZIP archive",
    b"\x1f\x8b": "it is a gzip archive",
    b"ID3": "it is an MP3 file",
}


def kind_of(file: VideoFile) -> str | None:
    """Return the type of a file that is not a video, if its first bytes show it. Raises OSError."""
    with closing(file.open()) as opened:
        begins = bytes(opened.pread(_LOOKED_AT, 0))
    if not begins:
        return "it is empty (0 bytes)"
    if not begins.strip(b"\0"):
        return f"it begins with {len(begins)} zero bytes, so it was not written completely"
    text = begins.lstrip(_TEXT)
    if text[:15].lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return "it is an HTML or XML page (did its download fail?)"
    if begins[:4] == b"RIFF" and begins[8:12] in (b"WAVE", b"WEBP"):
        return "it is a WAVE audio file" if begins[8:12] == b"WAVE" else "it is a WebP picture"
    for start, name in _CONTAINERS.items():
        if begins.startswith(start):
            return f"it is {name}, and that container is not supported{_CONVERT}"
    return next((why for start, why in _OTHERS.items() if text.startswith(start)), None)


def codec_of(file: VideoFile) -> str:
    """Return the four characters by which an AVI names the codec of its video; "" if there are
    none. Raises OSError."""
    with closing(file.open()) as opened:
        begins = bytes(opened.pread(_HEADER, 0))
    format_ = begins.find(b"strf", begins.find(b"vids"))
    is_there = begins[:4] == b"RIFF" and b"vids" in begins and format_ > 0
    return begins[format_ + 24 : format_ + 28].decode("latin-1") if is_there else ""
