"""The tally of the laws' tests: it counts, it selects, and it hides no failure."""

import re
from pathlib import Path

import pytest
from tally import WHAT

pytest_plugins = ["pytester"]

TESTS = """
    import pytest

    @pytest.mark.laws("T1")
    @pytest.mark.parametrize("kills", [2, 40])
    def test_kills(tally, kills):
        tally(kills=kills, keys=1_000_000, false_negatives=0)

    @pytest.mark.laws("T10")
    @pytest.mark.parametrize("good", [True, False])
    def test_fails(tally, good):
        tally(forks=1)
        assert good

    @pytest.fixture
    def broken():
        yield
        raise OSError

    @pytest.mark.laws("T2")
    def test_is_left_badly(tally, broken):
        tally(rounds=1)

    @pytest.mark.laws("T3")
    def test_says_nothing():
        pass

    @pytest.mark.laws("T8")
    def test_is_skipped(tally):
        pytest.skip("no such disk")

    def test_of_no_law():
        pass
"""
FOLDER = Path(__file__).parents[1]
HELPERS = FOLDER / "helpers"


def run(pytester: pytest.Pytester, tests: str, *options: str) -> tuple[pytest.RunResult, list[str]]:
    """Run tests within this one; gives the result, and the lines of the table."""
    pytester.makepyfile(tests)
    pytester.makeini(f"[pytest]\npythonpath = {HELPERS}\naddopts = --strict-markers\n")
    pytester.makeconftest('pytest_plugins = ["tally"]')
    result = pytester.runpytest_inprocess(*options, no_reraise_ctrlc=True)
    return result, [re.sub(" +", " ", line) for line in result.outlines if re.match(r"T\d", line)]


@pytest.mark.parametrize("processes", [0, 2])
def test_tally_counts_and_hides_no_failure(pytester: pytest.Pytester, processes: int) -> None:
    """Cases add up; a row with a failure or a broken teardown says so; a skip is no pass."""
    result, rows = run(pytester, TESTS, f"-n{processes}")
    result.assert_outcomes(passed=6, failed=1, errors=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [re.sub(r" \d+\.\d ", " # ", row) for row in rows] == [
        f"T1 {WHAT['T1']} 42 kills, 2,000,000 keys, 0 false negatives # 2 passed",
        f"T2 {WHAT['T2']} 1 rounds # 1 FAILED",
        f"T3 {WHAT['T3']} # 1 passed",
        f"T8 {WHAT['T8']} # 1 skipped",
        f"T10 {WHAT['T10']} 2 forks # 1 FAILED, 1 passed",
    ]


@pytest.mark.parametrize(
    ("selection", "ids"),
    [("T1", ["T1"]), ("laws", ["T1", "T2", "T3", "T8", "T10"]), ("not laws", [])],
)
def test_ids_select_tests(pytester: pytest.Pytester, selection: str, ids: list[str]) -> None:
    """-m T1 runs T1 and not T10; where no such test ran there is no table."""
    result, rows = run(pytester, TESTS, "-m", selection)
    assert [row.split()[0] for row in rows] == ids
    assert ("tests of the laws" in str(result.stdout)) == bool(ids)


def test_interrupted_test_is_not_passed(pytester: pytest.Pytester) -> None:
    """A test that was started and never ended is no pass, whatever the run was ended by."""
    tests = """
        import pytest

        @pytest.mark.laws("T5")
        @pytest.mark.parametrize("number", [1, 2, 3])
        def test_flips(number, tally):
            tally(flips=number)
            if number == 2:
                raise KeyboardInterrupt
    """
    result, (row,) = run(pytester, tests)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert row.endswith(" 1 CUT OFF, 1 passed")


def test_unknown_id_and_missing_marker_are_errors(pytester: pytest.Pytester) -> None:
    """A typing error in an id, or a count without an id, does not go unseen."""
    unknown, _ = run(pytester, '@__import__("pytest").mark.laws("T99")\ndef test_a(): pass')
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    unmarked, rows = run(pytester, "def test_a(tally):\n    tally(kills=1)")
    unmarked.assert_outcomes(failed=1)
    assert rows == []


def test_every_id_has_tests() -> None:
    """Each of T1 to T17, and each F, is the marker of some test."""
    marked = re.compile(r'mark\.laws\("([TF]\d+)"\)')
    files = set(FOLDER.rglob("test_*.py")) - {Path(__file__)}
    found = {law for file in files for law in marked.findall(file.read_text())}
    assert found == set(WHAT)


def test_stress_is_a_number_or_a_long_run(pytester: pytest.Pytester) -> None:
    """--stress multiplies by N, by much without N, and gives a hanging test as much more time."""
    pytester.makeini(f"[pytest]\npythonpath = {HELPERS}\naddopts = --strict-markers\n")
    pytester.makeconftest("from conftest_of_mmbloom import *")
    pytester.makepyfile(conftest_of_mmbloom=(FOLDER / "conftest.py").read_text())
    pytester.makepyfile(
        """
        def test_a(stress, request):
            print("factor", stress, request.config.getini("faulthandler_timeout"))
        """
    )
    for options, said in {
        (): "factor 1 120.0",
        ("--stress", "3"): "factor 3 360.0",
        ("--stress",): "factor 360 43200.0",
    }.items():
        result = pytester.runpytest_inprocess(*options, "-s")
        result.stdout.fnmatch_lines([f"*{said}*"])
    assert pytester.runpytest_inprocess("--stress", "0").ret == pytest.ExitCode.USAGE_ERROR
