"""Lines claimed, written and marked in one step: as in several, or not at all."""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import SIPHASH, chunk_of, hashed
from kernels import COMPILED, NUMPY, Engine, each_engine, needs_compiled
from naive import LAYOUTS, empty_words, split, step_of

from mmbloom._engine.reference.at_once import Output, Part
from mmbloom._engine.reference.status import LastLook
from mmbloom._typing import Words
from mmbloom.format.header import BATCHES_BEGUN, BATCHES_DONE, KEYS_ADDED, POSITIONS_SET
from mmbloom.sizing import FilterParams, Layout

ALL_SURE = (float("inf"), float("inf"))
NOTHING = (0, 0, None)  # is done
LINES = [b"%d" % number for number in range(900)]


def look_of(engine: Engine) -> type[LastLook]:
    """The class of this engine, which takes no other's."""
    if engine is NUMPY:
        return LastLook
    from mmbloom._engine.compiled.status import LastLook as Compiled  # noqa: PLC0415

    return Compiled


@dataclass
class Scene:
    """A filter's array and counters, its file, and some lines on their way to an output."""

    engine: Engine
    folder: Path
    params: FilterParams
    lines: list[bytes] = field(default_factory=lambda: LINES)

    def __post_init__(self) -> None:
        self.words, self.counters = empty_words(self.params), np.zeros(8, np.uint64)
        self.word = memoryview(bytearray(8)).cast("Q")
        self.file = self.folder / "seen.bloom"
        self.file.write_bytes(b"12345")
        there = self.file.stat()
        look = (os.fsencode(self.file), there.st_dev, there.st_ino, 5)
        self.look = look_of(self.engine)(look, [(self.word, 0)])
        self.before = self.state()

    def hashes(self, lines: list[bytes]) -> tuple[Words, Words]:
        return split(hashed(lines, SIPHASH))

    def know(self, lines: list[bytes]) -> None:
        """Add the keys of some lines."""
        new, newly_set = self.engine.add(self.words, *self.hashes(lines), self.params)
        self.counters[KEYS_ADDED] += np.count_nonzero(new)
        self.counters[POSITIONS_SET] += newly_set
        self.before = self.state()

    def state(self) -> tuple[bytes, list[int]]:
        return self.words.tobytes(), self.counters.tolist()

    def part(self, lines: list[bytes]) -> Part:
        chunk, hashes = chunk_of(lines, before=b"earlier\n"), self.hashes(lines)
        meeting = self.engine.meeting(hashes[0], self.params)
        return (hashes, meeting), (chunk.octets, chunk.starts, chunk.ends)

    def write(
        self,
        output: Output | tuple[int, int, int],
        sure: tuple[float, float] = ALL_SURE,
        **other: Any,
    ) -> Any:
        """Write the lines as one part, or `parts`."""
        given = {"parts": [self.part(self.lines)], "sure": sure, **other}
        given.setdefault("absent", os.fsencode(self.folder / "absent"))
        return self.engine.write_new(
            self.words,
            self.counters,
            self.params,
            output=Output(*output),
            last_look=self.look,
            **given,
        )


@pytest.fixture(params=[*LAYOUTS, "three blocks"])
def scene_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Scene]:
    """Scenes of each layout: scene_of(engine, lines=...)."""
    layout: Layout = "blocked" if request.param == "three blocks" else request.param
    blocks = 3 if request.param == "three blocks" else 1
    size = (
        step_of(layout, blocks)
        * {"standard": 1000, "blocked": 60, "three blocks": 2}[request.param]
    )
    params = FilterParams(1000, 0.001, layout, size, 6, 0, "siphash", blocks)
    return lambda engine, **options: Scene(engine, tmp_path, params, **options)


@contextmanager
def appended_to(path: Path) -> Iterator[Output]:
    """Open a file as the commands do: to append, and to see how it ends."""
    path.touch()
    fd, end_fd = os.open(path, os.O_WRONLY | os.O_APPEND), os.open(path, os.O_RDONLY)
    try:
        yield Output(fd, end_fd, ord("\n"))
    finally:
        os.close(fd)
        os.close(end_fd)


