"""`plait run` on a model at an endpoint: what it does, prints and exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plait.testing import Call, Request, Say, ScriptServer
from tests.e2e.command import environment, plait, plait_each

CREATE = [Say("I will.", calls=[Call("write_file", {"path": "hello.txt", "content": "hello\n"})]), "Done."]


def test_a_task_is_done_and_told_as_one_object(tmp_path: Path) -> None:
    """The file is there, stdout is one JSON object with every key, and the exit code is 0."""
    with ScriptServer(CREATE) as server:
        ran = plait("run", "create hello.txt", "--endpoint", server.url, "-m", "any", "--json", cwd=tmp_path, cold=True)

    assert (0, "hello\n") == (ran.code, (tmp_path / "hello.txt").read_text())
    told = ran.json
    assert ("completed", "Done.", None, 2, []) == tuple(told[k] for k in "status reply error steps denials".split())
    assert told["session_id"]
    assert told["duration_s"] > 0
    assert 0 < told["usage"]["cached"] < told["usage"]["input"]
    assert "any" == server.requests[0].model


def test_a_pipe_gets_the_answer_and_nothing_else(tmp_path: Path) -> None:
    """Progress, numbers and colours are not in the way of `| cat`; the folder is chosen with -C."""
    with ScriptServer(CREATE) as server:
        ran = plait(
            "run",
            *("-C", str(tmp_path), "create", "hello.txt", "--endpoint", server.url, "-m", "any"),
            env=environment(NO_COLOR="1"),
        )

    assert (0, "Done.\n") == (ran.code, ran.out)
    assert "write_file hello.txt\n  +1 -0\n" in ran.err
    assert "2 steps, " in ran.err
    assert "\x1b" not in ran.err
    assert "create hello.txt" in server.requests[0].text


def test_every_event_is_a_line_and_the_last_is_the_result(tmp_path: Path) -> None:
    """--stream-json tells the run as it happens."""
    with ScriptServer(CREATE) as server:
        ran = plait("run", "x", "--endpoint", server.url, "-m", "any", "--stream-json", cwd=tmp_path)

    types = [line["type"] for line in ran.lines]
    assert (0, "") == (ran.code, ran.err)
    assert ["turn_start", "result"] == [types[0], types[-1]]
    assert {"content_delta", "tool_call", "tool_result", "usage", "final_answer"} <= set(types)
    assert "Done." == ran.lines[-1]["reply"]


def test_a_command_needs_a_yes(tmp_path: Path) -> None:
    """Without a sandbox and a terminal a command is denied, the model is told how it is allowed: that is no success."""

    def script(request: Request) -> Say:
        command = Call("exec_shell", {"command": "touch made"})
        return (
            Say("I could not." if "--yes" in request.last_text else "I could.")
            if request.turns
            else Say(calls=[command])
        )

    with ScriptServer(script) as server:
        arguments = ("run", "x", "--endpoint", server.url, "-m", "any", "--json", "--sandbox", "off")
        denied, allowed = plait_each(arguments, (*arguments, "--yes"), cwd=tmp_path)

    assert (1, "I could not.", "completed") == (denied.code, denied.json["reply"], denied.json["status"])
    assert "ApprovalDenied" == denied.json["error"]["class"]
    assert [("exec_shell", "nobody")] == [(d["tool"], d["by"]) for d in denied.json["denials"]]
    assert (0, "I could.", True) == (allowed.code, allowed.json["reply"], (tmp_path / "made").exists())


def test_rules_of_the_command_line(tmp_path: Path) -> None:
    """What they allow runs without a terminal, what they deny never does, `--yes` or not; each denial has its rule."""
    calls = [Call("exec_shell", {"command": f"touch {name}"}) for name in ("one", "two", "three", "four")]
    rules = ["--allow", "Bash(touch one)", "--deny", "Bash(touch two)", "--ask", "Bash(touch three)"]
    rules += ["--sandbox", "off"]
    seen: list[tuple[int, list[tuple[str, str | None]], set[str]]] = []
    for more in ([], ["--yes"]):
        work = tmp_path / f"work{len(seen)}"
        work.mkdir()
        with ScriptServer([*(Say(calls=[call]) for call in calls), "Done."]) as server:
            arguments = ["run", "x", "--endpoint", server.url, "-m", "any", "--json", *rules, *more]
            ran = plait(*arguments, cwd=work)
        denials = [(each["by"], each["rule"]) for each in json.loads(ran.out)["denials"]]
        seen.append((ran.code, denials, {path.name for path in work.iterdir()}))
    rule = "the rule {} Bash(touch {}) (the command line, {} 1)".format
    two, three = ("rule", rule("deny", "two", "deny")), ("nobody", rule("ask", "three", "ask"))
    assert [(1, [two, three, ("nobody", None)], {"one"}), (1, [two, three], {"one", "four"})] == seen

    wrong = plait("run", "x", "--deny", "Bash(", cwd=tmp_path)
    assert (2, True) == (wrong.code, "--deny" in wrong.err and "is no rule" in wrong.err)


def test_a_change_outside_the_folder_needs_a_yes(tmp_path: Path) -> None:
    """A path that leads out, by its text or through a link, is not written without one."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    calls = [Call("write_file", {"path": path, "content": "x"}) for path in ("../outside/a", "link/b", "c")]
    with ScriptServer([Say(calls=calls), "Done."] * 2) as server:
        arguments = ("run", "x", "--endpoint", server.url, "-m", "any", "--json")
        denied, allowed = plait_each(arguments, (*arguments, "--yes"), cwd=inside)

    assert (1, 2, True) == (denied.code, len(denied.json["denials"]), (inside / "c").exists())
    results = [m["content"] for m in server.requests[1].messages if m["role"] == "tool"]
    assert [True, True, False] == ["Not run" in text for text in results]
    assert (0, ["a", "b"]) == (allowed.code, sorted(path.name for path in outside.iterdir()))


