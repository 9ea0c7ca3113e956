"""The script of the RPM package of the probe, with a systemctl that only writes down its calls."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = (ROOT / "infra/packages/rpm/post-install").read_text()


class PostInstall(unittest.TestCase):
    def calls(self, count: str) -> list[str]:
        """The calls of systemctl; `count` is the number of installed versions, which RPM hands over."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "run/systemd/system").mkdir(parents=True)
            script = SCRIPT.replace("/etc/", f"{place}/etc/").replace("/run/", f"{place}/run/")
            systemctl = place / "systemctl"
            systemctl.write_text(f'#!/bin/sh\necho "$@" >>{place}/calls\n')
            systemctl.chmod(0o755)
            variables = {"PATH": f"{place}:{os.environ['PATH']}"}
            # RPM has its scripts run by sh, with the number as an argument.
            command = ["sh", "-c", script, "post-install", count]
            subprocess.run(command, env=variables, check=True, capture_output=True, timeout=60)
            return (place / "calls").read_text().splitlines()

    def test_a_first_installation_enables_the_probe_and_starts_it(self):
        expect = ["daemon-reload", "enable ebb-probe.service", "restart ebb-probe.service"]
        self.assertEqual(self.calls("1"), expect)

    def test_an_upgrade_restarts_the_probe_only_if_it_runs(self):
        self.assertEqual(self.calls("2"), ["daemon-reload", "try-restart ebb-probe.service"])


if __name__ == "__main__":
    unittest.main()
