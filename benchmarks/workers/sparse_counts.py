"""How many colours the peers need, printed as JSON: `sparse_counts.py '[["asdex"], ["brusselator 32"]]'`."""

import json
import sys

import sparse_problems as problems
from sparse_peers import COLOR, count


def main() -> None:
    peers, labels = json.loads(sys.argv[1])
    found: dict[str, dict[str, int]] = {}
    for peer in peers:
        found[peer] = {}
        for label in labels:
            problem, size = label.split()
            symmetric = problem in problems.SYMMETRIC
            if symmetric and peer == "scipy":
                continue  # no symmetric colouring
            task = "star" if symmetric else "column"
            found[peer][label] = count(peer, COLOR[peer](problems.PATTERNS[problem](int(size)), task)())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
