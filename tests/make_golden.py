"""Write the golden files of format version 1 with the reference implementation.

Run by hand, for new cases: ``PYTHONPATH=tests/helpers python tests/make_golden.py``. The same
bytes come out every time, and a file that is there is never changed: new cases go at the end.
"""

import hashlib
import itertools
import json
from pathlib import Path

from reference import RULE_OFFSET, Fields, Key, NaiveFilter, pack_key_rule

GOLDEN = Path(__file__).parent / "golden"
CREATED_NS = 1_700_000_000_000_000_000

EDGE_KEYS: list[Key] = [
    *("", b"\0", b"\0\0\0\0\0\0\0\0", b"\xff\xfe not UTF-8 \x80"),
    *("café", "naïve façade", "日本語", "🌸", "tab\tand\nnewline"),
    *(0, 1, 5, -1, -5, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**63, 2**64 - 1),
    # All lengths around the 16-byte blocks of the hash.
    *("x" * length for length in (7, 8, 9, 15, 16, 17, 31, 32, 33, 1000)),
]

# That of the hash's published digests: the bytes 0 to 15.
KEY = int.from_bytes(bytes(range(16)), "little")

# name, fields, number of further keys; the place in the list is the time at which it was made.
CASES: list[tuple[str, Fields, int]] = [
    ("standard-k1-m64", Fields(64, 1, 1, capacity=40, error_rate=0.5), 0),
    ("standard-k7-seed0", Fields(64 * 157, 7, 1, capacity=1000), 900),
    ("standard-k13-seed7", Fields(64 * 101, 13, 1, 7, 300, 0.0001), 600),
    ("standard-k64", Fields(64 * 26, 64, 1, 2**31, 20, 0.001), 30),
    ("blocked-k1-one-block", Fields(512, 1, 2, 1, 300, 0.5), 200),
    ("blocked-k6", Fields(512 * 20, 6, 2, 0x9E3779B9, 1000), 900),
    ("blocked-k12", Fields(512 * 37, 12, 2, 2**32 - 1, 800, 0.0001), 1300),
    ("blocked-k64-seed0", Fields(512 * 8, 64, 2, 0, 60, 0.001), 110),
    ("blocked-sealed", Fields(512 * 11, 5, 2, 99, 500, read_only_compatible=1), 450),
    ("blocked-compatible-flag", Fields(512 * 3, 4, 2, 3, 200, 0.1, compatible=1 << 63), 150),
    ("standard-newer-flag", Fields(640, 4, 1, 4, 100, 0.1, read_only_compatible=1 << 5), 60),
    ("standard-counters", Fields(64 * 9, 3, 1, 12, 60, 0.1, kind=2), -1),
    ("blocked-counters", Fields(512 * 2, 4, 2, 13, 90, 0.1, kind=2), -1),
    ("siphash-standard", Fields(64 * 157, 7, 1, KEY, 1000, hash_id=2), 900),
    ("siphash-blocked", Fields(512 * 20, 6, 2, 2**128 - 1 - KEY, 1000, hash_id=2), 900),
    ("siphash-blocked-key0", Fields(512 * 37, 12, 2, 0, 800, 0.0001, hash_id=2), 1300),
    ("siphash-standard-key7", Fields(64 * 101, 13, 1, 7, 300, 0.0001, hash_id=2), 600),
    ("siphash-sealed", Fields(512 * 11, 5, 2, KEY, 500, read_only_compatible=1, hash_id=2), 450),
    ("siphash-counters", Fields(512 * 2, 4, 2, KEY, 90, 0.1, kind=2, hash_id=2), -1),
    ("paged-b2", Fields(32768 * 2, 4, 3, 0x9E3779B9, 5000, 0.01, blocks=2), 4000),
    ("paged-b4-k64", Fields(32768, 64, 3, 5, 400, 1e-12, blocks=4), 1800),
    ("siphash-paged-b3", Fields(32768, 6, 3, KEY, 2500, 0.01, hash_id=2, blocks=3), 2500),
    ("siphash-paged-b8", Fields(32768 * 3, 8, 3, 7, 1000, 0.01, hash_id=2, blocks=8), 6000),
    (
        "siphash-paged-sealed",
        Fields(32768, 2, 3, KEY, 1000, read_only_compatible=1, hash_id=2, blocks=2),
        1500,
    ),
    ("siphash-paged-counters", Fields(32768, 4, 3, KEY, 900, kind=2, hash_id=2, blocks=2), -1),
    ("siphash-key-rule", Fields(512 * 20, 6, 2, KEY, 1000, hash_id=2), 900),
]

# Of those that say how lines became their keys.
KEY_RULES = {"siphash-key-rule": "-k 1,3 -t ';' --caf\u00e9"}


def as_json(key: Key) -> object:
    """Write a key down: bytes as {"hex": ...}, str and int as themselves."""
    return {"hex": key.hex()} if isinstance(key, bytes) else key


def as_recorded(fields: Fields) -> dict[str, object]:
    """Write fields down; what there was not at first is left out where it is as it was then."""
    record = {**vars(fields), "uuid": fields.uuid.hex()}
    if fields.hash_id == 1:
        del record["hash_id"]
    if not fields.blocks:
        del record["blocks"]
    return record


