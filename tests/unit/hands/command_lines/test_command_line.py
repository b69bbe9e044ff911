"""What a shell would run for a line is told without running it, and never guessed in favour of the line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from plait.hands.command_lines.command_line import CommandLine, read_command_line, unwrapped

PLAIN = {
    "git status": [("git", "status")],
    "  git   status  ": [("git", "status")],
    "git status; rm -rf ~": [("git", "status"), ("rm", "-rf", "~")],
    "git status&&rm x||ls|sort": [("git", "status"), ("rm", "x"), ("ls",), ("sort",)],
    "git status\nrm x": [("git", "status"), ("rm", "x")],
    "sleep 1 & rm x": [("sleep", "1"), ("rm", "x")],
    "(cd x && rm y)": [("cd", "x"), ("rm", "y")],
    "r'm' \"-rf\" a\\ b": [("rm", "-rf", "a b")],
    "ls \\\n -l": [("ls", "-l")],
    "echo x#y # and; rm z": [("echo", "x#y")],
    "ls >/dev/null 2>&1 </dev/null": [("ls",)],
    "echo '$(rm x)' \"\\$(rm y)\"": [("echo", "$(rm x)", "$(rm y)")],
    "if true; then rm x; fi": [("true",), ("rm", "x")],
    "! grep -q x y": [("grep", "-q", "x", "y")],
    "git\u00a0status": [("git\u00a0status",)],
    "": [],
}

DOUBTFUL = [
    "echo $(rm x)",
    "echo `rm x`",
    'echo "$(rm x)"',
    'echo "`rm x`"',
    "cat <(rm x)",
    "tee >(rm x)",
    "echo ${x:-$(rm x)}",
    "echo $((1 + $(rm x)))",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<-EOF\n\t$(rm x)\n\tEOF",
    "case x in x) rm x;; esac",
    "for i in a b; do rm x; done",
    "f() { rm x; }; f",
    "PATH=/tmp:$PATH rm x",
    "LD_PRELOAD=./x.so rm x",
    "$(echo rm) x; rm x",
    "rm x > out",
    "rm x &> out",
    "rm x >| out",
    "rm x < in",
    "rm x <<< in",
    "rm x 'not closed",
    'rm x "not closed',
    "rm x `not closed",
    "rm x $(not closed",
    "trap 'rm x' EXIT; rm x",
    "alias ls='rm x'; rm x",
]

HIDDEN = [
    "sudo rm x",
    "sudo -u me rm x",
    "env A=b rm x",
    "env -S 'rm x'",
    "timeout -k 5 10 rm x",
    "nice -n 5 rm x",
    "xargs rm x",
    "find . -exec rm x ;",
    "sh -c 'rm x'",
    "bash -lc 'true && rm x'",
    "eval rm x",
    "eval 'rm x'",
    "ssh host 'rm x'",
    "command rm x",
    "exec rm x",
    "sh -c \"sh -c 'rm x'\"",
    "nohup setsid rm x",
    "git submodule foreach 'rm x'; sh -c 'rm x'",
    "watch -n 1 rm x",
    "busybox rm x",
    "echo a | xargs -I{} rm x",
]

HANDING_ON = [
    "env -S 'rm x'",
    "xargs rm",
    "find . -exec rm {} +",
    "find . -delete",
    "git -c core.pager=evil log",
    "git -C /elsewhere status",
    "git --exec-path=/tmp status",
    "git log --ext-diff",
    "git submodule foreach ls",
    "tar --checkpoint=1 --checkpoint-action=exec=sh -xf x",
    "tar -I evil -xf x",
    "tar -xfI x evil",
    "ssh -o ProxyCommand=evil host",
    "rsync -e evil a b",
    "sh -c ls",
    "sudo ls",
    "rg --pre evil x",
    "rg --pre=evil x",
    "sed -i s/a/b/ x",
]


@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_line_is_told_command_by_command(line: str) -> None:
    """Quotes are taken off, separators separate, and nothing is in doubt."""
    assert (PLAIN[line], ()) == (
        [each.words for each in read_command_line(line).commands],
        read_command_line(line).doubts,
    )


@pytest.mark.parametrize("line", DOUBTFUL)
def test_what_is_not_understood_is_a_doubt(line: str) -> None:
    """A line that does more than its words say is in doubt, and what it hides is found all the same."""
    read = read_command_line(line)
    assert read.doubts
    assert any(each.words[:2] == ("rm", "x") for each in read.all)


@pytest.mark.parametrize("line", HIDDEN)
def test_a_command_in_the_words_of_another_is_found(line: str) -> None:
    """A program that runs its arguments hides nothing."""
    assert ("rm", "x") in [each.words[:2] for each in read_command_line(line).all]


@pytest.mark.parametrize("line", HANDING_ON)
def test_a_command_that_runs_another_says_so(line: str) -> None:
    """Options by which a harmless program runs any other are known."""
    assert read_command_line(line).commands[0].hands_on


@pytest.mark.parametrize(
    "line, inner",
    [
        ("timeout 5 npm test", "npm test"),
        ("timeout 1.5m nice -n 5 npm test", "npm test"),
        ("nohup npm test", "npm test"),
        ("stdbuf -oL npm test", "npm test"),
        ("timeout -k 5 10 npm test", "timeout -k 5 10 npm test"),
        ("./timeout 5 npm test", "./timeout 5 npm test"),
        ("nice", "nice"),
        ("npm test", "npm test"),
    ],
)
def test_a_plain_wrapper_is_looked_through(line: str, inner: str) -> None:
    """`timeout` and its like are taken off where it is sure what they run."""
    assert inner == unwrapped(read_command_line(line).commands[0]).text


@pytest.mark.parametrize("word", ["*.txt", "$X", "${X}", "{a,b}", "{1..3}", "~/x", '"$X"', "$1", "[ab]"])
def test_a_word_that_the_shell_changes_is_open(word: str) -> None:
    """Nobody knows the words of such a command before the shell does."""
    (command,) = read_command_line(f"rm {word}").commands
    assert not command.is_certain


def test_lines_without_end_and_without_bottom_end() -> None:
    """Neither size nor depth takes long or raises."""
    assert read_command_line("x" * 1_000_000).doubts
    assert read_command_line("$(" * 50_000).doubts
    assert read_command_line("sh -c 'x " * 1_001).doubts
    assert read_command_line("xargs" + " a" * 60_000).doubts


PIECES = st.sampled_from(
    [
        *("aa", "bb", "cc") * 3,
        *" \t" * 3,
        *"'\"\\$()`;&|\n<>#{},*=!x5~-",
        "$X",
        "${X}",
        "&&",
        "||",
        "$(",
        "<<E\n",
        "\nE\n",
        "2>&1",
    ]
)

OBSERVER = r"""
shopt -s nullglob
for name in aa bb cc; do eval "$name() { printf '%s\0' $name \"\$@\" \$'\n' >&9; }"; done
X=value
while IFS= read -r -d '' line <&8; do
  ( eval "$line"; wait ) </dev/null >/dev/null 2>&1
  printf '\n\n\0' >&9
