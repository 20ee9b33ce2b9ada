"""Command lines that make no sense: exit 2, the reason in one line, nothing printed or made."""

import os
import shlex
from pathlib import Path

import pytest
from checks import contents
from cli_runner import exact_filter, inside, mmbloom

from mmbloom import CountingBloomFilter, GrowingFilter, RotatingFilter


@pytest.fixture
def here(here: Path) -> Path:
    """A folder to run commands in, with filters of each kind and some files of lines."""
    exact_filter("seen")
    CountingBloomFilter.create("counts", 10).close()
    GrowingFilter.create("grown", 10).close()
    RotatingFilter.create("week", capacity_per_period=10).close()
    Path("sub").mkdir()
    for name in ("in", "in.gz", "sub/in", "sub/made"):
        Path(name).write_bytes(b"a\na\n")
    return here


def check_usage(here: Path, argv: list[str], said: str) -> None:
    """Check that a command is refused before it reads a line or makes a file."""
    before = contents(here)
    done = inside(*argv)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("mmbloom")
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert contents(here) == before


# What a command line begins with, and values that cannot end it; what is said, of each value.
VALUES = [
    ("create new -n", "-5 '' 1e18 1e1000000000000000000", "mmbloom"),
    ("create new -n 10 -p", "0 1 100% -0.1 nan low", "{!r} is not a rate between 0 and 1"),
    ("create new -n 10 --seed", f"-1 {2**128} 0x", "seed"),
    ("create new -n 10 --hash", "md5", "choose from"),
    ("create new -n 10 --layout", "other", "choose from"),
    (
        "add seen in --lock-timeout",
        "-1 soon nan inf",
        "{!r} is not a number of seconds, such as 30",
    ),
    (
        "copy seen new --permissions=",
        "64 70777 8 9 648 '' rw 0o640 -640 '640 '",
        "{!r} is not a file mode",
    ),
    ("dedup new in -n 10 -j", "-3", "{!r} is less than 0"),
    ("dedup new in -n 10 -f", "-1", "{!r} is less than 0"),
    ("dedup new in -n 10 -w", "x", "-w"),
    (
        "dedup new in -n 10 -k=",
        "0 1, ,1 1,0 1,,2 2-3 a 1,3a -1 ''",
        "give a number from 1, such as 3, or 1,3 for two fields",
    ),
    (
        "info seen --fail-above=",
        "80 0 -1 101% 1.1 nan some %",
        "is not a share of a whole, such as 80% or 0.8",
    ),
    ("merge new seen --permissions", "999", "{!r} is not a file mode"),
    ("plan -n", "0 1e18 1e999999999", "mmbloom"),
    ("plan -n 5 -p", "2", "{!r} is not a rate between 0 and 1"),
]


@pytest.mark.parametrize(
    ("words", "value", "said"),
    [(words, value, said) for words, values, said in VALUES for value in shlex.split(values)],
)
def test_values(here: Path, words: str, value: str, said: str) -> None:
    *argv, last = words.split()
    argv += [last + value] if last.endswith("=") else [last, value]
    check_usage(here, argv, said.format(value))