def first_false_positives(filled: NaiveFilter, how_many: int = 10) -> list[int]:
    """Find the first numbers i for which the absent key "absent-i" is answered yes."""
    found = (i for i in itertools.count() if f"absent-{i}" in filled)
    return [*itertools.islice(found, how_many)]


# name, settings in the manifest, and of each file: number, fields, keys from and to. A growing
# filter's first file is for half the rate, its second for twice the keys at half of that; a
# rotating filter's are each for a third.
FOLDERS: list[tuple[str, dict[str, object], list[tuple[int, Fields, int, int]]]] = [
    (
        "growing",
        {"initial_capacity": 100, "error_rate": 0.5},
        [
            (0, Fields(512, 2, 2, KEY, 100, 0.25, hash_id=2), 0, 100),
            (1, Fields(512 * 2, 3, 2, KEY, 200, 0.125, hash_id=2), 100, 180),
        ],
    ),
    (
        "rotating",
        {
            "keep_seconds": 172800,
            "every_seconds": 86400,
            "capacity_per_period": 100,
            "error_rate": 0.75,
        },
        [
            (19675, Fields(512, 2, 2, KEY, 100, 0.25, hash_id=2), 0, 100),
            (19676, Fields(512, 2, 2, KEY, 100, 0.25, hash_id=2), 60, 160),
        ],
    ),
]


def make_folder(
    kind: str,
    sizes: dict[str, object],
    members: list[tuple[int, Fields, int, int]],
    made: dict[str, bytes],
) -> dict[str, object]:
    """Make the files of a folder of filters and its manifest; return what to expect of it."""
    folder = f"siphash-{kind}"
    entries, hashes, filled = [], {}, []
    for number, plain, start, stop in members:
        name = f"{number:010d}.bloom"
        uuid = hashlib.sha256(f"{kind}-{number}".encode()).digest()[:16]
        described = {**vars(plain), "created_ns": CREATED_NS + number, "uuid": uuid}
        member = NaiveFilter.empty(Fields(**described))
        for i in range(start, stop):
            member.add(f"key-{i}")
        made[f"{folder}/{name}"] = bytes(member.data)
        entries.append({"number": number, "name": name, "uuid": uuid.hex()})
        hashes[name] = hashlib.sha256(member.data).hexdigest()
        filled.append(member)
    key = KEY.to_bytes(16, "little").hex()
    further = {"layout": "blocked", "seed": key, "reserve": "zeros", "hash": "siphash"}
    manifest = {
        "format": "mmbloom folder",
        "version": 1,
        "kind": kind,
        "uuid": hashlib.sha256(kind.encode()).digest()[:16].hex(),
        "settings": {**sizes, **further},
        "members": entries,
    }
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    made[f"{folder}/manifest.json"] = text
    hashes["manifest.json"] = hashlib.sha256(text).hexdigest()
    absent = [i for i in range(400) if any(f"absent-{i}" in member for member in filled)]
    return {"sha256": hashes, "keys": members[-1][3], "false_positives_of_400": absent}


def write_new(made: dict[str, bytes]) -> None:
    """Write files that are not there yet; SystemExit if one that is there would change."""
    for name, data in made.items():
        path = GOLDEN / name
        if path.exists() and path.read_bytes() != data:
            raise SystemExit(f"{path}: would change; golden files never do: add cases at the end")
    for name, data in made.items():
        (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / name).write_bytes(data)


def main() -> None:
    """Write every file and the JSON of what to expect of it."""
    files, made = {}, dict[str, bytes]()
    for number, (name, plain, further) in enumerate(CASES):
        described = {**vars(plain), "created_ns": CREATED_NS + number}
        fields = Fields(**{**described, "uuid": hashlib.sha256(name.encode()).digest()[:16]})
        keys = [] if further < 0 else [*EDGE_KEYS, *(f"key-{i}" for i in range(further))]
        golden = NaiveFilter.empty(fields)
        for key in keys:
            golden.add(key)
        if fields.read_only_compatible & 1:
            golden.reseal()
        rule = KEY_RULES.get(name)
        if rule is not None:
            golden.data[RULE_OFFSET:4096] = pack_key_rule(rule)
        made[f"{name}.bloom"] = bytes(golden.data)
        files[name] = {
            "sha256": hashlib.sha256(golden.data).hexdigest(),
            "fields": as_recorded(fields),
            "keys": len(keys),
            "positions_set": golden.popcount(),
            "first_false_positives": first_false_positives(golden) if keys else [],
            **({} if rule is None else {"key_rule": rule}),
        }
    expectations = {
        "keys": "the first n of: edge_keys, then key-0, key-1, ...; absent keys: absent-0, ...",
        "edge_keys": [as_json(key) for key in EDGE_KEYS],
        "files": files,
        "folders": {folder[0]: make_folder(*folder, made) for folder in FOLDERS},
    }
    write_new(made)
    text = json.dumps(expectations, indent=1, ensure_ascii=True)
    (GOLDEN / "expectations.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
