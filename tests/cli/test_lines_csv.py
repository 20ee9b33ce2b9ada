"""CSV: rows, not lines, and values, not bytes; a header is kept once and is no key."""

import csv
import gzip
import io
import json
import random
from pathlib import Path

import pytest
from cli_runner import EXACT, exact_filter, is_one_line, mmbloom, refused

from mmbloom import BloomFilter

QUOTED = (
    b'id,msg,code\n1,"disk full, node 7",500\n2,"disk full, node 9",500\n3,"disk full, node 7",1\n'
)
UNIQUE = b'id,msg,code\n1,"disk full, node 7",500\n2,"disk full, node 9",500\n'


@pytest.mark.parametrize("field", ["msg", "2"])
def test_fields_with_quotes(tmp_path: Path, field: str) -> None:
    done = mmbloom(
        "dedup", tmp_path / "seen", "--csv", "-k", field, "--stats", *EXACT, stdin=QUOTED
    )
    assert done.out == UNIQUE
    figures = json.loads(done.err)
    assert [figures[name] for name in ("lines", "unique", "repeated", "lacking")] == [3, 2, 1, 0]


def test_values_are_compared(tmp_path: Path) -> None:
    """Quotes, line ends and a byte order mark make no other value; rows go out as they came."""
    rows = b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n1,a\n"1","a"\n1,"a""b"\n1,"a\n\nb"\r\n1,"a\n\nb"'
    done = mmbloom("dedup", tmp_path / "seen", "--csv", *EXACT, stdin=rows)
    assert done.out == b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n1,"a""b"\n1,"a\n\nb"\r\n'
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert ("1", "a\n\nb") in seen
        assert seen.key_rule == "--csv"
    named = mmbloom("dedup", tmp_path / "named", "--csv", "-k", "id", *EXACT, stdin=rows)
    assert named.out == b'\xef\xbb\xbf"id",b\r\n1,"a"\r\n'


def test_against_csv_and_dict(tmp_path: Path) -> None:
    chance = random.Random(7)
    written, expected, seen = io.StringIO(newline=""), io.StringIO(newline=""), set()
    for file in (written, expected):
        csv.writer(file).writerow(["user", "what, exactly", "n"])
    for number in range(5000):
        row = [
            chance.choice(["Doe, Ann", 'Roe "R"', "Zoe\nZ", "plain", " é "])
            + str(chance.randrange(300)),
            chance.choice(["a", "b,c", ""]),
            number,
        ]
        csv.writer(written).writerow(row)
        if (row[0], row[1]) not in seen or not row[1]:
            seen.add((row[0], row[1]))
            csv.writer(expected).writerow(row)
    (tmp_path / "in.csv").write_bytes(written.getvalue().encode())
    columns = 'user,"what, exactly"'
    done = mmbloom("dedup", tmp_path / "seen", tmp_path / "in.csv", "--csv", "-k", columns, *EXACT)
    assert done.out == expected.getvalue().encode()


def test_other_delimiters_and_no_header(tmp_path: Path) -> None:
    rows = b'1;"a;b"\n2;"a;b"\n3;c\n'
    options = ["--csv", "-t;", "-k2", "--no-header", *EXACT]
    assert mmbloom("dedup", tmp_path / "a", *options, stdin=rows).out == b'1;"a;b"\n3;c\n'
    options = ["--csv", "-t", "\\t", "-k2", *EXACT]
    assert mmbloom("dedup", tmp_path / "b", *options, stdin=rows.replace(b";", b"\t")).out == (
        b'1\t"a\tb"\n2\t"a\tb"\n3\tc\n'  # with a header the first row is one
    )


