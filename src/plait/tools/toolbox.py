"""The built-in tools of one session, with its workspace, its rules and its kept output.

Floor: 3. Owns: putting the tools together; never: what one of them does.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from plait.core.errors import Refusal
from plait.core.facts import ToolStart
from plait.core.messages import ToolCall
from plait.core.values import dataclass
from plait.hands.editing.locks import FileLocks
from plait.hands.editing.snippets import Replacement
from plait.hands.editing.versions import MemoryVersions, Versions
from plait.hands.reach import Place
from plait.kernel.tools import Recovery, Tool, ToolContext
from plait.tools import definitions
from plait.tools.answer import Reply, answering
from plait.tools.asking import AskUser, ask
from plait.tools.background import GRACE_S, Background
from plait.tools.board import Board
from plait.tools.call_paths import named_paths
from plait.tools.checkpoints import Checkpointer
from plait.tools.file_recovery import FileRecovery, planned_replacement, planned_write
from plait.tools.files import FileTools
from plait.tools.finding import Finding, Wanted
from plait.tools.kept_commands import KeptCommands
from plait.tools.looks import Allowed, Look
from plait.tools.patching import Patching
from plait.tools.places import POLICIES, Outside, Places, PolicyName
from plait.tools.redaction import Redaction
from plait.tools.rtk import Rtk
from plait.tools.shell import OnText, Shell, ShellOptions
from plait.tools.spill import Spill
from plait.tools.todo import TodoList
from plait.tools.undo import Undo

if TYPE_CHECKING:
    from plait.hands.fence.fence import Fence
    from plait.hands.fence.late import LateFence

CHARS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolboxOptions:
    """How the tools of one session behave."""

    policy: PolicyName | Outside = "inside_only"
    """What file tools may do beyond the workspace."""
    result_tokens_max: int = 8_000
    """Size of a result as the model sees it, at four characters a token; 0 is no limit."""
    spool: str | os.PathLike[str] | None = None
    """Where commands leave their end for a later process, a session's own folder; without it they die unseen with
    this one. Used for calls that were started with an intent, as durable conversations do."""
    spill_dir: str | os.PathLike[str] | None = None
    """Where cut output is kept; without it in a temporary directory that `close` removes."""
    own_places: tuple[str, ...] = ()
    """Plait's own state and configuration, as absolute paths: no file tool touches them."""
    environment: Mapping[str, str] | None = None
    """What commands may see before credentials are taken out; None is this process's own."""
    keep: Collection[str] = ()
    """Names of credentials that commands may see all the same."""
    timeout_s: float = 120.0
    timeout_max_s: float = 3_600.0
    grace_s: float = 2.0
    """How long a command that is stopped has to end by itself."""
    job_grace_s: float = GRACE_S
    """The same for a background job whose time is up."""
    rtk: Rtk | None = None
    """Rewrites command lines before they run."""
    output: OnText | None = None
    """Takes a command's output as it comes; may not raise."""
    ask_user: AskUser | None = None
    """Answers the model's questions; without it standard input does."""
    ask_stream: TextIO | None = None
    """Where a question for standard input is written; None is standard error."""
    redaction: Redaction | None = None
    """Takes secrets out of output as it is shown and of what is cut, and keeps the model's edits from losing them;
    results are masked by whoever hands them on."""
    fence: Fence | None = None
    """Stands around commands and jobs; file tools change nothing that a fenced command could not."""
    late_fence: LateFence | None = None
    """In its place: stands around commands and jobs where one can be made. File tools go by `policy`, and by the paths
    that the fence's own policy names."""
    fence_advice: str = ""
    """What a model is told that has met the fence."""

    def of_shell(self) -> ShellOptions:
        """Return what of this is about commands."""
        return ShellOptions(
            self.timeout_s,
            self.timeout_max_s,
            self.result_tokens_max * CHARS_PER_TOKEN,
            self.environment,
            self.keep,
            self.output,
            self.grace_s,
            self.rtk,
            self.redaction,
            self.fence,
            self.late_fence,
            self.fence_advice,
        )


