"""What coding agents are known to get wrong with files and commands, one test a known trouble, by its number."""

from __future__ import annotations

import json
import os
import resource
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plait.core.messages import ToolResult
from plait.hands.editing.edit import plan_edit
from plait.hands.editing.snippets import Replacement
from plait.hands.searching.ripgrep import Ripgrep
from plait.hands.searching.search import SearchQuery, search
from plait.hands.searching.walk import WalkRules
from plait.hands.workspace import Workspace
from plait.tools.answer import Reply
from plait.tools.coding import coding_tools
from plait.tools.toolbox import Toolbox, ToolboxOptions
from tests.unit.wire.cases import CASES

CORPUS: Final = [json.loads(line) for line in (CASES / "faults.jsonl").read_text("utf-8").splitlines()]
KNOWN: Final = {case["id"]: case for case in CORPUS if case["group"] == "tools"}
AT_ONCE_S: Final = 20
"""Far less than any time limit that could have ended it instead, also on a busy machine."""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    """Return the tools over an empty workspace, with the session face's rules and short limits."""
    (tmp_path / "work").mkdir()
    made = Toolbox(tmp_path / "work", ToolboxOptions(policy="read_outside", grace_s=0.1, timeout_s=60))
    yield made
    made.close()


def root_of(box: Toolbox) -> Path:
    """Return the workspace."""
    return Path(box.root)


def text_of(reply: Reply) -> str:
    """Return what a model reads."""
    return reply.content if isinstance(reply, ToolResult) else reply[0]


def code_of(reply: Reply) -> object:
    """Return the code of a refusal, or None."""
    return (reply.data or {}).get("code") if isinstance(reply, ToolResult) else None


def edited(box: Toolbox, before: bytes, old: str, new: str, *, every: bool = False) -> bytes:
    """Edit a file under both names; each must leave the same, and what it leaves is returned."""
    left = set()
    for edit in (box.str_replace, box.edit_file):
        (root_of(box) / "f").write_bytes(before)
        edit("f", old, new, every)
        left.add((root_of(box) / "f").read_bytes())
    (only,) = left
    return only


def crlf(box: Toolbox) -> None:
    """01: a snippet with LF fits a file with CRLF, which keeps its CRLF."""
    assert b"x\r\ny\r\n" == edited(box, b"a\r\nb\r\n", "a\nb", "x\ny")


def mixed_newlines(box: Toolbox) -> None:
    """03: an edit of one line leaves every other line end as it is."""
    assert b"A\nb\r\nc\rd\n" == edited(box, b"a\nb\r\nc\rd\n", "a", "A")


def byte_order_mark(box: Toolbox) -> None:
    """04: the mark is not shown, does not hinder a match, and stays."""
    assert b"\xef\xbb\xbfimport sys\n" == edited(box, b"\xef\xbb\xbfimport os\n", "import os", "import sys")
    assert "import sys\n" == text_of(box.read_file("f"))


def utf16(box: Toolbox) -> None:
    """06: UTF-16 stays UTF-16, UTF-32 is refused."""
    assert b"\xff\xfeh\x00o\x00" == edited(box, b"\xff\xfeh\x00i\x00", "hi", "ho")
    wide = "hi".encode("utf-32")
    assert wide == edited(box, wide, "hi", "ho")


def empty_snippet(box: Toolbox) -> None:
    """07: an empty snippet is refused and changes nothing."""
    assert b"abc" == edited(box, b"abc", "", "X", every=True)
    assert "INVALID_INPUT" == code_of(box.str_replace("f", "", "X", True))


def one_of_several_misses(box: Toolbox) -> None:
    """08: of several replacements all are made or none, and the one that misses is named."""
    (root_of(box) / "f").write_text("a\n")
    with Workspace(box.root).pin("f", "write") as target, pytest.raises(Exception, match="snippet 2 of 2 is not in"):
        plan_edit(target, [Replacement("a", "b"), Replacement("zzz", "y")]).apply()
    assert "a\n" == (root_of(box) / "f").read_text()


def several_matches(box: Toolbox) -> None:
    """09: `edit_file` refuses and names the lines; `str_replace` replaces the first and names the others."""
    (root_of(box) / "f").write_text("x\nx\n")
    refused = box.edit_file("f", "x", "y")
    assert ("CONFLICT", "x\nx\n") == (code_of(refused), (root_of(box) / "f").read_text())
    assert "at lines 1, 2" in text_of(refused)
    assert "1 remaining at line 2 " in text_of(box.str_replace("f", "x", "y"))
    (root_of(box) / "f").write_text("a\nb\n-\na\nb\n")
    assert "at lines 1, 4" in text_of(box.edit_file("f", "a\nb", "c"))


