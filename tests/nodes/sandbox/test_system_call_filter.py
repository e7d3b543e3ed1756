"""The filter of the guest, run in an interpreter of its own: every call number, and the arguments that decide."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.nodes.sandbox.kernel import ALLOWED, compile_filter

PID = 4242
X86_64 = 0xC000003E
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
CONDITIONAL = {16, 44, 53, 56, 62, 72, 157, 200, 204, 234, 302}


def verdict(number: int, *arguments: int, machine: int = X86_64) -> int:
    """What the kernel would do: the classic BPF of the filter over `struct seccomp_data`."""
    values = [value % 2**64 for value in arguments] + [0] * (6 - len(arguments))
    data = struct.pack("<IIQ6Q", number, machine, 0, *values)
    program = list(struct.iter_unpack("<HBBI", compile_filter(PID)))
    at, word = 0, 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            (word,) = struct.unpack_from("<I", data, k)
        elif code == 0x54:
            word &= k
        else:
            at += yes if {0x15: word == k, 0x35: word >= k, 0x45: bool(word & k)}[code] else no


def test_every_call_outside_the_list_is_refused() -> None:
    allowed = set(ALLOWED.values())
    for number in range(600):
        if number in allowed:
            assert verdict(number) == ALLOW
        elif number not in CONDITIONAL:
            assert verdict(number) == (EPERM if number < 424 else ENOSYS)


@pytest.mark.parametrize(
    "name", ["execve", "socket", "connect", "fork", "vfork", "ptrace", "chmod", "mount", "setrlimit", "seccomp"]
)
def test_what_must_never_be_allowed_is_not(name: str) -> None:
    assert name not in ALLOWED


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_other_machines_are_no_way_around(number: int, machine: int) -> None:
    if machine != X86_64:
        assert verdict(number, machine=machine) == KILL
    if number >= 0x40000000:
        assert verdict(number) == KILL


@given(st.integers(0, 2**64 - 1))
def test_clone_makes_threads_and_nothing_else(flags: int) -> None:
    thread = flags & 0x10900 == 0x10900
    apart = flags & 0x7E020080
    assert verdict(56, flags) == (ALLOW if thread and not apart else EPERM)
    assert verdict(56, 0x3D0F00) == ALLOW  # what the C library's pthread_create asks for


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 64))
def test_signals_go_to_the_program_alone(pid: int, signal: int) -> None:
    for call in (62, 200, 234):
        assert verdict(call, pid, signal) == (ALLOW if pid == PID else EPERM)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1))
def test_limits_are_read_and_never_set(pid: int, new: int) -> None:
    assert verdict(302, pid, 7, new) == (ALLOW if pid == 0 and new == 0 else EPERM)
    assert verdict(302, 0, 7, 0) == ALLOW


@given(st.integers(0, 2**64 - 1))
def test_nothing_is_sent_to_an_address(address: int) -> None:
    assert verdict(44, 3, 0, 0, 0, address) == (ALLOW if address == 0 else EPERM)


@pytest.mark.parametrize(
    ("call", "position", "allowed"),
    [
        (16, 1, {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451}),
        (53, 0, {1}),
        (72, 1, {0, 1, 2, 3, 4, 1030, 1032}),
        (157, 0, {15, 16, 0x53564D41}),
        (204, 0, {0, PID}),
    ],
)
@given(number=st.integers(0, 2**32 - 1))
def test_an_argument_decides(call: int, position: int, allowed: set[int], number: int) -> None:
    for value in {number, *allowed}:
        arguments = [0, 0]
        arguments[position] = value
        assert verdict(call, *arguments) == (ALLOW if value in allowed else EPERM)
