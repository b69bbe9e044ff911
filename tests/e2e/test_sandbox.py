"""`plait run --sandbox`: what runs unasked, what stays out of reach, and what happens where there is no fence."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait.core.facts import Observation, ToolEnd
from plait.store.layout import state_home
from plait.store.opening import load_journal
from plait.testing import Call, Request, Say, ScriptServer
from tests.e2e.command import PLAIT, Ran, environment, plait, plait_each, start, wait_until
from tests.helpers.terminals import on_terminal

LEVEL = "bubblewrap+seccomp+landlock"
NO_FENCE = "no sandbox can be made here"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder to work in."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def broken(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which bubblewrap may not make a fence."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "bwrap").write_text("#!/bin/sh\necho 'bwrap: no permission to make a new namespace' >&2\nexit 1\n")
    (folder / "bwrap").chmod(0o755)
    return {"PATH": f"{folder}:{environment()['PATH']}"}


def shell(command: str) -> Call:
    """Make a call of the shell."""
    return Call("exec_shell", {"command": command})


def line(server: ScriptServer, *more: str) -> list[str]:
    """Return the arguments of a run."""
    return ["run", "x", "--endpoint", server.url, "-m", "any", "--json", *more]


def facts(ran: Ran) -> Sequence[Any]:
    """Return what the session of a run has recorded."""
    return load_journal(state_home(environment()) / "sessions" / ran.json["session_id"] / "journal.jsonl").facts


def levels(ran: Ran) -> list[object]:
    """Return the level of each call that ran a command."""
    return [(fact.result.data or {}).get("sandbox") for fact in facts(ran) if isinstance(fact, ToolEnd)]


def test_commands_run_unasked_in_a_sandbox(work: Path) -> None:
    """They change the folder and nothing else, have no network, and the model is told what it met: a success."""
    outside = work.parent / "outside"
    outside.mkdir()
    (work / ".git/hooks").mkdir(parents=True)
    script = [
        shell("touch made && id -u"),
        shell(f"touch {outside}/x; touch .git/hooks/pre-commit; ls {outside}"),
        shell("exec 3<>/dev/tcp/93.184.215.14/80"),
        Call("nohup", {"command": "touch job /etc/job", "timeout": 1}),
        Call("write_file", {"path": "file", "content": "x"}),
        "Done.",
    ]
    with ScriptServer(script) as server:
        ran = plait(*line(server, "--nohup"), cwd=work)
        told = [request.last_text for request in server.requests[1:]]

    assert (0, {"mode": "auto", "level": LEVEL, "reason": None}) == (ran.code, ran.json["sandbox"])
    assert {".git", "made", "job", "file"} == {path.name for path in work.iterdir()}
    assert [[], []] == [[*outside.iterdir()], [*(work / ".git/hooks").iterdir()]]
    assert [False, True, True] == ["[sandbox: no network;" in text for text in told[:3]]
    assert ["Read-only file system", "unreachable"] == [
        words for text, words in zip(told[1:3], ("Read-only file system", "unreachable"), strict=True) if words in text
    ]
    assert [*[LEVEL] * 4, None] == levels(ran)
    begun = next(fact.data for fact in facts(ran) if isinstance(fact, Observation) and fact.type == "session_start")
    assert ("auto", str(work)) == (begun["sandbox_mode"], begun["sandbox_policy"]["workspace"])  # type: ignore[index]
    assert "sandbox" not in str(server.requests[0].tools) + str(server.requests[0].messages[0])


def test_rules_and_what_leads_out_count_as_ever(work: Path) -> None:
    """A rule's no and a rule's question beat the sandbox; a change outside is asked for, and `--yes` lifts no fence."""
    calls = [shell("touch one"), shell("touch two"), Call("write_file", {"path": "../out", "content": ""})]
    rules = ["--deny", "Bash(touch one)", "--ask", "Bash(touch two)"]
    script = [*(Say(calls=[call]) for call in calls), "Done."]
    about_files = ("--deny", "Read(./.env)")
    with ScriptServer([*script, *[shell("touch ../three three"), "Done."] * 2]) as server:
        ruled, files, yes = plait_each(
            line(server, *rules), line(server, *about_files), line(server, "--yes", *about_files), cwd=work
        )

    assert (1, ["rule", "nobody", "nobody"]) == (ruled.code, [each["by"] for each in ruled.json["denials"]])
    assert (1, ["nobody"]) == (files.code, [each["by"] for each in files.json["denials"]])
    assert "one could get around the rule deny Read(./.env) (the command line, deny 1)" in files.err
    assert (0, [LEVEL]) == (yes.code, levels(yes))
    assert ({"three"}, {"work"}) == (
        {path.name for path in work.iterdir()},
        {path.name for path in work.parent.glob("*")},
    )


def test_without_a_fence_nothing_runs_unasked(work: Path, broken: dict[str, str]) -> None:
    """Denied where nobody can be asked, with a code that says so and one line why; `--yes` runs it and says unconfined;
    `on` ends before anything begins."""
    script = [shell("touch made"), shell("touch made"), "Done."]
    with ScriptServer([*script, *script]) as server:
        denied = plait(*line(server), cwd=work, env=environment(**broken))
        assert [] == [*work.iterdir()]
        yes = plait(*line(server, "--yes", "-q"), cwd=work, env=environment(**broken))
        on = plait(*line(server, "--sandbox", "on"), cwd=work, env=environment(**broken))

    assert (1, "none", 2) == (denied.code, denied.json["sandbox"]["level"], len(denied.json["denials"]))
    assert (0, "none", ["none", "none"]) == (yes.code, yes.json["sandbox"]["level"], levels(yes))
    assert [1, 1] == [ran.err.count(f"{NO_FENCE}: bwrap: no permission") for ran in (denied, yes)]
    assert (2, "ConfigError", True) == (on.code, on.json["error"]["class"], "--sandbox auto" in on.err)
    assert (True, 6) == ((work / "made").exists(), len(server.requests))


def test_a_fence_that_fails_later_is_no_success(work: Path, broken: dict[str, str]) -> None:
    """What was judged with a fence in view never runs without one, and the run does not end as if it had."""
    place = Path(broken["PATH"].partition(":")[0]) / "bwrap"
    place.write_text(f'#!/bin/sh\n[ -e {work.parent}/off ] || exec {shutil.which("bwrap")} "$@"\n' + place.read_text())

    def script(request: Request) -> Call | str:
        if request.turns == 1:
            (work.parent / "off").touch()
        return "Done." if request.turns == 2 else shell(f"touch {request.turns}")

    with ScriptServer(script) as server:
        ran = plait(*line(server), cwd=work, env=environment(**broken))
    with ScriptServer([shell("echo bwrap: here"), "Done."]) as server:
        (work.parent / "off").unlink()
        said = plait(*line(server), cwd=work, env=environment(**broken))

    assert 0 == said.code, "a command's own words are no failure of the fence"
    assert (1, ["sandbox"], {"0"}) == (
        ran.code,
        [each["by"] for each in ran.json["denials"]],
        {path.name for path in work.iterdir()},
    )


def test_a_person_is_asked_where_there_is_no_fence(work: Path, broken: dict[str, str]) -> None:
    """The reason comes before the first question."""
    with ScriptServer([shell("touch made"), "Done."]) as server:
        argv = [PLAIT, *line(server)]
        with on_terminal(argv, cwd=work, env=environment(**broken)) as seen:
            seen.wait_for(b"Allow?")
            assert seen.shown.index(NO_FENCE.encode()) < seen.shown.index(b"plait wants to")
            seen.type(b"y\n")
            code = seen.end()

    assert (0, True) == (code, (work / "made").exists())


def test_on_has_hooks_inside_and_refuses_what_has_no_way_in(work: Path, tmp_path: Path) -> None:
    """A hook cannot write outside, a plugin without a way in does not run, and that is no success."""
    plugins = tmp_path / "home/plugins"
    plugins.mkdir(parents=True)
    (plugins / "p.py").write_text(
        "from plait import Tool\ndef act():\n    return 'acted'\nTOOLS = [Tool('own', 'acts', act)]\n"
    )
    (plugins / "p.py").chmod(0o644)
    (tmp_path / "hooks.json").write_text(
        '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": '
        f'"touch {tmp_path}/hooked {work}/hooked"}}]}}]}}}}'
    )
    env = environment(PLAIT_HOME=str(plugins.parent))
    with ScriptServer([Call("own", {}), shell("true"), "Done."] * 2) as server:
        hooks = ("--hooks", str(tmp_path / "hooks.json"))
        on = plait(*line(server, "--sandbox", "on", *hooks), cwd=work, env=env)
        inside = [path.exists() for path in (work / "hooked", tmp_path / "hooked")]
        auto = plait(*line(server, *hooks), cwd=work, env=env)

    assert (1, ["sandbox"]) == (on.code, [each["by"] for each in on.json["denials"]])
    assert [True, False] == inside
    assert (0, True, True) == (auto.code, (tmp_path / "hooked").exists(), "acted" in str(server.requests[-2].messages))


def test_a_session_goes_on_behind_another_fence(work: Path) -> None:
    """The run that goes on says so in one line, once, and a command that outlived its run is collected as it began."""
    with ScriptServer([shell("touch ran; sleep 0.5; echo done"), "One.", "Two."]) as server:
        process = start(*line(server, "--session", "s"), cwd=work)
        wait_until((work / "ran").exists, "the command")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        off = plait("resume", "s", "--sandbox", "off", "--json", cwd=work)
        again = plait("resume", "s", "more", "--sandbox", "off", "--json", cwd=work)

    assert (0, [LEVEL]) == (off.code, levels(off))
    assert [1, 0] == [ran.err.count("the sandbox of this session was 'auto' and is 'off' now") for ran in (off, again)]