def test_one_header_for_each_output(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_bytes(b"id,a\n1,x\n2,x\n")
    two.write_bytes(b"id,a\n2,x\n3,x\n")
    out, seen = tmp_path / "out.csv", tmp_path / "seen"
    for _ in range(2):
        assert mmbloom("dedup", seen, one, two, "--csv", "-o", out, *EXACT).code == 0
        assert out.read_bytes() == b"id,a\n1,x\n2,x\n3,x\n"
    done = mmbloom("dedup", tmp_path / "other", one, two, "--csv", *EXACT)
    assert done.out == out.read_bytes()
    folder = tmp_path / "out"
    jobs = ["--output-dir", folder, "-j2"]
    assert mmbloom("dedup", tmp_path / "third", one, two, "--csv", *jobs, *EXACT).code == 0
    files = [(folder / name).read_bytes().splitlines() for name in ("one.csv", "two.csv")]
    assert [lines[0] for lines in files] == [b"id,a", b"id,a"]
    assert sorted(lines for file in files for lines in file[1:]) == [b"1,x", b"2,x", b"3,x"]


def test_another_header(tmp_path: Path) -> None:
    """Rows of other columns do not go below a header; what does not fit is not marked."""
    one, two, out = tmp_path / "one.csv", tmp_path / "two.csv", tmp_path / "out.csv"
    one.write_bytes(b"id,a\n1,x\n")
    two.write_bytes(b"a,id\nx,2\n")
    done = mmbloom("dedup", tmp_path / "seen", one, two, "--csv", "-k", "id", "-o", out, *EXACT)
    assert done.code == 5
    is_one_line(
        done.err, f"{two}: {out}: begins with 'id,a', and these rows have the header 'a,id'"
    )
    assert out.read_bytes() == b"id,a\n1,x\n"
    done = mmbloom("dedup", tmp_path / "seen", two, "--csv", "-k", "id", *EXACT)
    assert done.out == b"a,id\nx,2\n"


def test_wrong_names(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes(b"id,name,name\n1,a,b\n")
    for field, said in [
        ("nmae", "the column 'nmae' is not in the header: id, name, name"),
        ("id,name", "the column 'name' is twice or more in the header: id, name, name"),
    ]:
        done = mmbloom("dedup", tmp_path / "seen", rows, "--csv", "-k", field, *EXACT)
        assert refused(done, 5, f"{rows}: {said}")
        assert not (tmp_path / "seen").exists()
        done = mmbloom(
            "dedup", tmp_path / "later", "--csv", "-k", field, *EXACT, stdin=rows.read_bytes()
        )
        assert is_one_line(done.err, f"stdin: {said}")


def test_an_open_quote(tmp_path: Path) -> None:
    """What comes before it is printed and marked; the line in which the row begins is named."""
    rows = b'id,a\n1,"x\ny"\n2,"open\n3,z\n'
    done = mmbloom("dedup", tmp_path / "seen", "--csv", "-k", "id", *EXACT, stdin=rows)
    assert (done.code, done.out) == (5, b'id,a\n1,"x\ny"\n')
    assert is_one_line(done.err, "stdin: line 4: the row that begins here has a quote that is not")
    assert mmbloom("check", tmp_path / "seen", "-c", stdin=b"1\n2\n").out == b"1\n"


def test_rows_that_a_killed_run_has_left(tmp_path: Path) -> None:
    """An output that ends amid a row, or within quotes: the next row is a row of its own."""
    out = tmp_path / "out.csv"
    for left, ending in [
        (b'1,"a', b'"\n'),
        (b'1,"a\n', b'"\n'),
        (b"1,a", b"\n"),
        (b'1,"a"', b"\n"),
    ]:
        out.write_bytes(b"id,b\n" + left)
        rows = b"id,b\n2,c\n"
        (tmp_path / "seen").unlink(missing_ok=True)
        assert mmbloom("dedup", tmp_path / "seen", "--csv", "-o", out, *EXACT, stdin=rows).code == 0
        assert out.read_bytes() == b"id,b\n" + left + ending + b"2,c\n"


def test_quotes_without_csv(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1,a\n2,b\n" + QUOTED)
    two.write_bytes(QUOTED)
    done = mmbloom("dedup", tmp_path / "seen", one, two, "-t,", "-k2", *EXACT)
    assert is_one_line(
        done.err,
        f"warning: {one}: line 4 has quotes: fields are split within them; read it as CSV (--csv)",
    )
    done = mmbloom("dedup", tmp_path / "tabs", one, "-t", "\\t", "-k1", *EXACT)
    assert done.err == ""


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
def test_quotes_after_a_backslash(tmp_path: Path, rows: bytes, row: int) -> None:
    """Where they end no field as CSV has it, a warning names the first row, once a run."""
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(rows)
    inputs = [tmp_path / "one", tmp_path / "two"]
    done = mmbloom("dedup", tmp_path / "seen", *inputs, "--csv", "-k1", *EXACT)
    assert done.code == 0
    if row:
        said = f"""warning: {inputs[0]}: row {row} has \\" within quotes: """
        assert is_one_line(done.err, said, """sed 's/\\\\"/""/g'""")
        doubled = rows.replace(b'\\"', b'""')
        done = mmbloom("dedup", tmp_path / "other", "--csv", *EXACT, stdin=doubled)
        as_spark = csv.reader(io.StringIO(rows.decode()), escapechar="\\")
        as_csv = csv.reader(io.StringIO(done.out.decode()))
        assert [*as_csv] == [*map(list, dict.fromkeys(map(tuple, as_spark)))]
    assert done.err == ""


@pytest.mark.parametrize("rows", [b"", b"id,a\n", b"id,a", b"\xef\xbb\xbfid,a\r\n"])
def test_nothing_but_a_header(tmp_path: Path, rows: bytes) -> None:
    done = mmbloom("dedup", tmp_path / "seen", "--csv", "-k", "id", *EXACT, stdin=rows)
    assert (done.code, done.err) == (0, "")
    assert done.out == rows
    assert mmbloom("info", tmp_path / "seen", "--json").code == 0


@pytest.mark.parametrize("rows", [b"\xef\xbb\xbf", b"\xef\xbb\xbf1,a\n2,b\n", b"\xef\xbb\xbf1,a"])
def test_a_mark_without_a_header(tmp_path: Path, rows: bytes) -> None:
    """It comes before the first row, once, and is no row and no part of one."""
    kept = rows if b"1" in rows else b""
    done = mmbloom("dedup", tmp_path / "seen", "--csv", "--no-header", *EXACT, stdin=rows)
    assert done.out == kept
    out = tmp_path / "out.csv"
    options = ["--csv", "--no-header", "-k1", "-o", out, *EXACT]
    for _ in range(2):
        assert mmbloom("dedup", tmp_path / "other", *options, stdin=rows).code == 0
        assert out.read_bytes() == kept
    check = ("check", tmp_path / "other", "--csv", "--no-header", "-k1", "-c")
    assert mmbloom(*check, stdin=rows[3:] or b"1\n").code == (not kept)


def test_an_output_cut_within_its_header(tmp_path: Path) -> None:
    head, out = b'\xef\xbb\xbf"i""d",n\r\n', tmp_path / "out.csv"
    for size in range(len(head) + 1):
        out.write_bytes(head[:size])
        (tmp_path / "seen").unlink(missing_ok=True)
        options = ["--csv", "-o", out, *EXACT]
        assert mmbloom("dedup", tmp_path / "seen", *options, stdin=head + b"1,a\r\n").code == 0
        assert out.read_bytes() == head + b"1,a\r\n"


def test_an_output_like_other_text(tmp_path: Path) -> None:
    """Inputs are checked for UTF-16; an output can have rows of which each is like it."""
    old, output = b"hello,world\n" * 400, tmp_path / "out.csv"
    rows = [b"\0a\0b\0c\0%d\0\n" % number for number in range(2)]
    seen, options = exact_filter(tmp_path / "seen"), ["--csv", "--no-header"]
    assert mmbloom("dedup", seen, *options, stdin=old).code == 0
    for row in rows:
        done = mmbloom("dedup", seen, *options, "-o", output, stdin=old + row)
        assert done == (0, b"", "")
    assert output.read_bytes() == b"".join(rows)


def test_skipped_rows_before_a_full_filter(tmp_path: Path) -> None:
    """They are in the second file though no key of the first chunk fits."""
    assert mmbloom("create", tmp_path / "seen", "-n1").code == 0
    assert mmbloom("add", tmp_path / "seen", stdin=b"full\n").code == 0
    rest, rows = tmp_path / "rest", b"id,n\n,1\n,2\nq,3\nr,4\n"
    options = ["--csv", "-k", "id", "--empty", "skip", "--repeats-to", rest]
    done = mmbloom("dedup", tmp_path / "seen", *options, stdin=rows)
    assert (done.code, done.out, rest.read_bytes()) == (6, b"id,n\n", b"id,n\n,1\n,2\n")


@pytest.mark.parametrize(
    ("field", "rows"), [('"2024"', b"2024,2025\na,b\nc,b\n"), ("2", b"1,2\na,b\n")]
)
def test_names_of_digits(tmp_path: Path, field: str, rows: bytes) -> None:
    done = mmbloom("dedup", tmp_path / "seen", "--csv", "-k", field, *EXACT, stdin=rows)
    assert (done.out, done.err) == (rows, "")
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert seen.key_rule == f"--csv -k {field}".replace('"2024"', "'\"2024\"'")


def test_a_long_field_in_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no input may have is no open quote in an output."""
    monkeypatch.setattr("mmbloom.logs.rows.LONGEST_OPEN", 1000)
    out, rows = tmp_path / "out.csv", b'id,a\n1,"' + b"x" * (3 << 20) + b'"\n'
    out.write_bytes(rows)
    options = ["--csv", "-o", out, *EXACT]
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=b"id,a\n2,y\n").code == 0
    assert out.read_bytes() == rows + b"2,y\n"


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        (["--csv"], True),
        (["--csv", "-k", "full name,town"], True),
        (["--csv", "-k", '"name, first"'], False),
        (["--csv", "-k", "town"], False),
    ],
)
def test_typed_exclusions(tmp_path: Path, options: list[str], warns: bool) -> None:
    rows = b'full name,"name, first",town\na,b,c\n'
    assert mmbloom("dedup", tmp_path / "seen", *options, *EXACT, stdin=rows).code == 0
    assert bool(mmbloom("exclude", tmp_path / "seen", "--add", "x").err) == warns


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    rows = b"a,b\n\0,\xff\n\0,\xff\n\n\n1\n1,2,3,4\n"
    done = mmbloom("dedup", tmp_path / "seen", "--csv", *EXACT, stdin=rows)
    assert done.out == b"a,b\n\0,\xff\n\n1\n1,2,3,4\n"
    done = mmbloom("dedup", tmp_path / "named", "--csv", "-kb", *EXACT, stdin=rows)
    assert done.out == b"a,b\n\0,\xff\n\n1\n1,2,3,4\n"  # a row that lacks it is its own key


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(gzip.compress(QUOTED))
    done = mmbloom("dedup", tmp_path / "seen", tmp_path / "rows", "--csv", "-kmsg", *EXACT)
    assert done.out == UNIQUE


def test_other_commands(tmp_path: Path) -> None:
    rows, seen = tmp_path / "rows.csv", exact_filter(tmp_path / "seen")
    rows.write_bytes(QUOTED)
    assert mmbloom("add", seen, rows, "--csv", "-kmsg").code == 0
    other = b'x,msg\n1,"disk full, node 9"\n2,new\n'
    done = mmbloom("check", seen, "--csv", "-kmsg", stdin=other)
    assert (done.code, done.out) == (0, b'x,msg\n1,"disk full, node 9"\n')
    done = mmbloom("check", seen, "-v", "--csv", "-kmsg", stdin=other)
    assert done.out == b"x,msg\n2,new\n"
    done = mmbloom("check", seen, "-c", "-H", "--csv", "-kmsg", stdin=other)
    assert done.out == b"stdin:1\n"
    assert mmbloom("check", seen, "-H", "--csv", "-kmsg", stdin=other).code == 2
    assert mmbloom("verify", seen, "--keys", rows, "--csv", "-kmsg").code == 0
    assert mmbloom("create", tmp_path / "counts", "-n1e3", "--counting").code == 0
    assert mmbloom("add", tmp_path / "counts", rows, "--csv", "-kmsg").code == 0
    assert mmbloom("remove", tmp_path / "counts", rows, "--csv", "-kmsg").code == 0
    assert mmbloom("check", tmp_path / "counts", rows, "--csv", "-kmsg").code == 1


def test_exclusions_from_rows(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    options = ["--csv", "-k", "msg,code"]
    assert mmbloom("dedup", seen, *options, *EXACT, stdin=QUOTED).out == QUOTED
    row = b'id,msg,code\n2,"disk full, node 9",500\n'
    assert mmbloom("exclude", seen, "--add", *options, stdin=row) == (0, b"", "")
    assert mmbloom("check", seen, "-v", *options, stdin=QUOTED).out == row
    done = mmbloom("exclude", seen, "--add", "x", "--csv")
    assert done.code == 2
    done = mmbloom("exclude", seen, "--remove", "x")
    assert is_one_line(done.err, "give lines that have them to stdin, with --csv -k msg,code")


def test_stdout_after_others(tmp_path: Path) -> None:
    """What a script has printed before is none of our rows; what is appended to is looked at."""
    with (tmp_path / "out").open("wb") as out:
        out.write(b'a word, and a "quote\n')
        out.flush()
        done = mmbloom("dedup", tmp_path / "seen", "--csv", *EXACT, stdin=QUOTED, stdout=out)
        assert (done.code, done.err) == (0, "")
    assert (tmp_path / "out").read_bytes() == b'a word, and a "quote\n' + QUOTED
    with (tmp_path / "out").open("ab") as out:
        done = mmbloom("dedup", tmp_path / "other", "--csv", *EXACT, stdin=QUOTED, stdout=out)
        assert is_one_line(done.err, "stdin: stdout: begins with 'a word, and a \"quote'")
    for _ in range(2):
        with (tmp_path / "rows").open("ab") as out:
            mmbloom("dedup", tmp_path / "third", "--csv", *EXACT, stdin=QUOTED, stdout=out)
    assert (tmp_path / "rows").read_bytes() == QUOTED


EMPTY = b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n5,v,z\n'


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--csv", "-k", "a"], b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n'),
        (["--csv", "-k", "a", "--empty", "skip"], b"id,a,b\n4,v,x\n"),
        (["--csv", "-k", "a", "--empty", "key"], b"id,a,b\n1,,x\n4,v,x\n"),
        (["--csv", "-k", "a,b", "--empty", "skip"], b"id,a,b\n4,v,x\n5,v,z\n"),
        (["--csv", "-k", "a,b", "--empty", "key"], b"id,a,b\n1,,x\n2,,y\n4,v,x\n5,v,z\n"),
        (["-t,", "-k2", "--empty", "skip"], b'id,a,b\n3,"",x\n4,v,x\n'),
        (["-t,", "-k2", "--empty", "key"], b'id,a,b\n1,,x\n3,"",x\n4,v,x\n'),
        (["-t,", "-k2,3", "--empty", "key"], b'id,a,b\n1,,x\n2,,y\n3,"",x\n4,v,x\n5,v,z\n'),
        (["-t,", "-k2,3", "--empty", "skip"], b'id,a,b\n3,"",x\n4,v,x\n5,v,z\n'),
    ],
)
def test_what_an_empty_field_is(tmp_path: Path, options: list[str], kept: bytes) -> None:
    done = mmbloom("dedup", tmp_path / "seen", *options, "--stats", *EXACT, stdin=EMPTY)
    assert done.out == kept
    figures = json.loads(done.err.splitlines()[-1])
    skipped = figures["lacking"] if "skip" in options else 0
    assert figures["lines"] == figures["unique"] + figures["repeated"] + skipped


def test_members_that_are_null(tmp_path: Path) -> None:
    lines = b'{"id":null,"x":1}\n{"x":2}\n{"id":"","x":3}\n{"id":4}\n{"id":4,"x":5}\n'
    for empty, kept in [("skip", [3]), ("key", [0, 3]), ("whole", [0, 1, 2, 3])]:
        options = ["--json-key", "id", "--empty", empty, *EXACT]
        done = mmbloom("dedup", tmp_path / empty, *options, stdin=lines)
        assert done.out.splitlines() == [lines.splitlines()[place] for place in kept]


def test_a_full_filter_amid_skipped_rows(tmp_path: Path) -> None:
    rows = b"".join(
        b"%d,%b\n" % (number, b"" if number % 2 else b"k%d" % number) for number in range(40)
    )
    options = ["--csv", "--no-header", "-k2", "--empty", "skip", "-n5", "-p1e-9"]
    done = mmbloom("dedup", tmp_path / "seen", *options, stdin=rows)
    assert done.code == 6
    assert done.out == b"0,k0\n2,k2\n4,k4\n6,k6\n8,k8\n"
