"""The script that installs the probe on a node, run below a folder with stand-ins for `aws`, `curl`
and `systemctl`.
"""

import hashlib
import io
import os
import platform
import subprocess
import tarfile
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from install_script import rendered
from simulators import HERE

_INFRA = HERE.parent.parent / "infra"
_FILES = ("install", "ebb-probe.service", "ebb-probe-update.service", "ebb-probe-update.timer")
_MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}
_QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/ebb-heartbeats"


def _archive(machine: int) -> bytes:
    """An archive as of scripts/package-probe, with the head of an ELF file as the probe."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        files = {name: (_INFRA / name).read_bytes() for name in _FILES}
        files["ebb-probe"] = b"\x7fELF".ljust(18, b"\0") + bytes([machine, 0]).ljust(46, b"\0")
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class InstallScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bin").mkdir()
        (self.folder / "root").mkdir()
        self.program("systemctl", "exit 0")

    def program(self, name: str, script: str) -> None:
        """A stand-in for a program of the node."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_script(
        self, archive: bytes, sha256: str | None = None, path: str = ":/usr/bin:/bin", queue_url: str = _QUEUE
    ) -> subprocess.CompletedProcess[str]:
        """Runs the script for a package with this checksum."""
        (self.folder / "archive").write_bytes(archive)
        package = {"bucket": "ebb-b", "key": "config/ebb-probe.tar.gz", "queue_url": queue_url, "region": "us-east-1"}
        package["sha256"] = sha256 or hashlib.sha256(archive).hexdigest()
        environment = {
            "PATH": f"{self.folder / 'bin'}{path}",
            "DESTDIR": str(self.folder / "root"),
            "EBB_WAITS": "0",
            "ARCHIVE": str(self.folder / "archive"),
            "CALLS": str(self.folder / "calls"),
        }
        script = self.folder / "install.sh"
        script.write_text(rendered(package))
        return subprocess.run(["/bin/sh", str(script)], capture_output=True, text=True, timeout=180, env=environment)

    def installed(self) -> Path:
        """Where the probe would be."""
        return self.folder / "root/usr/local/bin/ebb-probe"

    def calls(self) -> str:
        """What the stand-ins were asked for."""
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""

    def test_it_installs_once(self):
        self.program("aws", 'echo "$*" >>"$CALLS"; cp "$ARCHIVE" probe.tar.gz')
        archive = _archive(_MACHINES[platform.machine()])
        first = self.run_script(archive)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertTrue(self.installed().exists())
        self.assertIn(_QUEUE, (self.folder / "root/etc/ebb/probe.toml").read_text())
        self.assertEqual(self.calls(), "s3 cp --region us-east-1 s3://ebb-b/config/ebb-probe.tar.gz probe.tar.gz\n")
        second = self.run_script(archive)
        self.assertEqual((second.returncode, second.stdout), (0, "the probe is current\n"))
        self.assertEqual(self.calls().count("\n"), 1)

    def test_other_queues_are_written_into_the_configuration_and_the_rest_of_it_stays(self):
        self.program("aws", 'cp "$ARCHIVE" probe.tar.gz')
        archive = _archive(_MACHINES[platform.machine()])
        self.assertEqual(self.run_script(archive).returncode, 0)
        config = self.folder / "root/etc/ebb/probe.toml"
        table = '[update]\nmanifest = "file:///srv/m"\n'
        config.write_text(f'place="file:///srv/old"\n{config.read_text()}interval_seconds = 30\n{table}')
        shards = f"{_QUEUE}-1,{_QUEUE}-2"
        self.assertEqual(self.run_script(archive, queue_url=shards).returncode, 0)
        text = config.read_text()
        self.assertTrue(text.startswith(f'queue_url = "{shards}"\nbucket = "ebb-b"\nregion = "us-east-1"\n'), text)
        self.assertTrue(text.endswith(f"interval_seconds = 30\n{table}"), text)
        self.assertNotIn("place", text)
        self.assertEqual(self.run_script(archive, queue_url=shards).stdout, "the probe is current\n")

    def test_a_probe_that_does_not_run_is_installed_again(self):
        self.program("aws", 'echo "$*" >>"$CALLS"; cp "$ARCHIVE" probe.tar.gz')
        self.program("systemctl", '[ "$1" != is-active ]')
        archive = _archive(_MACHINES[platform.machine()])
        for count in (1, 2):
            self.assertEqual(self.run_script(archive).returncode, 0)
            self.assertEqual(self.calls().count("\n"), count)

    def test_another_archive_is_refused(self):
        self.program("aws", 'cp "$ARCHIVE" probe.tar.gz')
        ended = self.run_script(_archive(_MACHINES[platform.machine()]), sha256="0" * 64)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("FAILED", ended.stdout)
        self.assertFalse(self.installed().exists())

    def test_no_download_is_an_error(self):
        self.program("aws", "exit 1")
        ended = self.run_script(b"")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("failed to download the probe from s3://ebb-b/config/ebb-probe.tar.gz", ended.stderr)
        self.assertFalse(self.installed().exists())

    def test_two_runs_at_the_same_time_install_once(self):
        self.program("aws", 'echo "$*" >>"$CALLS"; sleep 1; cp "$ARCHIVE" probe.tar.gz')
        archive = _archive(_MACHINES[platform.machine()])
        with ThreadPoolExecutor() as pool:
            ended = list(pool.map(lambda _: self.run_script(archive), range(2)))
        self.assertEqual([one.returncode for one in ended], [0, 0], [one.stderr for one in ended])
        self.assertEqual(sum(one.stdout == "the probe is current\n" for one in ended), 1)
        self.assertEqual(self.calls().count("\n"), 1)
        self.assertEqual([path.name for path in self.installed().parent.iterdir()], ["ebb-probe"])

    def test_a_probe_for_another_processor_is_refused(self):
        self.program("aws", 'cp "$ARCHIVE" probe.tar.gz')
        [other] = set(_MACHINES.values()) - {_MACHINES[platform.machine()]}
        ended = self.run_script(_archive(other))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("for another processor", ended.stderr)
        self.assertFalse(self.installed().exists())

    def without_cli(self, version: str) -> None:
        """A PATH without `aws`, whatever this machine has, and with a stand-in for this version of curl."""
        self.program(
            "curl",
            'echo "$*" >>"$CALLS"\n'
            'case "$*" in\n'
            f"  --version) echo 'curl {version} (x86_64-pc-linux-gnu) libcurl/{version}' ;;\n"
            "  *--config*) cat >>\"$CALLS\"; cp \"$ARCHIVE\" probe.tar.gz ;;\n"
            "  *api/token*) echo TOKEN ;;\n"
            "  *security-credentials/) echo role ;;\n"
            "  *security-credentials/role) printf '%s\\n' '{' '  \"AccessKeyId\" : \"AKID\",' '  \"SecretAccessKey\" : \"SECRET\",' '  \"Token\" : \"SESSION\"' '}' ;;\n"
            "esac",
        )
        for name in ("cat", "cp", "dirname", "env", "flock", "gzip", "id", "install", "mkdir", "mktemp", "mv", "od", "rm", "sed",
                     "sh", "sha256sum", "sleep", "tar", "tr", "uname"):
            (self.folder / "bin" / name).symlink_to(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)))

    def test_without_the_cli_an_old_curl_is_refused(self):
        self.without_cli("7.81.0")
        ended = self.run_script(_archive(_MACHINES[platform.machine()]), path="")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("neither the AWS CLI nor curl 7.88 or newer", ended.stderr)
        self.assertEqual(self.calls(), "--version\n")

    def test_without_the_cli_curl_signs_and_no_process_list_shows_the_key(self):
        self.without_cli("8.5.0")
        archive = _archive(_MACHINES[platform.machine()])
        ended = self.run_script(archive, path="")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn('url = "https://s3.us-east-1.amazonaws.com/ebb-b/config/ebb-probe.tar.gz"', self.calls())
        self.assertTrue(self.installed().exists())
        self.assertIn('user = "AKID:SECRET"', self.calls())
        self.assertIn('header = "x-amz-security-token: SESSION"', self.calls())
        arguments = [line for line in self.calls().splitlines() if line.startswith("-")]
        self.assertFalse([line for line in arguments if "SECRET" in line or "SESSION" in line])


if __name__ == "__main__":
    unittest.main()
