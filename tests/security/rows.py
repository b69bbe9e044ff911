"""The attacks that plait is tested against, row by row, and the tests of each: read by `make prove` and SECURITY.md.

A test is named by its file and the beginning of its name, with its parameters in brackets where a row has only some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_TEST: Final = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """An attack."""

    holds: str
    """What holds against it."""
    tests: tuple[str, ...] = ()
    later: str = ""
    """What is not there yet, or not defended."""


FENCE: Final = "security/test_x10_inside_the_fence.py::test_a_line_gets_nothing"
_CODING: Final = "unit/tools/coding"
ROWS: Final[dict[str, Row]] = {
    "X01": Row(
        "a path that climbs, is absolute, or names nothing leads no file tool out",
        (
            "security/test_x01_paths.py::test_x01_",
            "unit/hands/test_paths.py",
            "unit/hands/test_workspace.py::test_paths_",
        ),
    ),
    "X02": Row(
        "neither does a link, nor one of the kernel's own names; what changes a hard link leaves its twin",
        (
            "security/test_x01_paths.py::test_x02_",
            "unit/hands/test_workspace.py::test_links_that_leave",
            "unit/hands/test_workspace.py::test_strict_follows",
            "unit/hands/test_workspace.py::test_a_dangling",
            "unit/tools/test_fenced_executor.py::test_what_leads_out",
        ),
        "a hard link to a file outside can be read",
    ),
    "X03": Row(
        "a directory that is exchanged for a link all the time, from inside the sandbox, leads no file tool out",
        (
            "unit/tools/test_fenced_swaps.py",
            "unit/hands/test_workspace.py::test_a_swap_before",
            "unit/hands/test_workspace.py::test_an_exchanged_directory_leads_nowhere",
            f"{_CODING}/test_swaps.py",
            f"{_CODING}/test_adversary.py",
        ),
    ),
    "X04": Row(
        "what runs is what was approved; what changed since is stale",
        (
            "security/test_x04_stale_approval.py",
            "unit/session/test_permitting.py::test_a_path_that_is_swapped",
            "unit/session/test_permitting.py::test_what_is_opened",
        ),
    ),
    "X05": Row(
        "names that programs outside obey are not changed by what is fenced, nor by file tools unasked",
        (
            "unit/hands/fence/test_obeyed.py",
            "unit/hands/fence/test_repositories.py",
            "unit/cli/test_approving.py::test_what_other_programs_obey",
            "unit/tools/test_fenced_executor.py::test_file_tools_keep",
            "unit/tools/test_fenced_executor.py::test_what_programs_outside",
            "unit/tools/test_fenced_toolbox.py::test_what_programs_outside",
            "unit/hands/fence/test_fence.py::test_names_that_are_links",
        ),
    ),
    "X06": Row(
        "pipes, sockets, devices and files without an end are refused, or bounded",
        (
            "security/test_x01_paths.py::test_x06_",
            "unit/hands/test_workspace.py::test_what_is_no_regular",
            "unit/hands/test_reading.py::test_a_sparse",
        ),
    ),
    "X07": Row(
        "names of other systems, twins and odd characters are names inside, or refused",
        ("security/test_x01_paths.py::test_x07_", "unit/hands/searching/test_walk.py::test_names_of_any_bytes"),
        "macOS and Windows themselves are not in these tests",
    ),
    "X08": Row(
        "what is fenced mounts nothing, in the workspace neither",
        (f"{FENCE}[power-a mount", f"{FENCE}[power-opening a tree", f"{FENCE}[power-moving a mount"),
        "a mount that the user has in the workspace belongs to it",
    ),
    "X09": Row(
        "a change keeps mode, owner, line ends and odd bytes; a file is old or new",
        (
            "security/test_x01_paths.py::test_x09_",
            "unit/hands/test_atomic.py",
            "unit/tools/test_files.py::test_mode_and",
        ),
    ),
    "X10": Row(
        "behind a fence nothing outside is read, changed, seen or signalled",
        (
            f"{FENCE}[read-",
            f"{FENCE}[write-",
            f"{FENCE}[system-",
            "security/test_x10_inside_the_fence.py::test_without_a_fence_",
            "unit/hands/fence/test_fence.py::test_every_promise",
            "unit/hands/fence/test_fence.py::test_with_landlock",
            "unit/hands/fence/test_fence.py::test_a_home_as",
            "unit/tools/test_fenced_executor.py::test_the_shell",
        ),
    ),
    "X11": Row(
        "nor is a network, a socket of the machine or of the kernel; some hosts by name only",
        (f"{FENCE}[network-", "unit/hands/fence/test_egress.py", "unit/hands/fence/test_seccomp.py::test_sockets"),
    ),
    "X12": Row(
        "nor is power over the machine to be had: no namespace, mount, capability or forbidden call",
        (f"{FENCE}[power-", "unit/hands/fence/test_seccomp.py"),
    ),
    "X13": Row(
        "bombs, hogs and daemons are bounded, and end with their call or their controller",
        (
            "security/test_x10_inside_the_fence.py::test_a_fence_ends",
            "unit/hands/fence/test_fence.py::test_a_fork_bomb",
            "unit/hands/fence/test_fence.py::test_a_command_that_is_cancelled",
            "unit/hands/fence/test_fence.py::test_what_a_background",
            "unit/tools/test_fenced_toolbox.py::test_a_running_job",
            f"{_CODING}/test_proofs.py::test_p_cod_7_",
            "unit/hands/fence/test_policy.py::test_limits",
        ),
    ),
    "X14": Row(
        "of the environment a few harmless names pass",
        (
            "security/test_x10_inside_the_fence.py::test_a_variable",
            "unit/hands/fence/test_arguments.py::test_only_a_few_names",
            "unit/hands/test_environment.py",
        ),
    ),
    "X15": Row(
        "without a fence nothing runs, and the doctor says what there is: to root, to anybody, on any ground",
        (
            "security/test_doctor_sandbox.py",
            "unit/cli/test_sandbox_check.py",
            "unit/hands/fence/test_fence.py::test_without_a_fence_nothing_runs[",
            "unit/tools/test_fenced_executor.py::test_without_bubblewrap",
        ),
    ),
    "X16": Row(
        "a program that a workspace plants under a known name is never started",
        (
            "unit/hands/fence/test_arguments.py::test_a_planted",
            "unit/hands/fence/test_fence.py::test_without_a_fence_nothing_runs[planted",
            "unit/hands/test_containers.py::test_the_engine",
            "unit/hands/searching/test_search.py::test_a_planted",
        ),
    ),
    "X17": Row(
        "a rule for one command allows no other, however it is written",
        (
            "security/test_x17_commands.py",
            "unit/engine/permissions/test_rule.py::test_a_rule_for_a_command",
            "unit/engine/permissions/test_rule.py::test_a_rule_that_leaves",
            "unit/engine/permissions/test_rule.py::test_a_forbidden_command",
            "unit/engine/permissions/test_rule.py::test_what_might",
            "unit/engine/permissions/test_gate.py::test_a_rule_reaches",
            "unit/engine/test_approvers.py::test_d2_",
            "unit/tools/test_call_paths.py",
        ),
    ),
    "X30": Row(
        "instructions in what is read change no rule, trust, budget or list of tools",
        ("security/test_x30_instructions.py",),
    ),
    "X31": Row("a result that looks like a transcript stays one result", ("security/test_x31_fake_transcript.py",)),
    "X32": Row(
        "text that people do not see is spelt out, and the model is told", ("security/test_x32_invisible_text.py",)
    ),
    "X33": Row(
        "what a server says of its tools is bounded, shown to whoever is asked, and pinned",
        (
            "unit/tools/mcp/test_shown.py",
            "security/test_x71_question.py::test_a_servers_tool",
            "unit/cli/test_approving.py::test_the_question_about_a_servers",
        ),
    ),
    "X34": Row(
        "a server's tool that changes is not used until somebody agrees",
        (
            "unit/session/test_held_tools.py",
            "unit/tools/mcp/test_narrowing.py",
            "unit/cli/test_approving.py::test_what_has_changed_about_a_tool",
        ),
    ),
    "X35": Row(
        "no server's tool takes the name of another or of plait's own",
        (
            "unit/tools/mcp/test_faults.py::test_mcp_09_",
            "unit/tools/mcp/test_shown.py::test_a_name_fits",
            "unit/tools/mcp/test_shown.py::test_plain_names",
        ),
    ),
    "X36": Row(
        "a server is refused to sample, to ask and to see the roots; what it prints is bounded",
        (
            "unit/tools/mcp/test_faults.py::test_what_a_server_asks",
            "unit/tools/mcp/test_faults.py::test_a_server_that_asks",
            "unit/tools/mcp/test_faults.py::test_mcp_03_",
            "unit/tools/mcp/test_lines.py",
        ),
    ),
    "X37": Row(
        "a result cannot speak for its user, another call or the loop", ("security/test_x37_forged_answers.py",)
    ),
    "X38": Row("what an agent writes into its memory is not believed unseen", (), "memory comes with a later step"),
    "X39": Row("a sub-agent may do no more than who began it", (), "sub-agents come with a later step"),
    "X50": Row(
        "of forty secrets planted around a whole run none is in anything it leaves, sends or hands on",
        ("security/test_canaries.py",),
    ),
    "X51": Row(
        "tokens of known shape and known values are masked, cut and encoded as they may be",
        (
            "security/test_x51_streams.py",
            "unit/core/test_redact.py",
            "unit/core/test_known_secrets.py",
            "unit/core/test_secret_shapes.py",
            "unit/tools/test_redaction.py",
        ),
    ),
    "X52": Row(
        "settings of a clone change no request, before trust and after", ("security/test_hostile_clone.py::test_x52_",)
    ),
    "X53": Row(
        "what plait keeps is its owner's from birth; nobody else's folder is used",
        (
            "security/test_state_folders.py",
            "unit/hands/test_supervised.py::test_files_are",
            "unit/config/test_trust.py::test_the_list",
        ),
    ),
    "X54": Row("a run speaks to the endpoint and to nobody else", ("security/test_hostile_clone.py::test_x54_",)),
    "X70": Row("a terminal is sent visible text and nothing else", ("security/test_x70_terminal_filter.py",)),
    "X71": Row(
        "the question about a call shows all of it",
        ("security/test_x71_question.py", "unit/cli/test_approving.py::test_the_question_"),
    ),
    "X72": Row(
        "nothing that was typed before a question, or pasted, answers it",
        ("security/test_x72_typing_ahead.py", "unit/cli/test_terminal.py", "unit/cli/test_typed_line.py::test_enter"),
    ),
    "X80": Row(
        "a hostile clone starts nothing and reaches nobody before trust; afterwards what was shown runs",
        (
            "security/test_hostile_clone.py::test_x80_",
            "e2e/test_hooks.py::test_a_clone",
            "unit/session/test_trusting.py",
        ),
    ),
    "X81": Row(
        "trust is for a folder and every byte of its parts; a change asks again",
        ("unit/config/test_trust.py", "unit/session/test_trusting.py::test_a_hook_that_changes"),
    ),
    "X82": Row(
        "a hook has bounds, a gate that fails denies, a file that is none is an error",
        ("unit/hooks", "unit/session/hooks/test_hooking.py", "unit/session/hooks/test_fenced_hooks.py"),
    ),
    "X83": Row(
        "a bundle of skills or plugins is unpacked whole and inside, or not at all",
        (),
        "bundles come with a later step",
    ),
    "X84": Row("nothing that is read becomes code or objects", ("security/test_no_deserialisation.py",)),
    "X90": Row(
        "limits are exact",
        ("security/test_bounds.py::test_x90_", "unit/engine/test_limits.py", "unit/engine/test_budget.py"),
    ),
    "X91": Row(
        "a model that goes round in circles is stopped",
        ("security/test_bounds.py::test_x91_", "unit/kernel/test_guards.py"),
    ),
    "X92": Row(
        "no pattern and no text hangs plait",
        (
            "security/test_bounds.py::test_x92_",
            "unit/hands/searching/test_search.py::test_a_pattern_that_explodes",
            "unit/hands/searching/test_search.py::test_ripgrep_is_linear",
            "unit/core/test_redact.py::test_long_lines",
        ),
    ),
}


def nodes() -> list[str]:
    """Return what pytest has to run for all rows, each once."""
    return sorted({node for row in ROWS.values() for test in row.tests for node in _nodes(test)})


def rows_of(node: str) -> Iterator[str]:
    """Yield the rows that a test belongs to: `tests/file.py::name[parameters]`."""
    for name, row in ROWS.items():
        if any(_is_of(node, test) for test in row.tests):
            yield name


def table() -> str:
    """Return all rows as SECURITY.md has them."""
    lines = ["| row | what holds | test |", "| --- | --- | --- |"]
    for name, row in ROWS.items():
        files = dict.fromkeys(_place(test.partition("::")[0]) for test in row.tests)
        links = ", ".join(f"[{Path(file).name}]({file})" for file in files)
        lines.append(f"| {name} | {row.holds}{f' ({row.later})' if row.later else ''} | {links or 'none yet'} |")
    return "\n".join(lines)


def _is_of(node: str, test: str) -> bool:
    file, _, begins = test.partition("::")
    path, _, name = node.partition("::")
    return name.startswith(begins) and (path == (place := _place(file)) or path.startswith(f"{place}/"))


@cache
def _place(file: str) -> str:
    """Return where a file or a folder of tests is; one that has moved to another room is found by its name."""
    if not (ROOT / "tests" / file).exists():
        top, name = (ROOT / "tests" / file.partition("/")[0]), file.rpartition("/")[2]
        found = [*top.rglob(name)]
        if len(found) == 1:
            return str(found[0].relative_to(ROOT))
    return f"tests/{file}"


def _nodes(test: str) -> Iterator[str]:
    """Give the functions behind a test's name; raises `LookupError` where there is none."""
    file, _, begins = test.partition("::")
    path = ROOT / _place(file)
    files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
    found = [
        f"{each.relative_to(ROOT)}::{name}"
        for each in files
        for name in _TEST.findall(each.read_text(encoding="utf-8"))
        if name.startswith(begins.partition("[")[0])
    ]
    if not found:
        raise LookupError(f"no test is called {test!r}")
    yield from found