@each_engine
@pytest.mark.parametrize("known", [0, 1, 450, 899, 900])
def test_as_in_steps(
    engine: Engine, known: int, scene_of: Callable[..., Scene], tmp_path: Path, seed: int
) -> None:
    """Answers, output, bits and counters are those of a claim, a write and a commit."""
    rng = np.random.default_rng(seed)
    lines = [LINES[number] for number in rng.integers(0, 900, 1500)]  # some twice
    scene = scene_of(engine, lines=lines)
    scene.know([LINES[number] for number in rng.permutation(900)[:known]])
    words, counters = scene.words.copy(), scene.counters.tolist()
    hashes = scene.hashes(lines)
    steps = NUMPY.claim(words, *hashes, scene.params, NUMPY.meeting(hashes[0], scene.params))
    newly_set = NUMPY.commit(words, steps)
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output) == (1, steps.num_new, None)
    expected = [line for line, new in zip(lines, steps.new, strict=True) if new]
    assert (tmp_path / "out").read_bytes() == b"".join(line + b"\n" for line in expected)
    assert scene.words.tobytes() == words.tobytes()
    counters[KEYS_ADDED] += steps.num_new
    counters[POSITIONS_SET] += newly_set
    counters[BATCHES_BEGUN] += bool(steps.num_new)
    counters[BATCHES_DONE] += bool(steps.num_new)
    assert scene.counters.tolist() == counters


@each_engine
def test_all_of_a_block(engine: Engine, scene_of: Callable[..., Scene], tmp_path: Path) -> None:
    """Where every line is new, and where each is as long as others, what is between is right."""
    for lines in ([b""], [b"one"], [b"x" * 40, b"", b"y" * 31, b"z" * 32, b"w" * 33]):
        path = tmp_path / f"{len(lines[0])} bytes"
        with appended_to(path) as output:
            assert scene_of(engine, lines=lines).write(output)[0] == 1
            again = scene_of(engine, lines=[*lines, b"new", lines[0]])
            again.know(lines)
            assert again.write(output)[0] == 1
        assert path.read_bytes() == b"".join(line + b"\n" for line in [*lines, b"new"])


@each_engine
@pytest.mark.parametrize(
    ("block", "spans", "known"),
    [
        (b"aaa\nbbb\n", [(0, 3), (1, 3), (3, 3), (4, 7)], [b"bbb"]),
        (b"abc\nXX\nd\n", [(0, 3), (1, 3), (7, 8)], []),
        (b"a\nb\n", [(2, 3), (0, 1)], []),
    ],
)
def test_lines_that_are_not_consecutive(
    engine: Engine,
    block: bytes,
    spans: list[tuple[int, int]],
    known: list[bytes],
    scene_of: Callable[..., Scene],
    tmp_path: Path,
) -> None:
    """New ones are written, and nothing else, though they are as long as the block together."""
    scene, lines = scene_of(engine), [block[start:end] for start, end in spans]
    scene.know(known)
    keys, _ = scene.part(lines)
    starts, ends = np.array(spans, np.int64).T.copy()
    part = keys, (np.frombuffer(block, np.uint8), starts, ends)
    new = [line for line in lines if line not in known]
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output, parts=[part]) == (1, len(new), None)
    assert (tmp_path / "out").read_bytes() == b"".join(line + b"\n" for line in new)


@each_engine
def test_output_that_is_to_be_waited_for(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """A part that fills it is the last one; none is written for which it had to be waited."""
    scene, (read, write) = scene_of(engine), os.pipe()
    lines = [b"x" * 50 + line for line in LINES]
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 8192)
    parts = [scene.part(piece) for piece in (lines[:1], lines[1:90], lines[90:91], lines[91:])]
    late = threading.Timer(5, fcntl.fcntl, (write, fcntl.F_SETPIPE_SZ, 1 << 20))  # should it wait
    late.start()
    try:
        assert scene.write((write, -1, 0), parts=parts) == (2, 90, None)
        assert os.read(read, 1 << 20) == b"".join(line + b"\n" for line in lines[:90])
        assert scene.write((write, -1, 0), parts=parts[:3]) == (3, 1, None)
    finally:
        late.cancel()
        late.join()
        os.close(read)
        os.close(write)
    assert scene.counters[KEYS_ADDED] == 91


