"""CSV: rows, not lines, and values, not bytes; a header is kept once and is no key."""

import csv
import gzip
import io
import json
import random
from pathlib import Path

import pytest
from cli_runner import EXACT, Ended, exact_filter, is_one_line, mmbloom, refused

from mmbloom import BloomFilter

pytestmark = pytest.mark.usefixtures("here")

QUOTED = (
    b'id,msg,code\n1,"disk full, node 7",500\n2,"disk full, node 9",500\n3,"disk full, node 7",1\n'
)
UNIQUE = b'id,msg,code\n1,"disk full, node 7",500\n2,"disk full, node 9",500\n'
# Quotes, line ends and a byte order mark make no other value; rows go out as they came.
SPELLED = b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n1,a\n"1","a"\n1,"a""b"\n1,"a\n\nb"\r\n1,"a\n\nb"'
NO_TEXT = b"a,b\n\0,\xff\n\0,\xff\n\n\n1\n1,2,3,4\n"
EMPTY = b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n5,v,z\n'
MEMBERS = b'{"id":null,"x":1}\n{"x":2}\n{"id":"","x":3}\n{"id":4}\n{"id":4,"x":5}\n'


def dedup(rows: bytes, *options: str, seen: str = "seen") -> Ended:
    return mmbloom("dedup", seen, "--csv", *options, *EXACT, stdin=rows)