class Toolbox:
    """The built-in tools over one workspace. Safe in any thread.

    Every tool method takes the arguments under their advertised names, answers with text and data, and returns what
    it refuses as a `ToolResult` with the reason. Raises `Refusal` when the workspace cannot be opened.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        options: ToolboxOptions | None = None,
        *,
        spill: Spill | None = None,
        board: Board | None = None,
    ) -> None:
        """Open a workspace; kept output and background jobs that toolboxes share are closed by their owner."""
        self.options = options = options or ToolboxOptions()
        outside = POLICIES[options.policy] if isinstance(options.policy, str) else options.policy
        chars_max = options.result_tokens_max * CHARS_PER_TOKEN
        self.spill = spill or Spill(options.spill_dir)
        """Keeps what is too long for an answer."""
        self._owns_spill = spill is None
        if self._owns_spill:
            self.spill.redact = options.redaction
        self._places = Places.of(
            root, outside, self.spill, options.own_places, fences=(options.fence, options.late_fence)
        )
        self.root = self._places.root
        self.locks = FileLocks()
        self.shell = Shell(self.root, options.of_shell(), self.spill)
        self._owns_board = board is None
        self.background = Background(self.shell, board or Board(self.spill), options.job_grace_s)
        """`nohup`, `nohup_query`, `nohup_wait`, and the session's jobs."""
        if options.spool is not None:
            self.shell.kept = KeptCommands.over(options.spool)
            self.background.board.keep_in(options.spool)
        self.checkpoints = Checkpointer(undo=self.undo, root=self.root)
        """What files held before they were changed, where that is kept."""
        self.files = FileTools(self._places, self.locks, chars_max, self.checkpoints, options.redaction)
        self._files_anywhere = replace(self.files, places=self._places.allowing("write"))
        self._allowed = Allowed()
        self._versions: Versions | None = None
        files = FileRecovery(
            self.root, lambda call: self._writer(call).places, self._files_anywhere.places, lambda: self._versions
        )
        self.patching, self.todos = Patching(files, self.locks, self.checkpoints, options.redaction), TodoList()
        self._recoveries = {
            "apply_patch": self.patching.recovery,
            "write_file": files.of(planned_write),
            "str_replace": files.of(planned_replacement("first")),
            "edit_file": files.of(planned_replacement("refuse")),
            "rollback": self.checkpoints.recovery,
            "exec_shell": self.shell.recovery(separates_errors=False),
            "bash": self.shell.recovery(separates_errors=True),
            "nohup": self.background.recovery(),
        }
        self.finding = Finding(self._places, self.spill, chars_max)

    def tools(self) -> list[Tool]:
        """Return the seven built-in tools in the order in which they are advertised."""
        shell = definitions.with_times(definitions.EXEC_SHELL, self.options.timeout_s, self.options.timeout_max_s)
        chosen = [shell if known is definitions.EXEC_SHELL else known for known in definitions.BUILT_IN]
        return [known.tool(getattr(self, known.name), recovery=self.recovery(known.name)) for known in chosen]

    def recovery(self, name: str) -> Recovery | None:
        """Return how the tool of this name finds out what became of a call whose end nobody saw, if it can."""
        return self._recoveries.get(name)

    def asking_tools(self) -> list[Tool]:
        """Return the two tools that put a question to the user."""
        return [known.tool(getattr(self, known.name)) for known in definitions.ASKING]

    def leads(self, call: ToolCall, tool: Tool | None = None) -> Place:
        """Say where the paths of a file tool's call lead; `inside` for a call of any other tool."""
        look = self.look(call, tool)
        look.close()
        return look.place

    def look(self, call: ToolCall, tool: Tool | None = None) -> Look:
        """Find where the paths of a file tool's call lead, and hold on to it. The caller closes the result."""
        return self._places.look(named_paths(call, tool))

    def allow_outside(self, call_id: str, look: Look) -> None:
        """Let a call write where it led at the look, which is taken over; nowhere else, and at no secret place.

        Behind a fence around everything nobody's yes leads outside.
        """
        if self.options.fence is not None and look.place == "outside":
            look.close()
        else:
            self._allowed.let(call_id, look)

    def keep_in(self, spool: str | os.PathLike[str], spill: str | os.PathLike[str]) -> None:
        """Have commands leave their end, and results their rest, in a session's folders; before anything has run.

        As with `ToolboxOptions.spool` and `spill_dir`. The folders are made when they are needed.
        """
        self.shell.kept = KeptCommands.over(spool)
        self.background.board.keep_in(spool)
        self.spill.keep_in(spill)

    def keep_versions(self, folder: str | os.PathLike[str]) -> None:
        """Keep in `folder` what files hold before a call changes them, so that changes can be taken back."""
        self._versions = Versions(folder)

    def keep_checkpoints(self) -> None:
        """Keep the same in memory, for as long as this process has the toolbox."""
        self._versions = MemoryVersions()

    def undo(self) -> Undo:
        """Return what takes changes of files back, as far as their earlier contents were kept."""
        return Undo(self._files_anywhere.places, self.locks, self._versions)

    def sweep(self, needed: Iterable[ToolStart]) -> None:
        """Remove what commands of earlier processes have left, but for that of the calls which have no result yet."""
        if self.shell.kept is not None:
            self.shell.kept.sweep(
                {str(start.intent["spool"]) for start in needed if start.intent and "spool" in start.intent}
            )

    def close(self, *, keep_jobs: bool = False) -> None:
        """End what commands left running, remove output that was kept only for the session, let go of the root."""
        self.shell.close(keep_jobs=keep_jobs)
        if self._owns_board:
            self.background.close(keep_jobs=keep_jobs)
        if self._owns_spill:
            self.spill.close()
        self._places.close()
        self._allowed.close()

    def _writer(self, call: ToolContext | None) -> FileTools:
        look = self._allowed.of(call)
        anywhere = self._files_anywhere.places
        return self.files if look is None else replace(self.files, places=anywhere.bound_to(look))

    @answering
    def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> Reply:
        """Return lines of a text file."""
        return self.files.read_file(path, offset, limit)

    @answering
    def write_file(
        self, path: str, content: str, expected_sha256: str | None = None, *, call: ToolContext | None = None
    ) -> Reply:
        """Make `content` the whole content of a file."""
        return self._writer(call).write_file(path, content, expected_sha256, call)

    @answering
    def str_replace(
        self,
        path: str,
        old_str: str | None = None,
        new_str: str | None = None,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        *,
        patch: str | None = None,
        call: ToolContext | None = None,
    ) -> Reply:
        """Replace the first occurrence of a snippet, or every one, or what the hunks of a patch say."""
        if patch:
            return self.patching.patch_file(path, patch, expected_sha256, call)
        if old_str is None or new_str is None:
            name = "old_str" if old_str is None else "new_str"
            raise Refusal("INVALID_INPUT", f"{name} is missing", hint="give old_str and new_str, or patch")
        change = Replacement(old_str, new_str, "all" if replace_all else "first")
        return self._writer(call).str_replace(path, change, expected_sha256, call)

    @answering
    def edit_file(
        self,
        path: str,
        old: str,
        new: str,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        *,
        call: ToolContext | None = None,
    ) -> Reply:
        """Replace a snippet that occurs once, or every occurrence."""
        change = Replacement(old, new, "all" if replace_all else "refuse")
        return self._writer(call).edit_file(path, change, expected_sha256, call)

    @answering
    def list_dir(self, path: str = ".") -> Reply:
        """List a directory with the type of each entry, directories first."""
        return self.files.list_dir(path)

    @answering
    def list_names(self, path: str = ".") -> Reply:
        """List a directory: sorted names, those of directories with a slash."""
        return self.files.list_names(path)

    @answering
    def file_info(self, path: str) -> Reply:
        """Say what stands at a path."""
        return self.files.file_info(path)

    @answering
    def glob(self, pattern: str, path: str = ".", call: ToolContext | None = None) -> Reply:
        """Find files by name."""
        return self.finding.glob(pattern, path, call)

    @answering
    def find_files(self, pattern: str, path: str = ".", call: ToolContext | None = None) -> Reply:
        """Find files and directories by name; directories are shown with a slash."""
        return self.finding.find_files(pattern, path, call)

    @answering
    def search_files(
        self,
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        *,
        include: str | None = None,
        context: int = 0,
        ignore_case: bool = False,
        max_results: int | None = None,
        call: ToolContext | None = None,
    ) -> Reply:
        """Search the content of files."""
        wanted = Wanted(pattern, path, glob or include, context, ignore_case, max_results)
        return self.finding.search_files(wanted, call)

    @answering
    def exec_shell(self, command: str, timeout_s: float | None = None, call: ToolContext | None = None) -> Reply:
        """Run a command line; both its streams are one text."""
        return self.shell.exec_shell(command, timeout_s, call)

    @answering
    def bash(self, command: str, timeout_s: float | None = None, call: ToolContext | None = None) -> Reply:
        """Run a command line; its errors come in a section of their own, and a failing command has failed."""
        return self.shell.bash(command, timeout_s, call)

    @answering
    def ask_user(self, question: str) -> Reply:
        """Ask the user."""
        return ask(question, [], self.options.ask_user, self.options.ask_stream)

    @answering
    def ask_user_question(self, question: str, options: Sequence[str] | str) -> Reply:
        """Ask the user, with options to choose from."""
        return ask(question, options, self.options.ask_user, self.options.ask_stream)
