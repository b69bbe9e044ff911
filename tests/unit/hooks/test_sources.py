"""Where hooks stand, how they are written there, and what is wrong with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from plait.core.errors import ConfigError
from plait.hooks.entry import HookEntry
from plait.hooks.events import EVENTS, event_named
from plait.hooks.folders import discover_hook_dir
from plait.hooks.places import Place, check_compat, project_places, there, user_places
from plait.hooks.sources import dedupe_entries, read_place, read_source

CLAUDE = {
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash|Edit",
                "hooks": [{"type": "command", "command": "guard.sh", "timeout": 30, "statusMessage": "checking"}],
            },
            {"hooks": [{"type": "prompt", "prompt": "is it safe?"}]},
        ],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "x"}]}],
    },
}


def script(path: Path, text: str = "exit 0", mode: int = 0o755) -> Path:
    """Write an executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def test_a_file_of_either_dialect(tmp_path: Path) -> None:
    """Events, groups and hooks are read; what belongs to other programs is left out and told."""
    file = tmp_path / "settings.json"
    file.write_text("\ufeff" + json.dumps(CLAUDE), encoding="utf-8")

    entries, warnings = read_source("settings.json", tmp_path)

    at = f"{file}: hooks.PreToolUse"
    assert [
        HookEntry(
            "PreToolUse",
            "Bash|Edit",
            "guard.sh",
            timeout_s=30.0,
            status_message="checking",
            source=f"{at}[0].hooks[0]",
        )
    ] == entries
    assert [
        f"{at}[1].hooks[0]: hooks of the type 'prompt' are left out",
        f"{file}: hooks.WorktreeCreate: no event is called 'WorktreeCreate' here, so its hooks are left out",
    ] == warnings
    toml = tmp_path / "config.toml"
    toml.write_text('[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "done"\ntimeoutSec = 5\n')
    assert [("Stop", "done", 5.0)] == [(each.event, each.command, each.limit_s) for each in read_source(toml, "/")[0]]


def test_all_that_a_hook_can_say(tmp_path: Path) -> None:
    """A dict without its outer `hooks`, functions, entries and lists of sources are read as well."""
    hook = {
        "command": "g",
        "args": ["a"],
        "timeout": 0,
        "async": True,
        "additionalContextLimit": 9,
        "onError": "ignore",
    }
    made = HookEntry("Stop", fn=print)

    entries, warnings = read_source(
        [{"Interrupt": [{"hooks": [hook, print]}]}, made, tmp_path / "no.json"], "/", "kwarg"
    )

    first, second, third = entries
    assert ("g", ("a",), 3.0, True, 9, "ignore", "kwarg[0]: Interrupt[0].hooks[0]") == (
        first.command,
        first.args,
        first.limit_s,
        first.is_async,
        first.context_chars_max,
        first.on_error,
        first.source,
    )
    assert (print, made) == (second.fn, third)
    assert [f"{tmp_path / 'no.json'}: it is not there, so it holds no hooks"] == warnings
    assert {"event": "Stop", "matcher": "", "type": "python", "command": "print", "timeout_s": 60.0} == {
        name: value for name, value in third.to_dict().items() if name not in ("async", "on_error", "source")
    }


BAD: list[tuple[Any, str]] = [
    ('{"hooks": {\n  "Stop": [}', "the hooks in '{file}:2:12' are no JSON"),
    ("", "the hooks in '{file}:1:1' are no JSON"),
    ("\udcff", "the hooks in '{file}' are no JSON: not UTF-8 at byte 0"),
    ("[]", "{file} is an array"),
    ({"hooks": []}, "{file}: hooks is an array"),
    ({"hook": {}}, "{file}: hook is an object"),
    ({"hooks": {"Stop": {}}}, "{file}: hooks.Stop is an object"),
    ({"Stop": ["x"]}, "{file}: Stop[0] is a string"),
    ({"Stop": [{}]}, "{file}: Stop[0].hooks is missing"),
    ({"Stop": [{"matcher": 1, "hooks": []}]}, "{file}: Stop[0].matcher is a number"),
    ({"Stop": [{"hooks": ["x"]}]}, "{file}: Stop[0].hooks[0] is a string"),
    ({"Stop": [{"hooks": [{}]}]}, "{file}: Stop[0].hooks[0] has no command"),
    *(
        ({"Stop": [{"hooks": [{"command": "x", **wrong}]}]}, f"{{file}}: Stop[0].hooks[0].{next(iter(wrong))} {what}")
        for wrong, what in (
            ({"type": "comand"}, "is 'comand'"),
            ({"command": " "}, "is empty"),
            ({"command": 1}, "is a number"),
            ({"args": "a"}, "is a string"),
            ({"timeout": -1}, "is -1"),
            ({"timeout": True}, "is True"),
            ({"async": "yes"}, "is a string"),
            ({"additionalContextLimit": 1.5}, "is 1.5"),
            ({"onError": "block"}, "is 'block'"),
            ({"onError": "deny", "async": True}, "is 'deny'"),
        )
    ),
    (
        {"PreToolUse": [{"matcher": "(", "hooks": [{"command": "x", "onError": "deny"}]}]},
        "{file}: PreToolUse[0].matcher",
    ),
    ({"Stop": [{"hooks": [{"type": "agent", "onError": "deny"}]}]}, "{file}: Stop[0].hooks[0].type is 'agent'"),
]


@pytest.mark.parametrize("content, sentence", BAD)
def test_a_file_that_cannot_be_meant_is_an_error(content: Any, sentence: str, tmp_path: Path) -> None:
    """The error names the file and the place in it; a broken guard never passes for no guard."""
    file = tmp_path / "hooks.json"
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ConfigError) as caught:
        read_source(file, tmp_path)

    assert sentence.format(file=file) in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe does not hold the start, a huge file is not read, and another value is no source."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge.json").write_text(" " * ((1 << 20) + 1))

    for source, words in (("pipe", "are no file"), ("huge.json", "are more than"), (7, "cannot be read from 7")):
        with pytest.raises(ConfigError, match=words):
            read_source(source, tmp_path)


