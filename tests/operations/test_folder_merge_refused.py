"""merge of what cannot be united: every difference is named, and nothing is made."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chains import files_of, manifest_of
from checks import check_folder, check_pickles
from unions import check_merged, make_growing, make_rotating

from mmbloom import IncompatibleFiltersError, merge
from mmbloom.sizing import FilterParams, plan
from mmbloom.sizing.params import KeyHash

DAY = 86_400

OTHERS: dict[str, Any] = {
    "initial_capacity": 21,
    "error_rate": 0.02,
    "layout": "standard",
    "seed": 6,
    "hash": "murmur3",
}
ANY_LAYOUTS: dict[str, Any] = {"error_rate": 1e-6}  # that of the helper is too low for "standard"
OTHER_TIMES: dict[str, Any] = {
    "keep_seconds": 8 * DAY,
    "every_seconds": DAY // 2,
    "capacity_per_period": 1001,
    **{name: OTHERS[name] for name in ("error_rate", "layout", "seed", "hash")},
}


def spelled(settings: dict[str, Any], name: str) -> str:
    """A setting of a manifest as errors have it: the key of SipHash as its fingerprint only."""
    if name == "seed" and settings.get("hash") == "siphash":
        seed = int.from_bytes(bytes.fromhex(settings["seed"]), "little")
        return KeyHash("siphash", seed).spelled_seed
    return str(settings.get("hash", "murmur3") if name == "hash" else settings[name])


def check_refused(
    folder: Path, sources: list[Path], *differences: tuple[str, object, object]
) -> None:
    """Check that the last of the sources is refused for what differs, and nothing made."""
    before = os.listdir(folder)
    with pytest.raises(IncompatibleFiltersError) as caught:
        merge(folder / "out", sources)
    assert (caught.value.path, caught.value.other) == (str(sources[0]), str(sources[-1]))
    assert caught.value.differences == tuple((n, str(a), str(b)) for n, a, b in differences)
    check_pickles(caught.value)
    check_folder(folder, *before)


@pytest.mark.parametrize("names", [*([name] for name in OTHERS), [*OTHERS]], ids="-".join)
def test_growing_of_other_settings(tmp_path: Path, names: list[str]) -> None:
    """Every setting that differs is named with both values, and nothing is made."""
    one, two = (make_growing(tmp_path / name, range(30), **ANY_LAYOUTS) for name in ("one", "two"))
    options = ANY_LAYOUTS | {name: OTHERS[name] for name in names}
    other = make_growing(tmp_path / "other", **options)
    here, there = (manifest_of(folder)["settings"] for folder in (one, other))
    said = [(name, spelled(here, name), spelled(there, name)) for name in names]
    check_refused(tmp_path, [one, two, other], *said)


@pytest.mark.parametrize("name", OTHER_TIMES)
def test_rotating_of_other_settings(tmp_path: Path, name: str) -> None:
    """The same of the settings of a rotating filter."""
    one = make_rotating(tmp_path / "one", {0: ["a"]}, **ANY_LAYOUTS)
    options = ANY_LAYOUTS | {name.removesuffix("_seconds"): OTHER_TIMES[name]}
    other = make_rotating(tmp_path / "other", {0: ["b"]}, **options)
    here, there = (manifest_of(folder)["settings"] for folder in (one, other))
    check_refused(tmp_path, [one, other], (name, spelled(here, name), spelled(there, name)))


def test_other_kinds(tmp_path: Path) -> None:
    """A growing and a rotating filter differ in their kind; a file is no folder."""
    one, two = make_growing(tmp_path / "one"), make_rotating(tmp_path / "two", {0: ["a"]})
    check_refused(tmp_path, [one, one, two], ("kind", "growing", "rotating"))
    check_refused(tmp_path, [two, one], ("kind", "rotating", "growing"))
    file = files_of(one)[0]
    for sources in ([file, one], [one, file]):
        with pytest.raises(IncompatibleFiltersError) as caught:
            merge(tmp_path / "out", sources)
        assert (caught.value.path, caught.value.other) == (str(one), str(file))
        assert caught.value.differences == (("kind", "a folder", "a file"),)
    check_folder(tmp_path, "one", "two")


def test_how_the_disk_was_reserved_is_no_matter(tmp_path: Path) -> None:
    """It says nothing of the bits: the result goes on as the first source would."""
    one = make_growing(tmp_path / "one", range(5), reserve="fallocate")
    two = make_growing(tmp_path / "two", range(9))
    merge(tmp_path / "out", [one, two])
    check_merged(tmp_path / "out", one, two)
    assert manifest_of(tmp_path / "out")["settings"]["reserve"] == "fallocate"


def test_bits_that_another_version_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal settings, and yet other bits: the files that cannot be united are named."""
    one = make_growing(tmp_path / "one", range(30))
    with monkeypatch.context() as patch:
        patch.setattr("mmbloom.format.folder.plan", wider)
        two = make_growing(tmp_path / "two", range(30))
    with pytest.raises(IncompatibleFiltersError, match="num_bits") as caught:
        merge(tmp_path / "out", [one, two])
    assert (caught.value.path, caught.value.other) == (str(files_of(one)[0]), str(files_of(two)[0]))
    check_folder(tmp_path, "one", "two")
    merge(tmp_path / "out", [two])
    check_merged(tmp_path / "out", two)


def wider(capacity: int, error_rate: float, **options: Any) -> FilterParams:
    """A plan of a block more than need be."""
    params = plan(capacity, error_rate, **options)
    return replace(params, num_bits=params.num_bits + 512)
