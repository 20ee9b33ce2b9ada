"""Interchange with the real Guava on a real JVM: every key put on one side is found on the other.

Skipped where there is no Java, or no Guava where Debian's libguava-java puts it.
"""

import os
import subprocess
from pathlib import Path

import pytest
from checks import array_of, check_folder
from guava_files import FUNNELS, ROUNDTRIP, keys_file, keys_of, require_jar
from reference import Key

from mmbloom import BloomFilter, export_guava, import_guava
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file
from mmbloom.sizing import FilterParams

NUMBER = 100_000  # of keys put, and of keys that were not
every_funnel = pytest.mark.parametrize("funnel", FUNNELS)


# A program of a second or two: what would make a long one faster costs more than it brings.
JAVA = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of Guava and `Roundtrip.java`; skips where there is no Guava to test with."""
    jar, folder = require_jar(), tmp_path_factory.mktemp("classes")
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-cp", jar, "-d", folder, ROUNDTRIP], timeout=300, check=True)
    return f"{jar}{os.pathsep}{folder}"


def guava(classes: str, action: str, funnel: str, keys: list[Key], file: Path, *plan: str) -> str:
    """Run `Roundtrip.java` on a list of keys; returns what it printed."""
    listed = file.with_suffix(".keys")
    listed.write_bytes(keys_file(keys))
    try:
        done = subprocess.run(
            [*JAVA, "-cp", classes, "Roundtrip", action, funnel, listed, file, *plan],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        listed.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout


def answers(classes: str, funnel: str, keys: list[Key], file: Path) -> list[bool]:
    """Ask Guava for keys; the file that it would write again is the same, byte for byte."""
    found = guava(classes, "ask", funnel, keys, file)
    again = Path(f"{file}.again")
    assert again.read_bytes() == file.read_bytes()
    again.unlink()
    assert set(found) <= {"0", "1"}
    return [bit == "1" for bit in found]


@every_funnel
def test_guava_finds_what_mmbloom_put(tmp_path: Path, classes: str, funnel: str) -> None:
    """Guava finds all 100,000 keys, and of 100,000 absent ones exactly those mmbloom finds."""
    keys, absent = keys_of(funnel, 0, NUMBER), keys_of(funnel, NUMBER, 2 * NUMBER)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with BloomFilter.create(ours, NUMBER, 0.01, layout="standard", hash="murmur3", seed=0) as seen:
        seen.add_many(keys)
        expected = seen.contains_many([*keys, *absent]).tolist()
    export_guava(ours, theirs)
    found = answers(classes, funnel, [*keys, *absent], theirs)
    assert all(found[:NUMBER])
    assert found == expected
    wrong = sum(found[NUMBER:])
    assert 0.008 * NUMBER < wrong < 0.012 * NUMBER
    print(
        f"{funnel}: Guava found {NUMBER} of {NUMBER} keys of mmbloom; {wrong} false on both sides"
    )


@every_funnel
def test_mmbloom_finds_what_guava_put(tmp_path: Path, classes: str, funnel: str) -> None:
    """mmbloom finds all 100,000 keys, and of 100,000 absent ones exactly those Guava finds."""
    keys, absent = keys_of(funnel, 0, NUMBER), keys_of(funnel, NUMBER, 2 * NUMBER)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    guava(classes, "put", funnel, keys, theirs, str(NUMBER), "0.001")
    import_guava(theirs, ours, capacity=NUMBER, error_rate=0.001)
    with BloomFilter.open(ours, "r") as seen:
        found = seen.contains_many([*keys, *absent]).tolist()
        assert abs(seen.approx_count - NUMBER) < 0.01 * NUMBER
    assert all(found[:NUMBER])
    assert found == answers(classes, funnel, [*keys, *absent], theirs)
    wrong = sum(found[NUMBER:])
    assert 0 < wrong < 0.002 * NUMBER
    print(
        f"{funnel}: mmbloom found {NUMBER} of {NUMBER} keys of Guava; {wrong} false on both sides"
    )


def test_both_go_on_with_one_filter(tmp_path: Path, classes: str) -> None:
    """mmbloom begins a filter, Guava adds to it, mmbloom goes on: as if one had done all."""
    names = [tmp_path / name for name in ("first", "second", "third")]
    parts = [keys_of("utf8", start, start + 5000) for start in (0, 5000, 10_000)]
    with BloomFilter.create(names[0], 20_000, layout="standard", hash="murmur3", seed=0) as seen:
        seen.add_many(parts[0])
    export_guava(names[0], tmp_path / "theirs")
    guava(classes, "more", "utf8", parts[1], tmp_path / "theirs")
    import_guava(tmp_path / "theirs", names[1], capacity=20_000)
    with BloomFilter.open(names[1]) as seen:
        seen.add_many(parts[2])
    with BloomFilter.create(names[2], 20_000, layout="standard", hash="murmur3", seed=0) as seen:
        seen.add_many([key for part in parts for key in part])
    assert array_of(str(names[1])) == array_of(str(names[2]))
    check_folder(tmp_path, "first", "second", "third", "theirs")


@pytest.mark.parametrize("num_hashes", [1, 64])
def test_fewest_and_most_hashes(tmp_path: Path, classes: str, num_hashes: int) -> None:
    """1 and 64 hashes, which no plan has, are read by Guava as written."""
    params = FilterParams(1000, 0.01, "standard", 92_352, num_hashes, 0, "murmur3")
    create_file(Target(str(tmp_path / "a"), 0o600, False), params)
    with BloomFilter.open(tmp_path / "a") as seen:
        seen.update(range(500))
        expected = seen.contains_many(list(range(1000))).tolist()
    export_guava(tmp_path / "a", tmp_path / "b")
    assert answers(classes, "long", list(range(1000)), tmp_path / "b") == expected
