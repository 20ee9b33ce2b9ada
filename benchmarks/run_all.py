"""Run the benchmarks and write RESULTS.md: figures, ratios to reach, charts.

Each script runs in a process of its own and leaves its figures in figures/NAME.json;
RESULTS.md and charts/ are made from all figures that are there, so that with --only some can
be measured again. Every ratio compares figures of one run of one script. Charts need
matplotlib (pip install 'mmbloom[bench]').
"""

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _charts import draw_all
from _measure import QUICK
from _ratios import ratios

HERE = Path(__file__).parent
SCRIPTS = {
    "insert_query": "--keys 2000 --large 100000 --rounds 1",
    "single": "--keys 500 --rounds 1",
    "engines": "--keys 2000 --large 1000000 --rounds 1",
    "dedup_log": "--lines 2000 --rounds 1 --large-lines 10000 --large-rounds 1",
    "start_up": "--rounds 1",
    "durable": "--lines 2000 --rounds 1",
    "open_filter": "--capacity 100000 --rounds 3 --loads 1",
    "memory": "--capacity 100000 --workers 2 --keys 1000",
    "contention": "--capacity 1000000 --batch 100 --batches 2 --touch 1000 --calls 20 --rounds 1 "
    "--large 1000 --seconds 1",
    "threads": "--keys 4000 --rounds 1",
    "cores": "--capacity 1000000 --keys 4000 --batch 2000 --listed 1000 --touch 1000 --lines 1600 "
    "--rounds 1",
    "members": "--capacity 20000 --keys 1000 --rounds 1",
    "huge": "--capacity 100000 --keys 1000 --rounds 1",
    "counting": "--capacity 10000 --keys 1000 --rounds 1",
    "blocks": "--capacity 20000 --keys 1000 --rounds 1",
    "cliff": "--capacity 20000 --batch 200 --batches 2 --seconds 6",
    "features": "--capacity 5000000 --keys 500 --files 2",
    "cluster": "--rows 4000 --files 3 --absent 100 --rounds 1",
    "billion": "--keys 100000 --absent 10000 --batch 30000",
}
"""What there is to run, with the arguments that make it a matter of a second."""

_INTRODUCTION = """# Results

`benchmarks/run_all.py` writes this page. Each section states its question, its method and the
machine. Figures are medians, with minimum and maximum in brackets. Absolute figures vary between
machines and from day to day; ratios within one run vary less."""


def measure(name: str, kept: Path, *, quick: bool, folder: str | None) -> bool:
    """Run one script; say whether it came to its end."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(kept)]
    command += SCRIPTS[name].split() if quick else []
    command += ["--folder", folder] if folder else []
    print(f"## {name}\n", flush=True)
    environment = {**os.environ, **({QUICK: "1"} if quick else {})}
    code = subprocess.run(command, check=False, env=environment).returncode
    print(flush=True)
    if code:
        print(f"run_all: {name}.py failed with {code}", file=sys.stderr)
        return False
    report = json.loads(kept.read_text(encoding="utf-8"))
    kept.write_text(json.dumps({"quick": quick, **report}, indent=1) + "\n", encoding="utf-8")
    return True


def section(name: str, kept: dict[str, Any], charts: list[Path]) -> str:
    """Write a script's section."""
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    title, *said = (ast.get_docstring(ast.parse(source)) or name).split("\n\n")
    given = " ".join(f"--{argument} {value}" for argument, value in kept["arguments"].items())
    parts = [
        f"## {title.replace(chr(10), ' ')}",
        *said,
        f"`benchmarks/{name}.py {given}`, {kept['date']}: {kept['environment']}",
        *(f"![{path.stem}]({path.parent.name}/{path.name})" for path in charts),
        kept["markdown"],
    ]
    return "\n\n".join(parts)


def write(results: Path) -> None:
    """Make RESULTS.md and the charts from the figures that are there."""
    found = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in SCRIPTS
        if (path := results / "figures" / f"{name}.json").exists()
    }
    charts: dict[str, list[Path]] = {}
    try:
        for name, kept in found.items():
            charts[name] = draw_all(name, kept["figures"], kept["arguments"], results / "charts")
    except ImportError as error:
        print(f"run_all: no charts: {error}", file=sys.stderr)
    reached = ratios({name: kept["figures"] for name, kept in found.items()})
    quick = [name for name, kept in found.items() if kept["quick"]]
    warning = [f"**Run with --quick, their figures mean nothing: {', '.join(quick)}.**"]
    sections = [section(name, kept, charts.get(name, [])) for name, kept in found.items()]
    goals = f"## Goals\n\n{reached}"
    parts = [_INTRODUCTION, *(warning if quick else []), goals, *sections]
    (results / "RESULTS.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"## Goals\n\n{reached}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=SCRIPTS, help="run these, or none")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that all works")
    parser.add_argument("--results", type=Path, default=HERE, help="where RESULTS.md goes")
    parser.add_argument("--folder", help="where filters are made (default: temporary ones)")
    args = parser.parse_args()
    (args.results / "figures").mkdir(parents=True, exist_ok=True)
    names = SCRIPTS if args.only is None else args.only
    done = [
        measure(
            name,
            args.results / "figures" / f"{name}.json",
            quick=args.quick,
            folder=args.folder,
        )
        for name in names
    ]
    write(args.results)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