def test_limits_end_a_run_with_their_name(tmp_path: Path) -> None:
    """Steps and time are limits: exit code 1, status `limit`, and the flag that raises it in the advice or message."""
    with ScriptServer(
        [Call("list_dir", {}), Call("list_dir", {}), Say("late", delay_s=30)], allow_unused=True
    ) as server:
        arguments = ("run", "x", "--endpoint", server.url, "-m", "any", "--json")
        steps, timed = plait_each((*arguments, "--max-steps", "2"), (*arguments, "--timeout", "0.2"), cwd=tmp_path)

    assert [(1, "limit", "LimitReached")] * 2 == [
        (r.code, r.json["status"], r.json["error"]["class"]) for r in (steps, timed)
    ]
    assert 2 == steps.json["steps"]
    assert "--timeout" in timed.json["error"]["advice"]


def test_the_task_may_come_from_standard_input(tmp_path: Path) -> None:
    """`-` stands for standard input, alone or after words."""
    with ScriptServer(["One.", "Two."]) as server:
        arguments = ("--endpoint", server.url, "-m", "any", "-q")
        found = plait_each(("run", "-", *arguments), ("run", "review", "-", *arguments), cwd=tmp_path, typed="größe\n")

    assert [("One.\n", ""), ("Two.\n", "")] == [(ran.out, ran.err) for ran in found]
    assert ["größe", "review\n\ngröße"] == [request.last_text for request in server.requests]


def test_a_picture_is_shown_to_the_model(tmp_path: Path) -> None:
    """--image takes a file or an address; a model known to be blind is refused in a sentence."""
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    address = "https://example.com/b.png"
    with ScriptServer(["A dot."]) as server:
        arguments = ("run", "what is it?", "--endpoint", server.url, "-m", "any", "--json", "--image")
        seen, blind = plait_each(
            (*arguments, "dot.png", "--image", address),
            ("run", "x", "--endpoint", "deepseek", "-m", "deepseek-chat", "--json", "--image", address),
            cwd=tmp_path,
        )

    assert ["text", "image_url", "image_url"] == [part["type"] for part in server.requests[0].messages[-1]["content"]]
    assert (0, "A dot.") == (seen.code, seen.json["reply"])
    assert (3, "UnsupportedFeature") == (blind.code, blind.json["error"]["class"])


