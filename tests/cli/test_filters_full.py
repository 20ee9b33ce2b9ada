"""A full filter: dedup stops before the plan is passed, grow makes room, each command says so."""

import json
import re
from pathlib import Path

from cli_runner import FULL_DISK, Ended, inside, is_one_line, mmbloom, refused, started

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom import open as open_filter

SIZES = ("-n", "100", "-p", "1e-9")


def lines(start: int, stop: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, stop))


def check_marked(filter_path: Path, printed: bytes, total: int) -> None:
    marked = set(printed.splitlines())
    with open_filter(filter_path, "r") as seen:
        every = lines(0, total).splitlines()
        assert {key for key in every if key in seen} == marked


def test_stop_grow_go_on(here: Path) -> None:
    (here / "in").write_bytes(lines(0, 450))
    command = ("dedup", "seen", *SIZES, "in", "--stats")
    ended = mmbloom(*command)
    figures, said = ended.err.splitlines()
    assert (ended.code, ended.out) == (6, lines(0, 100))
    assert said.startswith(
        f"mmbloom: {here}/seen: is full: it holds about 100 keys and has a capacity of"
    )
    assert (
        f"stopped in in: only the printed lines are marked; make room with mmbloom grow {here}"
        in said
    )
    stats = json.loads(figures)
    assert (stats["lines"], stats["unique"], stats["capacity"]) == (100, 100, 100)
    assert 0 < stats["current_error_rate"] < 2e-9
    check_marked(here / "seen", ended.out, 450)
    again = mmbloom(*command)
    assert (again.code, again.out) == (6, b"")
    grown = mmbloom("grow", "seen")
    assert (grown.code, grown.out) == (0, b"")
    assert is_one_line(grown.err, "seen: is now a growing folder")
    again = mmbloom("grow", "seen")
    assert (again.code, again.out) == (0, b"")
    assert is_one_line(again.err, "seen: was already a growing folder")
    assert re.search(r"at most 2[.\d]*e-09: about 2[.\d]*e-07 % of new lines", grown.err)
    rest = mmbloom(*command)
    assert (rest.code, rest.out) == (0, lines(100, 450))
    assert json.loads(rest.err)["capacity"] == 300 + 400
    check_marked(here / "seen", lines(0, 450), 450)
    assert mmbloom(*command[:-1]) == Ended(0, b"", "")


def test_go_on_past_the_plan(here: Path) -> None:
    (here / "in").write_bytes(lines(0, 500))
    ended = inside("dedup", "seen", "-n", "10", "--when-full", "warn", "in")
    with BloomFilter.open("seen", "r") as seen:
        assert seen.current_error_rate > 0.9
    assert ended.code == 0
    assert ended.out.count(b"\n") < 400
    assert is_one_line(
        ended.err,
        "seen: is past its capacity: it holds about",
        "keys and has a capacity of 10: about",
        "% of new lines are now reported as seen",
    )


def test_stop_past_the_plan(here: Path) -> None:
    past = ("dedup", "seen", "-n", "10", "--when-full", "warn")
    assert mmbloom(*past, stdin=lines(0, 120)).code == 0
    done = mmbloom("dedup", "seen", stdin=lines(0, 2000))
    assert refused(
        done,
        6,
        "stopped in stdin",
        "it is already past its capacity, and about",
        "% of new lines are now reported as seen; make room",
    )


def test_stop_far_past_the_plan(here: Path) -> None:
    """At a file that takes most new lines for seen it stops, though none of the lines looks new."""
    assert (
        mmbloom("dedup", "seen", "-n", "10", "--when-full", "warn", stdin=lines(0, 180)).code == 0
    )
    (here / "in").write_bytes(lines(0, 20))  # of which none is new
    ended = mmbloom("dedup", "seen", "in", "--output-dir", "out")
    assert ended.code == 6
    ended = mmbloom("dedup", "seen", "in", "--stats")
    assert (ended.code, json.loads(ended.err.splitlines()[0])["lines"]) == (6, 0)
    ended = mmbloom("dedup", "seen", "in")
    assert refused(ended, 6, "seen: is full: it holds about", "new keys are now reported as seen")
    assert "it cannot grow: about" in ended.err
    assert (ended.out, "nothing was read" in ended.err) == (b"", True)
    assert "make room" not in ended.err
    assert refused(mmbloom("grow", "seen"), 2, "seen: cannot grow", "add the keys again")


def test_stop_where_no_folder_can_be(here: Path) -> None:
    """A file whose rate cannot be halved is not advised to grow."""
    strict = ("-n", "10", "-p", "1e-12", "--layout", "standard")
    ended = mmbloom("dedup", "seen", *strict, stdin=lines(0, 20))
    assert (ended.code, ended.out) == (6, lines(0, 10))
    reason = "cannot grow: no growing filter can begin with 10 keys at this error rate"
    assert is_one_line(ended.err, f"it {reason}", "20 keys at", "make a larger filter")
    assert is_one_line(mmbloom("grow", "seen").err, reason)


