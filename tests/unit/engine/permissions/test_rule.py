"""Rules decide about calls: deny before ask before allow, widely where they forbid and narrowly where they allow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from plait.core.errors import ConfigError
from plait.engine.permissions.rule import Action, Rule, parse_rule, rules_of
from plait.engine.permissions.ruling import Permissions, Ruling, Subject

ROOT, HOME = "/srv/shop", "/home/ada"
SHELL = ("Bash", "exec_shell", "bash")
READ, WRITE, GREP = ("Read", "read_file"), ("Write", "write_file"), ("Grep", "search_files")


def ruling(rules: Sequence[str], subject: Subject) -> Ruling:
    """Judge by rules that are written `allow Bash(x)`."""
    parsed = [parse_rule(text.partition(" ")[2], text.partition(" ")[0], "here") for text in rules]  # type: ignore[arg-type]
    return Permissions(tuple(parsed), ROOT, HOME).judge(subject)


def on_command(rules: Sequence[str], command: str) -> Action | None:
    """Return what rules say of a command line."""
    return ruling(rules, Subject(SHELL, command)).action


def on_path(rules: Sequence[str], path: str, names: tuple[str, ...] = READ, leads: str = "") -> Action | None:
    """Return what rules say of a file tool's call; `leads` is where the path ends."""
    return ruling(rules, Subject(names, paths=(path,), real_paths=(leads or path,))).action


COVERED = [
    ("Bash(git status)", "git status"),
    ("Bash(git status)", "  git   'status' "),
    ("Bash(git log:*)", "git log"),
    ("Bash(git log:*)", "git log --oneline -n 5 | git log"),
    ("Bash(git log *)", "git log -p"),
    ("Bash(npm run test:*)", "timeout 60 npm run test -- --watch"),
    ("Bash(npm * --silent)", "npm ci --silent"),
    ("Bash(ls:*)", "ls -la src 2>/dev/null"),
    ("Bash", "anything $(at all)"),
    ("Bash(*)", "rm -rf x"),
    ("exec_shell(make:*)", "make -j2 test"),
    ("Bash(find:*)", "find . -name '*.py'"),
    ("Bash(find . -delete)", "find . -delete"),
]


@pytest.mark.parametrize("rule, command", COVERED)
def test_a_rule_allows_the_command_that_it_names(rule: str, command: str) -> None:
    """Whole commands, beginnings on a word's border and patterns are covered; quotes and blanks do not matter."""
    assert on_command([f"allow {rule}"], command) == "allow"


ESCAPES = [
    "git status; rm -rf ~",
    "git status && rm x",
    "git status || rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git status $(rm x)",
    "git status `rm x`",
    "git status <(rm x)",
    "git status > .git/hooks/pre-commit",
    "git status <<EOF\nEOF",
    "git -c core.pager=evil status",
    "git -C /elsewhere status",
    "GIT_PAGER=evil git status",
    "env -S 'git status'",
    "env git status",
    "sudo git status",
    "xargs git status",
    "find . -exec git status ;",
    "sh -c 'git status'",
    "bash -c 'git status'",
    "eval git status",
    "command git status",
    "./git status",
    "/tmp/git status",
    "gіt status",
    "git\u00a0status",
    "git statusx",
    "git status --porcelain",
    "Git status",
    "$(echo git) status",
    "g?t status",
    "{git,status}",
    "git stat$X",
    "echo Z2l0 | base64 -d | sh",
    "tar --checkpoint-action=exec=sh -xf x",
    "ssh -o ProxyCommand=evil host",
    "git status 'unclosed",
    "function git { rm x; }; git status",
    "git() { rm x; }; git status",
    "alias git=rm; git status",
    "",
]


@pytest.mark.parametrize("command", ESCAPES)
def test_a_rule_for_a_command_covers_nothing_else(command: str) -> None:
    """An allow rule for `git status` says nothing of a line that runs, or may run, anything beside it."""
    assert on_command(["allow Bash(git status)"], command) is None


OPEN = "git find xargs tar awk gawk sed sort printf test [ read export bash".split()


