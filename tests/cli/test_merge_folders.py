"""mmbloom merge of folders: OUT of all IN, whole or not at all, and failures in one line."""

import json
import os
from pathlib import Path

import pytest
from checks import check_folder
from cli_runner import Ended, inside, is_one_line, started
from unions import check_merged, make, make_growing, make_rotating

SIZES = ("-n", "1000", "-p", "1e-9")


@pytest.mark.parametrize("kind", ["--growing", "--rotate"])
def test_hosts_with_a_folder_each(tmp_path: Path, kind: str) -> None:
    names = [tmp_path / f"{i}" for i in range(3)]
    texts = [tmp_path / f"{i}.txt" for i in range(3)]
    lines = [b"".join(b"%d-%d\n" % (i, j) for j in range(300)) for i in range(3)]
    assert inside("create", names[0], kind, *SIZES).code == 0
    for name, text, part in zip(names, texts, lines, strict=True):
        if name != names[0]:
            assert inside("create", name, "--like", names[0]).code == 0
        text.write_bytes(part)
        assert inside("add", name, text).code == 0
    out = tmp_path / "out"
    assert inside("merge", out, *names) == Ended(0, b"", "")
    check_merged(out, *names)
    assert inside("check", out, *texts) == Ended(0, b"".join(lines), "")
    assert json.loads(inside("info", out, "--json").out)["keys_added"] == pytest.approx(900, 0.02)
    found = inside("verify", out, "--keys", texts[0], "--keys", texts[2])
    assert (found.code, b"600 looked up, 0 missing" in found.out) == (0, True)
    texts[0].write_bytes(b"another\n" + lines[1])
    assert inside("dedup", out, texts[0]) == Ended(0, b"another\n", "")


def test_as_a_process(tmp_path: Path) -> None:
    make_growing(tmp_path / "one", range(30))
    assert started("merge", "out", "./one", cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out").stat().st_mode & 0o7777 == 0o700
    argv = ("merge", "--permissions", "640", "--allow-network", "out2", "one", "one")
    assert started(*argv, cwd=tmp_path) == (0, b"", "")
    assert (tmp_path / "out2").stat().st_mode & 0o7777 == 0o750
    for out in ("out", "out2"):
        check_merged(tmp_path / out, tmp_path / "one")


def test_more_keys_than_planned(tmp_path: Path) -> None:
    one = make_growing(tmp_path / "one", range(20), error_rate=0.01)
    two = make_growing(tmp_path / "two", range(20, 40), error_rate=0.01)
    done = inside("merge", tmp_path / "out", one, two)
    assert (done.code, done.out) == (0, b"")
    rate = json.loads(inside("info", tmp_path / "out", "--json").out)
    assert rate["past_plan"]
    said = f"about {100 * rate['current_error_rate']:.2g} % of new keys are now taken for seen"
    assert is_one_line(done.err, f"{tmp_path / 'out'}: 1 of 1 files hold more keys", said)
    check_merged(tmp_path / "out", one, two)


def test_what_cannot_be_united(tmp_path: Path) -> None:
    one = make_growing(tmp_path / "one", range(30))
    make_growing(tmp_path / "seed", seed=6)
    make_rotating(tmp_path / "week", {1: ["a"]})
    make(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    gone = make_growing(tmp_path / "gone", range(30)) / "0000000001.bloom"
    gone.unlink()
    before = sorted(os.listdir(tmp_path))
    for other, *words in (
        ("seed", "seed secret (fingerprint 966a28d3) and secret (fingerprint 5e9a5de4)", "--like"),
        ("week", "kind growing and rotating"),
        ("file", "kind a folder and a file", str(one)),
        ("empty", "manifest.json is missing"),
        ("gone", str(gone), "file is missing"),
        ("nothing", "no such filter"),
    ):
        done = inside("merge", tmp_path / "out", one, tmp_path / other)
        assert (done.code, done.out) == (3, b""), other
        assert is_one_line(done.err, str(tmp_path / other), *words)
    done = inside("merge", one, one)
    assert (done.code, is_one_line(done.err, str(one), "there already")) == (5, True)
    check_folder(tmp_path, *before)