done
"""


def observed(lines: list[str], folder: Path) -> list[set[tuple[str, ...]]]:
    """Return what bash runs for each line, of the three programs that it knows."""
    given, seen = folder / "lines", folder / "seen"
    given.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    command = f"exec 8<{given} 9>{seen}\n{OBSERVER}"
    (folder / "cwd").mkdir(exist_ok=True)
    subprocess.run(["bash", "--norc", "-c", command], check=True, timeout=60, cwd=folder / "cwd")
    runs: list[set[tuple[str, ...]]] = []
    for record in seen.read_bytes().decode().split("\n\n\0")[:-1]:
        calls = [call.split("\0")[:-1] for call in record.split("\n\0") if call]
        runs.append({tuple(call) for call in calls})
    return runs


def unexplained(read: CommandLine, ran: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return what bash ran though the reading of its line knows nothing of it."""
    if read.doubts:
        return set()
    open_programs = {each.words[0] for each in read.all if not each.is_certain}
    return {call for call in ran if call not in {each.words for each in read.all} and call[0] not in open_programs}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=14).map("".join), min_size=40, max_size=60))
def test_bash_runs_nothing_that_the_reading_does_not_know(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """For any line that is not in doubt, every command that bash runs was found, word for word."""
    # A function that calls itself could fork without end.
    lines = [line for line in lines if not re.search(r"\([\s\\]*\)", line) and "\0" not in line]
    for line, ran in zip(lines, observed(lines, tmp_path_factory.mktemp("bash")), strict=True):
        assert not unexplained(read_command_line(line), ran), line
