"""Plays all programs and compares their calls with their policies, in both directions. Exit status 1: a call
is not allowed, or a right is never used.

`python check_rights.py PROGRAMS [CALLS]` takes the folder of the built programs, and a folder with recordings of
other tests, of which each call must be allowed.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rights
from programs_played import play


def main() -> int:
    """Plays, reads, compares, and prints what is wrong."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as path, ThreadPoolExecutor(1) as pool:
        # Terraform plans while the programs run.
        planned = pool.submit(rights.policies)
        folder, calls = Path(path, "work"), Path(path, "calls")
        folder.mkdir()
        node, reason = play(Path(sys.argv[1]).resolve(), folder, calls)
        made = rights.read(calls)
        rules, rules_of_shards = planned.result()
    others = rights.read(Path(sys.argv[2])) if len(sys.argv) == 3 else []
    skipped = set()
    if node is None:
        print(f"skipped the rights that the probe uses: {reason}")
        skipped.add("ebb-node")
    # Simulated nodes have the role of the real one, and prove nothing about the probe.
    own = [one for one in made if one.program != "ebb-node" or one.session == node]
    wrong = rights.refused(rules, made) + rights.refused(rules_of_shards, others)
    wrong += rights.unused(rules, own, rights.exceptions(), skipped)
    for line in wrong:
        print(f"check-rights: {line}", file=sys.stderr)
    print(
        f"check-rights: {len(made)} calls of {len({one.program for one in made})} programs, and {len(others)} of other "
        f"tests; {len(set(rules.rights()))} rights; {time.monotonic() - begun:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
