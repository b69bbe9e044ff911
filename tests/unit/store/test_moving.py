"""Sessions that are exported, imported and searched."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import ConfigError, JournalCorrupt
from plait.core.facts import MessageAdded, ToolEnd, TurnStart
from plait.core.messages import ToolCall, ToolResult, assistant, user
from plait.kernel.history import fault_in
from plait.kernel.state import fold
from plait.store.export import export
from plait.store.importing import import_session
from plait.store.opening import load_journal
from plait.store.search import search
from plait.store.sessions import Sessions
from tests.helpers.journals import FACTS, append, journal_of, ticking

HOSTILE = '<script>alert(1)</script> "&\x1b[2J\u202e</pre> ```` \ud800'
CALL = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": '{"n": 1}'}}
OTHER = {"id": "c2", "type": "function", "function": {"name": "write", "arguments": "{}"}}
THIRD = {"id": "c3", "type": "function", "function": {"name": "write", "arguments": "{}"}}


def older(path: Path, *records: dict[str, Any]) -> Path:
    """Write a journal as the older program does."""
    lines = [
        json.dumps({"seq": seq, "ts": "2026-01-02T03:04:05.006+00:00", **record}, ensure_ascii=False)
        for seq, record in enumerate(records, 1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    """Return a record of a message."""
    return {"type": "message", "msg": {"role": role, "content": content, **more}}


def test_an_exported_journal_is_a_journal(tmp_path: Path) -> None:
    """What is exported as jsonl is imported to the same facts, times and all; an unfinished write is left out."""
    path = journal_of(tmp_path / "s1")
    entries = load_journal(path).entries
    with path.open("ab") as file:
        file.write(b'{"at":')
    (tmp_path / "exported.jsonl").write_bytes(export(path, "jsonl"))
    made = import_session(tmp_path / "exported.jsonl", tmp_path / "s2", "s2")

    assert entries == load_journal(made).entries
    assert [*FACTS] == load_journal(made).facts


class Reader(HTMLParser):
    """Notes which elements a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        """Note its text."""
        self.text += data


def test_a_page_holds_text_only(tmp_path: Path) -> None:
    """Whatever was written in a session is text on its page: no element, control or turn of direction of its own."""
    log = Sessions(tmp_path).open("s1", ticking()).log
    answer = assistant(HOSTILE, [ToolCall("c", HOSTILE, HOSTILE)])
    append(log, [(TurnStart(), MessageAdded(user(HOSTILE)), MessageAdded(answer), ToolEnd(ToolResult("c", HOSTILE)))])
    log.close()
    page = export(log.path, "html").decode()
    reader = Reader()
    reader.feed(page)

    assert {"html", "head", "meta", "title", "style", "body", "h1", "h2", "time", "pre"} == reader.tags
    assert "<script>alert(1)</script>" in reader.text
    assert not {"\x1b", "\u202e"} & set(page)
    assert "default-src 'none'" in page


def test_markdown_fences_are_longer_than_what_they_hold(tmp_path: Path) -> None:
    """A result with a fence of its own does not end the block that it is shown in."""
    log = Sessions(tmp_path).open("s1", ticking()).log
    append(log, [(TurnStart(), MessageAdded(assistant("", [ToolCall("c", "look", "{}")])))])
    append(log, [(ToolEnd(ToolResult("c", "a\n````\nb")),)])
    log.close()

    assert "`````\na\n````\nb\n`````\n" in export(log.path, "markdown").decode()


def test_an_older_journal_is_imported_with_whole_results(tmp_path: Path) -> None:
    """Recorded results come back whole, a lost one is unknown, and a call that never began is said not to have run."""
    calls = said("assistant", None, tool_calls=[CALL, OTHER, THIRD])
    source = older(
        tmp_path / "m_journal.jsonl",
        {"type": "turn_start", "task": "go"},
        said("user", "go"),
        calls,
        {"type": "tool_start", "call_id": "c1", "name": "write", "args": {"n": 1}},
        {"type": "tool_end", "call_id": "c1", "result": "x" * 5_000},
        {"type": "tool_start", "call_id": "c2", "name": "write", "args": {}},
    )
    before = source.read_bytes()
    made = import_session(source, tmp_path / "new", "new")
    history = fold(load_journal(made).facts).history

    assert fault_in(history) is None
    assert ["ok", "unknown", "cancelled"] == [result.status for result in history[2].tool_results]
    assert "x" * 5_000 == history[2].tool_results[0].content
    assert before == source.read_bytes()


def test_an_older_snapshot_counts_where_its_journal_says_less(tmp_path: Path) -> None:
    """A folder with both is read as its own program did; a torn last line is left out, a reset holds."""
    folder = tmp_path / "old"
    journal = older(folder / "journal.jsonl", said("user", "one"), {"type": "turn_end"})
    snapshot = {"metadata": {"model": "m1"}, "messages": [{"role": "user", "content": "kept"}]}
    (folder / "messages.json").write_text(json.dumps(snapshot))
    first = fold(load_journal(import_session(folder, tmp_path / "a", "a")).facts).history
    reset = {"type": "reset_messages", "messages": [{"role": "user", "content": "short"}], "reason": "clear"}
    older(journal, said("user", "one"), reset, said("assistant", "fine"))
    with journal.open("a") as file:
        file.write('{"seq": 9, "ty')
    second = fold(load_journal(import_session(folder, tmp_path / "b", "b")).facts).history

    assert ["kept"] == [message.content for message in first]
    assert ["short", "fine"] == [message.content for message in second]


def test_a_damaged_older_journal_is_refused(tmp_path: Path) -> None:
    """Damage in the middle names its record and offset, and nothing is made."""
    source = older(tmp_path / "m_journal.jsonl", said("user", "one"), said("user", "two"))
    lines = source.read_bytes().splitlines(keepends=True)
    source.write_bytes(lines[0][:-5] + b"\n" + lines[1])

    with pytest.raises(JournalCorrupt, match="record 1"):
        import_session(source, tmp_path / "new", "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name, text", [("none", None), ("a.json", "{"), ("b.json", '{"a": 1}'), ("c.json", '"x"')])
def test_what_is_no_session_is_not_imported(tmp_path: Path, name: str, text: str | None) -> None:
    """A file of something else is a clear mistake of the user's."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError):
        import_session(tmp_path / name, tmp_path / "new", "new")


def test_words_are_found_in_all_that_was_said(tmp_path: Path) -> None:
    """All words have to be there, in any case; a session that cannot be read is told beside the hits."""
    sessions = Sessions(tmp_path)
    journal_of(tmp_path / "a")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.jsonl").write_text("x\n")
    hits = [*search(sessions.listed(), "ARE welcome")]

    assert [("a", "assistant")] == [(hit.session.id, hit.role) for hit in hits if not hit.problem]
    assert ["broken"] == [hit.session.id for hit in hits if hit.problem]
    assert not [hit for hit in search(sessions.listed(), "welcome nowhere") if not hit.problem]
