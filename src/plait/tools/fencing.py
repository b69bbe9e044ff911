"""What a model and its user are told of the fence around a command: what it kept out, and what was made meanwhile.

Floor: 3. Owns: the words in a result; never: the fence (`hands.fence`), or who runs the command (`shell`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from plait.core.unseen import visible
from plait.hands.command import Finished
from plait.hands.fence.fence import Fence
from plait.hands.fence.obeyed import Made, Watch
from plait.hands.fence.policy import SandboxPolicy, is_beneath
from plait.tools.answer import KEPT_OUT

_NETWORK: Final = re.compile(
    r"(?i)could ?n[o']t resolve|name resolution|name or service not known|network is unreachable|getaddrinfo"
    r"|temporary failure resolving|no address associated|ENOTFOUND|EAI_AGAIN|failed to resolve|dns error"
)
_REFUSED: Final = re.compile(r"(?i)read-only file system|operation not permitted|permission denied|EROFS|EACCES|EPERM")
_PATH: Final = re.compile(r"(?:^|[\s:'\"`(=])(/[^\s:'\"`,;()]+)")
_ABSENT: Final = ("o such file", "not a git repository: ")
"""What is said of a path that is not there; git says it in a linked worktree of the repository behind it."""
_VISIBLE: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/tmp")
_LOOKED_AT_CHARS: Final = 20_000
_LINE_CHARS: Final = 500
_NAMES_MAX: Final = 20
_NOT_FOUND: Final = 127
"""What a shell exits with that knows no such program: it may be one of the user's home."""


def watched(fence: Fence, run: Callable[[], Finished], advice: str = "") -> Finished:
    """Run a fenced command and note what programs outside should know of it, and what the fence kept from it."""
    policy, watch = fence.policy, Watch(fence.policy, fence.repositories)
    done = run()
    notes = [done.note, words_of(watch.settle())]
    if advice and done.end == "exited" and done.exit_code != 0 and _was_kept_out(policy, done):
        notes.append(f"{KEPT_OUT}{_rules(policy)} {advice}]")
    return replace(done, note="\n".join(filter(None, notes)))


def words_of(made: Made) -> str:
    """Return what is told of names that programs outside the fence obey; empty where none was made."""
    lines = []
    if made.left:
        names = _named(made.left)
        lines.append(
            f"[made: {names}; programs outside the sandbox obey what stands there, so the user should look at it]"
        )
    if made.aside:
        names = _named([f"{name} is now {other}" for name, other in made.aside])
        lines.append(f"[set aside: {names}; programs outside the sandbox would obey it, so only the user puts it back]")
    return "\n".join(lines)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(visible(name) for name in names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown} and {len(names) - _NAMES_MAX} more"


def _was_kept_out(policy: SandboxPolicy, done: Finished) -> bool:
    """Say whether a failed command's words are those of one that met the fence."""
    outputs = [output for output in (done.output, done.errors) if output is not None]
    text = "\n".join(part[-_LOOKED_AT_CHARS:] for each in outputs for part in (each.head, each.tail))
    if done.exit_code == _NOT_FOUND or _NETWORK.search(text) or _REFUSED.search(text):
        return True
    shown = (policy.root, *policy.read_only_outside, *_VISIBLE)
    absent = (line[-_LINE_CHARS:] for line in text.splitlines() if any(words in line for words in _ABSENT))
    named = (path for line in absent for path in _PATH.findall(line))
    return any(not any(is_beneath(path, place) for place in shown) for path in named)


def _rules(policy: SandboxPolicy) -> str:
    """Return what holds for commands, as a sentence."""
    network = f"of the network only {', '.join(policy.hosts)}" if policy.hosts else "no network"
    writable = ", ".join((*policy.writable, "/tmp"))
    return f"{network}; only {writable} can be changed, not .git/hooks and settings; homes are hidden."
