"""The filter of system calls, run in an interpreter of the kernel's packet filter."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from plait.hands.fence.seccomp import (
    ALLOW,
    CLONE3,
    DENY,
    FAMILIES,
    KILL,
    MACHINES,
    NAMESPACES,
    NO_CALL,
    NO_FAMILY,
    filter_for,
)
from tests.unit.hands.fence.packet_filter import STEP, verdict

NAMES = sorted(MACHINES)
WORDS = st.integers(0, (1 << 64) - 1)


def code_of(name: str) -> bytes:
    """Return a machine's filter."""
    code = filter_for(name)
    assert code is not None
    return code


@pytest.mark.parametrize("name", NAMES)
def test_what_is_on_the_list_is_denied_whatever_its_arguments(name: str) -> None:
    """Every listed call gets EPERM, and `clone3` ENOSYS, so that programs fall back to `clone`."""
    machine, code = MACHINES[name], code_of(name)

    said = {call: verdict(code, machine.audit, number, [7, 7, 7]) for call, number in machine.denied.items()}

    assert dict.fromkeys(machine.denied, DENY) == said
    assert NO_CALL == verdict(code, machine.audit, CLONE3)


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_another_machine_end_the_process(name: str) -> None:
    """A call by another architecture's numbers, x32's among them, is no call at all."""
    machine, code = MACHINES[name], code_of(name)
    other = next(known.audit for known in MACHINES.values() if known is not machine)

    assert KILL == verdict(code, other, 0)
    assert KILL == verdict(code, 0x40000003, 0)  # 32-bit programs
    assert (KILL if machine.has_x32 else ALLOW) == verdict(code, machine.audit, 0x40000000 | 39)


@pytest.mark.parametrize("name", NAMES)
@given(number=st.integers(0, 0x3FFFFFFF), arguments=st.lists(WORDS, min_size=6, max_size=6))
def test_everything_else_is_allowed(name: str, number: int, arguments: list[int]) -> None:
    """A call that is neither on the list nor looked at closely passes, for any arguments."""
    machine = MACHINES[name]
    special = {*machine.denied.values(), machine.clone, machine.ioctl, machine.socket, CLONE3}

    if number not in special:
        assert ALLOW == verdict(code_of(name), machine.audit, number, arguments)


@pytest.mark.parametrize("name", NAMES)
@given(flags=WORDS)
def test_clone_makes_processes_and_no_namespaces(name: str, flags: int) -> None:
    """A flag that makes a namespace is denied in any company; threads and processes are not."""
    machine = MACHINES[name]

    expected = DENY if flags & NAMESPACES else ALLOW
    assert expected == verdict(code_of(name), machine.audit, machine.clone, [flags])


@pytest.mark.parametrize("name", NAMES)
@given(high=st.integers(0, (1 << 32) - 1), family=st.integers(0, 64))
def test_sockets_are_of_the_allowed_families(name: str, high: int, family: int) -> None:
    """The family is compared as the kernel does: by its lower half."""
    machine = MACHINES[name]

    expected = ALLOW if family in FAMILIES else NO_FAMILY
    assert expected == verdict(code_of(name), machine.audit, machine.socket, [high << 32 | family])
    none = filter_for(name, families=())
    assert none is not None
    assert NO_FAMILY == verdict(none, machine.audit, machine.socket, [high << 32 | family])


@pytest.mark.parametrize("name", NAMES)
def test_typing_into_a_terminal_is_denied(name: str) -> None:
    """TIOCSTI and TIOCLINUX are refused however the upper half of the request looks; other requests pass."""
    machine, code = MACHINES[name], code_of(name)

    def asked(request: int) -> int:
        return verdict(code, machine.audit, machine.ioctl, [0, request])

    assert [DENY, DENY, DENY, ALLOW] == [asked(r) for r in (0x5412, 1 << 40 | 0x5412, 0x541C, 0x5401)]


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_would_take_it(name: str) -> None:
    """A filter is whole steps, fewer than the kernel's limit, jumps inside itself only, and ends with an answer."""
    steps = list(STEP.iter_unpack(code_of(name)))

    assert len(steps) < 4_096
    assert all(at + 1 + max(when, other) < len(steps) for at, (_, when, other, _) in enumerate(steps[:-1]))
    assert (0x06, ALLOW) == (steps[-1][0], steps[-1][3])


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    """Where the numbers are not known, nobody pretends."""
    assert filter_for("riscv64") is None
    assert os.uname().machine in MACHINES
