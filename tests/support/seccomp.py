"""Forbids system calls, as the sandbox of a container does (seccomp(2)). Linux on x86-64."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

IS_HERE = sys.platform == "linux" and platform.machine() == "x86_64"

_NUMBERS = {
    "memfd_create": 319, "sched_setscheduler": 144, "sched_getscheduler": 145, "prlimit64": 302,
    "eventfd2": 290, "clone": 56, "clone3": 435,
}  # fmt: skip
_ARCH, _ALLOW, _ERRNO = 0xC000003E, 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def forbid(*names: str) -> None:
    """From now on these calls fail with EPERM, in this thread and in what it starts."""
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCH), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for name in names:
        # glibc tries clone if there is no clone3.
        number = errno.ENOSYS if name == "clone3" else errno.EPERM
        code += [(_EQUAL, 0, 1, _NUMBERS[name]), (_RETURN, 0, 0, _ERRNO | number)]
    code.append((_RETURN, 0, 0, _ALLOW))
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = _Program(len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _SECCOMP, _FILTER, ctypes.byref(program)
    ):
        raise OSError(ctypes.get_errno(), "seccomp")
