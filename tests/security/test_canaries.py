"""X50: of forty secrets planted around a whole run, none is in what plait leaves, sends, prints or hands on."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from plait.core.facts import ToolEnd
from plait.core.mask import MASK
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.models.chat_model import chat_model
from plait.store.opening import load_journal
from plait.testing import Call, ScriptServer
from plait.testing.faults import Status
from plait.testing.request import Request
from tests.e2e.command import environment, plait, start, wait_until
from tests.helpers.mcp_server import command


def canary(name: str) -> str:
    """Return a secret that looks like no service's token, so that nothing but knowing it finds it."""
    return f"Zq{hashlib.sha256(name.encode()).hexdigest()[:22]}"


IN_ENVIRONMENT: Final = {
    name: canary(name)
    for name in (
        "OWN_KEY FILE_API_KEY GITHUB_TOKEN AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN NPM_TOKEN SLACK_BOT_TOKEN "
        "DB_PASSWORD MY_SECRET SESSION_COOKIE SENTRY_DSN SIGNING_PRIVATE_KEY VAULT_TOKEN AZURE_CLIENT_SECRET "
        "GPG_PASSPHRASE"
    ).split()
}
IN_URLS: Final = {name: canary(name) for name in ("DATABASE_URL", "MONGO_URL", "AMQP_URL", "REDIS_URL")}
OF_CONNECTION: Final = {name: canary(name) for name in ("header", "query", "key file", "keyring")}
IN_HOME: Final = {
    name: canary(name)
    for name in (
        ".netrc",
        ".ssh/id_rsa",
        ".aws/credentials",
        ".npmrc",
        ".git-credentials",
        ".docker/config.json",
        ".config/gh/hosts.yml",
        ".pgpass",
    )
}
IN_WORKSPACE: Final = {
    name: canary(name) for name in "env-key env-password yaml json url netrc pem curl HTTPS_PROXY".split()
}
NEVER: Final = {**IN_ENVIRONMENT, **IN_URLS, **OF_CONNECTION, **IN_HOME}
PEM: Final = "".join(f"{canary(f'pem {n}')}{canary(f'pem {n} more')}\n" for n in range(6))
HOOK: Final = """#!/bin/sh
cat >> "{sink}/payloads"
tr '\\0' '\\n' < /proc/self/environ >> "{sink}/hook-environ"
env
"""


def test_there_are_forty() -> None:
    """And no two are alike."""
    every = {*NEVER.values(), *IN_WORKSPACE.values()}
    assert (40, 40) == (len(NEVER) + len(IN_WORKSPACE), len(every))


