"""Damaged model files: how many are converted, how many refused with a clear error, and that nothing else happens.

    python benchmarks/fuzz.py --count 2000 --seed 1 [--kind onnx|om] [--target NAME] [--jobs 1] [--keep DIR] [--json]
    python benchmarks/fuzz.py --seed 1 --only 1234 --keep DIR      # make one case again

Exit code 1 when a case ends in a traceback, a hang (over 10 s), a crash or runs out of memory; each is listed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> int:
    from tests.fuzz import pool
    from tests.fuzz.seeds import seeds
    from tests.fuzz.targets import DEFAULT, TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=sorted(DEFAULT), default="onnx")
    parser.add_argument("--target", choices=sorted(TARGETS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, help="run just this case number")
    parser.add_argument("--keep", type=Path, help="folder for the files of failing cases")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()

    with seeds(given.kind) as files:
        start, count = (given.only, 1) if given.only is not None else (0, given.count)
        todo = pool.cases(files, given.kind, count, given.seed, start)
        outcome = pool.run(todo, given.target or DEFAULT[given.kind], given.jobs, progress=sys.stderr.isatty())
        for failure in outcome.failures:
            print(f"--- case {failure['case']} ({Path(failure['file']).name}): {failure['what']}\n{failure['detail']}")
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            numbers = {f["case"] for f in outcome.failures} | ({given.only} if given.only is not None else set())
            for case in todo:
                if case.number in numbers:
                    (given.keep / f"{given.seed}-{case.number}.{given.kind}").write_bytes(pool.damaged(case)[0])
    if given.json:
        print(pool.as_json(outcome))
    else:
        for word, number in outcome.counts.most_common():
            print(f"{word:12s} {number:6d}")
        print(f"{'failures':12s} {len(outcome.failures):6d}   slowest case {outcome.slowest_s:.2f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
