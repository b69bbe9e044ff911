"""Programs and built-in commands of bash that run others, or change what a name means.

Floor: 2. Owns: the tables, and which words of a command they make dangerous; never: the grammar of a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash", "mksh"})
PLAIN_WRAPPERS: Final = frozenset({"timeout", "nice", "nohup", "stdbuf"})
"""Programs that run their arguments and change nothing about them that a rule is about."""
HANDING_ON: Final = frozenset(
    ". aa-exec at batch builtin busybox bwrap capsh cgexec choom chroot chrt command cpulimit dbus-launch "
    "dbus-run-session doas dumb-init eatmydata entr env eval exec expect fakeroot firejail flock gdb gosu ionice "
    "ltrace newgrp nsenter nsexec numactl parallel perf pidproxy pkexec prlimit proxychains proxychains4 rlwrap rsh "
    "run-parts runcon runuser screen script setarch setpriv setsid sg source ssh ssh-agent sshpass "
    "start-stop-daemon strace su su-exec sudo systemd-run taskset time tini tmux toolbox torsocks toybox unbuffer "
    "unshare valgrind watch xargs xvfb-run".split()
)
"""Programs whose arguments are a command, or hold one."""
_RUNNERS: Final = frozenset(
    "bundle bunx direnv docker hatch hyperfine kubectl mise nix nix-shell npx nox pipenv pipx pnpm pnpx podman poetry"
    " tox uv uvx yarn".split()
)
"""Tools of programmers that run what they are told; who allows one of them means that."""
RENAMING: Final = frozenset({"hash", "enable", "complete", "compgen", "bind", "mapfile", "readarray", "fc"})
"""Built-in commands by which a name comes to mean something else, or that run a command of their own."""
SETTING: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RECKONING: Final = frozenset({*SETTING, "let", "read", "unset", "getopts", "wait"})
"""Built-in commands that work out the subscripts of what they name, quoted or not."""
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[(?!(?:\d+|[@*])\])")
_STDIN: Final = frozenset({"-", "-s", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_PLAIN: Final = re.compile(r"[\w./:=@%+,-]*")
_RISKY: Final = MappingProxyType(
    {
        "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
        "fd": ("-x", "-X", "--exec", "--exec-batch"),
        "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
        "git": (
            "-c -C --config-env --exec-path --git-dir --work-tree --upload-pack --receive-pack --ext-diff --textconv"
            " --open-files-in-pager -O --exec -x --output --template --smtp-server bisect config daemon difftool"
            " filter-branch foreach hook instaweb mergetool send-email"
        ).split(),
        "tar": "--checkpoint-action --to-command -I --use-compress-program --rsh-command --info-script -F".split(),
        "rsync": ("-e", "--rsh", "--rsync-path"),
        "scp": ("-o", "-S", "-F"),
        "man": ("-P", "--pager", "-H", "--html"),
        "sort": ("--compress-program", "-o", "--output"),
        "split": ("--filter",),
        "rg": ("--pre", "--hostname-bin"),
        "zip": ("-T", "-TT", "--unzip-command"),
        "awk": ("-f", "--file", "-i", "--include", "-l", "--load", "-E", "--exec"),
        "sed": ("-i", "--in-place", "-f", "--file"),
        "make": ("-f", "--file", "-C", "--directory", "--eval", "-E"),
        "docker": ("-v", "--volume", "--mount", "--privileged"),
        "tree": ("-o",),
        "curl": ("-o", "-O", "-K", "--output", "--remote-name", "--config", "--output-dir"),
        "wget": ("-O", "-e", "--output-document", "--execute", "--use-askpass", "-i", "--config"),
    }
)
"""Options, and words, by which a program is told to run something else, or to write where it would only read."""
_SAME: Final = MappingProxyType(dict.fromkeys(("gawk", "mawk", "nawk", "original-awk"), "awk") | {"gsed": "sed"})
_REMOTE: Final = frozenset({"archive", "bundle", "clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"})
_HELPER: Final = re.compile(r"(?:--\w[\w-]*=)?[A-Za-z][\w+.-]*::")
_AWK: Final = re.compile(r"system|getline|[|>@]|\bclose\b")
_ADDRESS: Final = r"(?:(?:\d+|\$|/[^/]*/)(?:,\+?(?:\d+|\$|/[^/]*/))?!?)?\s*"
_SED: Final = re.compile(
    rf"{_ADDRESS}(?:[pdqhHgGxnN=lDP]|y/[^/]*/[^/]*/|s([/|#,:@])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpIi\d]*)"
)
"""A script of one command that only edits."""


def hands_on(words: Sequence[str]) -> bool:
    """Say whether a command runs another one that its arguments name, or may be told so."""
    program = os.path.basename(words[0])
    if program in HANDING_ON or (program in SHELLS and len(words) > 1) or program.startswith(("ld-linux", "ld-musl")):
        return True
    program = _SAME.get(program, program)
    if any(is_option(word, option) for option in _RISKY.get(program, ()) for word in words[1:]):
        return True
    if program == "awk":
        return any(_AWK.search(word) for word in words[1:])
    if program == "git":  # the address of a helper may be a command: `ext::sh -c …`
        return not _REMOTE.isdisjoint(words) and any(_HELPER.match(word) for word in words[1:])
    return program == "sed" and not _only_edits(words[1:])


def runs_its_words(program: str) -> bool:
    """Say whether what begins at some word of a command may be a command of its own."""
    return program in PLAIN_WRAPPERS or program in _RUNNERS


def texts_in(words: Sequence[str]) -> Iterator[str]:
    """Yield what a command that hands on may give to a shell: words that are lines, and values of its options."""
    program = os.path.basename(words[0])
    if program in SHELLS or program in HANDING_ON or program == "find":
        yield from (word for word in words[1:] if not _PLAIN.fullmatch(word))
    if program == "eval":
        yield " ".join(words[1:])
    for word in words[1:]:
        while "=" in word:
            word = word.partition("=")[2]
            yield word.lstrip("!")


def doubts_about(words: Sequence[str]) -> Iterator[str]:
    """Yield why a command does more than its words say."""
    program, rest = os.path.basename(words[0]), words[1:]
    if program in RENAMING:
        yield f"{program!r} changes what names mean"
    if program in SETTING and any("=" in word for word in rest):
        yield "it sets variables"
    if program in SHELLS and (not rest or _STDIN.intersection(rest) or all(word.startswith("-") for word in rest)):
        yield "a shell reads its commands from elsewhere"
    if program in ("source", ".") and _STDIN.intersection(rest):
        yield "the shell reads its commands from elsewhere"
    if _reckons(program, rest) and any(_SUBSCRIPT.search(word) for word in rest):
        yield f"{program!r} works out a subscript"


def _reckons(program: str, rest: Sequence[str]) -> bool:
    if program in _RECKONING:
        return True
    return (program == "printf" and "-v" in {word[:2] for word in rest}) or (program in ("test", "[") and "-v" in rest)


def _only_edits(rest: Sequence[str]) -> bool:
    """Say whether what `sed` is told is one plain command a script."""
    scripts, is_script = [], False
    for word in rest:
        if is_script:
            scripts.append(word)
            is_script = False
        elif word in ("-e", "--expression"):
            is_script = True
        elif word.startswith(("-e", "--expression=")):
            scripts.append(word.removeprefix("--expression=").removeprefix("-e"))
    if not scripts:
        scripts = [word for word in rest if not word.startswith("-")][:1]
    return all(_SED.fullmatch(each.strip()) for script in scripts for each in script.split(";"))


def is_option(word: str, option: str) -> bool:
    """Say whether a word is an option of this name, alone, with a value, or among other letters."""
    if not option.startswith("-"):
        return word == option
    if option.startswith("--"):
        # Long options may be shortened as far as they stay clear; three letters are never clear enough to be safe.
        name = word.partition("=")[0]
        return name == option or (len(name) > 4 and name.startswith("--") and option.startswith(name))
    if word == option or word.startswith(f"{option}="):
        return True
    if len(option) > 2:
        return False
    return len(word) > 2 and word.startswith("-") and not word.startswith("--") and option[1] in word[1:]