@dataclass
class Run:
    """A whole run and what came of it."""

    folder: Path
    err: str = ""
    out: str = ""
    environs: dict[str, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    @property
    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """Every file that plait, its tools, hooks and servers have left; what was planted stands elsewhere."""
        for place in ("state", "sink"):
            for path in (self.folder / place).rglob("*"):
                if path.is_file() and not path.is_symlink():
                    yield str(path.relative_to(self.folder)), path.read_bytes()
        yield "stdout", self.out.encode()
        yield "stderr", self.err.encode()
        yield from self.environs.items()

    @property
    def sent(self) -> str:
        """All that a model was sent."""
        return "\n".join(request.body.decode() for request in self.requests)


def plant(folder: Path) -> None:
    """Lay a home, a workspace and the user's own settings out."""
    home, work = folder / "home", folder / "work"
    for name, secret in IN_HOME.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"machine example.com login me password {secret}\ntoken = {secret}\n")
    work.mkdir()
    (folder / "sink").mkdir()
    own = IN_WORKSPACE
    (work / ".env").write_text(f"MODE=fast\nAPI_KEY={own['env-key']}\nexport DB_PASSWORD='{own['env-password']}'\n")
    (work / "settings.yml").write_text(f"client:\n  client_secret: {own['yaml']}\n")
    (work / "settings.json").write_text(f'{{"access_token": "{own["json"]}", "mode": "fast"}}\n')
    (work / "compose.yml").write_text(f"db: postgres://app:{own['url']}@db:5432/app\n")
    (work / "netrc").write_text(f"machine example.com login me password {own['netrc']}\n")
    (work / "id").write_text("-----BEGIN " + f"PRIVATE KEY-----\n{own['pem']}\n{PEM}-----END " + "PRIVATE KEY-----\n")
    (work / "call.sh").write_text(f"curl -H 'Authorization: Bearer {own['curl']}' https://example.com\n")
    (folder / "key").write_text(f"{OF_CONNECTION['key file']}\n")
    (folder / "python").mkdir()
    (folder / "python" / "keyring.py").write_text(f"def get_password(*_): return {OF_CONNECTION['keyring']!r}\n")
    hook = folder / "hook.sh"
    hook.write_text(HOOK.format(sink=folder / "sink"))
    hook.chmod(0o755)
    entry = [{"matcher": "Bash|Edit|mcp__.*", "hooks": [{"type": "command", "command": str(hook)}]}]
    (folder / "hooks.json").write_text(json.dumps({"hooks": dict.fromkeys(("PreToolUse", "PostToolUse"), entry)}))
    first, *rest = command("chatty")
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"fake": {"command": first, "args": rest}}}))


def surroundings(folder: Path) -> dict[str, str]:
    """Return the environment of a run."""
    urls = {name: f"db://me:{secret}@127.0.0.1:9/" for name, secret in IN_URLS.items()}
    # Commands have the proxy too, with its password: without it they reach nothing.
    urls["HTTPS_PROXY"] = f"http://me:{IN_WORKSPACE['HTTPS_PROXY']}@127.0.0.1:9/"
    return environment(
        **IN_ENVIRONMENT,
        **urls,
        HOME=str(folder / "home"),
        PLAIT_HOME=str(folder / "state"),
        XDG_CONFIG_HOME=str(folder / "home" / ".config"),
        INFERENCE_DB=str(folder / "endpoints.toml"),
        PYTHONPATH=str(folder / "python"),
    )


def endpoints(folder: Path, url: str) -> None:
    """Write the user's list of endpoints: keys from a variable, from a file and from the keyring."""
    key = {
        "env": '{ source = "env", var = "OWN_KEY" }',
        "file": f'{{ source = "file", path = "{folder / "key"}" }}',
        "ring": '{ source = "keyring", service = "s", username = "u" }',
    }
    text = "".join(
        f'[endpoints.{name}]\nurl = "{url}"\nkey = [{source}]\nquery = {{ api_key = "{OF_CONNECTION["query"]}" }}\n'
        f'headers = {{ X-Auth-Token = "{OF_CONNECTION["header"]}" }}\n'
        for name, source in key.items()
    )
    (folder / "endpoints.toml").write_text(text)


def refusal(status: int, request: Request) -> Status:
    """Refuse a request, and repeat all that was sent with it."""
    told = " ".join((*(f"{name}: {value}" for name, value in request.headers.items()), request.query))
    return Status(status, json.dumps({"error": {"message": f"I got {told}"}}))


