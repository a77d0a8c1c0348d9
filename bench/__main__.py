"""``python -m bench [name…]``: run the benches of those names, or all of them, and print their figures."""

import pkgutil
import sys
from importlib import import_module

import bench
from bench import Figure


def main(asked: list[str]) -> int:
    """Print a table for each bench. Return 0, or 2 for a name that is no bench's; a goal that is missed only shows."""
    known = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name != "__main__")
    unknown = [name for name in asked if name not in known]
    if unknown:
        print(f"no bench `{'`, `'.join(unknown)}`; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in asked or known:
        module = import_module(f"bench.{name}")
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        print_table(module.main())
    return 0


def print_table(figures: list[Figure]) -> None:
    """Print figures in columns: what, its value, the goal, and whether it was reached."""
    rows = [(f.what, f.value, f.goal, {True: "met", False: "MISSED", None: ""}[f.met]) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for what, value, goal, met in rows:
        print(f"  {what:<{widths[0]}}  {value:>{widths[1]}}  {goal:<{widths[2]}}  {met}".rstrip())
    print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
