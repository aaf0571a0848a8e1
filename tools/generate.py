"""Print made-up agent sessions, one `{"type": …, "data": …}` a line, the same for the same seed.

Example: `python tools/generate.py --seed 1 --events 1000 > out.jsonl`

The generator itself is `durasess.cli.workload`: an installed `durasess drill` needs it too.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from durasess.cli.workload import generate_events


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the lines to standard output; a reader that stops early (`| head`) is no error."""
    options = _parser().parse_args(arguments)
    try:
        for type_, data in generate_events(options.seed, count=options.events):
            line = json.dumps({"type": type_, "data": data}, ensure_ascii=False)
            sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Print made-up agent sessions as JSON lines, the same for the same seed.",
        epilog="example: python tools/generate.py --seed 1 --events 1000 > out.jsonl",
    )
    parser.add_argument("--seed", type=int, default=1, help="number to start from (default: 1)")
    parser.add_argument("--events", type=_count, help="how many (default: without end)")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, found {count}")
    return count


if __name__ == "__main__":
    sys.exit(main())
