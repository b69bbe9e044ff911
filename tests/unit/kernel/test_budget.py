"""Whether the next request fits, before it is made."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from plait.core.exchange import ProviderFailed, Reply, ToolSchema
from plait.core.facts import MessageAdded, Reset, TurnStart
from plait.core.messages import Image, Message, Text, assistant, user
from plait.core.usage import Usage
from plait.kernel.budget import Accounted, Fit, Quantity, Room, estimate, fits, overflow_of, weigh
from plait.kernel.effects import Interrupted, Think
from plait.kernel.gauge import units_of
from plait.kernel.rules import Rules, Shrinking
from plait.kernel.state import State, fold
from tests.helpers.worlds import TASK, World, look_at, said

numbers = st.integers(0, 10**6)


def weighed(window: int, reserved: list[int], history: int, kept: int = 0) -> Fit:
    parts = [Accounted(str(number), Quantity(value)) for number, value in enumerate(reserved)]
    return fits(Quantity(window), parts, Quantity(history), kept=Quantity(kept))


@given(numbers, st.lists(numbers, max_size=5), numbers, numbers, st.integers(0, 4))
def test_a_decision_is_sums_and_grows_no_better(
    window: int, reserved: list[int], history: int, more: int, which: int
) -> None:
    """What is left is the window less everything, signed and exact; reserving more never makes a request fit."""
    fit = weighed(window, reserved, history)

    assert (window - sum(reserved), window - sum(reserved) - history) == (fit.available, fit.left)
    assert (fit.decision == "fits") == (window >= sum(reserved) + history)
    assert (fit.decision == "oversized") == (window < sum(reserved))
    if which < len(reserved):
        reserved[which] += more
        rank = ("fits", "compact", "oversized")
        assert rank.index(weighed(window, reserved, history).decision) >= rank.index(fit.decision)


@pytest.mark.parametrize(
    "window, reserved, history, kept, decision",
    [
        (100, [40], 60, 0, "fits"),
        (0, [], 0, 0, "fits"),
        (100, [40], 61, 0, "compact"),
        (100, [40], 61, 60, "compact"),
        (100, [40], 61, 61, "oversized"),
        (100, [101], 0, 0, "oversized"),
        (100, [100], 1, 0, "compact"),
    ],
)
def test_equality_fits_and_a_summary_is_advised_only_where_it_helps(
    window: int, reserved: list[int], history: int, kept: int, decision: str
) -> None:
    """A request that fills the window fits; one whose kept parts are too large is not helped by a summary."""
    assert decision == weighed(window, reserved, history, kept).decision


@pytest.mark.parametrize("missing", ["window", "part", "history", "kept"])
def test_what_is_not_known_makes_the_whole_unknown(missing: str) -> None:
    """One number that nobody has makes the decision unavailable, whatever the others say."""
    known = {name: Quantity.of(None if name == missing else 10) for name in ("window", "part", "history", "kept")}

    fit = fits(known["window"], [Accounted("p", known["part"])], known["history"], kept=known["kept"])

    assert ("unavailable", None, None) == (fit.decision, fit.available, fit.left)
    assert (fit.provenance == "unavailable") == (missing in ("part", "history"))


def talk(*reports: tuple[int, int], words: int = 1_000) -> State:
    """A turn with a question and an answer for each report of (input, output) tokens."""
    facts: list[object] = [TurnStart()]
    for tokens, spoken in reports:
        facts.append(MessageAdded(user("w" * words)))
        facts.append(MessageAdded(assistant("a" * 40), Usage(tokens, spoken), "end_turn"))
    return fold(tuple(facts))  # type: ignore[arg-type]


def test_before_anything_is_reported_four_bytes_are_a_token() -> None:
    """Without a report everything is estimated: text by its bytes, tools by their declarations, pictures by number."""
    state, tool = State(), ToolSchema("look", "Look.", {"type": "object"})
    bare, room = Room(1_000), Room(1_000, system="s" * 400, tools=(tool,))
    empty = estimate(state, bare).tokens
    picture = Message("user", (Text("see"), Image("aGk=")))

    assert (0, False) == (empty, estimate(state, bare).is_measured)
    assert 100 < estimate(state, room).tokens < 130
    assert 1_000 <= estimate(state, bare, [picture]).tokens <= 1_010
    assert estimate(state, bare, [user("字" * 400)]).tokens > 2.5 * estimate(state, bare, [user("w" * 400)]).tokens
    assert estimate(state, bare, [picture]).least < 20


def test_what_was_reported_is_exact_for_what_it_covers() -> None:
    """The last report and its answer are taken as they are; only what came since is estimated, at the learnt rate."""
    state = talk((500, 10))
    room = Room(10_000)

    same = estimate(state, room)
    more = estimate(state, room, [user("w" * 984)])

    assert (510, 500, True) == (same.tokens, same.least, same.is_measured)
    assert 0.45 < same.per_unit < 0.55
    assert abs(510 + 1_000 * same.per_unit - more.tokens) <= 1


def test_a_report_that_is_far_off_is_not_built_on() -> None:
    """One absurd number among sound ones changes neither the rate nor the sum."""
    sound = talk((260, 10), (520, 10), (780, 10))
    odd = talk((260, 10), (520, 10), (780, 10), (3, 1))
    wild = talk((260, 10), (520, 10), (780, 10), (90_000, 1))
    room = Room(100_000)
    expected = estimate(sound, room, [user("w" * 1_000), assistant("a" * 40)]).tokens

    assert abs(expected - estimate(odd, room).tokens) <= 15
    assert abs(expected - estimate(wild, room).tokens) <= 15
    assert estimate(talk((0, 0)), room).is_measured is False


def test_what_was_learnt_outlives_the_history() -> None:
    """After a summary nothing is measured any more, and the rate that was learnt still counts."""
    state = talk((500, 10), (1_000, 10))
    rate = estimate(state, Room(10_000)).per_unit

    state.apply(Reset(0, 3, (Message("summary", (Text("short"),)),), "compaction"))
    after = estimate(state, Room(10_000))

    assert (False, True) == (after.is_measured, abs(rate - after.per_unit) < 0.05)
    assert abs(units_of(state.history) * after.per_unit - after.tokens) <= 1


def test_a_history_that_is_cut_at_its_end_keeps_what_was_measured_before() -> None:
    """A replaced last step takes its own report with it, and no earlier one."""
    state = talk((500, 10), (1_000, 10))

    state.apply(Reset(3, 4, (assistant("b"),), "step_reducer"))

    assert [500] == [measure.input for measure in state.gauge.measures]


def test_a_long_conversation_keeps_a_few_reports() -> None:
    """However long a conversation is, only its last reports are kept, and they are the newest."""
    state = talk(*((number + 1, 1) for number in range(100)), words=1)

    assert len(state.gauge.reports) < 16
    assert list(range(93, 101)) == [measure.input for measure in state.gauge.measures]


def test_parts_are_told_with_the_room_for_the_answer() -> None:
    """The weighing names each part, and the threshold may be another than the window."""
    state, room = talk((500, 10)), Room(1_000, reserve=200, system="s" * 100)

    fit = weigh(state, room)

    assert ["system", "tools", "answer", "history"] == [part.name for part in fit.parts]
    assert (290, "fits", "estimated") == (fit.left, fit.decision, fit.provenance)
    assert ("compact", -1) == (weigh(state, room, window=709).decision, weigh(state, room, window=709).left)
    assert "fits" == weigh(state, room, window=710).decision
    assert "unavailable" == weigh(state, Room(None)).decision
    assert "fits" == weigh(state, Room(None, usual=1_000)).decision


@pytest.mark.parametrize("beyond, is_known", [(-1, True), (0, False), (1, False)])
def test_only_what_is_certain_is_refused(beyond: int, is_known: bool) -> None:
    """A request that is larger than the window by the lowest count is refused; one that may fill it is not."""
    state, question = talk((500, 10)), user("w" * 12_000)
    least = estimate(state, Room(None), [question]).least

    assert 1_500 <= least < 1_510
    assert is_known == (overflow_of(state, Room(least + beyond), [question]) is not None)


def test_a_window_that_was_exceeded_is_none() -> None:
    """Where a larger request was answered the window is larger, too, and nothing is refused by it."""
    state = talk((500, 10))

    assert overflow_of(state, Room(400), [user("w" * 100_000)]) is None
    assert overflow_of(state, Room(None), [user("w" * 100_000)]) is None


def test_a_request_that_cannot_fit_is_never_made() -> None:
    """Nothing is asked; the error has the numbers, the parts by size, and what to do."""
    world = World([said("never")], rules=Rules(room=Room(1_000, system="s" * 800)))

    end = world.run(user("small"), user("w" * 100_000))

    assert [] == world.thinks
    error = end.error
    assert isinstance(error, ProviderFailed)
    assert ("error", "context_overflow") == (end.reason, error.kind)
    assert error.tokens is not None
    assert 25_000 < (error.tokens[0] or 0) < 26_000
    assert 1_000 == error.tokens[1]
    assert "so it was not sent: system prompt 200, tools 0, messages 25," in error.message
    assert "; large are message 2 (user) 25,0" in error.message
    assert "larger window" in error.hint


def test_history_is_summarised_before_a_request_that_could_not_fit() -> None:
    """Within a turn old rounds make room and the task stays; nothing that would be refused is sent."""
    results = {f"c{number}": "x" * 9_000 for number in range(6)}

    def answer(state: State, ask: Think) -> Reply:
        if ask.purpose == "compaction":
            return said("a summary")
        return said(look_at(f"c{state.steps}") if state.steps < 6 else "done")

    world = World(answer, results=results, rules=Rules(room=Room(2_500), shrinking=Shrinking(keep_last_units=2)))

    end = world.run()

    steps = [request for request, think in zip(world.requests, world.thinks, strict=True) if think.purpose == "step"]
    sizes = [units_of(request, image_tokens=0) / 12 for request in steps]
    assert ("done", 7, True) == (end.reply, len(steps), max(sizes) <= 2_500), sizes
    assert len(world.thinks) > 7
    assert all(request[0] == TASK for request in world.requests)


def test_where_no_summary_would_help_none_is_asked_for() -> None:
    """A last message, or a last round, that is too large alone ends the turn at once, whatever stands before it."""
    rules = Rules(room=Room(2_500), shrinking=Shrinking(keep_last_units=1))
    asked = World([said("one"), said("two"), said("never")], rules=rules)
    asked.run(user("a"))
    asked.run(user("b"))
    looked = World([said("one"), said(look_at("c0")), said("never")], results={"c0": "x" * 90_000}, rules=rules)
    looked.run(user("a"))

    for world, question in ((asked, "x" * 90_000), (looked, "b")):
        before = len(world.thinks)
        end = world.run(user(question))
        assert ("error", {"step"}) == (end.reason, {think.purpose for think in world.thinks})
        assert (0 if world is asked else 1) == len(world.thinks) - before


def test_it_costs_nothing_where_no_window_is_known() -> None:
    """Without a room nothing is counted, so that a plain step is as quick as ever."""
    world = World([said(look_at("c0")), said(look_at("c1")), said("done")])

    world.run()

    assert [0] == world.state.gauge._sums


def test_an_interrupted_turn_is_none_of_its_business() -> None:
    """An interruption passes through as it is."""
    world = World([Interrupted("interrupted")], rules=Rules(room=Room(1_000)))

    assert "interrupted" == world.run().reason