@pytest.mark.parametrize(
    ("options", "rows", "kept"),
    [
        ("--csv -k msg", QUOTED, UNIQUE),
        ("--csv -k 2", QUOTED, UNIQUE),
        ("--csv", SPELLED, b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n1,"a""b"\n1,"a\n\nb"\r\n'),
        ("--csv -k id", SPELLED, b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n'),
        ("--csv", NO_TEXT, b"a,b\n\0,\xff\n\n1\n1,2,3,4\n"),
        ("--csv -k b", NO_TEXT, b"a,b\n\0,\xff\n\n1\n1,2,3,4\n"),  # without one it is its own key
        ("--csv -t; -k2 --no-header", b'1;"a;b"\n2;"a;b"\n3;c\n', b'1;"a;b"\n3;c\n'),
        # With a header the first row is one.
        (r"--csv -t \t -k2", b'1\t"a"\n2\t"a"\n3\tc\n', b'1\t"a"\n2\t"a"\n3\tc\n'),
        ("--csv -k id", b"", b""),
        ("--csv -k id", b"id,a\n", b"id,a\n"),
        ("--csv -k id", b"id,a", b"id,a"),
        ("--csv -k id", b"\xef\xbb\xbfid,a\r\n", b"\xef\xbb\xbfid,a\r\n"),
        ("--csv -k a", EMPTY, b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n'),
        ("--csv -k a --empty skip", EMPTY, b"id,a,b\n4,v,x\n"),
        ("--csv -k a --empty key", EMPTY, b"id,a,b\n1,,x\n4,v,x\n"),
        ("--csv -k a,b --empty skip", EMPTY, b"id,a,b\n4,v,x\n5,v,z\n"),
        ("--csv -k a,b --empty key", EMPTY, b"id,a,b\n1,,x\n2,,y\n4,v,x\n5,v,z\n"),
        ("-t, -k2 --empty skip", EMPTY, b'id,a,b\n3,"",x\n4,v,x\n'),
        ("-t, -k2 --empty key", EMPTY, b'id,a,b\n1,,x\n3,"",x\n4,v,x\n'),
        ("-t, -k2,3 --empty key", EMPTY, b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n5,v,z\n'),
        ("-t, -k2,3 --empty skip", EMPTY, b'id,a,b\n3,"",x\n4,v,x\n5,v,z\n'),
        ("--json-key id --empty skip", MEMBERS, b'{"id":4}\n'),
        ("--json-key id --empty key", MEMBERS, b'{"id":null,"x":1}\n{"id":4}\n'),
        ("--json-key id --empty whole", MEMBERS, MEMBERS[: -len(b'{"id":4,"x":5}\n')]),
    ],
)
def test_what_is_kept(options: str, rows: bytes, kept: bytes) -> None:
    done = mmbloom("dedup", "seen", *options.split(), "--stats", *EXACT, stdin=rows)
    assert (done.code, done.out) == (0, kept)
    *warnings, figures = done.err.splitlines()
    assert len(warnings) == options.startswith("-t,")  # of the quotes
    figures = json.loads(figures)
    skipped = figures["lacking"] if "skip" in options else 0
    assert figures["lines"] == figures["unique"] + figures["repeated"] + skipped
    assert mmbloom("info", "seen", "--json").code == 0


def test_keys_and_rule_of_rows() -> None:
    assert dedup(SPELLED).code == 0
    with BloomFilter.open("seen") as seen:
        assert ("1", "a\n\nb") in seen
        assert seen.key_rule == "--csv"
    figures = json.loads(dedup(QUOTED, "-k", "msg", "--stats", seen="other").err)
    assert [figures[name] for name in ("lines", "unique", "repeated", "lacking")] == [3, 2, 1, 0]


def test_against_csv_and_dict() -> None:
    chance = random.Random(7)
    written, expected, seen = io.StringIO(newline=""), io.StringIO(newline=""), set()
    for file in (written, expected):
        csv.writer(file).writerow(["user", "what, exactly", "n"])
    users = ["Doe, Ann", 'Roe "R"', "Zoe\nZ", "plain", " é "]
    for number in range(5000):
        key = chance.choice(users) + str(chance.randrange(300)), chance.choice(["a", "b,c", ""])
        csv.writer(written).writerow([*key, number])
        if key not in seen or not key[1]:
            seen.add(key)
            csv.writer(expected).writerow([*key, number])
    Path("in.csv").write_bytes(written.getvalue().encode())
    done = mmbloom("dedup", "seen", "in.csv", "--csv", "-k", 'user,"what, exactly"', *EXACT)
    assert done.out == expected.getvalue().encode()


def test_one_header_for_each_output() -> None:
    Path("one.csv").write_bytes(b"id,a\n1,x\n2,x\n")
    Path("two.csv").write_bytes(b"id,a\n2,x\n3,x\n")
    inputs, kept = ["one.csv", "two.csv", "--csv", *EXACT], b"id,a\n1,x\n2,x\n3,x\n"
    for _ in range(2):
        assert mmbloom("dedup", "seen", *inputs, "-o", "out.csv").code == 0
        assert Path("out.csv").read_bytes() == kept
    assert mmbloom("dedup", "other", *inputs).out == kept
    assert mmbloom("dedup", "third", *inputs, "--output-dir", "out", "-j2").code == 0
    files = [Path("out", name).read_bytes().splitlines() for name in ("one.csv", "two.csv")]
    assert [lines[0] for lines in files] == [b"id,a", b"id,a"]
    assert sorted(lines for file in files for lines in file[1:]) == [b"1,x", b"2,x", b"3,x"]


def test_another_header() -> None:
    """Rows of other columns do not go below a header; what does not fit is not marked."""
    Path("one.csv").write_bytes(b"id,a\n1,x\n")
    Path("two.csv").write_bytes(b"a,id\nx,2\n")
    options = ["--csv", "-k", "id", *EXACT]
    done = mmbloom("dedup", "seen", "one.csv", "two.csv", *options, "-o", "out.csv")
    said = "two.csv: out.csv: begins with 'id,a', but these rows have the header 'a,id'"
    assert refused(done, 5, said)
    assert Path("out.csv").read_bytes() == b"id,a\n1,x\n"
    assert mmbloom("dedup", "seen", "two.csv", *options).out == b"a,id\nx,2\n"


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("nmae", "the column 'nmae' is not in the header (id, name, name)"),
        ("id,name", "the column 'name' is more than once in the header (id, name, name)"),
    ],
)
def test_wrong_names(field: str, said: str) -> None:
    rows = b"id,name,name\n1,a,b\n"
    Path("rows.csv").write_bytes(rows)
    done = mmbloom("dedup", "seen", "rows.csv", "--csv", "-k", field, *EXACT)
    assert refused(done, 5, f"rows.csv: {said}")
    assert not Path("seen").exists()
    assert is_one_line(dedup(rows, "-k", field).err, f"stdin: {said}")


def test_an_open_quote() -> None:
    """What comes before it is printed and marked; the line in which the row begins is named."""
    done = dedup(b'id,a\n1,"x\ny"\n2,"open\n3,z\n', "-k", "id")
    assert (done.code, done.out) == (5, b'id,a\n1,"x\ny"\n')
    assert is_one_line(done.err, "stdin: line 4: the row that begins here has a quote that is not")
    assert mmbloom("check", "seen", "-c", stdin=b"1\n2\n").out == b"1\n"


HEAD, MARKED = b"id,b\n", b'\xef\xbb\xbf"i""d",n\r\n'


@pytest.mark.parametrize(
    ("left", "head", "found"),
    [
        (HEAD + b'1,"a', HEAD, HEAD + b'1,"a"\n'),
        (HEAD + b'1,"a\n', HEAD, HEAD + b'1,"a\n"\n'),
        (HEAD + b"1,a", HEAD, HEAD + b"1,a\n"),
        (HEAD + b'1,"a"', HEAD, HEAD + b'1,"a"\n'),
        *((MARKED[:size], MARKED, MARKED) for size in range(len(MARKED) + 1)),
    ],
)
def test_what_a_killed_run_has_left(left: bytes, head: bytes, found: bytes) -> None:
    """An output that ends within a row, quotes or its header: the next row is a row of its own."""
    Path("out.csv").write_bytes(left)
    assert dedup(head + b"2,c\n", "-o", "out.csv").code == 0
    assert Path("out.csv").read_bytes() == found + b"2,c\n"


def test_quotes_without_csv() -> None:
    Path("one").write_bytes(b"1,a\n2,b\n" + QUOTED)
    Path("two").write_bytes(QUOTED)
    done = mmbloom("dedup", "seen", "one", "two", "-t,", "-k2", *EXACT)
    said = "line 4 has quotes, and fields are split within them: read the file as CSV (--csv)"
    assert is_one_line(done.err, f"warning: one: {said}")
    assert mmbloom("dedup", "tabs", "one", "-t", "\\t", "-k1", *EXACT).err == ""


ESCAPED: list[tuple[bytes, int]] = [  # rows, and the number of the first that looks escaped
    (b'id,size\n1,"5\\"",x\n2,"6",y\n1,"5\\"",x\n3,"7",y\n', 2),
    (b'id,size\r\n1,2\r\n1,"5\\""\r\n2,"6"\r\n', 3),
    (b'id,size\n1,"5\\"","x"\n', 2),
    (b'id,said\n1,"she said \\"yes\\", and"\n', 2),
    (b'id,path\n1,"C:\\"\n2,"C:\\",\n3,"C:\\"\r\n', 0),
    (b'id,json\n1,"{""k"":""a \\""b\\"", c"",""d"":""\\""""}"\n', 0),
    (b'id,"a\\"\n1,"\\\n"\n', 0),
    (b"id,a\n1,\\\n", 0),
]


@pytest.mark.parametrize(("rows", "row"), ESCAPED)
def test_quotes_after_a_backslash(rows: bytes, row: int) -> None:
    """Where they end no field as CSV has it, a warning names the first row, once a run."""
    for name in ("one", "two"):
        Path(name).write_bytes(rows)
    done = mmbloom("dedup", "seen", "one", "two", "--csv", "-k1", *EXACT)
    assert done.code == 0
    if row:
        said = f"""warning: one: row {row} has \\" within quotes: """
        assert is_one_line(done.err, said, """sed 's/\\\\"/""/g'""")
        done = dedup(rows.replace(b'\\"', b'""'), seen="other")
        as_spark = csv.reader(io.StringIO(rows.decode()), escapechar="\\")
        as_csv = csv.reader(io.StringIO(done.out.decode()))
        assert [*as_csv] == [*map(list, dict.fromkeys(map(tuple, as_spark)))]
    assert done.err == ""


@pytest.mark.parametrize("rows", [b"\xef\xbb\xbf", b"\xef\xbb\xbf1,a\n2,b\n", b"\xef\xbb\xbf1,a"])
def test_a_mark_without_a_header(rows: bytes) -> None:
    """It comes before the first row, once, and is no row and no part of one."""
    kept = rows if b"1" in rows else b""
    assert dedup(rows, "--no-header").out == kept
    for _ in range(2):
        assert dedup(rows, "--no-header", "-k1", "-o", "out.csv", seen="other").code == 0
        assert Path("out.csv").read_bytes() == kept
    check = ("check", "other", "--csv", "--no-header", "-k1", "-c")
    assert mmbloom(*check, stdin=rows[3:] or b"1\n").code == (not kept)


def test_an_output_like_other_text() -> None:
    """Inputs are checked for UTF-16; an output can have rows of which each is like it."""
    old = b"hello,world\n" * 400
    rows = [b"\0a\0b\0c\0%d\0\n" % number for number in range(2)]
    assert dedup(old, "--no-header").code == 0
    for row in rows:
        assert dedup(old + row, "--no-header", "-o", "out.csv") == (0, b"", "")
    assert Path("out.csv").read_bytes() == b"".join(rows)


def test_skipped_rows_before_a_full_filter() -> None:
    """They are in the second file though no key of the first chunk fits."""
    assert mmbloom("create", "seen", "-n1").code == 0
    assert mmbloom("add", "seen", stdin=b"full\n").code == 0
    options = ["--csv", "-k", "id", "--empty", "skip", "--repeats-to", "rest"]
    done = mmbloom("dedup", "seen", *options, stdin=b"id,n\n,1\n,2\nq,3\nr,4\n")
    assert (done.code, done.out) == (6, b"id,n\n")
    assert Path("rest").read_bytes() == b"id,n\n,1\n,2\n"


def test_a_full_filter_amid_skipped_rows() -> None:
    keys = [b"" if number % 2 else b"k%d" % number for number in range(40)]
    rows = b"".join(b"%d,%b\n" % (number, key) for number, key in enumerate(keys))
    options = ["--csv", "--no-header", "-k2", "--empty", "skip", "-n5", "-p1e-9"]
    done = mmbloom("dedup", "seen", *options, stdin=rows)
    assert (done.code, done.out) == (6, b"0,k0\n2,k2\n4,k4\n6,k6\n8,k8\n")


@pytest.mark.parametrize(
    ("field", "rows"), [('"2024"', b"2024,2025\na,b\nc,b\n"), ("2", b"1,2\na,b\n")]
)
def test_names_of_digits(field: str, rows: bytes) -> None:
    assert dedup(rows, "-k", field) == (0, rows, "")
    with BloomFilter.open("seen") as seen:
        assert seen.key_rule == f"--csv -k {field}".replace('"2024"', "'\"2024\"'")


def test_a_long_field_in_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no input may have is no open quote in an output."""
    monkeypatch.setattr("mmbloom.logs.rows.LONGEST_OPEN", 1000)
    rows = b'id,a\n1,"' + b"x" * (3 << 20) + b'"\n'
    Path("out.csv").write_bytes(rows)
    assert dedup(b"id,a\n2,y\n", "-o", "out.csv").code == 0
    assert Path("out.csv").read_bytes() == rows + b"2,y\n"


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ([], True),
        (["-k", "full name,town"], True),
        (["-k", '"name, first"'], False),
        (["-k", "town"], False),
    ],
)
def test_typed_exclusions(options: list[str], warns: bool) -> None:
    assert dedup(b'full name,"name, first",town\na,b,c\n', *options).code == 0
    assert bool(mmbloom("exclude", "seen", "--add", "x").err) == warns


def test_compressed() -> None:
    Path("rows").write_bytes(gzip.compress(QUOTED))
    assert mmbloom("dedup", "seen", "rows", "--csv", "-kmsg", *EXACT).out == UNIQUE


# What is run in turn on a filter and a counting one that hold the rows of QUOTED.
OTHERS: list[tuple[str, int, bytes]] = [
    ("check seen", 0, b'x,msg\n1,"disk full, node 9"\n'),
    ("check seen -v", 0, b"x,msg\n2,new\n"),
    ("check seen -c -H", 0, b"stdin:1\n"),
    ("check seen -H", 2, b""),
    ("remove counts rows.csv", 0, b""),
    ("check counts rows.csv", 1, b"id,msg,code\n"),
]


def test_other_commands() -> None:
    Path("rows.csv").write_bytes(QUOTED)
    exact_filter("seen")
    assert mmbloom("create", "counts", "-n1e3", "--counting").code == 0
    for name in ("seen", "counts"):
        assert mmbloom("add", name, "rows.csv", "--csv", "-kmsg").code == 0
    other = b'x,msg\n1,"disk full, node 9"\n2,new\n'
    for command, code, out in OTHERS:
        done = mmbloom(*command.split(), "--csv", "-kmsg", stdin=other)
        assert (done.code, done.out) == (code, out), command
    assert mmbloom("verify", "seen", "--keys", "rows.csv", "--csv", "-kmsg").code == 0


def test_exclusions_from_rows() -> None:
    options = ["--csv", "-k", "msg,code"]
    assert dedup(QUOTED, *options[1:]).out == QUOTED
    row = b'id,msg,code\n2,"disk full, node 9",500\n'
    assert mmbloom("exclude", "seen", "--add", *options, stdin=row) == (0, b"", "")
    assert mmbloom("check", "seen", "-v", *options, stdin=QUOTED).out == row
    assert mmbloom("exclude", "seen", "--add", "x", "--csv").code == 2
    done = mmbloom("exclude", "seen", "--remove", "x")
    assert is_one_line(done.err, "give lines on stdin, with --csv -k msg,code")


def test_stdout_after_others() -> None:
    """What a script has printed before is none of our rows; what is appended to is looked at."""

    def appended(seen: str, out: str, mode: str, before: bytes = b"") -> Ended:
        with Path(out).open(mode) as stdout:
            stdout.write(before)
            stdout.flush()
            return mmbloom("dedup", seen, "--csv", *EXACT, stdin=QUOTED, stdout=stdout)

    printed = b'a word, and a "quote\n'
    assert appended("seen", "out", "wb", printed) == (0, b"", "")
    assert Path("out").read_bytes() == printed + QUOTED
    done = appended("other", "out", "ab")
    assert is_one_line(done.err, "stdin: stdout: begins with 'a word, and a \"quote'")
    for _ in range(2):
        appended("third", "rows", "ab")
    assert Path("rows").read_bytes() == QUOTED