@each_engine
def test_nothing_new(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """Nothing is written where no line is new, and it is no batch."""
    scene = scene_of(engine)
    scene.know(LINES)
    with open(os.devnull, "wb") as output:
        assert scene.write((output.fileno(), -1, 0), sure=(0, 0)) == (1, 0, None)
    assert scene.state() == scene.before


def gone(scene: Scene) -> None:
    scene.file.unlink()


def replaced(scene: Scene) -> None:
    scene.file.rename(scene.file.with_suffix(".old"))
    scene.file.write_bytes(b"12345")


def resized(scene: Scene) -> None:
    scene.file.write_bytes(b"123456")


def told_otherwise(scene: Scene) -> None:
    scene.word[0] = 1


@each_engine
@pytest.mark.parametrize("change", [gone, replaced, resized, told_otherwise])
def test_file_changed_before(
    engine: Engine, change: Callable[[Scene], None], scene_of: Callable[..., Scene], tmp_path: Path
) -> None:
    """A look that holds no more: nothing is done."""
    scene = scene_of(engine)
    change(scene)
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output) == NOTHING
    assert scene.state() == scene.before
    assert not (tmp_path / "out").read_bytes()


@each_engine
@pytest.mark.parametrize("change", [gone, replaced, resized, told_otherwise])
def test_file_changed_meanwhile(
    engine: Engine, change: Callable[[Scene], None], scene_of: Callable[..., Scene]
) -> None:
    """One that does not hold after the write: the lines are written, and no key is marked."""
    scene = scene_of(engine)
    scene.lines = [b"x" * 100 + line for line in LINES]
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    found: list[bytes] = []

    def reader() -> None:
        found.append(os.read(read, 1))  # the write has begun, and cannot end
        change(scene)
        while data := os.read(read, 1 << 16):
            found.append(data)

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        done, num_new, (claimed, written) = scene.write((write, -1, 0))
    finally:
        os.close(write)
        thread.join()
        os.close(read)
    data = b"".join(line + b"\n" for line in scene.lines)
    assert b"".join(found) == data
    assert written == len(data)
    assert (done, num_new, claimed.num_new) == (0, 0, len(LINES))
    assert claimed.new.all()
    assert scene.state() == scene.before


@each_engine
def test_up_to_the_plan(engine: Engine, scene_of: Callable[..., Scene], tmp_path: Path) -> None:
    """Nothing is done from the first position or key on that may be beyond, and all below."""
    most = len(LINES) * 6
    for sure in [(most - 1, 900.0), (most, 899.0), (-float("inf"), 900.0)]:
        scene = scene_of(engine)
        with appended_to(tmp_path / "out") as output:
            assert scene.write(output, sure) == NOTHING
        assert scene.state() == scene.before
    assert not (tmp_path / "out").read_bytes()
    with appended_to(tmp_path / "out") as output:
        assert scene_of(engine).write(output, (most, 900.0))[0] == 1
    scene = scene_of(engine)
    scene.know([b"other"])
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output, (most, 10_000)) == NOTHING
        assert scene.write(output, (most + 6, 900)) == NOTHING
        assert scene.write(output, (most + 6, 901))[0] == 1


