"""The duplicate filter alone: its settings, what it refuses, and what a claim of it does."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import RequestFingerprinter, fingerprint

from mmbloom import (
    BloomFilter,
    FormatError,
    GrowingFilter,
    ParameterMismatchError,
    RotatingFilter,
    grow,
)
from mmbloom.crawl.scrapy import BloomDupeFilter, ClaimScheduler, ItemDupeFilter

pytestmark = pytest.mark.slow

A, B = Request("http://a.example/a"), Request("http://a.example/b")


Made = TypeVar("Made", BloomDupeFilter, ItemDupeFilter)


def made(kind: type[Made], **settings: object) -> Made:
    """Make one, not open."""
    given = Settings(settings)
    crawler: Any = SimpleNamespace(
        settings=given,
        request_fingerprinter=RequestFingerprinter(),
        stats=None,
        signals=SignalManager(),
    )
    crawler.stats = MemoryStatsCollector(crawler)
    return kind.from_crawler(crawler)


@contextmanager
def opened(**settings: object) -> Iterator[BloomDupeFilter]:
    """Open one for a block."""
    dupes = made(BloomDupeFilter, **settings)
    dupes.open()
    try:
        yield dupes
    finally:
        dupes.close("finished")


def test_settings_make_the_filter(tmp_path: Path) -> None:
    """Each setting, as a number or as the command line gives it, is what the filter has."""
    path = tmp_path / "seen.bloom"
    for capacity, rate in [(1000, None), ("1e3", "1e-6"), ("1000", 0.000001)]:
        rates = {} if rate is None else {"MMBLOOM_ERROR_RATE": rate}
        with opened(MMBLOOM_FILE=path, MMBLOOM_CAPACITY=capacity, **rates) as dupes:
            assert isinstance(dupes.seen, BloomFilter)
            plan = dupes.seen.params
            assert (plan.capacity, plan.error_rate) == (1000, 1e-6)
    with opened(MMBLOOM_FILE=str(path)) as dupes:
        assert dupes.seen.path == str(path)


def test_default_path_is_in_the_job(tmp_path: Path) -> None:
    """With JOBDIR alone the filter is in it; MMBLOOM_FILE goes before."""
    job, other = tmp_path / "job", tmp_path / "other.bloom"
    with opened(JOBDIR=str(job), MMBLOOM_CAPACITY=10) as dupes:
        assert dupes.seen.path == str(job / "requests.bloom")
    with opened(JOBDIR=str(job), MMBLOOM_FILE=other, MMBLOOM_CAPACITY=10) as dupes:
        assert dupes.seen.path == str(other)


def test_periods(tmp_path: Path) -> None:
    """MMBLOOM_KEEP makes a rotating folder, with periods of a day or of MMBLOOM_EVERY."""
    plan = {"MMBLOOM_CAPACITY": 10, "MMBLOOM_KEEP": "30d"}
    for every, seconds in [(None, 86_400), ("12h", 43_200)]:
        more = {} if every is None else {"MMBLOOM_EVERY": every}
        with opened(MMBLOOM_FILE=tmp_path / str(every), **plan, **more) as dupes:
            assert isinstance(dupes.seen, RotatingFilter)
            settings = dupes.seen.info().settings
        assert (settings["keep_seconds"], settings["every_seconds"]) == (30 * 86_400, seconds)


WRONG: dict[str, dict[str, object]] = {
    "neither MMBLOOM_FILE nor JOBDIR is set: set one": {"MMBLOOM_FILE": None},
    "MMBLOOM_FILE is 5, expected a path": {"MMBLOOM_FILE": 5},
    "MMBLOOM_FILE is '', expected a path": {"MMBLOOM_FILE": ""},
    "seen.bloom does not exist, and MMBLOOM_CAPACITY is not set: set it to the number": {
        "MMBLOOM_CAPACITY": None
    },
    "MMBLOOM_CAPACITY is 'many', expected a whole number: set it": {"MMBLOOM_CAPACITY": "many"},
    "MMBLOOM_CAPACITY is 0, expected": {"MMBLOOM_CAPACITY": 0},
    "MMBLOOM_CAPACITY is 1.5, expected": {"MMBLOOM_CAPACITY": 1.5},
    "MMBLOOM_CAPACITY is True, expected": {"MMBLOOM_CAPACITY": True},
    "MMBLOOM_CAPACITY is 'nan', expected": {"MMBLOOM_CAPACITY": "nan"},
    "MMBLOOM_CAPACITY is 'inf', expected": {"MMBLOOM_CAPACITY": "inf"},
    "MMBLOOM_CAPACITY is 1000": {"MMBLOOM_CAPACITY": 10**400},
    "MMBLOOM_ERROR_RATE is 1, expected more than 0 and less than 1": {"MMBLOOM_ERROR_RATE": 1},
    "MMBLOOM_ERROR_RATE is 'low', expected": {"MMBLOOM_ERROR_RATE": "low"},
    "MMBLOOM_ERROR_RATE applies only when the filter is created, and MMBLOOM_CAPACITY is not set": {
        "MMBLOOM_CAPACITY": None,
        "MMBLOOM_ERROR_RATE": 0.1,
    },
    "MMBLOOM_KEEP applies only when the filter is created": {
        "MMBLOOM_CAPACITY": None,
        "MMBLOOM_KEEP": "30d",
    },
    "MMBLOOM_KEEP: duration is 'a month', expected one like": {"MMBLOOM_KEEP": "a month"},
    "MMBLOOM_EVERY: duration is []": {"MMBLOOM_KEEP": "30d", "MMBLOOM_EVERY": []},
    "MMBLOOM_EVERY is set but MMBLOOM_KEEP is not: set MMBLOOM_KEEP": {"MMBLOOM_EVERY": "1d"},
}


@pytest.mark.parametrize("says", WRONG)
def test_wrong_settings(here: Path, says: str) -> None:
    """A setting that is missing or wrong is named, with what to set; nothing is made."""
    dupes = made(
        BloomDupeFilter, **({"MMBLOOM_FILE": "seen.bloom", "MMBLOOM_CAPACITY": 10} | WRONG[says])
    )
    with pytest.raises(ValueError, match=f"^{re.escape(says)}") as caught:
        dupes.open()
    assert "set " in str(caught.value) or "expected" in str(caught.value)
    dupes.close("shutdown")  # as Scrapy does then
    assert not list(here.iterdir())


def test_what_is_there_is_something_else(tmp_path: Path) -> None:
    """A filter of another plan, of another class, or no filter at all: refused, with a way out."""
    way_out = "remove all mmbloom settings except MMBLOOM_FILE"
    (tmp_path / "text").write_text("text")
    BloomFilter.create(tmp_path / "planned", 10, 1e-6).close()
    RotatingFilter.create(tmp_path / "periods", capacity_per_period=10).close()
    for name, error in [
        ("text", FormatError),
        ("planned", ParameterMismatchError),
        ("periods", FormatError),
    ]:
        with pytest.raises(error) as caught:
            made(BloomDupeFilter, MMBLOOM_FILE=tmp_path / name, MMBLOOM_CAPACITY=20).open()
        assert way_out in "".join(caught.value.__notes__)


def test_a_full_filter_that_was_made_to_grow(tmp_path: Path) -> None:
    """After `mmbloom grow`, the same settings go on with all that it knows."""
    path = tmp_path / "seen"
    with opened(MMBLOOM_FILE=path, MMBLOOM_CAPACITY=10) as dupes:
        assert not dupes.request_seen(A)
    grow(path)
    for settings in ({"MMBLOOM_CAPACITY": 10}, {}):
        with opened(MMBLOOM_FILE=path, **settings) as dupes:
            assert isinstance(dupes.seen, GrowingFilter)
            assert dupes.request_seen(A)
            assert dupes.request_seen(B) == (not settings)
    with pytest.raises(ParameterMismatchError, match="capacity 10, expected 20") as caught:
        made(BloomDupeFilter, MMBLOOM_FILE=path, MMBLOOM_CAPACITY=20).open()
    assert "remove all mmbloom settings" in "".join(caught.value.__notes__)


def test_a_request_is_its_fingerprint(tmp_path: Path) -> None:
    """Method and body count, the fragment does not; the filter's key is Scrapy's fingerprint."""
    with opened(MMBLOOM_FILE=tmp_path / "seen", MMBLOOM_CAPACITY=10) as dupes:
        assert not dupes.request_seen(A)
        assert dupes.request_seen(Request(f"{A.url}#top"))
        assert not dupes.request_seen(A.replace(method="POST", body=b"1"))
        assert fingerprint(A) in dupes.seen
        assert fingerprint(B) not in dupes.seen


def test_a_claim_marks_after_its_block(tmp_path: Path) -> None:
    """Within it the request is new once and not marked; after it, it is; after an error, not."""
    with opened(MMBLOOM_FILE=tmp_path / "seen", MMBLOOM_CAPACITY=10) as dupes:
        refusing = ExitStack()
        refusing.enter_context(dupes.claiming(A))
        assert not dupes.request_seen(A)
        full = OSError("full")
        assert not refusing.__exit__(OSError, full, full.__traceback__)  # as if the block raised
        for seen in (False, True):
            with dupes.claiming(A):
                assert dupes.request_seen(A) == seen
                assert (fingerprint(A) in dupes.seen) == seen
        assert fingerprint(A) in dupes.seen


def test_a_claim_within_a_claim(tmp_path: Path) -> None:
    """A queue that schedules requests in turn: the same one is a duplicate, another is not."""
    with opened(MMBLOOM_FILE=tmp_path / "seen", MMBLOOM_CAPACITY=10) as dupes:
        with dupes.claiming(A):
            assert not dupes.request_seen(A)
            with dupes.claiming(A):
                assert dupes.request_seen(A)
            with dupes.claiming(B):
                assert not dupes.request_seen(B)
            assert fingerprint(B) in dupes.seen
            assert fingerprint(A) not in dupes.seen
        assert fingerprint(A) in dupes.seen


def test_excluded_requests_are_always_new(tmp_path: Path) -> None:
    """An exclusion lets through a page that the filter wrongly reports as seen."""
    with opened(MMBLOOM_FILE=tmp_path / "seen", MMBLOOM_CAPACITY=10) as dupes:
        assert not dupes.request_seen(A)
        dupes.seen.exclusions.add(fingerprint(A))
        assert not dupes.request_seen(A)
        with dupes.claiming(A):
            assert not dupes.request_seen(A)


@pytest.mark.parametrize("other", [RFPDupeFilter, ItemDupeFilter])
def test_scheduler_needs_a_filter_that_can_claim(other: type[RFPDupeFilter]) -> None:
    """With another duplicate filter it refuses to open, and says what to set."""
    dupes = RFPDupeFilter() if other is RFPDupeFilter else made(ItemDupeFilter)
    with pytest.raises(ValueError, match=rf"is [\w.]+\.{other.__name__}, .*: set it to"):
        ClaimScheduler(dupes).open(None)  # type: ignore[arg-type]


def test_an_item_of_no_page(tmp_path: Path) -> None:
    """An item from the start of a spider marks nothing; one of a page marks the page."""
    dupes = made(ItemDupeFilter, MMBLOOM_FILE=tmp_path / "seen", MMBLOOM_CAPACITY=10)
    dupes.open()
    for response in (None, Response(A.url), Response(A.url, request=A)):
        assert fingerprint(A) not in dupes.seen
        dupes.mark(response)
    assert fingerprint(A) in dupes.seen
    dupes.close("finished")


def test_without_scrapy() -> None:
    """The import says what to install."""
    code = "import sys; sys.modules['scrapy'] = None; import mmbloom.crawl.scrapy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "ImportError: mmbloom.crawl.scrapy needs Scrapy 2.13 or later: pip install"
    )
