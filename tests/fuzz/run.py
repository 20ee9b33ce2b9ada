"""Fuzzes the targets, each in a process of its own, and says what came of it.

python tests/fuzz/run.py [--seconds N] [--keep] [TARGET ...]

Needs the extra `fuzz`. Begins with what is under `corpus`; an input that fails is put under
`crashes`, where the tests find it too, until the code is right and ever after.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The longest inputs: what longer ones could show, shorter ones show sooner.
TARGETS = {"header": 600, "file": 8192, "lines": 96, "guava": 1024}
# An input is a bug if it takes longer than 10 s, or 1 GiB at once. The limit of the process is
# far above: the instrumentation alone grows by 5 KB an execution, without it nothing does.
LIMITS = ("-timeout=10", "-malloc_limit_mb=1024", "-rss_limit_mb=8192", "-use_value_profile=1")


def harness(
    target: str, work: Path, *arguments: str | Path, seeds: Path | None = None
) -> tuple[int, str]:
    """Run libFuzzer on a target, its files within `work`; gives its exit code and what it said."""
    environment = {
        **os.environ,
        # The reference engine is Python, so it has coverage; `lines` calls both engines.
        "MMBLOOM_ENGINE": "numpy",
        "FUZZ_TARGET": target,
        "FUZZ_SEEDS": str(seeds or ""),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
        "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE.parent / 'helpers'}",
        "PYTHONSAFEPATH": "1",
        "TMPDIR": str(work),
    }
    done = subprocess.run(
        [HERE / "harness.py", *LIMITS, f"-max_len={TARGETS[target]}", *arguments],
        env=environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def fuzz(target: str, seconds: int, work: Path, *, keep: bool) -> bool:
    """Fuzz one target; True if nothing is wrong with it."""
    corpus, crashes = HERE / "corpus" / target, HERE / "crashes" / target
    found, seeds = work / "found", work / "seeds"
    for folder in (corpus, crashes, found, seeds):
        folder.mkdir(parents=True, exist_ok=True)
    before, started = set(crashes.iterdir()), time.monotonic()
    code, said = harness(
        target,
        work,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        *(found, corpus, seeds),
        seeds=seeds,
    )
    new = sorted(set(crashes.iterdir()) - before)
    runs = re.findall(r"^(?:#|stat::number_of_executed_units: )(\d+)", said, re.MULTILINE)
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", said)
    edges, features, inputs = covered[-1] if covered else ("0", "0", "0")
    print(
        f"{target}: {runs[-1] if runs else 0} executions, {edges} edges, {features} features, "
        f"{inputs} inputs, {len(new)} crashes, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    if code:
        print(said[:2000], said[-6000:], sep="\n...\n")
        for file in new:
            print(f"{target}: failed with {os.path.relpath(file)}")
        return False
    if keep:
        minimise(target, work, corpus, [corpus, seeds, found])
    return True


def minimise(target: str, work: Path, corpus: Path, sources: list[Path]) -> None:
    """Put the fewest and shortest inputs that cover the same into the corpus."""
    fewest = work / "fewest"
    fewest.mkdir()
    # By what is reached only, not how often and with what: that keeps hundreds of inputs.
    plain = ("-use_value_profile=0", "-use_counters=0")
    code, said = harness(target, work, "-merge=1", *plain, fewest, *sources)
    if code:
        raise SystemExit(said[-6000:])
    shutil.rmtree(corpus)
    shutil.copytree(fewest, corpus)
    kept = [file.stat().st_size for file in corpus.iterdir()]
    print(f"{target}: kept {len(kept)} inputs of {sum(kept)} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--keep", action="store_true", help="minimise what is found into corpus")
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    fine = True
    # In memory where that can be: `file` writes several files for each input.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    for target in args.targets or TARGETS:
        with tempfile.TemporaryDirectory(dir=memory) as work:
            fine &= fuzz(target, args.seconds, Path(work), keep=args.keep)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