def other_blanks(box: Toolbox) -> None:
    """11: blanks that differ are passed over where one place can be meant and all lines are shifted alike."""
    assert b"\tbar()\n" == edited(box, b"\tfoo()\n", "    foo()", "    bar()")
    assert "but for the indentation" in text_of(box.str_replace("f", "  bar()", "  foo()"))
    assert b"x\ny\n" == edited(box, b"a \nb\n", "a\nb", "x\ny")
    old, new = "    def f(self):\n        return 1\n", "    def f(self):\n        if x:\n            return 2\n"
    tabbed = b"class A:\n\tdef f(self):\n\t\treturn 1\n"
    assert b"class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 2\n" == edited(box, tabbed, old, new)
    old, new = "def f(self):\n    return 1\n", "def f(self):\n    if x:\n        return 2\n"
    shifted = b"class A:\r\n    def f(self):\r\n        return 1\r\n"
    wanted = b"class A:\r\n    def f(self):\r\n        if x:\r\n            return 2\r\n"
    assert wanted == edited(box, shifted, old, new)
    # Not shifted alike, or in two places: nothing is guessed.
    assert b"if x:\n  a\n    b\n" == edited(box, b"if x:\n  a\n    b\n", "a\nb", "c")
    assert b"\tfoo()\n  foo()\n" == edited(box, b"\tfoo()\n  foo()\n", "    foo()", "bar()")


def other_characters(box: Toolbox) -> None:
    """12: quotes, compositions and widths are folded to find the place; what is written is what was given."""
    assert "don\u2019t\n".encode() == edited(box, b"do not\n", "do not", "don\u2019t")
    summer = "l\u2019e\u0301te\u0301 \u2019\n".encode()
    assert "l'hiver \u2019\n".encode() == edited(box, summer, "l'\u00e9t\u00e9", "l'hiver")
    assert "\u2018b\u2019\n".encode() == edited(box, "\u2018\uff41\u2019\n".encode(), "a", "b")
    assert "\u00e9!".encode() == edited(box, "e\u0301".encode(), "\u00e9", "\u00e9!")
    assert "but for quotes" in text_of(box.edit_file("f", "e\u0301!", "x"))
    # Half a character is none, and two places are none.
    assert "\ufb01x".encode() == edited(box, "\ufb01x".encode(), "ix", "y")
    assert "\u2019a\u2018a".encode() == edited(box, "\u2019a\u2018a".encode(), "'a", "b")


def pasted_line_numbers(box: Toolbox) -> None:
    """13: line numbers in a snippet are recognised, and the model is told to leave them out."""
    (root_of(box) / "f").write_text("a\nfoo\n")
    for old in ("     3\tfoo", "3: foo", "3\u2192foo"):
        assert "line numbers" in text_of(box.str_replace("f", old, "bar"))


def last_newline(box: Toolbox) -> None:
    """14: no newline is added at the end of a file, and one that is not there is not matched."""
    assert b"a\nc" == edited(box, b"a\nb", "b", "c")
    assert b"a\nb" == edited(box, b"a\nb", "b\n", "c\n")


def mode(box: Toolbox) -> None:
    """15: an edited file keeps its mode, a new one honours the umask."""
    script = root_of(box) / "s.sh"
    script.write_text("echo a\n")
    script.chmod(0o755)
    box.str_replace("s.sh", "a", "b")
    box.write_file("s.sh", "echo c\n")
    before = os.umask(0o027)
    try:
        box.write_file("new", "x")
    finally:
        os.umask(before)
    assert [0o755, 0o640] == [stat.S_IMODE((root_of(box) / name).stat().st_mode) for name in ("s.sh", "new")]


def link(box: Toolbox) -> None:
    """16: an edit through a link changes what it leads to, and the link stays."""
    (root_of(box) / "real").write_text("a")
    (root_of(box) / "link").symlink_to("real")
    box.str_replace("link", "a", "b")
    assert (True, "b") == ((root_of(box) / "link").is_symlink(), (root_of(box) / "real").read_text())


