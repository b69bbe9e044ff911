"""What a run was asked for, as a value.

Floor: 7. Owns: the fields and what each means; never: the options of a command that fill them, or a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from plait.core.values import dataclass

if TYPE_CHECKING:
    from plait.cli.screen import Form
    from plait.engine.profile import Profile
    from plait.session.options import Proof

DEFAULT_RETRIES: Final = 5
"""Requests that are made again when an endpoint fails in passing, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run was asked for."""

    task: str | None
    """None only finishes what a session left unfinished."""
    model: str | None = None
    endpoint: str | None = None
    key_env: str | None = None
    inference_db: str | None = None
    because: str = ""
    """Who named the model and the endpoint, where no option did."""
    config: str | None = None
    """File that is read in place of the user's and the project's settings."""
    profile: Profile | str | None = None
    """The way of working, or its name."""
    supplement: str = ""
    """Stands in the system prompt."""
    tool_concurrency: int | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    """What the configuration says, as fields of an agent spec."""
    notices: Sequence[str] = ()
    """What is told of the configuration."""
    directory: str | None = None
    """Where to work; None is here, or where the resumed session did."""
    session: str | None = None
    """The session of this name goes on, or begins."""
    resume: str | None = None
    """This session goes on."""
    is_continue: bool = False
    """The newest session of the folder goes on."""
    durable: bool = True
    has_plugins: bool = True
    """Load the user's own plugins."""
    spec: str | None = None
    max_steps: int | None = None
    """None is as the spec says, or else `MAX_STEPS`."""
    max_cost: Decimal | None = None
    """In US dollars."""
    max_tokens: int | None = None
    """Prompt tokens that no cache held, and completion tokens."""
    retries: int | None = None
    """None is `DEFAULT_RETRIES`."""
    timeout_s: float | None = None
    strict_cache_proof: Proof | None = None
    """None: where the endpoint is known to report what it cached."""
    min_cacheable_tokens: int | None = None
    cache_ttl_s: float | None = None
    images: Sequence[str] = ()
    output_schema: str | None = None
    """File with the JSON Schema of the answer."""
    mcp_files: Sequence[str] = ()
    """Files that declare MCP servers, beside the user's own."""
    nohup: bool = False
    """The model may start background jobs."""
    hooks: Sequence[str] = ()
    """Files and folders of hooks, beside the user's own."""
    no_hooks: bool = False
    allow: Sequence[str] = ()
    """Permission rules of this run; `ask` and `deny` too."""
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    sandbox: str | None = None
    """`auto`, `on` or `off`; None is as the files say."""
    sandbox_network: Sequence[str] = ()
    """Hosts that commands in the sandbox can reach, beside those of the files."""
    bare: bool = False
    """The model gets the task alone."""
    without: Sequence[str] = ()
    """Senses that are off."""
    yes: bool = False
    form: Form = "text"
    quiet: bool = False
    introduction: str = ""
    """Told before anything else."""
    is_show: bool = False
    """The run is to be watched: everything goes to stdout, whoever reads it."""
