"""What docs/object-stores.md says of an open filter whose successor is fetched."""

from pathlib import Path

from pages import DOCS, examples, run_python

NIGHTS = """
import os

def build(night):
    with mmbloom.BloomFilter.create(f"{night}", 10_000, 1e-6) as built:
        built.update(["always"])
    mmbloom.copy(f"{night}", "sealed.bloom", seal=True)
    fsspec.filesystem("memory").put("sealed.bloom", "/filters/seen.bloom")
    os.unlink("sealed.bloom")
    return fetched("memory://filters/seen.bloom", "copies")

first = build("monday")
with mmbloom.BloomFilter.open(first, mode="r") as seen:
    second = build("tuesday")
    print(first == second, "always" in seen)
    print("always" in seen, seen.contains_many(["always"]).all())
    os.unlink(first)
    try:
        seen.contains_many(["always"])
    except mmbloom.FileChangedError as error:
        print("removed" in str(error))
with mmbloom.BloomFilter.open(second, mode="r") as seen:
    print("always" in seen, fetched("memory://filters/seen.bloom", "copies") == second)
print(len(os.listdir("copies")))
"""


def test_an_open_filter_keeps_its_file(tmp_path: Path) -> None:
    """The next build has a file of its own; a filter whose file is removed says so."""
    (page,) = examples(DOCS / "object-stores.md")
    code, _, _ = page.code.partition("# Each host")
    code = code.replace(
        'fsspec.filesystem("memory").put("sealed.bloom", "/filters/seen.bloom")', ""
    )
    (tmp_path / "copies").mkdir()
    printed = run_python(code + NIGHTS, tmp_path).splitlines()
    assert printed == ["False True", "True True", "True", "True True", "1"]
