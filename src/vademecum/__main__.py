"""`vade`, and `python -m vademecum`."""

import sys


def main() -> int:
    """Run the command line and return its exit status."""
    from vademecum.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
