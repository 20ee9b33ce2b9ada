"""Made the files of tests/golden/guava, with the real Guava; not to be run again.

    python tests/guava/make_guava_golden.py /usr/share/java/guava.jar

Refuses to change a file that exists: golden files are only ever read.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from guava_files import GOLDEN, ROUNDTRIP, keys_file, keys_of, parse

# Name: funnel, keys put, keys and rate that it is planned for.
FILES = {
    "bytes": ("bytes", 300, 300, "0.01"),
    "utf8": ("utf8", 300, 300, "0.01"),
    "chars": ("chars", 300, 300, "0.01"),
    "int": ("int", 300, 300, "0.03"),
    "long": ("long", 300, 300, "0.001"),
    "empty": ("bytes", 0, 100, "0.01"),
    "one-long": ("utf8", 10, 1, "0.5"),
    "64-hashes": ("long", 20, 20, "5.5e-20"),
    "100-hashes": ("bytes", 20, 20, "1e-30"),
}


def main(jar: str) -> None:
    expected = {}
    for name, (funnel, number, planned, rate) in FILES.items():
        file = GOLDEN / f"{name}.guava"
        if file.exists():
            raise SystemExit(f"{file} exists")
        with tempfile.NamedTemporaryFile() as keys:
            Path(keys.name).write_bytes(keys_file(keys_of(funnel, 0, number)))
            command = ["java", "-cp", jar, str(ROUNDTRIP), "put", funnel, keys.name, str(file)]
            subprocess.run([*command, str(planned), rate], check=True)
            data = file.read_bytes()
            absent = keys_of(funnel, 10_000, 10_400)
            Path(keys.name).write_bytes(keys_file(absent))
            command[4] = "ask"
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            Path(f"{file}.again").unlink()
        held = parse(data)
        expected[name] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "funnel": funnel,
            "keys": number,
            "num_hashes": data[1],
            "num_bits": 8 * (len(data) - 6),
            "can_be_held": held is not None,
            "found_of_10000_to_10400": [i for i, bit in enumerate(found) if bit == "1"],
        }
    (GOLDEN / "expectations.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