@pytest.mark.parametrize("command", ["awk '{print $1}' x", "sed -n '1,5p;10q' x", "sed -e 's/a/b/g' -e '/x/d' x"])
def test_a_rule_that_leaves_words_open_covers_plain_work(command: str) -> None:
    """What `awk` prints, and what `sed` edits in passing, needs no question."""
    assert "allow" == on_command([f"allow Bash({program}:*)" for program in OPEN], command)


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.pager=evil log",
        "git log --ext-diff",
        "git log --output=.git/hooks/pre-commit",
        "git config core.pager evil",
        "git fetch 'ext::sh -c evil'",
        "git clone --template=evil x",
        "find . -exec rm x ;",
        "xargs rm",
        "tar -I evil -xf x",
        "awk 'BEGIN{system(\"evil\")}'",
        'awk \'BEGIN{print "x" > "made"}\'',
        "awk 'BEGIN{\"evil\" | getline}'",
        "gawk -lfilefuncs x",
        "sed '1e evil' x",
        "sed 's/a/b/e' x",
        "sed -n 's/a/b/w made' x",
        "sed -e p -e 'e evil' x",
        "sed 's/a/b/;w made' x",
        "sort --compress-program=evil x",
        "sort -omade x",
        "printf -v 'x[$(evil)]' y",
        "test -v 'x[$(evil)]'",
        "[ -v 'x[$(evil)]' ]",
        "read 'x[$(evil)]'",
        "export PATH=.:$PATH; git status",
        "export BASH_ENV=evil",
        "export -n 'x[$(evil)]'",
        "bash",
        "bash -s",
    ],
)
def test_a_rule_that_leaves_words_open_covers_no_command_that_runs_another(command: str) -> None:
    """`Bash(git:*)` is leave for git's own work, and not for whatever its options may start."""
    rules = [f"allow Bash({program}:*)" for program in OPEN]
    assert on_command(rules, command) is None


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "/bin/rm -rf x",
        "ls; rm -rf x",
        "echo $(rm -rf x)",
        "timeout 5 rm -rf x",
        "sudo rm -rf x",
        "sh -c 'cd y && rm -rf x'",
        "find . -exec rm -rf {} +",
        "cat <<E\n`rm -rf x`\nE",
        "if true; then rm -rf x; fi",
        "'r'm -rf x",
        "bash -c 'r\"m\" -rf x'",
        "time -p rm -rf x",
        "/usr/bin/time rm -rf x",
        "prlimit rm -rf x",
        "npx rm -rf x",
        "docker run -v /:/x image rm -rf x",
        "tar cf x . --checkpoint-action=exec='rm -rf x'",
        "git -c alias.x='!rm -rf x' x",
        "ssh -o ProxyCommand='rm -rf x' host",
        "sort --compress-program='rm -rf x' y",
        "split --filter='rm -rf x' y",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf x",
    ],
)
def test_a_forbidden_command_is_found_wherever_it_stands(command: str) -> None:
    """A deny rule reaches into wrappers, substitutions and other directories, and no allow rule helps."""
    assert on_command(["allow Bash", "allow Bash(rm:*)", "deny Bash(rm -rf:*)"], command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "r? -rf x",
        "$RM -rf x",
        "rm $FLAGS x",
        "git push 2>$(echo x)",
        "echo rm -rf x | sh",
        "echo rm -rf x | bash -s",
        "echo rm -rf x | source /dev/stdin",
        "hash -p /bin/rm git; git -rf x",
        "export PATH=/elsewhere; ls",
        "let 'x[$(echo)]=1'",
        "declare -i y='x[$(echo)]'",
        "mapfile -C rm -c 1 x",
        "complete -C rm x",
    ],
)
def test_what_might_be_forbidden_is_asked_about(command: str) -> None:
    """Where the shell alone knows the words, a rule that forbids something takes the yes of an allow rule away."""
    assert on_command(["allow Bash", "deny Bash(rm -rf:*)"], command) == "ask"


@pytest.mark.parametrize("command", ["[ -d x ] || mkdir x", "set -e; ls", "printf '%s' 'a[b]'", "bash script.sh"])
def test_what_is_plain_is_not_asked_about_for_a_rule_that_forbids_something_else(command: str) -> None:
    """Tests, settings of the shell and scripts by name are commands like any other."""
    assert on_command(["deny Bash(rm -rf:*)"], command) is None