def test_doubtful_hooks_are_told() -> None:
    """A misspelt key, a near miss of an event and a matcher that is none are warnings with their place."""
    data = {
        "Stopp": [],
        "PreToolUse": [
            {"matcher": "(", "hooks": [{"command": "x", "timeuot": 1, "if": "Bash(ls)"}]},
            {"matchr": "Bash", "description": "for commands", "hooks": []},
        ],
    }

    entries, warnings = read_source(data, "/")

    assert 1 == len(entries)
    assert [
        "Stopp: no event is called 'Stopp' here, so its hooks are left out; did you mean 'Stop'?",
        "PreToolUse[0].matcher: '(' is no regular expression "
        "(missing ), unterminated subpattern at position 0), so it matches nothing",
        "PreToolUse[0].hooks[0]: 'timeuot' means nothing here; did you mean 'timeout'?",
        "PreToolUse[0].hooks[0]: 'if' means nothing here",
        "PreToolUse[1]: 'matchr' means nothing here; did you mean 'matcher'?",
    ] == warnings


def test_a_hook_that_has_to_agree_is_never_left_out() -> None:
    """Under an event that there is not, it is an error and no warning."""
    gate = {"PreTolUse": [{"hooks": [{"command": "x"}, {"command": "guard", "onError": "deny"}]}]}

    with pytest.raises(ConfigError, match="used: PreTolUse is no event; did you mean 'PreToolUse'"):
        read_source(gate, "/")


def test_a_folder_says_by_its_names_what_its_scripts_are_for(tmp_path: Path) -> None:
    """The event is the end of a name or a folder around it; what is no hook is passed over, what might be is told."""
    hooks = tmp_path / "hooks"
    good = {
        "notify-stop.py": ("Stop", ""),
        "Stop/notify.py": ("Stop", ""),
        "PreToolUse/Bash/guard.sh": ("PreToolUse", "Bash"),
        "notify-subagent-stop.py": ("SubagentStop", ""),
        "session_start": ("SessionStart", ""),
        "pre-tool-use/Edit|Write/x": ("PreToolUse", "Edit|Write"),
    }
    for name in good:
        script(hooks / name)
    for name in (".hidden-stop", "stop.sh.disabled", "__pycache__/stop.py", "README.md", "readme", "notes.txt"):
        script(hooks / name)
    script(hooks / "my-stop.sh", mode=0o644)
    script(hooks / "whatever.sh")
    script(hooks / "Stop/a/b/c.sh")

    entries, warnings = discover_hook_dir(hooks)

    assert good == {str(Path(each.source).relative_to(hooks)): (each.event, each.matcher) for each in entries}
    assert [
        f"{hooks}/Stop/a/b: too deep for hooks; it is EVENT/MATCHER/SCRIPT",
        f"{hooks}/my-stop.sh: it may not be executed (chmod +x), so it is left out",
        f"{hooks}/whatever.sh: its name means no event, so it is left out",
    ] == sorted(warnings)
    assert ([], []) == discover_hook_dir(tmp_path / "none")
    assert (list(EVENTS), None) == ([event_named(name.lower()) for name in EVENTS], event_named("guard"))


def test_one_file_in_two_places_runs_once(tmp_path: Path) -> None:
    """A script that a folder holds and a file names is one hook; shell lines and functions are each their own."""
    guard = script(tmp_path / "hooks/PreToolUse/Bash/guard.sh")
    named = [
        HookEntry("PreToolUse", "Bash", "hooks/PreToolUse/Bash/guard.sh", source="file"),
        HookEntry("PreToolUse", "", str(guard)),
        HookEntry("Stop", "Bash", str(guard)),
        *[HookEntry("PreToolUse", "Bash", f"{guard} && true")] * 2,
        *[HookEntry("PreToolUse", "Bash", fn=print)] * 2,
        *[HookEntry("Stop", command="true"), HookEntry("Stop", command="true", args=())],
    ]

    kept = dedupe_entries([*named, *discover_hook_dir(tmp_path / "hooks")[0]], tmp_path)

    assert named[:-1] == kept


def test_the_places_of_the_user_the_project_and_other_programs(tmp_path: Path) -> None:
    """Plait's own come first; other programs' files are looked at only where they are named."""
    project = tmp_path / "repo"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".claude").mkdir()
    settings = project / ".claude/settings.json"
    settings.write_text(json.dumps({"permissions": {}}))
    environ = {"HOME": str(tmp_path / "home")}

    own = [tmp_path / "home/.config/plait" / name for name in ("hooks.json", "hooks")]
    assert own == [place.path for place in user_places(environ)]
    assert tmp_path / "x/plait/hooks" == user_places({**environ, "XDG_CONFIG_HOME": str(tmp_path / "x")})[1].path
    assert tmp_path / "home/.codex/hooks.json" == user_places(environ, ["codex"])[2].path
    assert [project / ".plait" / name for name in ("hooks.json", "hooks")] == [
        place.path for place in project_places(project / "src")
    ]
    assert [Place(settings, is_settings=True)] == there(project_places(project / "src", check_compat(["claude"])))
    assert ([], []) == read_place(Place(settings, is_settings=True))
    settings.write_text(json.dumps({"disableAllHooks": True, "hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}))
    assert [f"{settings}: disableAllHooks: all hooks of this file are off"] == read_place(Place(settings, True))[1]
    with pytest.raises(ConfigError, match="hooks_compat names 'cursor'"):
        check_compat(["cursor"])
