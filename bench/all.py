"""Run the benches one after another and write what they measure into bench/results/, then the table of docs/results.md.

    python bench/all.py [--only captions-scores meteor] [--threads 2]

About ten minutes on a calm machine, to which its numbers belong; the load of the machine stands beside each of them.
`matching.py --large` is left out: its plain loop alone takes minutes. A bench whose packages or program (Java,
transformers) are missing is named and left out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import results

HERE = results.RESULTS.parent
THREADED = "captioner", "self-critical", "matching", "peers"
BENCHES = {  # name of the file of results -> words of the command
    "captions-scores": ["captions.py", "scores"],
    "captions-reward": ["captions.py", "reward"],
    "meteor": ["meteor.py", "--rounds", "2"],
    "captioner": ["captioner.py", "--rounds", "3"],
    "self-critical": ["self_critical.py", "--rounds", "3"],
    "matching": ["matching.py"],
    "load": ["load.py", "--repeats", "2"],
    "growth": ["growth.py", "--doublings", "3"],
    "peers": ["peers.py", "--rounds", "2"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHES, default=list(BENCHES), metavar="BENCH")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default 2)")
    args = parser.parse_args()
    failed = []
    for name in args.only:
        script, *words = BENCHES[name]
        words += ["--threads", str(args.threads)] if name in THREADED else []
        start = time.perf_counter()
        print(f"\n== {name}", flush=True)
        results.RESULTS.mkdir(exist_ok=True)
        command = [sys.executable, str(HERE / script), *words, "--json", str(results.RESULTS / f"{name}.json")]
        if subprocess.run(command).returncode:
            failed.append(name)
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    results.main()
    if failed:
        print(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