@each_engine
def test_exclusions(engine: Engine, scene_of: Callable[..., Scene], tmp_path: Path) -> None:
    """Nothing is done where there is something, or cannot be looked."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    scene = scene_of(engine)
    with appended_to(tmp_path / "out") as output:
        for name in ("file", "link", "loop", "loop/below", "n" * 300):
            assert scene.write(output, absent=os.fsencode(tmp_path / name)) == NOTHING
        assert scene.state() == scene.before
        assert not (tmp_path / "out").read_bytes()
        assert scene.write(output, absent=os.fsencode(tmp_path / "file/below"))[0] == 1


@each_engine
def test_file_ends_in_half_a_line(
    engine: Engine, scene_of: Callable[..., Scene], tmp_path: Path
) -> None:
    """Nothing is done: a line of ours would go on with that of others."""
    (tmp_path / "out").write_bytes(b"whole\nha")
    scene = scene_of(engine)
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output) == NOTHING
        assert scene.state() == scene.before
        assert (tmp_path / "out").read_bytes() == b"whole\nha"
        assert scene.write(output._replace(terminator=ord("a")))[0] == 1


@each_engine
@pytest.mark.parametrize("what", ["no descriptor", "read-only", "full", "the end cannot be read"])
def test_nothing_can_be_written(
    engine: Engine, what: str, scene_of: Callable[..., Scene], tmp_path: Path
) -> None:
    """Nothing is done, and no error raised: the next step says what is wrong."""
    scene, path = scene_of(engine), tmp_path / "out"
    path.write_bytes(b"a\n")
    name, flags = ("/dev/full", os.O_WRONLY) if what == "full" else (str(path), os.O_RDONLY)
    fd = os.open(name, flags)
    output = {"no descriptor": (999_999, -1, 10), "the end cannot be read": (fd, 999_999, 10)}
    try:
        assert scene.write(output.get(what, (fd, -1, 10))) == NOTHING
    finally:
        os.close(fd)
    assert scene.state() == scene.before


@each_engine
def test_partly_written(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """Where less is taken than there is, the caller is told how much, and no key is marked."""
    scene, (read, write) = scene_of(engine), os.pipe()
    scene.lines = [b"x" * 50 + line for line in LINES]
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    try:
        done, num_new, (claimed, written) = scene.write((write, -1, 0))
        data = b"".join(line + b"\n" for line in scene.lines)
        assert 0 < written < len(data)
        assert os.read(read, 1 << 20) == data[:written]
        with pytest.raises(BlockingIOError) as empty:
            os.read(read, 1)
        assert empty.value.errno == errno.EAGAIN
    finally:
        os.close(read)
        os.close(write)
    assert (done, num_new, claimed.num_new) == (0, 0, len(LINES))
    assert claimed.new.all()
    assert scene.state() == scene.before
    assert engine.commit(scene.words, claimed) == engine.count_set(scene.words)
    expected = Scene(engine, scene.folder, scene.params)
    expected.engine.add(expected.words, *scene.hashes(scene.lines), scene.params)
    assert scene.words.tobytes() == expected.words.tobytes()


@each_engine
@pytest.mark.parametrize("cuts", [[], [1], [300, 600, 601], [450, 451, 452, 899]])
def test_several_parts(
    engine: Engine, cuts: list[int], scene_of: Callable[..., Scene], tmp_path: Path, seed: int
) -> None:
    """They are as one after the other: what a part has marked is known to the next one."""
    rng = np.random.default_rng(seed)
    lines = [LINES[number] for number in rng.integers(0, 900, 900)]  # some twice, in other parts
    pieces = [lines[a:b] for a, b in zip([0, *cuts], [*cuts, 900], strict=True)]
    found = []
    for together in (True, False):
        scene, path = scene_of(engine), tmp_path / f"{together}"
        scene.know(LINES[:100])
        parts = [scene.part(piece) for piece in pieces]
        with appended_to(path) as output:
            if together:
                done, num_new, begun = scene.write(output, parts=parts)
                assert (done, begun) == (len(parts), None)
            else:
                steps = [scene.write(output, parts=[part]) for part in parts]
                num_new = sum(step[1] for step in steps)
        found.append((num_new, path.read_bytes(), scene.state()))
    assert found[0] == found[1]
    assert found[0][1].splitlines() == list(dict.fromkeys(set_aside(lines, LINES[:100])))
    assert found[0][0] == len(found[0][1].splitlines())


def set_aside(lines: list[bytes], known: list[bytes]) -> list[bytes]:
    return [line for line in lines if line not in known]


@each_engine
def test_no_part(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """Nothing of nothing is done."""
    scene = scene_of(engine)
    assert scene.write((-1, -1, 0), parts=[]) == NOTHING
    assert scene.state() == scene.before


@each_engine
def test_up_to_the_part_that_does_not_fit(
    engine: Engine, scene_of: Callable[..., Scene], tmp_path: Path
) -> None:
    """The parts before it are done; of it and those behind it, though these would fit, nothing."""
    scene = scene_of(engine)
    parts = [scene.part(piece) for piece in (LINES[:100], LINES[100:800], LINES[:100])]
    with appended_to(tmp_path / "out") as output:
        assert scene.write(output, (float("inf"), 500), parts=parts) == (1, 100, None)
    assert (tmp_path / "out").read_bytes().splitlines() == LINES[:100]
    assert scene.counters[KEYS_ADDED] == 100
    hashes = scene.hashes(LINES)
    assert engine.contains(scene.words, *hashes, scene.params)[:100].all()


@each_engine
def test_file_changed_between_parts(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """The look is for each part anew: those behind the change wait for another look."""
    scene = scene_of(engine)
    lines = [b"x" * 100 + line for line in LINES]
    parts = [scene.part(piece) for piece in (lines[:10], lines[10:200], lines[200:])]
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 8192)  # the first part is half of it
    found: list[bytes] = []

    def reader() -> None:
        size = sum(len(line) + 1 for line in lines[:10])
        while sum(map(len, found)) <= size:  # the second part is on its way
            found.append(os.read(read, size + 1 - sum(map(len, found))))
        replaced(scene)
        while data := os.read(read, 1 << 16):
            found.append(data)

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        done, num_new, (claimed, written) = scene.write((write, -1, 0), parts=parts)
    finally:
        os.close(write)
        thread.join()
        os.close(read)
    assert (done, num_new, claimed.num_new) == (1, 10, 190)
    assert b"".join(found).splitlines() == lines[:200]
    assert written == sum(len(line) + 1 for line in lines[10:200])
    assert scene.counters[[KEYS_ADDED, BATCHES_BEGUN, BATCHES_DONE]].tolist() == [10, 1, 1]
    marked = engine.contains(scene.words, *scene.hashes(lines), scene.params)
    assert marked[:10].all()
    scene.engine.commit(scene.words, claimed)
    assert engine.contains(scene.words, *scene.hashes(lines), scene.params)[:200].all()


@each_engine
def test_part_that_is_partly_written(engine: Engine, scene_of: Callable[..., Scene]) -> None:
    """The claim is that of the part, with its answers and how much of it is written."""
    scene, (read, write) = scene_of(engine), os.pipe()
    lines = [b"x" * 50 + line for line in LINES]
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 8192)
    os.set_blocking(write, False)
    try:
        parts = [scene.part(piece) for piece in (lines[:20], [*lines[:10], *lines[20:]], lines)]
        done, num_new, (claimed, written) = scene.write((write, -1, 0), parts=parts)
        data = b"".join(line + b"\n" for line in lines)
        assert os.read(read, 1 << 20) == data[: sum(len(line) + 1 for line in lines[:20]) + written]
    finally:
        os.close(read)
        os.close(write)
    assert (done, num_new, claimed.num_new) == (1, 20, 880)
    assert claimed.new.tolist() == [False] * 10 + [True] * 880
    assert scene.counters[KEYS_ADDED] == 20


@needs_compiled
def test_bad_input(scene_of: Callable[..., Scene], tmp_path: Path) -> None:
    """What does not fit together is refused before anything of any part is read or written."""
    scene = scene_of(COMPILED)
    good = scene.part(LINES)
    keys, (octets, starts, ends) = good
    with appended_to(tmp_path / "out") as output:
        for lines, match in [
            ((octets[:-1], starts, ends), "line 899 is bytes .* with 1 to end it"),
            ((octets, starts[1:], ends[1:]), "899 lines, and 900 keys"),
            ((octets, starts[:0], ends[:0]), "0 lines, and 900 keys"),
            ((octets, starts, ends[1:]), "900 starts and 899 ends"),
        ]:
            with pytest.raises(ValueError, match=match):
                scene.write(output, parts=[good, (keys, lines)])
        scene.counters = scene.counters[:3]
        with pytest.raises(ValueError, match="3 counters, expected "):
            scene.write(output)
        scene.counters = np.zeros(8, np.uint64)
        with pytest.raises(ValueError, match=r"0 lines, and 0 keys"):
            scene.write(output, parts=[good, scene.part([])])
    assert not scene.words.any()
    assert not (tmp_path / "out").read_bytes()