# A command line, and what is said of it.
SAID = {
    # values
    "create f -n 1e30": "'1e30' is too large: at most 2^64 - 1",
    "create f -n 1e999999": "'1e999999' is too large",
    "create f -n inf": "'inf' is too large",
    "create f -n nan": "'nan' is not a count such as 1000000, 1e6 or 1M",
    "create f -n many": "'many' is not a count such as 1000000, 1e6 or 1M",
    "create f -n 1.5": "'1.5' is not a whole number",
    "create f -n 0": "'0' is less than 1",
    "create f --seed abc": "'abc' is not a count",
    "create f -n 9 --seed 4294967296 --hash murmur3": "expected 0 to 2**32 - 1 for murmur3",
    "dedup seen -j 0": "'0' is less than 1",
    # words that are not known
    "": "required",
    "xyzzy": "no such command: 'xyzzy' (expected one of create, dedup, add, check,",
    "dedp f in": "no such command: 'dedp' (did you mean dedup?); see mmbloom --help",
    "help ad": "no such command: 'ad' (did you mean add?); see",
    "--unknown": "required",
    "create seen --unknown": "--unknown",
    "create f 10 -n 10": "unrecognized arguments: 10; see",
    "create f 1000000": "1000000 (give the number of keys with -n 1000000); see",
    "create f 2026.log": "unrecognized arguments: 2026.log; see",
    "create -- f -n 10": "unrecognized arguments: -n 10; words after -- are not options",
    "create new -n 10 second": "unrecognized arguments: second; see",
    "dedup f --ouput=out": "--ouput=out (did you mean --output?); see",
    "import --guava f g 10M": "10M (give the number of keys with -n 10M); see",
    "info seen --other": "unrecognized arguments: --other; see",
    "merge new seen --seal": "--seal",
    "plan -n1 x": "unrecognized arguments: x; see",
    # words that are missing
    "compare seen": "required",
    "create new": "the capacity (the number of distinct keys) with -n, or a filter",
    "create new -p 0.1": "the capacity (the number of distinct keys) with -n, or a filter",
    "create new --growing": "the capacity (the number of distinct keys) with -n, or a filter",
    "create new --rotate": "the capacity (the number of distinct keys) with -n, or a filter",
    "dedup": "required",
    "dedup new --growing": "also give -n",
    "dedup new --rotate": "also give -n",
    "dedup seen in --layout blocked": "apply only when FILE is created: also give -n",
    "dedup seen in --seed 1": "apply only when FILE is created: also give -n",
    "dedup seen in -p 0.1": "apply only when FILE is created: also give -n",
    "exclude seen": "one of the arguments --add --remove --list is required",
    "exclude seen b": "one of the arguments --add --remove --list is required",
    "export seen new": "one of the arguments --guava is required",
    "import seen new": "one of the arguments --guava is required",
    "intersect new": "required",
    "merge": "required",
    "merge new": "required",
    "plan": "required: -n/--capacity; see",
    "plan 1000": "required: -n/--capacity; see",
    # options that exclude each other, or need others
    "check seen -c -q": "not allowed with argument -c/--count",
    "copy --plain --seal counts new": "not allowed with argument --plain",
    "copy --replace --plain seen new": "leave out --replace",
    "create new --like grown --counting": "leave out --counting",
    "create new --like grown --growing": "--like",
    "create new --like seen --growing": "--like",
    "create new --like seen --hash siphash": "--like",
    "create new --like seen --rotate": "--like",
    "create new --like seen --seed 1": "--like",
    "create new --like seen -n 10": "--like",
    "create new -n 10 --growing --every 1d": "also give --rotate",
    "create new -n 10 --keep 7d": "also give --rotate",
    "create new -n 10 --rotate --counting": "not allowed with argument --rotate",
    "create new -n 10 --rotate --every 0d": "'0d', expected 1 to",
    "create new -n 10 --rotate --growing": "not allowed with argument --rotate",
    "create new -n 10 --rotate --keep 3000d": "3001 files, but at most 1000 are possible",
    "create new -n 10 --rotate --keep 7": "'7', expected one like '90s', '30m', '12h' or '7d'",
    "dedup new -n 10 --every 1h in": "also give --rotate",
    "dedup new -n 10 in --dry-run --output-dir out": "--dry-run",
    "dedup new -n 10 in --dry-run -o out": "--dry-run",
    "dedup new -n 10 in -c --output-dir out": "-c",
    "dedup new -n 10 in -c -d": "-c",
    "dedup new -n 10 in -t ''": "the field separator is empty",
    "dedup new -n 10 in -t ,": "choose the field with -k FIELD",
    "dedup new -n 10 in -k 1 --json-key a": "-k FIELD and --json-key cannot be combined",
    "dedup new -n 10 in -u --output-dir out": "-u",
    "dedup new -n 10 in -u -d": "-u",
    "dedup new -n 10 in --relative": "--relative",
    "dedup new -n 10 in -c --repeats-to rest": "--repeats-to applies only if all new lines are",
    "dedup new -n 10 in -d --repeats-to rest": "--repeats-to applies only if all new lines are",
    "dedup new -n 10 in -u --repeats-to rest": "--repeats-to applies only if all new lines are",
    "dedup seen -n 100 --growing": "turn it into a growing folder with mmbloom grow seen",
    "dedup seen -n 100 --rotate": "is a single file",
    "dedup seen in --permissions 666": "only when FILE is created",
    "add seen in --permissions 666": "only when FILE is created",
    "exclude seen --add --list": "not allowed with argument --add",
    "exclude seen --list b": "leave out KEY",
    "repair grown new -n 9 --seed 1": "to rebuild a header, give --hash, --seed and --layout",
    # options of lines, and of CSV
    "dedup new -n 10 in --no-header": "--csv",
    "dedup new -n 10 in -k user": "--csv",
    "dedup new -n 10 in --csv -t ::": "expected one byte other than a quote",
    "dedup new -n 10 in --csv -t '\"'": "expected one byte other than a quote",
    "dedup new -n 10 in --csv -t '\\n'": "expected one byte other than a quote",
    "dedup new -n 10 in --csv --json-key a": "--json-key applies only to lines of JSON",
    "dedup new -n 10 in --csv -z": "-z applies only to lines",
    "dedup new -n 10 in --csv -f1": "-f skips words",
    "dedup new -n 10 in --csv --crlf": "--crlf applies only to lines",
    "dedup new -n 10 in --csv -k a --no-header": "with --no-header, columns have no names",
    "dedup new -n 10 in --csv -c": "-c and -u count lines",
    "dedup new -n 10 in --csv -u": "-c and -u count lines",
    "dedup new -n 10 in --csv --empty skip": "--empty applies only to a chosen field",
    "dedup new -n 10 in --csv -k a,,b": "'a,,b' is not a field",
    "dedup new -n 10 in --csv -k 0": "'0' is not a field",
    "dedup new -n 10 in --crlf -z": "leave out -z",
    # inputs and outputs
    "add seen - -": "stdin (-) can be read only once",
    "check seen - -": "stdin (-) can be read only once",
    "dedup seen - -": "stdin (-) can be read only once",
    "verify nosuch --keys - --keys -": "stdin (-) can be read only once",
    "verify seen other --keys -": "stdin (-) can be read only once",
    "verify nosuch --keys in -t ,": "-t",
    "verify seen --keys seen": "seen: is the filter itself, not an input",
    "dedup new -n 10 in -j2": "--output-dir",
    "dedup new -n 10 in -o x --output-dir out": "-o",
    "dedup new -n 10 --output-dir out": "give files, not stdin",
    "dedup new -n 10 in sub/in --output-dir out": "would both be written to out/in: give --rel",
    "dedup new -n 10 in in.gz --output-dir out": "in.gz and in would both be written to out/in",
    "dedup made sub/made -n 10 --output-dir .": "made",
    "dedup new -n 10 in --output-dir .": "in: is the same file as in",
    # names that are empty
    "dedup '' in": "is empty: is a shell variable not set?",
    "dedup seen in ''": "is empty: is a shell variable not set?",
    "dedup seen in -o ''": "is empty: is a shell variable not set?",
    "dedup seen in --output-dir ''": "is empty: is a shell variable not set?",
    "dedup seen in --repeats-to ''": "the argument repeats to is empty",
    "create '' -n 10": "is empty: is a shell variable not set?",
    "create new --like ''": "is empty: is a shell variable not set?",
    "info seen ''": "is empty: is a shell variable not set?",
    "compare seen ''": "is empty: is a shell variable not set?",
    "copy seen ''": "is empty: is a shell variable not set?",
    "merge new seen ''": "is empty: is a shell variable not set?",
    "import --guava '' new": "is empty: is a shell variable not set?",
}


@pytest.mark.parametrize(("command", "said"), SAID.items(), ids=list(SAID))
def test_usage(here: Path, command: str, said: str) -> None:
    check_usage(here, shlex.split(command), said)


def test_an_option_that_is_misspelt(here: Path) -> None:
    """It is named with the next word, or alone: argparse of Python 3.14 takes that for a file."""
    done = inside("dedup", "f", "--ouput", "out")
    assert (done.code, done.out) == (2, b"")
    assert done.err in [
        f"mmbloom dedup: unrecognized arguments: {named} (did you mean --output?); "
        "see mmbloom dedup --help\n"
        for named in ("--ouput out", "--ouput")
    ]


def test_a_member_that_is_not_utf_8(here: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    check_usage(here, ["dedup", "seen", "--json-key", name], r"'caf\udce9' is not UTF-8")


def test_no_command_as_a_process() -> None:
    assert mmbloom().code == 2