@pytest.mark.parametrize("program", ["bash", "sh", "hash", "source", "export", "complete"])
def test_a_rule_may_name_any_program(program: str) -> None:
    """Also one of which a line is in doubt."""
    assert "deny" == on_command([f"deny Bash({program}:*)"], f"/bin/{program} x")


def test_every_rule_for_files_is_anchored() -> None:
    """`//` is the machine's root, `~` home, everything else the workspace; a directory means what is in it."""
    rules = ["deny Read(./.env)", "deny Read(*.pem)", "deny Read(//etc/**)", "deny Read(~/.ssh)", "deny Read(/build/)"]
    paths = {
        f"{ROOT}/.env": "deny",
        f"{ROOT}/sub/.env": None,
        f"{ROOT}/deep/down/key.pem": "deny",
        "/elsewhere/key.pem": None,
        "/etc/shadow": "deny",
        f"{HOME}/.ssh/id_ed25519": "deny",
        f"{HOME}/.sshd": None,
        f"{ROOT}/build/x/y": "deny",
        f"{ROOT}/sub/build/x": None,
        f"{ROOT}/../shop/.env": "deny",
    }
    assert paths == {path: on_path(rules, path) for path in paths}


def test_a_link_does_not_get_around_a_rule() -> None:
    """A path is denied when it or what it leads to is, and allowed only when what it leads to is."""
    rules = ["allow Read(./docs/**)", "deny Read(./secrets/**)"]
    assert [
        on_path(rules, f"{ROOT}/docs/a", leads=f"{ROOT}/secrets/a"),
        on_path(rules, f"{ROOT}/secrets/a", leads=f"{ROOT}/docs/a"),
        on_path(rules, f"{ROOT}/docs/a", leads="/etc/passwd"),
        on_path(rules, f"{ROOT}/x", leads=f"{ROOT}/docs/a"),
    ] == ["deny", "deny", None, "allow"]


def test_rules_for_reading_and_changing_cover_the_tools_that_do_it() -> None:
    """Who may not read a file may not search it, and who may not edit one may not write it."""
    rules = ["deny Read(./a)", "deny Edit(./b)"]
    assert [
        on_path(rules, f"{ROOT}/a", GREP),
        on_path(rules, f"{ROOT}/a", WRITE),
        on_path(rules, f"{ROOT}/b", WRITE),
        on_path(rules, f"{ROOT}/b", ("MultiEdit", "apply_patch")),
        on_path(rules, f"{ROOT}/b", READ),
    ] == ["deny", None, "deny", "deny", None]


@pytest.mark.parametrize(
    "rule, is_about",
    [
        *((rule, True) for rule in ("deny Read(.env)", "ask Edit(/src/**)", "deny Edit", "deny Read(//srv/*.pem)")),
        *((rule, True) for rule in ("deny Read(//**/x)", "deny Read(~/**)", "deny Read(../*)")),
        *((rule, False) for rule in ("allow Read(.env)", "deny Bash(cat .env)", "deny Read(//etc/**)", "deny Bash")),
        *((rule, False) for rule in ("deny Read(~/.ssh)", "deny WebFetch(domain:x.org)", "deny mcp__files")),
    ],
)
def test_a_rule_about_files_that_a_command_could_get_around_is_found(rule: str, is_about: bool) -> None:
    """One that forbids or asks, and may mean something in the folder; the folder is in the home here."""
    action, _, text = rule.partition(" ")
    rules = Permissions(tuple(rules_of({action: [text]}, "here")), root="/srv/home/project", home="/srv/home")
    elsewhere = Permissions(rules.rules, root="/srv", home="/home/me")

    assert is_about == bool((elsewhere if "//srv" in rule else rules).about_files())


def test_a_patch_is_allowed_only_when_all_its_files_are() -> None:
    """One file that no rule allows leaves the whole call to whoever judges."""
    names, inside, other = ("MultiEdit", "apply_patch"), f"{ROOT}/src/a", f"{ROOT}/b"
    rules = ["allow Edit(src/**)"]
    both = ruling(rules, Subject(names, paths=(inside, other), real_paths=(inside, other)))
    one = ruling(rules, Subject(names, paths=(inside,), real_paths=(inside,)))
    none = ruling(rules, Subject(names))
    assert [None, "allow", None] == [both.action, one.action, none.action]


