"""What is shown of a run, on a terminal, as plain lines and as JSON."""

from __future__ import annotations

import json

import pytest

from plait.cli.views import Complaints, JsonLines, Live, PlainLines
from plait.cli.words import call_words, notice_words, result_words
from plait.events import named

AT = "2026-11-29T10:00:00.000+00:00"


class Paper:
    """An outlet that keeps what is written."""

    encoding = "utf-8"

    def __init__(self, is_terminal: bool = False) -> None:
        self.text = ""
        self._is_terminal = is_terminal

    def write(self, text: str) -> int:
        """Keep text."""
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        """Say what this stands for."""
        return self._is_terminal


def call(name: str = "read_file", **args: object) -> named.ToolCall:
    """Make the event of a call."""
    return named.ToolCall(name, args, "c1", AT)


def result(text: str = "ok", status: str = "ok", **more: object) -> named.ToolResult:
    """Make the event of a result."""
    return named.ToolResult("read_file", text, "c1", status, **more)  # type: ignore[arg-type]


def shell(text: str) -> named.ToolResult:
    """Make the event of a command's result."""
    return named.ToolResult("exec_shell", text, "c1", "ok")


RUN = [
    named.TurnStart(False, ""),
    named.ReasoningDelta("hmm", True),
    named.ReasoningStreamEnd(),
    named.ContentDelta("I will ", True),
    named.ContentDelta("look.", False),
    named.ContentStreamEnd(),
    call("exec_shell", command="make\ntest"),
    shell("boom\n[exit code 2]"),
    call("str_replace", path="a.py", old_str="x", new_str="y"),
    result("OK", diff_summary={"path": "a.py", "added": 1, "removed": 1}, diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"),
    call("read_file", path="gone"),
    result("ERROR: 'gone' is not there.\nTry list_dir.", "error"),
    named.RetryScheduled(1, 0.5, "overloaded", "no capacity"),
    named.AttemptReset(2, 2, 5),
    named.ContentDelta("Done.", True),
    named.ContentStreamEnd(),
    named.FinalAnswer("Done.", True),
    named.TurnEnd("completed", ""),
]


def test_a_terminal_shows_text_calls_diffs_and_troubles() -> None:
    """In order, one line a call, what is streamed ends its line before anything else begins."""
    paper = Paper()
    view = Live(paper)  # type: ignore[arg-type]

    for event in RUN:
        view.show(event)

    assert [
        "thinking ...",
        "I will look.",
        "> exec_shell make test",
        "  boom (exit code 2)",
        "> str_replace a.py",
        "  +1 -1",
        "  @@ -1 +1 @@",
        "  -x",
        "  +y",
        "> read_file gone",
        "  ERROR: 'gone' is not there.",
        "  no capacity; asking again in 0.5 s",
        "  the answer broke off and begins again",
        "Done.",
    ] == paper.text.splitlines()


def test_plain_lines_leave_the_answer_to_the_end() -> None:
    """Progress is calls and troubles; the answer is data and goes elsewhere."""
    paper = Paper()
    view = PlainLines(paper)  # type: ignore[arg-type]

    for event in RUN:
        view.show(event)

    assert [
        "exec_shell make test",
        "  boom (exit code 2)",
        "str_replace a.py",
        "  +1 -1",
        "read_file gone",
        "  ERROR: 'gone' is not there.",
        "  no capacity; asking again in 0.5 s",
        "  the answer broke off and begins again",
    ] == paper.text.splitlines()


def test_json_lines_are_the_events_themselves() -> None:
    """Each event is one line of ASCII with its name under `type`."""
    paper = Paper()
    view = JsonLines(paper)  # type: ignore[arg-type]

    for event in [*RUN, named.ContentDelta("猫\udce9", False)]:
        view.show(event)

    lines = paper.text.splitlines()
    assert paper.text.isascii()
    assert [event.type for event in RUN] == [json.loads(line)["type"] for line in lines[:-1]]
    assert "猫\udce9" == json.loads(lines[-1])["text"]


def test_colours_are_decoration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colours, NO_COLOR takes them away, and the words are the same."""
    shown: dict[str, str] = {}
    for setting in ("", "1"):
        monkeypatch.setenv("NO_COLOR", setting)
        monkeypatch.setenv("TERM", "xterm-256color")
        paper = Paper(is_terminal=True)
        for event in RUN:
            Live(paper).show(event)  # type: ignore[arg-type]
        shown[setting] = paper.text

    assert "\x1b[" in shown[""]
    assert "\x1b[3" not in shown["1"]
    assert "exec_shell" in shown["1"]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b\u202e\r"


@pytest.mark.parametrize(
    "event",
    [
        named.ContentDelta(HOSTILE, True),
        named.FinalAnswer(HOSTILE, False),
        call(HOSTILE, command=HOSTILE),
        call(**{HOSTILE: HOSTILE}),
        result(HOSTILE, "error"),
        result("OK", diff=HOSTILE),
        named.RetryScheduled(1, 0.5, "overloaded", HOSTILE),
    ],
)
def test_no_words_of_others_act_on_the_terminal(event: named.NamedEvent) -> None:
    """Escapes of a model, a tool or a server are spelt out wherever they stand."""
    for view in (Live, PlainLines):
        paper = Paper()
        view(paper).show(event)  # type: ignore[arg-type, abstract]
        assert not set("\x1b\x07\x9b\u202e\r") & set(paper.text)


def test_a_quiet_run_shows_only_complaints() -> None:
    """Nothing of the run, and what is wrong with hooks and servers: a guard that does not work is not passed over."""
    paper = Paper()
    view = Complaints(paper)  # type: ignore[arg-type]

    for event in (*RUN, named.HookStatus("looking", "guard"), named.McpServer("s", "ready", "it is connected", ())):
        view.show(event)
    assert "" == paper.text
    view.show(named.HookWarning("guard.sh may not be executed"))
    view.show(named.McpServer("s", "failed", "it ended", ()))
    assert "  hook: guard.sh may not be executed\n  it ended\n" == paper.text


@pytest.mark.parametrize(
    "event, about",
    [
        (call(path="a"), "a"),
        (call("x", pattern="p", path="q"), "p in q"),
        (call("x"), ""),
        (call("x", count=3), '{"count": 3}'),
        (call("x", command=" ls \n -l"), "ls -l"),
        (call("x", command="y" * 200), "y" * 97 + "..."),
    ],
)
def test_a_call_is_told_by_what_it_is_about(event: named.ToolCall, about: str) -> None:
    """The argument that says most stands for all; without one they are all shown."""
    assert about == call_words(event)[1]


def test_a_long_diff_is_cut_and_counted() -> None:
    """What is not shown is counted."""
    paper = Paper()

    Live(paper).show(result("OK", diff="\n".join(f"+{number}" for number in range(100))))  # type: ignore[arg-type]

    assert ("  +59", "  ... 40 more lines") == tuple(paper.text.splitlines()[-2:])


def test_what_nobody_needs_to_know_has_no_words() -> None:
    """Counts and ends of streams are for programs; a result that went well adds nothing to its call."""
    assert [None, None] == [notice_words(named.ContentStreamEnd()), notice_words(named.AttemptReset(1, 2, 0))]
    assert "" == result_words(result("all of the file"))


def test_a_wait_is_told_once() -> None:
    """A wait of our own limit, or of a client, has a line; one that the endpoint asked for has its retry's."""
    ours, theirs, known = (named.RateLimitWait(2.5, AT, source) for source in ("max_rpm", "client", "endpoint"))
    assert "waiting 2.5 s for our own limit of requests a minute" == notice_words(ours)
    assert "waiting 2.5 s for the endpoint's rate limit" == notice_words(theirs)
    assert notice_words(known) is None
    assert ["", True, True] == [known["fmt"], "2.5 s" in str(ours["fmt"]), "2.5 s" in str(theirs["fmt"])]


def test_a_key_that_rests_is_told_by_its_place() -> None:
    """Which key was refused and what comes next is one line, on the screen and in the session's own words."""
    rested = named.KeyRested("key 1 of 2 in KEYS", "rate_limit", 40.0, "key 2 of 2 in KEYS")
    words = "key 1 of 2 in KEYS was refused (rate_limit); going on with key 2 of 2 in KEYS"
    assert words == notice_words(rested)
    assert words in str(rested["fmt"])
    last = named.KeyRested("key 2 of 2 in KEYS", "auth", None, None)
    assert "key 2 of 2 in KEYS was refused (auth); no other key is left now" == notice_words(last)


def test_a_command_is_told_by_its_last_line_and_its_exit_code() -> None:
    """The last line says most of what a command printed; an exit code of 0 says nothing."""
    texts = ("....\nOK", "oh no\n[exit code 3]", "[exit code unknown]", "(no output)")

    assert ["OK", "oh no (exit code 3)", "exit code unknown", "(no output)"] == [result_words(shell(t)) for t in texts]
