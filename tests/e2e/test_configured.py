"""Settings and profiles on the command line: written, shown, obeyed, and refused with their place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from plait.testing import Call, Request, Say, ScriptServer
from tests.e2e.command import environment, plait


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The user's own plait.toml, and a folder to work in."""
    path = Path(os.environ["XDG_CONFIG_HOME"], "plait", "plait.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "work" / ".git").mkdir(parents=True)
    return path


def test_what_is_written_shown_and_obeyed(own: Path, tmp_path: Path) -> None:
    """A trusted project beats the user, a variable both, an option everything; `show` says whence each came."""
    work, theirs = tmp_path / "work", tmp_path / "work" / "plait.toml"
    with ScriptServer(lambda _: "Done.") as server, ScriptServer(lambda _: "No.") as other:
        own.write_text(
            f'model = "big"\nkey_env = "OTHER_KEY"\nendpoint = "{other.url}"\nawareness = ["time"]\n'
            "max_output_tokens = 9\n\n"
            f'[models.big]\nmodel = "org/big-1"\nendpoint = "{server.url}"\nmax_output_tokens = 77\n'
        )
        theirs.write_text("max_steps = 7\nsystem_prompt_supplement = 'Be brief.'\n")

        ran = plait("run", "go", "--json", cwd=work, env=environment(OTHER_KEY="k", PLAIT_AWARENESS=""))
        assert (0, "Done.") == (ran.code, ran.json["reply"])
        body, headers = server.requests[0].json, server.requests[0].headers
        assert ("org/big-1", 77) == (body["model"], body["max_tokens"])
        assert not any("k" == value.removeprefix("Bearer ") for value in headers.values())
        assert "Be brief." not in body["messages"][0]["content"]
        assert "<session_time>" in body["messages"][1]["content"]
        assert "<environment>" not in body["messages"][1]["content"]
        assert "not trusted (plait trust)" in ran.err

        assert 0 == plait("trust", "--yes", cwd=work).code
        env = environment(PLAIT_MODEL="small", PLAIT_AWARENESS="off", PLAIT_MODLE="x", PLAIT_ENDPOINT=server.url)
        env["PLAIT_APPROVAL_POLICY"] = "deny_mutations"
        ran = plait("run", "go", cwd=work, env=env)
        body = server.requests[1].json
        assert (0, "small", 9) == (ran.code, body["model"], body["max_tokens"])
        assert "Be brief." in body["messages"][0]["content"]
        assert "go" == body["messages"][1]["content"]
        assert "(as PLAIT_ENDPOINT says)" in ran.err
        assert "PLAIT_MODLE is no setting; did you mean PLAIT_MODEL?" in ran.err
        assert "PLAIT_APPROVAL_POLICY: for build_runtime only" in ran.err

        ran = plait("run", "go", "-m", "mine", "--endpoint", server.url, cwd=work)
        assert ("mine", 0) == (server.requests[2].json["model"], len(other.requests))

    shown = plait("config", "show", "--origin", cwd=work, env=environment(PLAIT_MAX_STEPS="3"))
    assert (0, "") == (shown.code, shown.err)
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert {f"# {own}: read", f"# {theirs}: read", 'model = "big" # ' + f"{own}:1"} <= set(lines)
    assert {"max_steps = 3 # PLAIT_MAX_STEPS", f'system_prompt_supplement = "Be brief." # {theirs}:2'} <= set(lines)
    assert {"[models.big]", f"max_output_tokens = 77 # {own}:10"} <= set(lines)
    told = plait("config", "show", "--json", "--all", cwd=work).json
    assert {"value": 7, "origin": f"{theirs}:1"} == told["settings"]["max_steps"]
    assert {"value": None, "origin": "default", "default": "5"} == told["settings"]["retries"]

    (work / "b.toml").write_text('approval_policy = "smart"\n[sandbox]\nmode = "on"\n[permissions]\ndeny = ["Bash"]\n')
    shown = plait("config", "show", "--config", "b.toml", cwd=work, env=environment(PLAIT_AWARENESS=""))
    said = f"# {work / 'b.toml'} also has [permissions], [sandbox], which is not shown here"
    assert [said, 'approval_policy = "smart"  # (only for build_runtime)'] == shown.out.splitlines()


def test_a_fault_is_told_with_its_place_before_anything_begins(own: Path, tmp_path: Path) -> None:
    """A misspelt setting, a wrong variable, an unknown profile and a missing file end with 2 and what to do."""
    work = tmp_path / "work"
    own.write_text("\nmax_cost = 3\n")
    for command in (("run", "go"), ("config", "show"), ("context",)):
        ran = plait(*command, cwd=work)
        assert (2, "") == (ran.code, ran.out)
        assert f"{own}:2: 'max_cost' is no setting" in ran.err
        assert "did you mean 'max_cost_usd'?" in ran.err
    own.write_text("")
    for command, env, words in (
        (("run", "go"), {"PLAIT_MAX_STEPS": "many"}, "PLAIT_MAX_STEPS: 'max_steps' is 'many'"),
        (("run", "go", "--profile", "reviwer"), {}, "did you mean 'reviewer'?"),
        (("run", "go"), {"PLAIT_PROFILE": "saf"}, "PLAIT_PROFILE: no profile is called 'saf'"),
        (("run", "go", "--config", "none.toml"), {}, "none.toml"),
        (("run", "go"), {"PLAIT_SANDBOX": "on"}, "where `plait run` runs commands says a table [sandbox]"),
        (("config", "show"), {"PLAIT_AWARENESS": "smell"}, "PLAIT_AWARENESS: 'awareness' names 'smell'"),
        (("run", "go"), {"PLAIT_AWARENESS": "smell"}, "PLAIT_AWARENESS: 'awareness' names 'smell'"),
    ):
        ran = plait(*command, cwd=work, env=environment(**env))
        assert (2, True) == (ran.code, words in ran.err), ran
    assert not list(Path(os.environ["PLAIT_HOME"]).glob("sessions/*"))


def test_a_first_file_is_written_and_none_is_lost(own: Path, tmp_path: Path) -> None:
    """`init` writes at the project's root what can be read again; a file that is there stays, or is kept beside."""
    work = tmp_path / "work"
    (work / "src").mkdir()
    path = work / "plait.toml"

    assert 0 == plait("init", cwd=work / "src").code
    assert "# max_cost_usd = 1.0" in path.read_text()
    again = plait("init", cwd=work)
    assert (2, True) == (again.code, "--force replaces it" in again.err)
    path.write_text("max_steps = 1\n")
    assert 0 == plait("init", "--force", cwd=work).code
    assert "max_steps = 1\n" == (work / "plait.toml.old").read_text()
    settings = [line.removeprefix("# ") for line in path.read_text().splitlines() if " = " in line][:10]
    assert "awareness" in settings[9]
    path.write_text("\n".join(settings))
    assert 0 == plait("config", "show", "--config", "plait.toml", cwd=work).code
    assert 0 == plait("init", "--global", cwd=work).code
    assert own.exists()


def test_the_older_systems_file_is_taken_over(own: Path, tmp_path: Path) -> None:
    """Its settings get their names here, its tables stay; what there is no place for is told with its line."""
    work = tmp_path / "work"
    (work / "agentkernel.toml").write_text(
        'provider = "openai"\nmodel = "gpt-4o"\nmax_iterations = 9\nmax_input_tokens_per_run = 1000\n'
        "keep_recent_turns = 3\n"
        'approval_allowlist = ["ls", "git status"]\nenable_kanban = true\nstream = "yes"\nmodle = "x"\nstream_it = 1\n'
        '[[mcp_servers]]\nname = "time"\ncommand = "mcp-server-time"\nargs = ["--utc"]\nenv = { A = "b" }\n'
    )

    ran = plait("init", "--from", "agentkernel.toml", cwd=work)

    assert 0 == ran.code
    place = str(work / "agentkernel.toml")
    assert [
        f"left out: {place}:7: enable_kanban is not available yet",
        f"left out: {place}:8: stream is not true or false",
        f"left out: {place}:9: modle is no setting; did you mean 'model'?",
    ] == ran.out.splitlines()[1:4]
    bare = environment(PLAIT_AWARENESS="")
    told = plait("config", "show", "--json", "--config", "plait.toml", cwd=work, env=bare).json["settings"]
    assert {
        "endpoint": "openai",
        "model": "gpt-4o",
        "max_steps": 9,
        "max_input_tokens": 1000,
        "compaction_keep_last_turns": 3,
        "approval_allowlist": ["ls", "git status"],
    } == {name: setting["value"] for name, setting in told.items()}
    tables = '[[mcp_servers]]\nname = "time"\ncommand = "mcp-server-time"\nargs = ["--utc"]\nenv = { "A" = "b" }\n'
    assert tables in (work / "plait.toml").read_text()


def test_a_profile_holds_in_a_run_and_after_it(own: Path, tmp_path: Path) -> None:
    """A run by a profile shows and permits its tools only, its model is asked, and a resume keeps to it."""
    work = tmp_path / "work"

    def answer(request: Request) -> object:
        if request.json["messages"][-1]["role"] == "tool":
            return "Done."
        return Say(calls=[Call("write_file", {"path": "a.txt", "content": "x"})])

    (own.parent / "profiles").mkdir()
    (own.parent / "profiles" / "mine.toml").write_text(
        'system_prompt = "Only look."\ntool_filter = ["read_file"]\nmodel_override = "looker"\n'
    )
    with ScriptServer(answer) as server:
        own.write_text(f'endpoint = "{server.url}"\nmodel = "any"\nprofile = "mine"\n')
        ran = plait("run", "--yes", "go", "--session", "s", cwd=work)
        resumed = plait("resume", "s", "more", "--yes", cwd=work, env=environment(PLAIT_PROFILE="coder"))
        flagged = plait("run", "--yes", "go", "-m", "other", "--profile", "planner", cwd=work)
        seen = plait("context", "--json", "--profile", "safe", cwd=work).json

    assert (0, 0, 0) == (ran.code, resumed.code, flagged.code), resumed
    assert not (work / "a.txt").exists()
    assert ["looker"] * 4 + ["other"] * 2 == [request.json["model"] for request in server.requests]
    for request in server.requests[:4]:
        assert ["read_file"] == [tool["function"]["name"] for tool in request.json["tools"]]
        assert "Only look." in request.json["messages"][0]["content"]
    assert "tools" not in server.requests[4].json
    assert "not permitted" in json.dumps(server.requests[5].json["messages"][-1])
    parts = {(part["kind"], part["name"]) for part in seen["parts"]}
    assert {("system", "profile"), ("tool", "read_file")} <= parts
    assert ("tool", "write_file") not in parts