def test_the_tools_of_a_server_are_named_together_or_each() -> None:
    """`mcp__github` and `mcp__github__*` mean all its tools, and none of a server whose name begins the same."""
    called = ["mcp__github__search", "mcp__github2__search", "mcp__git__search"]
    for rule in ("mcp__github", "mcp__github__*"):
        assert ["deny", None, None] == [ruling([f"deny {rule}"], Subject((name,))).action for name in called]
    assert ruling(["deny mcp__github__search"], Subject(("mcp__github__search",))).action == "deny"


def test_an_address_is_of_a_domain_by_its_host() -> None:
    """Neither a user's name, a path nor a longer name passes for the domain."""
    rules = ["allow WebFetch(domain:example.com)", "deny WebFetch(domain:*.evil.test)"]
    urls = {
        "https://example.com/x": "allow",
        "https://EXAMPLE.com./x": "allow",
        "https://example.com@other.test/": None,
        "https://example.com.other.test/": None,
        "https://other.test/example.com": None,
        "https://a.evil.test/": "deny",
        "https://[": None,
    }
    assert urls == {url: ruling(rules, Subject(("WebFetch",), url=url)).action for url in urls}


@pytest.mark.parametrize(
    "table, said",
    [
        ([], "lists named allow, ask and deny"),
        ({"alow": []}, "'alow'"),
        ({"allow": "Bash"}, "it is a list"),
        ({"allow": [3]}, "user.toml, allow 1"),
        ({"deny": ["Bash", "Bash("]}, "user.toml, deny 2"),
        ({"deny": ["todo(x)"]}, "there is none for 'todo'"),
        ({"allow": ["Bash(a; b)"]}, "not one plain command"),
        ({"allow": ["Bash( )"]}, "is empty"),
        ({"allow": ["WebFetch(example.com)"]}, "names no domain"),
        ({"allow": [""]}, "is no rule"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_with_its_place(table: object, said: str) -> None:
    """No rule is dropped in silence: what cannot be read is a mistake in a configuration, at its place."""
    with pytest.raises(ConfigError) as caught:
        rules_of(table, "user.toml")
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert "user.toml" in caught.value.message


def test_what_decided_is_told() -> None:
    """A ruling names its rule and where that stands."""
    said = ruling(["deny Bash(rm:*)"], Subject(SHELL, "rm x"))
    assert "the rule deny Bash(rm:*) (here)" == said.why


WORDS = ["aa", "bb", "cc"]
COMMANDS = [*WORDS, *(f"{a} {b}" for a, b in itertools.product(WORDS, WORDS))]
PATTERNS = [None, *COMMANDS, *(f"{word}:*" for word in WORDS)]


def _means(pattern: str | None, command: str) -> bool:
    """The plainest reading of a pattern for commands of plain words."""
    if pattern is None:
        return True
    stem = pattern.removesuffix(":*")
    return command == stem or (pattern.endswith(":*") and command.startswith(f"{stem} "))


@given(
    st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), st.sampled_from(PATTERNS)), max_size=6),
    st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_deny_beats_ask_beats_allow_in_any_order(
    written: list[tuple[Action, str | None]], commands: list[str], chance: object
) -> None:
    """For any rules and any plain line: one denied command denies it, one asked about asks, and all must be allowed."""
    rules = [
        Rule(action, "Bash", None) if text is None else parse_rule(f"Bash({text})", action) for action, text in written
    ]
    chance.shuffle(rules)  # type: ignore[attr-defined]
    said = Permissions(tuple(rules), ROOT, HOME).judge(Subject(SHELL, "; ".join(commands)))

    def holds(action: Action, command: str) -> bool:
        return any(_means(text, command) for each, text in written if each == action)

    expected: Action | None = None
    if any(holds("deny", command) for command in commands):
        expected = "deny"
    elif any(holds("ask", command) for command in commands):
        expected = "ask"
    elif all(holds("allow", command) for command in commands):
        expected = "allow"
    assert expected == said.action
