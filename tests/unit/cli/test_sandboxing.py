"""What a run has a fence around: by the flags, the user's file and the repository's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait.cli.run_options import RunOptions
from plait.cli.sandboxing import confinement_for, missing_words, outcome_of
from plait.config.repository_parts import parts_of
from plait.core.errors import ConfigError
from plait.engine.trusting import trust_store
from plait.hands.fence.late import LateFence
from plait.hands.fence.policy import SandboxPolicy
from plait.session.confining import Confinement

OWN = '[sandbox]\nnetwork = ["own.org"]\nread_only = ["vendor"]\nenvironment = { CI = "1" }\n'
THEIRS = '[sandbox]\nmode = "off"\nnetwork = ["evil.org"]\nwritable = ["src"]\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository to work in, which is the current folder."""
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "state"))
    (tmp_path / "work/.git").mkdir(parents=True)
    (tmp_path / "work/docs").mkdir()
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def own_file(text: str) -> None:
    """Write the user's own plait.toml."""
    folder = Path.home() / ".config/plait"
    folder.mkdir(parents=True)
    (folder / "plait.toml").write_text(text)


def found(told: list[str] | None = None, **options: Any) -> Confinement:
    """Return what the current folder gives."""
    said: list[str] = [] if told is None else told
    return confinement_for(RunOptions(task="x", **options), said.append, said.append)


def policy_of(confinement: Confinement) -> SandboxPolicy:
    """Return the policy of a confinement that has one."""
    assert confinement.late is not None
    assert confinement.late.policy is not None
    return confinement.late.policy


def test_without_a_word_commands_are_behind_a_fence_that_is_made_late(work: Path) -> None:
    """The folder can be changed, the network is off, and nothing is tried before a command asks for it."""
    confinement = found()
    policy = policy_of(confinement)

    assert ("auto", None) == (confinement.mode, outcome_of(confinement)["level"])
    assert (str(work), "none", (str(work),)) == (policy.root, policy.network, policy.writable)
    assert {"mode": "off", "level": None, "reason": None} == outcome_of(found(sandbox="off"))


def test_flags_the_users_file_and_a_repositorys_come_together(work: Path) -> None:
    """A repository that is not trusted only tightens, and what it may not is said; a flag has the last word."""
    own_file(OWN)
    (work / "plait.toml").write_text(THEIRS)
    told: list[str] = []
    policy = policy_of(found(told, sandbox_network=("flag.org",)))

    assert (("flag.org",), (str(work / "src"),)) == (policy.hosts, policy.writable)
    assert (("vendor",), {"CI": "1"}) == (policy.read_only_inside, dict(policy.environment or {}))
    (line,) = told
    assert "not used: mode, network" in line

    trust_store().trust(parts_of(work))
    assert "off" == found(told).mode
    trusted = found(told, sandbox="auto")
    assert (("evil.org",), ("vendor",), 1) == (
        policy_of(trusted).hosts,
        policy_of(trusted).read_only_inside,
        len(told),
    )


def test_a_folder_of_a_repository_has_all_of_it_to_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where that would show a home or what plait keeps; what is writable elsewhere alone leaves nothing here."""
    (work / "plait.toml").write_text(THEIRS.replace('"off"', '"auto"'))
    monkeypatch.chdir(work / "docs")
    policy = policy_of(found())
    assert ((str(work),), ()) == (policy.read_only_outside, policy.writable)

    for name in ("HOME", "PLAIT_HOME"):
        with monkeypatch.context() as changed:
            changed.setenv(name, str(work / "home"))
            assert () == policy_of(found()).read_only_outside


def test_a_home_is_no_folder_for_commands_that_nobody_is_asked_about(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other programs obey lies in it: there is no fence then, with the reason; nor around what lies above it."""
    monkeypatch.setenv("HOME", str(work))
    told: list[str] = []
    confinement = found(told)
    assert confinement.late is not None
    assert None is confinement.late.found() is confinement.late.found()
    assert ["no sandbox can be made here: the folder is your whole home, with what your other programs obey"] == told
    assert {"mode": "auto", "level": "none", "reason": told[0]} == outcome_of(confinement)
    with pytest.raises(ConfigError, match=r"--sandbox on: .* whole home"):
        found(sandbox="on")
    monkeypatch.chdir("/")
    assert "whole machine" in str(getattr(found().late, "reason", ""))


@pytest.mark.parametrize(
    "file, hosts, text",
    [
        ("", ("no host!",), "no host!"),
        ('[sandbox]\nwritable = ["../out"]\n', (), "'../out' is not inside"),
        ('[sandbox.environment]\nLD_PRELOAD = "x"\n', (), "cannot set LD_PRELOAD"),
    ],
)
def test_what_no_sandbox_can_have_is_an_error(file: str, hosts: tuple[str, ...], text: str, work: Path) -> None:
    """A host that is none, a writable path outside, a variable that loads something: said before anything begins."""
    own_file(file)
    with pytest.raises(ConfigError) as caught:
        found(sandbox_network=hosts)

    assert text in caught.value.message
    with pytest.raises(ConfigError, match="needs a sandbox"):
        found(sandbox="off", sandbox_network=("example.org",))
    (work / "empty.toml").touch()
    own = policy_of(found(config="empty.toml"))
    assert ((str(work),), ()) == (own.writable, own.hosts)


def test_the_line_says_what_follows() -> None:
    """Whoever has no sandbox hears what becomes of commands."""
    words = {"as --yes says": (True, False), "is asked for": (False, True), "or --yes allows it": (False, False)}

    for part, (yes, asked) in words.items():
        late = LateFence(SandboxPolicy("."))
        assert part in missing_words(late, "none", says_yes=yes, is_asked=asked)
        assert "plait doctor" in missing_words(late, "none", says_yes=yes, is_asked=asked)
        assert "a folder of it" in missing_words(LateFence(None), "none", says_yes=yes, is_asked=asked)
        late.is_barred = True
        assert "no command runs" in missing_words(late, "none", says_yes=yes, is_asked=asked)
