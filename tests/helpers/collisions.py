"""Pairs of lines that MurmurHash3_x64_128 takes for one under every seed, made from nothing.

A difference in the top bit passes an addition, and a multiplication by an odd number, unchanged.
So of three words of a line (its first, its second and its third 8 bytes) one bit of each is
changed after it was mixed: the first word's bit 36 is rotated to the top of h1, which is added to
h2; the second word's bit 32 is rotated to the top of h2, and cancels it; the third word's top bit
cancels that of h1. Mixing a word has an inverse, and no seed in it. After Aumasson and Bernstein,
2012, who broke MurmurHash3 so. Nothing here uses the package.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_DRAWN = 400_000


def _rotate(words: Words, by: int) -> Words:
    return words << np.uint64(by) | words >> np.uint64(64 - by)


def _changed(words: Words, first: int, by: int, second: int, bit: int) -> Words:
    """Give the words whose mixing (times `first`, rotated, times `second`) differs in one bit."""
    mixed = _rotate(words * np.uint64(first), by) * np.uint64(second)
    unmixed = (mixed ^ np.uint64(1 << bit)) * np.uint64(pow(second, -1, 2**64))
    return _rotate(unmixed, 64 - by) * np.uint64(pow(first, -1, 2**64))


# The first bytes of a character of UTF-8, by how many bytes it has; the others are 80 to BF.
_STARTS = {1: (0x20, 0x7F), 2: (0xC2, 0xE0), 3: (0xE1, 0xED)}


def _texts(chance: np.random.Generator) -> Words:
    """Draw words that are 8 bytes of valid UTF-8, of characters of 1 to 3 bytes."""
    octets = chance.integers(0x80, 0xC0, (_DRAWN, 8), np.uint8)
    for part in np.array_split(octets, 40):
        place = 0
        while place < 8:
            size = min(int(chance.integers(1, 4)), 8 - place)
            part[:, place] = chance.integers(*_STARTS[size], len(part), np.uint8)
            place += size
    return octets.view("<u8").reshape(-1)


def _is_text(word: bytes) -> bool:
    try:
        return word.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _may_be_text(words: Words) -> npt.NDArray[np.bool_]:
    """Say of each word whether starts and ends of its characters fit, which few words' do."""
    octets = words.astype("<u8").view(np.uint8).reshape(-1, 8)
    following = octets & 0xC0 == 0x80
    begun = octets >= 0xC0  # such a byte needs another, which a byte of ASCII cannot have
    fits: npt.NDArray[np.bool_] = ~following[:, 0] & ~begun[:, -1] & (octets >= 0x20).all(1)
    fits &= ~(begun[:, :-1] & ~following[:, 1:]).any(1)
    fits &= ~((octets < 0x80)[:, :-1] & following[:, 1:]).any(1)
    return fits


def _paired(
    chance: np.random.Generator, first: int, by: int, second: int, bit: int
) -> list[tuple[bytes, bytes]]:
    """Find words of printable text whose partners are such words too."""
    words = _texts(chance)
    partners = _changed(words, first, by, second, bit)
    likely = _may_be_text(partners)  # to decode all of them takes a second
    both = zip(words[likely].tolist(), partners[likely].tolist(), strict=True)
    pairs = [(one.to_bytes(8, "little"), other.to_bytes(8, "little")) for one, other in both]
    return [pair for pair in pairs if _is_text(pair[1]) and _is_text(pair[0])]


def colliding_lines(number: int, seed: int) -> list[tuple[bytes, bytes]]:
    """Make pairs of different lines of UTF-8 without control characters that collide."""
    chance = np.random.default_rng(seed)
    words = [
        _paired(chance, _C1, 31, _C2, 36),
        _paired(chance, _C2, 33, _C1, 32),
        _paired(chance, _C1, 31, _C2, 63),
    ]
    pairs = []
    for i in range(number):
        chosen = [some[chance.integers(len(some))] for some in words]
        one, other = (b"".join(word[side] for word in chosen) for side in (0, 1))
        end = b" GET /page/%08d" % i
        pairs.append((one + end, other + end))
    return pairs