def test_seen_lines_need_no_room(here: Path) -> None:
    """A full filter is no reason to stop where nothing is new; -d prints the repeats till then."""
    assert mmbloom("dedup", "seen", *SIZES, stdin=lines(0, 100)).code == 0
    assert mmbloom("dedup", "seen", stdin=lines(0, 100)) == Ended(0, b"", "")
    repeats = mmbloom("dedup", "seen", "-d", stdin=lines(50, 110))
    assert (repeats.code, repeats.out) == (6, lines(50, 100))


def test_several_inputs(here: Path) -> None:
    names = ["a", "b", "c"]
    for number, name in enumerate(names):
        (here / name).write_bytes(lines(120 * number, 120 * number + 120))
    command = ("dedup", "seen", *SIZES, *names, "--output-dir", "out", "-j", "2")
    assert refused(mmbloom(*command), 6, "is full: it holds about 100 keys")
    assert not (here / "out" / "c").exists(), "no other is begun"
    printed = b"".join(path.read_bytes() for path in (here / "out").iterdir())
    assert printed.count(b"\n") == 100
    check_marked(here / "seen", printed, 360)
    assert mmbloom("grow", "seen").code == 0
    assert mmbloom(*command).code == 0
    printed = b"".join(path.read_bytes() for path in (here / "out").iterdir())
    assert sorted(printed.splitlines()) == sorted(lines(0, 360).splitlines())


def test_one_output_of_several_inputs(here: Path) -> None:
    for number, name in enumerate("abc"):
        (here / name).write_bytes(lines(60 * number, 60 * number + 60))
    assert refused(mmbloom("dedup", "seen", *SIZES, "a", "b", "c", "-o", "out"), 6, "stopped in b:")
    assert (here / "out").read_bytes() == lines(0, 100)
    check_marked(here / "seen", lines(0, 100), 180)


def test_more_than_a_chunk(here: Path) -> None:
    ended = mmbloom("dedup", "seen", "-n", "20000", "-p", "1e-9", stdin=lines(0, 30_000))
    assert (ended.code, ended.out) == (6, lines(0, 20_000))


def test_folders_from_the_start(here: Path) -> None:
    growing = ("dedup", "grows", *SIZES, "--growing")
    assert mmbloom(*growing, stdin=lines(0, 500)) == Ended(0, lines(0, 500), "")
    assert mmbloom(*growing, stdin=lines(400, 600)) == Ended(0, lines(500, 600), "")
    with GrowingFilter.open("grows", "r") as seen:
        assert seen.info().settings["error_rate"] == 1e-9
    assert mmbloom("dedup", "grows", *SIZES, stdin=lines(0, 600)) == Ended(0, b"", "")
    rotating = ("dedup", "rotates", *SIZES, "--rotate", "--every", "2h", "--keep", "1d")
    ended = mmbloom(*rotating, stdin=lines(0, 150))
    assert (ended.code, ended.out) == (6, lines(0, 100))
    assert is_one_line(ended.err, "rotates: is full", "wait for the next period")
    with RotatingFilter.open("rotates", "r") as seen:
        assert seen.info().settings["every_seconds"] == 7200
    assert mmbloom("add", "added", *SIZES, "--growing", stdin=lines(0, 300)).code == 0
    assert Path("added").is_dir()


def test_options_that_do_not_fit(here: Path) -> None:
    assert mmbloom("create", "grows", *SIZES, "--growing").code == 0
    assert mmbloom("create", "rotates", *SIZES, "--rotate").code == 0
    for argv, said in (
        (("grows", "-n", "200", "-p", "1e-9"), "exists with capacity 100, expected 200: leave"),
        (("grows", "-n", "100"), "exists with error_rate 5e-10, expected 1e-06: leave out -n"),
        (("grows", *SIZES, "--seed", "1"), "exists with seed secret"),
        (
            ("grows", *SIZES, "--rotate"),
            "is a growing folder, which records its own parameters: leave",
        ),
        (
            ("rotates", *SIZES),
            "is a rotating folder, which records its own parameters: leave out -n",
        ),
    ):
        ended = mmbloom("dedup", *argv, stdin=b"b\n")
        assert refused(ended, 3, said)