def time_limit(box: Toolbox) -> None:
    """21: when the time is up, everything that the command has started is gone."""
    (root_of(box) / "spin.py").write_text("import os\nopen('pid', 'w').write(str(os.getpid()))\nwhile 1: pass\n")
    reply = box.exec_shell("sh -c 'python3 spin.py; true'", timeout_s=1.0)
    assert "timed out after 1 s" in text_of(reply)
    pid = int((root_of(box) / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]


class _Private(BaseHTTPRequestHandler):
    """A repository that wants to know who asks."""

    def do_GET(self) -> None:
        """Ask for a password."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def standard_input(box: Toolbox) -> None:
    """23: whoever reads gets the end at once, and git asks nobody for a password."""
    began_s = time.monotonic()
    assert "done" == text_of(box.exec_shell("cat; read x; echo done"))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Private) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/private"
        reply = text_of(box.exec_shell(f"export no_proxy='*'; GIT_CONFIG_NOSYSTEM=1 git clone {url}"))
        server.shutdown()
    assert "could not read Username" in reply
    assert time.monotonic() - began_s < AT_ONCE_S


def pager_and_editor(box: Toolbox) -> None:
    """24: no pager waits and no editor opens, whatever the environment and the repository's settings name."""
    began_s = time.monotonic()
    who = "git -c user.name=a -c user.email=a@b"
    made = box.exec_shell(
        f"git init -q . && git config core.editor 'sleep 600' && git config core.pager 'sleep 600' && touch f &&"
        f" git config sequence.editor 'sleep 600' && git add f && {who} commit -q -m one &&"
        f" for i in $(seq 30); do {who} commit -q --allow-empty -m m$i; done"
    )
    assert "(no output)" == text_of(made)
    assert "30\n" in text_of(
        box.exec_shell("git log --oneline | grep -c ' m'; git log -1 --format=%s; git --paginate log -1")
    )
    assert "Aborting commit" in text_of(box.exec_shell(f"{who} commit --allow-empty"))
    assert "exit code" not in text_of(box.exec_shell(f"{who} rebase -q -i HEAD~2"))
    assert time.monotonic() - began_s < AT_ONCE_S * 2


def endless_output(box: Toolbox) -> None:
    """25: output of any amount, in lines or in one, leaves its head, its tail and a count, and the limit holds."""
    reply = text_of(box.exec_shell("echo first; yes | head -c 20M; head -c 20M /dev/zero; echo last"))
    assert len(reply) < 40_000
    assert reply.startswith("first\n")
    assert reply.endswith("last")
    assert "truncated 419" in reply
    assert "timed out" in text_of(box.exec_shell("yes", timeout_s=0.5))


def invalid_utf8(box: Toolbox) -> None:
    """28: bytes that are no text become replacement characters, and the rest of the result is there."""
    reply = text_of(box.exec_shell("printf '\\xff\\xfe ok\\n'; head -c 64 /dev/urandom; echo end"))
    assert reply.startswith("\ufffd\ufffd ok\n")
    assert reply.endswith("end")
    reply.encode()


def each_call_is_a_new_shell(box: Toolbox) -> None:
    """30: a shell that ends takes nothing with it, and the tool says that nothing lasts from call to call."""
    assert "[exit code 3]" == text_of(box.exec_shell("cd /; export A=1; exit 3"))
    assert f"{box.root} -" == text_of(box.exec_shell("echo $(pwd) ${A:--}"))
    (shell,) = (tool for tool in box.tools() if tool.name == "exec_shell")
    assert "Each call is a new shell: cd and variables do not last." in shell.description


def unbalanced_quote(box: Toolbox) -> None:
    """32: a quote or a here-document without an end is told at once."""
    began_s = time.monotonic()
    assert "unexpected EOF" in text_of(box.exec_shell("echo 'abc"))
    assert "here-document" in text_of(box.exec_shell("cat <<EOF\nno end"))
    assert "ok" == text_of(box.exec_shell("echo ok"))
    assert time.monotonic() - began_s < AT_ONCE_S


def huge_command(box: Toolbox) -> None:
    """33: a command that the system does not take is refused with what to do instead."""
    reply = box.exec_shell("echo " + "a" * 300_000)
    assert "TOO_LARGE" == code_of(reply)
    assert "Write it to a script file" in text_of(reply)


def binary_and_giant_lines(box: Toolbox) -> None:
    """35: binary files are passed over, and of a giant line only the part around the match is shown."""
    (root_of(box) / "a.so").write_bytes(b"\x7fELF\0needle\n")
    (root_of(box) / "min.js").write_text("x" * 2_500_000 + "needle" + "y" * 2_500_000)
    reply = text_of(box.search_files("needle"))
    assert "a.so" not in reply
    assert "needle" in reply
    assert len(reply) < 1_000
    with closing(Workspace(box.root)) as files:
        assert [2_500_001] == [match.column for match in search(files, SearchQuery("needle")).matches]


def hungry_pattern(box: Toolbox) -> None:
    """36: a pattern with wide repetitions ends with a result or a reason, in bounded memory, on either engine."""
    with open(root_of(box) / "huge.log", "wb") as log:
        log.truncate(1 << 30)
    (root_of(box) / "some.log").write_text("".join(f"{'x' * 200}{'ab'[n % 2]}{'y' * 200}\n" for n in range(20_000)))
    pattern = ".{0,120}(a|b).{0,300}"
    for engine in (None, Ripgrep.find(os.environ["PATH"])):
        with closing(Workspace(box.root)) as files:
            found = search(files, SearchQuery(pattern, results_max=5), rules=WalkRules(deadline_s=30), ripgrep=engine)
        assert (1, True) == (found.skipped_large, len(found.matches) == 5 or found.stopped == "deadline")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 20  # KiB


def odd_windows(box: Toolbox) -> None:
    """37: lines that are not there are refused with the last that is, and a huge file is not loaded."""
    (root_of(box) / "f").write_text("a\nb\n")
    assert "which has 2 line(s)" in text_of(box.read_file("f", 10**9))
    assert ["INVALID_INPUT"] * 3 == [
        code_of(box.read_file("f", offset, limit)) for offset, limit in ((-1, None), (0, None), (1, 0))
    ]
    with open(root_of(box) / "huge", "wb") as huge:
        huge.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "TOO_LARGE" == code_of(box.read_file("huge", 5))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024


def git_as_a_way_out(box: Toolbox) -> None:
    """38: what git obeys is read and never written, at any depth, through links and in any case of letters."""
    root = root_of(box)
    (root / "vendor/sub/.git/hooks").mkdir(parents=True)
    (root / ".git/info").mkdir(parents=True)
    (root / ".git/config").write_text("[core]\n")
    (root / "way").symlink_to("vendor/sub/.git/hooks")
    for path in ("vendor/sub/.git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".git", "new/.git"):
        assert ("FORBIDDEN", path) == (code_of(box.write_file(path, "[core]\nfsmonitor=touch /tmp/p\n")), path)
    for path in (
        "way/pre-commit",
        "new/.GIT/config",
        "worktree/.git",
        str(root / ".git/hooks/x"),
        "./a/../.git/config",
    ):
        assert ("FORBIDDEN", path) == (code_of(box.write_file(path, "x")), path)
    assert "FORBIDDEN" == code_of(box.str_replace(".git/config", "core", "x"))
    for section in (
        "Add File: vendor/sub/.git/hooks/x",
        "Delete File: .git/config",
        "Add File: b\n+b\n*** Delete File: way/x",
    ):
        assert "FORBIDDEN" == code_of(box.patching.apply_patch(f"*** Begin Patch\n*** {section}\n*** End Patch"))
    strict = {tool.name: tool for tool in coding_tools(root, authorize=lambda _: True)}
    refused = strict["write_file"].fn(path=".git/hooks/x", content="x")
    assert (True, False) == ("FORBIDDEN" in str(refused), (root / ".git/hooks").exists())
    assert ("[core]\n", "[core]\n") == (text_of(box.read_file(".git/config")), (root / ".git/config").read_text())
    assert [] == list((root / "vendor/sub/.git/hooks").iterdir())
    assert [None] * 3 == [code_of(box.write_file(path, "*\n")) for path in (".gitattributes", ".gitignore", "git/x")]


def ways_out(box: Toolbox) -> None:
    """39: whatever a path is made of, it ends inside or is refused, also when the way is swapped meanwhile."""
    tmp_path = root_of(box).parent
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("secret")
    (tmp_path / "in/link").symlink_to("../out")
    (tmp_path / "in/a").mkdir()
    inside = Toolbox(tmp_path / "in", ToolboxOptions(policy="inside_only"))
    ways = ("link/secret", "a/../../out/secret", str(tmp_path / "out/secret"), "/proc/self/root/etc/passwd", "~/x")
    assert ["FORBIDDEN"] * 5 == [code_of(inside.read_file(path)) for path in ways]
    assert ["FORBIDDEN"] * 5 == [code_of(inside.write_file(path, "x")) for path in ways]
    (tmp_path / "in/d").mkdir()
    (tmp_path / "in/d/f").write_text("inside0")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(tmp_path / "in/d", tmp_path / "in/aside")
            os.symlink("../out", tmp_path / "in/d")
            os.unlink(tmp_path / "in/d")
            os.rename(tmp_path / "in/aside", tmp_path / "in/d")

    (tmp_path / "out/f").write_text("outside")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = {text_of(inside.read_file("d/f")) for _ in range(300)}
        for number in range(100):
            inside.str_replace("d/f", f"inside{number}", f"inside{number + 1}")
    finally:
        stop.set()
        thread.join()
        inside.close()
    assert "outside" not in seen
    assert ("outside", "secret") == ((tmp_path / "out/f").read_text(), (tmp_path / "out/secret").read_text())


def change_of_directory(box: Toolbox) -> None:
    """41: where a command went, nothing follows: paths begin in the workspace after it as before."""
    box.exec_shell("cd /etc; ls")
    assert "NOT_FOUND" == code_of(box.read_file("passwd"))
    assert box.root == text_of(box.exec_shell("pwd"))


TESTS: Final[dict[str, Callable[[Toolbox], None]]] = {
    "tools-01": crlf,
    "tools-03": mixed_newlines,
    "tools-04": byte_order_mark,
    "tools-06": utf16,
    "tools-07": empty_snippet,
    "tools-08": one_of_several_misses,
    "tools-09": several_matches,
    "tools-11": other_blanks,
    "tools-12": other_characters,
    "tools-13": pasted_line_numbers,
    "tools-14": last_newline,
    "tools-15": mode,
    "tools-16": link,
    "tools-21": time_limit,
    "tools-23": standard_input,
    "tools-24": pager_and_editor,
    "tools-25": endless_output,
    "tools-28": invalid_utf8,
    "tools-30": each_call_is_a_new_shell,
    "tools-32": unbalanced_quote,
    "tools-33": huge_command,
    "tools-35": binary_and_giant_lines,
    "tools-36": hungry_pattern,
    "tools-37": odd_windows,
    "tools-38": git_as_a_way_out,
    "tools-39": ways_out,
    "tools-41": change_of_directory,
}


@pytest.mark.parametrize("case", TESTS)
def test_known_trouble(case: str, box: Toolbox) -> None:
    """What the corpus expects of this trouble holds."""
    TESTS[case](box)


def test_every_known_trouble_has_its_test() -> None:
    """No case of the corpus is left out."""
    assert sorted(KNOWN) == sorted(TESTS)


FORMS: Final = {
    "utf-8": (b"", "utf-8"),
    "utf-8 with a mark": (b"\xef\xbb\xbf", "utf-8"),
    "latin-1": (b"caf\xe9 \x93\n", "utf-8"),
    "utf-16 little": (b"\xff\xfe", "utf-16-le"),
    "utf-16 big": (b"\xfe\xff", "utf-16-be"),
}
"""How a file begins, and how what follows is written down."""


@given(
    form=st.sampled_from(sorted(FORMS)),
    lines=st.lists(st.text(st.sampled_from("ab\t \r\u00e9\U0001f600'"), max_size=5), max_size=6),
    ends=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=7, max_size=7),
    ends_with_newline=st.booleans(),
    at=st.integers(0, 6),
    mode=st.sampled_from([0o644, 0o755, 0o444, 0o600]),
    is_linked=st.booleans(),
    name=st.sampled_from(["str_replace", "edit_file"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_changes_the_bytes_it_was_asked_to_change_and_no_other(
    *,
    box: Toolbox,
    form: str,
    lines: list[str],
    ends: list[str],
    ends_with_newline: bool,
    at: int,
    mode: int,
    is_linked: bool,
    name: str,
) -> None:
    """Whatever the encoding, mark, line ends, mode and links of a file, only the snippet is another afterwards."""
    mark, encoding = FORMS[form]
    lines = [line.replace("\u00e9", "e") if form == "latin-1" else line for line in lines]
    lines.insert(min(at, len(lines)), "x[MARK]y")
    text = "".join(line + end for line, end in zip(lines, ends, strict=False))
    text = text if ends_with_newline else text.rstrip("\r\n")
    before = mark + text.encode(encoding)
    file = root_of(box) / "f"
    file.unlink(missing_ok=True)
    file.write_bytes(before)
    file.chmod(mode)
    (root_of(box) / "way").unlink(missing_ok=True)
    (root_of(box) / "way").symlink_to("f")

    reply = getattr(box, name)("way" if is_linked else "f", "[MARK]", "<NEW>")

    after = before.replace("[MARK]".encode(encoding), "<NEW>".encode(encoding))
    assert (None, after) == (code_of(reply), file.read_bytes())
    assert (mode, True) == (stat.S_IMODE(file.stat().st_mode), (root_of(box) / "way").is_symlink())
