"""The built `ebb`, and reports of its demo account with other names of steps."""

import json
import os
import subprocess
import unittest
from pathlib import Path
from typing import Any

PROGRAM = os.environ.get("EBB_PROGRAM", "")
ROOT = Path(__file__).resolve().parents[2]

needs_program = unittest.skipUnless(PROGRAM and Path(PROGRAM).exists(), "EBB_PROGRAM names no built `ebb`")

# A name of a step that anyone may choose, to break out of a string.
HOSTILE = "x'}\"; ${rm} #{y}\n\\ \x1b[31m\u202e<\u00e9>*.\\Q"


def ebb(*arguments: str) -> str:
    """What the program writes; fails where it fails."""
    ran = subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, timeout=60)
    return ran.stdout.decode()


def report(folder: Path, names: dict[str, str]) -> tuple[Path, list[dict[str, Any]]]:
    """A report of the demo account with its steps renamed, and those steps."""
    path = folder / "report.json"
    ebb("scan", "--demo", "--output", str(path))
    value = json.loads(path.read_text())
    for step in value["steps"]:
        step["step"] = names.get(step["step"], step["step"])
    path.write_text(json.dumps(value))
    return path, value["steps"]