def test_an_answer_fits_a_schema(tmp_path: Path) -> None:
    """--output-schema asks for a value, printed as JSON, also under `structured`; one that stays wrong ends with 3."""
    (tmp_path / "city.json").write_text(
        '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    )
    good, bad = Call("final_answer", {"n": 3}), Call("final_answer", {"n": "x"})
    with ScriptServer([good, good, bad, bad]) as server:
        arguments = ("run", "how many?", "--endpoint", server.url, "-m", "any", "--output-schema", "city.json")
        whole, plain, wrong = plait_each((*arguments, "--json"), arguments, (*arguments, "--json"), cwd=tmp_path)

    assert (0, {"n": 3}, '{"n":3}') == (whole.code, whole.json["structured"], whole.json["reply"])
    assert (0, '{"n":3}\n') == (plain.code, plain.out)
    assert (3, "InvalidOutput", None) == (wrong.code, wrong.json["error"]["class"], wrong.json["structured"])
    assert "final_answer" == server.requests[0].tools[-1]["function"]["name"]


def test_a_spec_is_used_when_it_is_named(tmp_path: Path) -> None:
    """--spec gives model, endpoint and tools, flags win over it; a spec that lies in the folder chooses nothing."""
    read_file = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
    with ScriptServer(["One.", "Two.", "Three."]) as server:
        spec = {"model": "of-the-spec", "endpoint": server.url, "tool_specs": [read_file]}
        (tmp_path / "agent_spec_any.json").write_text(json.dumps(spec))
        named, replaced, ignored = plait_each(
            ("run", "x", "--spec", "agent_spec_any.json", "--json"),
            ("run", "x", "--spec", "agent_spec_any.json", "-m", "other", "--json"),
            ("run", "x", "--endpoint", server.url, "-m", "any", "--json"),
            cwd=tmp_path,
        )

    assert [0, 0, 0] == [ran.code for ran in (named, replaced, ignored)]
    assert ["of-the-spec", "other", "any"] == [request.model for request in server.requests]
    assert [1, 1, 7] == [len(request.tools) for request in server.requests]


@pytest.mark.parametrize("arguments", [["-m", "plait", "--version"], ["-m", "plait", "-V"]])
def test_the_module_is_the_command(arguments: list[str]) -> None:
    """`python -m plait` answers as `plait` does."""
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)

    assert plait("--version").out == ran.stdout
    assert ran.stdout.startswith("plait ")


def test_plugins_of_the_users_own_are_tools(tmp_path: Path) -> None:
    """Their tools are there unless --no-plugins says otherwise; what is skipped is said, and stdout stays data."""
    own, work = tmp_path / "home/plugins", tmp_path / "work"
    for folder in (own, work / ".plait/plugins"):
        folder.mkdir(parents=True)
        (folder / "p.py").write_text(
            "import os\nfrom plait import Tool\nos.write(1, b'noise')\nprint('more noise')\n"
            "def act():\n    return 'acted'\nTOOLS = [Tool('own', 'acts', act), Tool('exec_shell', 'another', act)]\n"
        )
        (folder / "p.py").chmod(0o644)
    (own / "broken.py").write_text("raise SystemExit(7)\n")
    (own / "broken.py").chmod(0o644)
    env = environment(PLAIT_HOME=str(own.parent))
    with ScriptServer([Say("", calls=[Call("own", {})]), "Done.", "Done."]) as server:
        where = ("x", "--endpoint", server.url, "-m", "any")
        ran = plait("run", *where, cwd=work, env=env)
        without = plait("run", *where, "--no-plugins", cwd=work, env=env)

    assert (0, "Done.\n") == (ran.code, ran.out)
    for part in ("broken.py' could not be loaded: SystemExit: 7", "'exec_shell' of a plugin", "is not trusted"):
        assert part in ran.err
    assert "acted" in server.requests[1].text
    assert [True, False] == ["acts" in str(request.tools) for request in (server.requests[0], server.requests[2])]
    assert (0, "Done.\n", False) == (without.code, without.out, "plugin" in without.err)
