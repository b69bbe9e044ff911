"""X53: what plait keeps is its owner's from its birth, whatever the umask, and is kept in nobody else's folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import execute_tool_call, init_session, run_turn
from plait.config.trust import TrustStore
from plait.core.errors import ConfigError
from plait.engine.kernel_config import Config
from plait.engine.kernel_face import build_runtime
from plait.engine.spec import default_specification
from plait.engine.trusting import trust_store
from plait.session.history.rewinding import rewind
from plait.testing import Call, Say, ScriptedModel
from plait.tools.mcp.log import ServerLog
from tests.helpers.warm import run_warm

SPEC = default_specification("m", "http://127.0.0.1:1/v1")
WATCH = """
import os, sys
def watch(state):
    # After each call of plait's own that may have made something, the rights of all that is there are looked at.
    def hook(event, args):
        if event in ("os.chmod", "os.fchmod", "os.rename", "os.mkdir", "open") and not looking:
            looking.append(1)
            for folder, folders, files in os.walk(state):
                for name in ("", *files):
                    path = os.path.join(folder, name)
                    try:
                        mode = os.lstat(path).st_mode & 0o777
                    except FileNotFoundError:
                        continue
                    if mode & 0o077:
                        print(path, oct(mode))
            looking.clear()
    looking = []
    sys.addaudithook(hook)
"""


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Take nothing away from what a program asks for."""
    before = os.umask(0)
    yield
    os.umask(before)


def kinds(folder: Path) -> dict[str, str]:
    """Return the rights of everything below a folder, by name, where they are not those of its owner alone."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            found[str(path)] = oct(stat.S_IMODE(mode))
    return found


def work(state: Path, place: Path) -> None:
    """Have a session, a trace, a list of trust and a server's log written, with all that belongs to them."""
    os.environ["PLAIT_HOME"] = str(state)
    calls = [
        Call("exec_shell", {"command": "head -c 200000 /dev/zero | tr '\\0' x; echo"}),
        Call("write_file", {"path": "a", "content": "one"}),
        Call("write_file", {"path": "a", "content": "two"}),
    ]
    model = ScriptedModel([*(Say(calls=[call]) for call in calls), "done"])
    with init_session(SPEC, workspace=place, session_id="s") as session:
        run_turn(model, "m", session, "go").raise_for_status()
        execute_tool_call(session, "exec_shell", {"command": "true"})
        rewind(session, 1)
    config = Config(working_dir=str(place), log_dir=str(state / "deep" / "traces"))
    agent, telemetry, _ = build_runtime(config, model=ScriptedModel(["done"]))
    agent.run("go")
    telemetry.close()
    (place / "plait.toml").write_text("")
    (place / "plait.toml").chmod(0o600)
    store = trust_store()
    store.trust(store.look(place).now)
    log = ServerLog(state / "mcp-logs", "one")
    log.add(b"a line")
    log.close()


@pytest.mark.usefixtures("open_umask")
def test_x53_everything_is_its_owner_s(tmp_path: Path) -> None:
    """Folders 0700 and files 0600: journal, spool, kept output, contents before changes, traces, lists, logs."""
    place = tmp_path / "work"
    place.mkdir()
    work(tmp_path / "a" / "state", place)
    names = {path.name for path in (tmp_path / "a" / "state").rglob("*")}
    wanted = {"journal.jsonl", "messages.json", "spool", "spill", "before", "traces", "trust.json", "one.log"}
    assert set() == wanted - names
    assert {} == kinds(tmp_path / "a" / "state")


@pytest.mark.usefixtures("open_umask")
def test_x53_nothing_is_open_for_a_moment(tmp_path: Path) -> None:
    """Rights are given with the birth: nothing in the state folder is made first and closed to others afterwards."""
    place, state = tmp_path / "work", tmp_path / "a" / "state"
    place.mkdir()
    program = (
        f"{WATCH}\nfrom pathlib import Path\nfrom tests.security.test_state_folders import work\n"
        f"watch({str(state)!r})\nwork(Path({str(state)!r}), Path({str(place)!r}))\n"
    )
    program = f"import os\nos.umask(0)\n{program}"
    ran = run_warm([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (0, "") == (ran.returncode, ran.stdout), ran.stderr


@pytest.mark.parametrize("spoilt", ["state", "state/sessions", "state/sessions/s"])
def test_x53_a_folder_that_everybody_may_write_in_is_refused(tmp_path: Path, spoilt: str) -> None:
    """Typed, before anything is asked, with what to do; nothing is written into it."""
    os.environ["PLAIT_HOME"] = str(tmp_path / "state")
    (tmp_path / spoilt).mkdir(parents=True)
    (tmp_path / spoilt).chmod(0o777)
    model = ScriptedModel(["done"])
    with init_session(SPEC, workspace=tmp_path, session_id="s") as session, pytest.raises(ConfigError) as told:
        run_turn(model, "m", session, "go")
    assert f"everybody may write in the folder '{tmp_path / spoilt}'" in str(told.value)
    assert "chmod go-w" in told.value.hint
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("spoilt", ["state", "state/sessions", "state/sessions/s"])
def test_x53_another_user_s_folder_is_refused(tmp_path: Path, spoilt: str) -> None:
    """Who owns it could put a journal in, or a list of trust."""
    os.environ["PLAIT_HOME"] = str(tmp_path / "state")
    (tmp_path / spoilt).mkdir(parents=True)
    os.chown(tmp_path / spoilt, 12345, 12345)
    with init_session(SPEC, workspace=tmp_path, session_id="s") as session, pytest.raises(ConfigError) as told:
        run_turn(ScriptedModel(["done"]), "m", session, "go")
    assert "belongs to another user (uid 12345)" in str(told.value)
    assert "PLAIT_HOME" in told.value.hint


def test_x53_a_list_of_trust_that_everybody_could_have_written_is_not_believed(tmp_path: Path) -> None:
    """The list in such a folder trusts nothing: it is refused."""
    os.environ["PLAIT_HOME"] = str(tmp_path / "state")
    (tmp_path / "state").mkdir(mode=0o700)
    assert isinstance(trust_store(), TrustStore)
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(ConfigError, match="everybody may write"):
        trust_store()
