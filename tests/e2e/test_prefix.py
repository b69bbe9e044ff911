"""Two runs of one folder, and of two folders, begin with the same bytes: what a prompt cache lives on."""

from __future__ import annotations

import os
from pathlib import Path

from plait.testing import Call, Say, ScriptServer
from tests.e2e.command import environment, plait


def test_runs_of_different_sessions_begin_with_the_same_bytes(tmp_path: Path) -> None:
    """Everything before the question is the same for each run of a folder, and without instructions of any folder."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    env = environment(PLAIT_AWARENESS="")
    script = [Say(calls=[Call("list_dir", {"path": "."})]), "Done."] * 5
    with ScriptServer(script) as server:
        for number, folder in enumerate((one, one, other)):
            assert 0 == plait("run", f"task {number}", "--endpoint", server.url, "-m", "any", cwd=folder, env=env).code
            (folder / f"new-{number}").touch()
        (one / "AGENTS.md").write_text("Be kind.\n")
        for number in range(2):
            assert 0 == plait("run", f"kind {number}", "--endpoint", server.url, "-m", "any", cwd=one, env=env).code
        bodies = [request.body for request in server.requests]

    def before_the_question(body: bytes) -> bytes:
        return body[: body.index(b'{"role":"user"')]

    firsts = bodies[::2]
    plain = before_the_question(firsts[0])
    assert [plain] * 3 == [before_the_question(body) for body in firsts[:3]]
    kind = before_the_question(firsts[3])
    assert kind == before_the_question(firsts[4])
    assert b"Be kind." in kind
    # What belongs to the folder comes last, so that even then most of it is shared.
    assert kind.startswith(plain[:-16])
    for first, second in zip(firsts, bodies[1::2], strict=True):
        assert second.startswith(first.partition(b'],"stream"')[0])
    for body in firsts:
        assert not any(os.fsencode(folder) in before_the_question(body) for folder in (one, other))