def test_every_command_says_so(here: Path) -> None:
    (here / "in").write_bytes(lines(0, 300))
    assert mmbloom("add", "seen", "-n", "100", "--seed", "0", "--layout", "standard",
                   "--hash", "murmur3", "in").code == 0  # fmt: skip
    assert mmbloom("create", "none", "--like", "seen").code == 0
    for argv in (
        ("add", "seen", "in"),
        ("check", "-c", "seen", "in"),
        ("exclude", "seen", "--add", "k"),
    ):
        ended = mmbloom(*argv)
        assert ended.code == 0, ended
        assert is_one_line(
            ended.err.splitlines(keepends=True)[0],
            "seen: is past its capacity: it holds about",
            "keys and has a capacity of 100: about",
            "of new lines are now reported as seen",
            "mmbloom grow seen",
        ), argv
    reported: tuple[tuple[tuple[str, ...], str], ...] = (
        (("copy", "-q", "seen", "copied"), "seen"),
        (("merge", "-q", "merged", "seen"), "merged"),
        (("intersect", "-q", "common", "seen", "seen"), "seen"),
        (("compare", "none", "seen"), "seen"),
        (("export", "--guava", "seen", "theirs"), "seen"),
        (("import", "-q", "--guava", "theirs", "ours", "-n", "100"), "ours"),
        (("repair", "seen", "mended"), "mended"),
    )
    for command, named in reported:
        ended = mmbloom(*command)
        assert ended.code == 0, ended
        assert is_one_line(
            ended.err.splitlines(keepends=True)[0],
            f"warning: {here / named}: holds about",
            "keys and has a capacity of 100; ",
            "of new keys are now reported as seen",
        ), command
    tried = mmbloom("dedup", "--dry-run", "seen", "in")
    assert (tried.code, tried.err.count("\n")) == (0, 1)
    assert "mmbloom: after a real run: seen: is past its capacity: it holds about" in tried.err
    found = mmbloom("verify", "seen")
    assert (found.code, found.err) == (0, "")
    assert b"\nverdict         sound, but past its capacity" in found.out
    assert b"keys and has a capacity of 100: about" in b" ".join(found.out.split())
    assert b"of new keys are now reported as seen" in found.out
    assert json.loads(mmbloom("verify", "seen", "--json").out)["past_plan"] is True
    shown = mmbloom("info", "seen")
    assert (shown.code, shown.err) == (0, "")
    assert b"capacity        passed: about" in shown.out
    assert json.loads(mmbloom("info", "seen", "--json").out)["past_plan"] is True
    grown = mmbloom("grow", "seen")
    assert is_one_line(grown.err, "of new lines are reported as seen")
    assert is_one_line(mmbloom("check", "-c", "seen", "in").err, "has a file past its capacity")


@FULL_DISK
def test_stopped_amid_repeats(here: Path) -> None:
    """A run with -d marks lines that it does not print: another one would print them as repeats."""
    (here / "in").write_bytes(lines(0, 300) + lines(0, 5))
    ended = mmbloom("dedup", "seen", "-n", "100", "-d", "in")
    assert (ended.code, ended.out) == (6, b"")
    to_do = "start with a new filter, or with a copy made before this run"
    said = "stopped in in: only the lines read so far are marked; "
    assert is_one_line(ended.err, said + to_do)
    assert "grow" not in ended.err
    with open("/dev/full", "wb") as full:
        failed = started("dedup", "other", "-n", "1000", "-d", "in", stdout=full)
    assert failed.code == 5
    said = "stdout: No space left on device; another run would print the lines marked so far: "
    assert is_one_line(failed.err, said + to_do)


def test_a_file_of_a_folder_is_not_to_grow(here: Path) -> None:
    """Where grow would damage the folder it is not advised, nor taken."""
    assert mmbloom("create", "seen", "--growing", *SIZES).code == 0
    member = here / "seen" / "0000000000.bloom"
    Path("manifest").write_bytes((here / "seen" / "manifest.json").read_bytes())
    (here / "seen" / "manifest.json").unlink()
    assert mmbloom("add", member, stdin=lines(0, 200)).code == 0
    assert f"mmbloom grow {member}" in mmbloom("check", "-c", member, stdin=b"a\n").err
    Path("manifest").rename(here / "seen" / "manifest.json")
    said = mmbloom("check", "-c", member, stdin=b"a\n").err
    assert "is past its capacity: it holds about" in said
    assert "keys and has a capacity of 100: about" in said
    assert "grow" not in said
    for command in ("add", "grow"):
        ended = mmbloom(command, member, stdin=b"a\n")
        assert (ended.code, is_one_line(ended.err, f"is a file of the folder {here}")) == (3, True)


def test_grow_refuses(here: Path) -> None:
    assert mmbloom("create", "counts", *SIZES, "--counting").code == 0
    assert mmbloom("create", "rotates", *SIZES, "--rotate").code == 0
    for path, said in (
        ("counts", "copy --plain"),
        ("rotates", "begins a new file each period"),
        ("nothing", "no such filter"),
    ):
        assert refused(mmbloom("grow", path), 3, path, said)


def test_a_period_past_its_plan_ends(here: Path) -> None:
    rotate = ("--rotate", "--keep", "7d", "--every", "1d")
    assert mmbloom("create", "seen", *rotate, *SIZES).code == 0
    said = mmbloom("add", "seen", stdin=lines(0, 300)).err
    assert is_one_line(said, "has a file past its capacity", "this ends with the period")
    assert "made anew" not in said
