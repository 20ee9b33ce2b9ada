"""Files of Guava's BloomFilter by their description alone, and keys as each Funnel has them."""

import functools
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from reference import Key, key_bytes, murmur3_x64_128

GOLDEN = Path(__file__).parents[1] / "golden" / "guava"
ROUNDTRIP = Path(__file__).parents[1] / "guava" / "Roundtrip.java"

# The i-th key for each funnel of `Roundtrip.java`, as one gives it to mmbloom.
FUNNELS: dict[str, Callable[[int], Key]] = {
    "bytes": lambda i: bytes([i % 256]) * (i % 40) + str(i).encode(),
    "utf8": lambda i: f"ключ-{i}-\N{GRINNING FACE}",
    "chars": lambda i: f"{i}\N{CJK UNIFIED IDEOGRAPH-9375}-\N{GRINNING FACE}".encode("utf-16-le"),
    "int": lambda i: (i * 2654435761 % 2**32).to_bytes(4, "little"),
    "long": lambda i: (i * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63,
}


def keys_of(funnel: str, start: int, stop: int) -> list[Key]:
    return [FUNNELS[funnel](i) for i in range(start, stop)]


def keys_file(keys: Sequence[Key]) -> bytes:
    """Pack keys for `Roundtrip.java`: for each the length of its bytes, and these."""
    raw = [key_bytes(key) for key in keys]
    return b"".join(struct.pack(">i", len(octets)) + octets for octets in raw)


@dataclass(frozen=True)
class GuavaFile:
    """What such a file holds; `words` are its longs, unsigned."""

    num_hashes: int
    words: tuple[int, ...]

    @property
    def array(self) -> bytes:
        return struct.pack(f"<{len(self.words)}Q", *self.words)

    def pack(self) -> bytes:
        longs = struct.pack(f">{len(self.words)}Q", *self.words)
        return struct.pack(">bBi", 1, self.num_hashes, len(self.words)) + longs

    def has(self, key: Key) -> bool:
        """Ask as Guava's strategy MURMUR128_MITZ_64 does: a sum that wraps, its sign cut off."""
        combined, h2 = murmur3_x64_128(key_bytes(key), 0)
        for _ in range(self.num_hashes):
            index = combined % 2**63 % (64 * len(self.words))
            if not self.words[index >> 6] >> (index & 63) & 1:
                return False
            combined = (combined + h2) % 2**64
        return True


def parse(data: bytes) -> GuavaFile | None:
    """Read a file; None unless it is one that mmbloom can hold."""
    if len(data) < 14 or data[0] != 1 or not 1 <= data[1] <= 64:
        return None
    (longs,) = struct.unpack_from(">i", data, 2)
    if longs < 1 or len(data) - 6 != 8 * longs:
        return None
    return GuavaFile(data[1], struct.unpack_from(f">{longs}Q", data, 6))


JARS = [Path("/usr/share/java/guava.jar"), Path("/usr/local/share/java/guava.jar")]


def require_jar() -> Path:
    """Find the jar of Guava; skips the test where there is none, or no Java that compiles."""
    if not _java_compiles():
        pytest.skip("no java that runs a source file (Debian: default-jdk-headless)")
    for path in JARS:
        if path.exists():
            return path
    pytest.skip(f"Guava is not at {JARS[0]} (Debian: libguava-java)")


@functools.cache
def _java_compiles() -> bool:
    if not shutil.which("java"):
        return False
    command = ["java", "--list-modules"]  # a runtime (JRE) comes without the compiler
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return "\njdk.compiler@" in done.stdout
