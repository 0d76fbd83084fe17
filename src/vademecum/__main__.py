"""`vade`, and `python -m vademecum`."""

import gc
import sys


def tune() -> None:
    """Set up the interpreter for this program; benchmarks that run inside theirs do it too.

    Indexing makes many small objects and no cycles among them. Python looks for cycles after every 700 new ones, which
    took 7 % of the CPU of indexing a large vault; after every 10,000 it takes under 1 %, and no more memory.
    """
    gc.set_threshold(10_000)


def main() -> int:
    """Run the command line and return its exit status."""
    try:
        from vademecum.cli.main import run

        tune()
        return run(sys.argv[1:])
    except KeyboardInterrupt:  # before the command line could catch it, or when it had ended
        if sys.stderr is not None:
            sys.stderr.write("Interrupted.\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
