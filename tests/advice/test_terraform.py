"""Terraform takes the diff: what stands once it is applied is a valid configuration."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import HOSTILE, ROOT, ebb, needs_program, report


def _applied(diff: str) -> str:
    """The lines that a diff leaves, without their marks."""
    kept = [line for line in diff.splitlines() if not line.startswith("-")]
    return "\n".join(line if line.startswith("#") else line[1:] for line in kept)


@needs_program
@unittest.skipUnless(shutil.which("terraform"), "terraform is not here (scripts/setup test gets it)")
class Terraform(unittest.TestCase):
    def _terraform(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / "scripts" / "terraform"), f"-chdir={folder}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)

    def test_what_the_diff_leaves_is_valid(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path, _ = report(folder, {"fastqc": HOSTILE})
            required = (ROOT / "terraform" / "versions.tf").read_text()
            (folder / "versions.tf").write_text(required)
            for form in ("terraform", "terraform-asg"):
                text = ebb("tune", "--report", str(path), "--format", form)
                self.assertIn("SIMULATED", text)
                self.assertTrue({"-", "+", " "} <= {line[:1] for line in text.splitlines()})
                (folder / f"{form}.tf").write_text(_applied(text))
            ready = self._terraform(folder, "init", "-backend=false", "-input=false", "-no-color")
            self.assertEqual(ready.returncode, 0, ready.stdout + ready.stderr)
            said = json.loads(self._terraform(folder, "validate", "-json").stdout)
            self.assertTrue(said["valid"], said["diagnostics"])


if __name__ == "__main__":
    unittest.main()