def script(request: Request) -> Any:
    """Answer as a model that reaches for everything, from the first refusal to the command that a crash cuts off."""
    told = [message["content"] for message in request.messages if message["role"] == "tool"]
    job = next((json.loads(text.splitlines()[0]) for text in map(str, told) if '"stdout_localfile"' in text), {})
    if request.number == 0:
        return refusal(503, request)
    return (
        Call(
            "exec_shell",
            {"command": "env; tr '\\0' '\\n' < /proc/self/environ; cat .env netrc; head -c 90000 /dev/zero"},
        ),
        Call("exec_shell", {"command": "cat settings.* compose.yml id call.sh; echo gone wrong >&2; exit 3"}),
        *(
            Call("read_file", {"path": name})
            for name in (".env", "settings.json", "compose.yml", "netrc", "id", "call.sh")
        ),
        Call("search_files", {"pattern": "(?i)secret|password|token"}),
        Call("str_replace", {"path": ".env", "old_str": "MODE=fast", "new_str": "MODE=slow"}),
        Call("write_file", {"path": ".env", "content": f"MODE=slow\nAPI_KEY={MASK}\n"}),
        *(Call("read_file", {"path": f"~/{name}"}) for name in (".netrc", ".ssh/id_rsa")),
        Call("mcp__fake__echo", {"text": "hello"}),
        Call("nohup", {"command": "env; cat .env"}),
        Call("nohup_wait", {"tool_exec_id": job.get("tool_exec_id", ""), "howmuch": 5}),
        Call("read_file", {"path": job.get("stdout_localfile", "x")}),
        Call("exec_shell", {"command": "touch parked; until [ -e go ]; do sleep 0.02; done; cat .env"}),
        "Done.",
    )[len(told)]


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below one."""
    listed: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            listed += path.read_text().split()
    for child in map(int, listed):
        yield child
        yield from descendants(child)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Make a run once: an error, tools, hooks, a server, a job, a crash, a resume; then some whose key is refused."""
    done = Run(tmp_path_factory.mktemp("canaries"))
    folder, work = done.folder, done.folder / "work"
    plant(folder)
    more = ("--mcp-config", str(folder / "mcp.json"), "--hooks", str(folder / "hooks.json"), "--nohup", "--yes")
    with ScriptServer(script) as server:
        endpoints(folder, server.url)
        env = surroundings(folder)
        line = ("run", "Do it.", "--inference-db", "env", "-m", "m", "--stream-json", "--session", "s", *more)
        process = start(*line, cwd=work, env=env, cold=True)
        wait_until(lambda: (work / "parked").exists() or process.poll() is not None, "the last command", 40)
        for pid in descendants(process.pid):
            for name in ("environ", "cmdline"):
                with suppress(OSError):  # it may have ended meanwhile
                    done.environs[f"{name} of {pid}"] = Path(f"/proc/{pid}/{name}").read_bytes()
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=30)
        (work / "go").touch()
        resumed = plait("resume", "s", "--stream-json", *more, cwd=work, env=env, cold=True)
        done.out, done.err = out.decode() + resumed.out, err.decode() + resumed.err
        done.requests = list(server.requests)
    assert 0 == resumed.code, resumed
    with ScriptServer(lambda request: refusal(401, request)) as server:
        endpoints(folder, server.url)
        for name in ("env", "file", "ring"):
            own = env if name == "ring" else {**env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            own = {variable: value for variable, value in own.items() if value}
            ran = plait("run", "x", "--inference-db", name, "-m", "m", "--json", cwd=work, env=own)
            done.out, done.err = done.out + ran.out, done.err + ran.err
            assert 3 == ran.code, ran
        keys = [request.headers["authorization"] for request in server.requests]
    assert [f"Bearer {key}" for key in (NEVER["OWN_KEY"], NEVER["key file"], NEVER["keyring"])] == keys
    return done


def test_the_run_was_a_whole_one(run: Run) -> None:
    """Every kind of artefact is there: otherwise it proves nothing that they hold no secret."""
    names = [name for name, _ in run.artefacts]
    wanted = "journal.jsonl messages.json /spill/ /spool/ mcp-logs/fake.log sink/payloads environ".split()
    assert [] == [part for part in wanted if not any(part in name for name in names)], names
    assert [True, True] == ["gone wrong" in run.sent, "hello" in run.sent]


def test_x50_none_of_them_is_in_anything_that_is_left(run: Run, record_property: Callable[[str, object], None]) -> None:
    """The user's keys, passwords and tokens are in no journal, event, log, error, child, nor in what is sent."""
    record_property("cases", len(NEVER))
    found = [
        (name, what)
        for name, secret in NEVER.items()
        for what, data in (*run.artefacts, ("requests", run.sent.encode()))
        if secret.encode() in data
    ]
    assert [] == found


def test_x50_what_a_tool_reads_in_the_workspace_is_masked_for_the_model(
    run: Run, record_property: Callable[[str, object], None]
) -> None:
    """By a command, a job, a search, a file tool: the model sees that something stood there, and not what."""
    record_property("cases", len(IN_WORKSPACE))
    assert [] == [name for name, secret in IN_WORKSPACE.items() if secret in run.sent]
    assert PEM.splitlines()[3] not in run.sent
    assert run.sent.count(MASK) > 15
    kept = run.folder / "state" / "sessions" / "s"
    results = [fact.result.content for fact in load_journal(kept / "journal.jsonl").facts if isinstance(fact, ToolEnd)]
    texts = [*results, (kept / "messages.json").read_text()]
    assert [] == [name for name, secret in IN_WORKSPACE.items() if any(secret in text for text in texts)]


def test_x50_the_secrets_of_the_workspace_are_still_there(run: Run) -> None:
    """The edit beside them is made, and the one that would write the mask over them is not."""
    text = (run.folder / "work" / ".env").read_text()
    assert [True, True, False] == ["MODE=slow" in text, IN_WORKSPACE["env-key"] in text, MASK in text]


@pytest.mark.parametrize("name", ["never", "workspace"])
def test_x50_a_trace_holds_none(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: a verbose trace of the kernel's face has the arguments of calls, and no secret in them or their results."""
    secret = {"never": IN_ENVIRONMENT["OWN_KEY"], "workspace": IN_WORKSPACE["env-key"]}[name]
    monkeypatch.setenv("OWN_KEY", IN_ENVIRONMENT["OWN_KEY"])
    line = f"API_KEY={secret}"
    calls = [Call("write_file", {"path": "a", "content": line}), Call("read_file", {"path": "a"})]
    with ScriptServer([*calls, "done"]) as server:
        config = Config(working_dir=str(tmp_path), log_dir=str(tmp_path / "traces"))
        model = chat_model("m", server.url, key_env="OWN_KEY")
        agent, telemetry, _ = build_runtime(config, verbose=True, model=model, approver=_Yes())
        agent.run("go").raise_for_status()
        telemetry.close()
        sent = server.requests[2].messages[-1]["content"]
    assert telemetry.path is not None
    assert (f"API_KEY={MASK}", False, True) == (
        sent,
        secret in telemetry.path.read_text(),
        MASK in telemetry.path.read_text(),
    )


class _Yes:
    """Says yes."""

    def approve(self, call: object, tool: object) -> bool:
        """Say yes."""
        return True


def test_x50_a_model_that_reads_the_parents_environment_sees_masks(tmp_path: Path) -> None:
    """A command may read what plait was started with, as any program of the user's can; the model is not shown it."""
    shown = "tr '\\0' '\\n' < /proc/$p/environ"
    climb = f"p=$PPID; while [ $p -gt 1 ]; do {shown}; p=$(awk '{{print $4}}' /proc/$p/stat); done"
    call = Call("exec_shell", {"command": f"({climb}) 2>&1 | grep -a KEY; {climb} | base64 -w0; {climb} | rev"})
    env = environment(**IN_ENVIRONMENT, PLAIT_HOME=str(tmp_path / "state"))
    with ScriptServer([call, "Done."]) as server:
        line = ("run", "x", "--endpoint", server.url, "-m", "m", "--key-env", "OWN_KEY", "--yes", "--no-durable")
        ran = plait(*line, "--sandbox", "off", cwd=tmp_path, env=env, cold=True)
        told = server.requests[1].body.decode()
    assert 0 == ran.code, ran
    assert [] == [name for name, secret in IN_ENVIRONMENT.items() if secret in told or secret[::-1] in told]
    assert f"OWN_KEY={MASK}" in told
