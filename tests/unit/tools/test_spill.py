"""Kept output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given, strategies as st

from plait.tools.spill import Spill


@given(st.text(max_size=3_000), st.integers(300, 2_000))
def test_a_cut_text_fits_and_all_of_it_is_kept(text: str, chars_max: int) -> None:
    """Whatever is cut is no longer than allowed, marker included, and the file it names holds everything."""
    spill = Spill()
    fitted = spill.fit(text, chars_max)
    assert len(fitted.text) <= chars_max
    assert (len(text) > chars_max) == fitted.is_cut
    if fitted.path is not None:
        assert fitted.path in fitted.text
        assert text.encode("utf-8", "replace") == Path(fitted.path).read_bytes()
    spill.close()


def test_kept_output_is_private_and_goes_when_it_was_only_temporary(tmp_path: Path) -> None:
    """Files are readable by their owner only; a temporary directory is removed at the end, a given one is not."""
    temporary, given_one = Spill(), Spill(tmp_path / "spill")
    paths = [Path(str(spill.keep("text"))) for spill in (temporary, given_one)]
    for path in paths:
        assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    temporary.close()
    given_one.close()
    assert [False, True] == [path.parent.exists() for path in paths]


def test_output_kept_by_an_earlier_session_is_found(tmp_path: Path) -> None:
    """A path that was named before a restart leads to the same file after it; other paths lead nowhere here."""
    path = str(Spill(tmp_path / "spill").keep("text"))
    again = Spill(tmp_path / "spill")
    found = again.find(path)
    assert found is not None
    assert (tmp_path / "spill", Path(path).name) == (found[0].root, found[1])
    for other in (str(tmp_path / "other.txt"), str(tmp_path / "spill"), "", "spill/x", f"{tmp_path}/spill/sub/x"):
        assert again.find(other) is None, other


def test_a_full_disk_costs_the_kept_part_and_not_the_result(small_disk: Callable[[int], Path]) -> None:
    """Where nothing can be kept the result is cut all the same, says so, and leaves no half file."""
    folder = small_disk(64 * 1024)
    spill = Spill(folder / "spill")
    fitted = spill.fit("x" * 1_000_000, 1_000)
    assert (True, None) == (fitted.is_cut, fitted.path)
    assert "the rest could not be kept" in fitted.text
    assert [] == list((folder / "spill").iterdir())


def test_a_place_that_cannot_be_made_costs_nothing_else(tmp_path: Path) -> None:
    """A directory that cannot be created is no error of the tool whose output was too long."""
    (tmp_path / "file").write_text("")
    spill = Spill(tmp_path / "file" / "spill")
    assert None is spill.new_path()
    assert spill.fit("x" * 1_000, 500).is_cut
