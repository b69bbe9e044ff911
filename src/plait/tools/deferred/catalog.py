"""A catalog of tools for several surfaces: what a run mounts, and what each of its requests shows.

Floor: 3. Owns: which tools a surface has and which of them are shown from the beginning; never: a run.

    catalog = DeferredCatalog(
        {"mail": Surface(mail_tools, always_on=("read_mail",))},
        lambda run: "mail",
        search=SearchLimits(max_query_bytes=1_000, max_results=5, max_result_bytes=4_000),
        activation=ActivationLimits(max_selected_tools=5, max_active_tools=12, max_schema_bytes=32_000),
    )
    agent = Agent(model, catalog.mount(CatalogRun("run-1")))

What a run has loaded is a function of the surface and of the run's own tool results: another run, or the same one on
another surface, begins with nothing loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from plait.core.errors import ConfigError
from plait.core.exchange import ToolSchema
from plait.core.messages import Message
from plait.core.values import dataclass
from plait.kernel.deferral import ActivationLimits, Deferral, active, fitting, schema_bytes
from plait.kernel.tools import Tool
from plait.tools.deferred.search import Observe, SearchEvidence, Searching, SearchLimits, Selector, with_search


@dataclass(frozen=True, slots=True)
class Surface:
    """The tools of one place that a run may work at."""

    tools: Sequence[Tool]
    always_on: Sequence[str] = ()
    """Names of tools that are shown in every request, beside the search."""


@dataclass(frozen=True, slots=True)
class CatalogRun:
    """What a run is told by: what the host's callbacks decide from."""

    run_id: str
    data: Mapping[str, object] = field(default_factory=dict)
    """Whatever the host wants its callbacks to know."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """The request that comes next."""

    run: CatalogRun
    messages: Sequence[Message]
    """The conversation so far; results of other runs in it do not count."""


@dataclass(frozen=True, slots=True)
class StepTools:
    """The tools that one request shows."""

    surface: str
    tools: tuple[ToolSchema, ...]
    schema_bytes: int

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the order in which they are shown."""
        return tuple(tool.name for tool in self.tools)


@dataclass(frozen=True, slots=True)
class Mounted:
    """All tools of a run, callable or not yet; given to an agent in the place of a list."""

    tools: tuple[Tool, ...]
    deferral: Deferral

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)


SelectSurface = Callable[[CatalogRun], str]
Pins = Callable[[CatalogRun], Iterable[str]]


class DeferredCatalog:
    """Finite surfaces of tools, of which a model sees a few and finds the others.

    Safe in any thread; the callbacks are called in the caller's, and have to give the same for the same run.
    """

    def __init__(
        self,
        surfaces: Mapping[str, Surface],
        select_surface: SelectSurface,
        pins: Pins | None = None,
        *,
        search: SearchLimits,
        activation: ActivationLimits,
        observe: Observe | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Put a catalog together.

        Args:
            surfaces: the places, by name.
            select_surface: says at which of them a run works.
            pins: names of tools that a run shows from its beginning, as far as the ceilings allow.
            search: how much one search may ask and say.
            activation: how much may be shown; holds for every request.
            observe: told of each search and each request in numbers; no words of anybody.
            selector: searches in the place of the built-in order; may be a coroutine function.

        Raises:
            ConfigError: a surface names a tool that it does not have, or what it always shows is over a ceiling.
        """
        self._surfaces = dict(surfaces)
        self._select = select_surface
        self._pins = pins
        self._search = search
        self._activation = activation
        self._observe = observe
        self._selector = selector
        for name in self._surfaces:
            self._check(name)

    def mount(self, run: CatalogRun) -> Mounted:
        """Return the tools of a run.

        Raises:
            ConfigError: the run's surface is none of the catalog's. ValueError: two of its tools have one name.
        """
        name = self._surface(run)
        return self._mounted(name, run.run_id, () if self._pins is None else tuple(self._pins(run)))

    def prepare_step(self, next: NextStep) -> StepTools:
        """Return what the next request of a run shows: what is always shown, the pins, what its searches have loaded.

        Raises:
            ConfigError: the run's surface is none of the catalog's.
        """
        mounted = self.mount(next.run)
        schemas = [tool.schema for tool in mounted.tools if tool.alias_of is None]
        plain = [schema for schema in schemas if not schema.deferred]
        loaded = [replace(tool, deferred=False) for tool in active(mounted.deferral, schemas, next.messages)]
        shown = (*plain, *loaded)
        found = StepTools(mounted.deferral.surface, shown, sum(map(schema_bytes, shown)))
        if self._observe is not None:
            told = SearchEvidence("step", found.surface, next.run.run_id, 0, len(shown), found.schema_bytes)
            self._observe(told)
        return found

    def _surface(self, run: CatalogRun) -> str:
        name = self._select(run)
        if name not in self._surfaces:
            known = ", ".join(self._surfaces) or "none"
            raise ConfigError(f"there is no surface {name!r} in this catalog", hint=f"it has: {known}")
        return name

    def _mounted(self, name: str, run_id: str, pins: Iterable[str]) -> Mounted:
        surface = self._surfaces[name]
        deferral = Deferral("grow", self._activation, name, run_id, keeps=False)
        always = frozenset(surface.always_on)
        how = Searching(deferral, self._search, self._selector, self._observe)
        # The search stands before whatever else is shown, and counts as shown.
        tools = with_search((replace(tool, deferred=tool.name not in always) for tool in surface.tools), how)
        shown = [tool.schema for tool in tools if not tool.deferred and tool.alias_of is None]
        wanted = dict.fromkeys(pins)
        pinned = [tool.schema for name in wanted for tool in tools if tool.name == name and tool.deferred]
        names = {tool.name for tool in fitting(pinned, shown, self._activation)}
        return Mounted(tuple(replace(tool, deferred=False) if tool.name in names else tool for tool in tools), deferral)

    def _check(self, name: str) -> None:
        surface = self._surfaces[name]
        known = {tool.name for tool in surface.tools}
        missing = [each for each in surface.always_on if each not in known]
        if missing:
            raise ConfigError(
                f"the surface {name!r} always shows {missing[0]!r}, which it does not have", hint="add the tool"
            )
        shown = [tool.schema for tool in self._mounted(name, "", ()).tools if not tool.deferred and not tool.alias_of]
        if len(list(fitting(shown, (), self._activation))) < len(shown):
            raise ConfigError(
                f"the surface {name!r} always shows {len(shown)} tools of {sum(map(schema_bytes, shown))} bytes, "
                "the search among them, and that is over a ceiling",
                hint="raise max_active_tools or max_schema_bytes, or show fewer tools always",
            )
