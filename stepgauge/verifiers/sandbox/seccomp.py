"""The system calls that the program under test does not have, as a seccomp filter (classic BPF, x86-64)."""

from __future__ import annotations

import errno
import platform
import struct

from stepgauge.verifiers.sandbox.protocol import SandboxError

__all__ = ["filter_program"]

_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_CLONE, _CLONE3, _PRLIMIT64, _CLONE_THREAD = 56, 435, 302, 0x00010000
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24

# No new processes or programs, no signals to or looks into others, no sockets, no memory outside the address space,
# no namespaces, mounts, keys, tracing, or kernel interfaces that ordinary programs do not use.
_DENIED = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
    "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "process_madvise": 440,
    "socket": 41,
    "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "shmat": 30, "shmctl": 31, "msgget": 68, "semget": 64,
    "mq_open": 240,
    "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "keyctl": 250, "add_key": 248, "request_key": 249, "modify_ldt": 154, "personality": 135,
    "fanotify_init": 300, "inotify_init": 253, "inotify_init1": 294, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "sched_setaffinity": 203, "sched_setscheduler": 144,
    "sched_setparam": 142, "sched_setattr": 314, "setpriority": 141, "ioprio_set": 251,
}  # fmt: skip


# Commands that let a file send signals to another process: F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP.
_DENIED_COMMANDS = {"fcntl": (72, (8, 10, 15)), "ioctl": (16, (0x8901, 0x8902))}


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def filter_program() -> bytes:
    """The filter, 8 bytes an instruction. Threads are allowed, processes are not.

    Raises:
        SandboxError: this machine is not x86-64 Linux; the call numbers are known for that one only.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise SandboxError(
            f"the system-call filter is written for x86_64, this machine is {platform.machine()}; "
            "use a SandboxFusion server: sandbox='http://HOST:PORT'"
        )
    deny = _op(_RETURN, _ERRNO | errno.EPERM)
    rules = [
        _op(_LOAD, _ARCH_AT),
        _op(_JUMP_EQUAL, _ARCH_X86_64, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER_AT),
        _op(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _op(_RETURN, _KILL),
    ]
    for number in sorted(_DENIED.values()):
        rules += [_op(_JUMP_EQUAL, number, 0, 1), deny]
    for number, commands in _DENIED_COMMANDS.values():
        rules += [_op(_JUMP_EQUAL, number, 0, 2 + 2 * len(commands)), _op(_LOAD, _SECOND_ARGUMENT_AT)]
        rules += [rule for command in commands for rule in (_op(_JUMP_EQUAL, command, 0, 1), deny)]
        rules.append(_op(_RETURN, _ALLOW))
    rules += [_op(_JUMP_EQUAL, _CLONE3, 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]  # then the C library uses clone
    rules += [_op(_JUMP_EQUAL, _CLONE, 0, 3), _op(_LOAD, _FIRST_ARGUMENT_AT), _op(_JUMP_SET, _CLONE_THREAD, 4, 0), deny]
    rules += [_op(_JUMP_EQUAL, _PRLIMIT64, 0, 2), _op(_LOAD, _FIRST_ARGUMENT_AT)]  # its own limits only
    rules += [_op(_JUMP_EQUAL, 0, 0, 1), _op(_RETURN, _ALLOW), deny]
    return b"".join(rules)
