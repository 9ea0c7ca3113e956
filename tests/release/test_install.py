"""infra/install.sh with a release that is a folder or a server on loopback: what it verifies, and that a
refused release changes nothing. The program is a script; the installer only copies it and asks for its version."""

import functools
import hashlib
import http.server
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = "#!/bin/sh\necho ebb 9.8.7\n"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Release:
    """A folder like dist/ of `make release`, with one archive of one program."""

    def __init__(self, folder: Path, key: Path | None = None, program: bytes = PROGRAM.encode()) -> None:
        self.folder = folder
        self.archive = folder / f"ebb-9.8.7-linux-{platform.machine()}.tar.gz"
        inside = folder / "inside/ebb-9.8.7"
        inside.mkdir(parents=True)
        (inside / "ebb").write_bytes(program)
        (inside / "ebb").chmod(0o755)
        with tarfile.open(self.archive, "w:gz") as archive:
            archive.add(inside, "ebb-9.8.7")
        shutil.rmtree(folder / "inside")
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        (folder / "SHA256SUMS").write_text(f"{digest}  {self.archive.name}\n")
        text = (ROOT / "infra/install.sh").read_text()
        if key:
            public = folder / "key.pub"
            subprocess.run(["minisign", "-GWf", "-s", key, "-p", public], check=True, capture_output=True)
            sign(key, folder)
            text = text.replace("public_key=''", f"public_key='{public.read_text().splitlines()[-1]}'", 1)
        self.installer = folder / "install.sh"
        self.installer.write_text(text)


def sign(key: Path, folder: Path) -> None:
    subprocess.run(["minisign", "-Sl", "-s", key, "-m", folder / "SHA256SUMS"], check=True, capture_output=True)


class Install(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.to = self.place / "bin"
        self.key = self.place / "secret.key"

    def release(self, key: Path | None = None) -> Release:
        folder = self.place / "release"
        folder.mkdir()
        return Release(folder, key)

    def run_installer(self, release: Release, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
        # As with `curl … | sh`: the script has no file name.
        environment = os.environ | ({"PATH": path} if path else {})
        environment.pop("EBB_RELEASE", None)
        command = ["/bin/sh", "-s", "--", *words, "--to", str(self.to)]
        with release.installer.open() as script:
            return subprocess.run(command, stdin=script, env=environment, capture_output=True, text=True, timeout=60)

    def assert_installed(self, ran: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("ebb 9.8.7", ran.stdout)
        self.assertEqual((self.to / "ebb").read_text(), PROGRAM)

    def assert_refused(self, ran: subprocess.CompletedProcess[str], why: str) -> None:
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        self.assertIn(why, ran.stderr)
        self.assertFalse(self.to.exists(), list(self.to.glob("*")) if self.to.exists() else "")

    def test_a_folder_is_installed_and_removed(self):
        release = self.release()
        ran = self.run_installer(release, "--from", str(release.folder))
        self.assert_installed(ran)
        self.assertIn("not signed", ran.stdout)
        removed = self.run_installer(release, "--uninstall")
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertEqual(list(self.to.iterdir()), [])

    def test_a_server_is_used_through_curl_or_wget(self):
        release = self.release()
        handler = functools.partial(QuietHandler, directory=str(release.folder))
        url = self.server(handler) + "/"
        self.assert_installed(self.run_installer(release, "--from", url))
        shutil.rmtree(self.to)
        self.assert_refused(self.run_installer(release, "--from", f"{url}absent"), "failed to fetch SHA256SUMS")
        if shutil.which("wget"):
            self.assert_installed(self.run_installer(release, "--from", url, path=self.path_without("curl")))

    def test_a_redirect_to_http_is_refused(self):
        release = self.release()
        handler = functools.partial(QuietHandler, directory=str(release.folder))
        plain = self.server(handler)

        class Redirect(QuietHandler):
            def do_GET(self):
                self.send_response(302)
                self.send_header("Location", plain + self.path)
                self.end_headers()

        moved = self.server(Redirect)
        self.assert_refused(self.run_installer(release, "--from", moved), "failed to fetch SHA256SUMS")
        if shutil.which("wget"):
            ran = self.run_installer(release, "--from", moved, path=self.path_without("curl"))
            self.assert_refused(ran, "redirects to http")

    def server(self, handler) -> str:
        """The URL of a server on loopback, until the end of the test."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def path_without(self, *programs: str) -> str:
        """A PATH with everything but these programs."""
        folder = self.place / "-".join(["without", *programs])
        folder.mkdir()
        for directory in reversed(os.environ["PATH"].split(":")):
            for program in Path(directory).glob("*") if Path(directory).is_dir() else []:
                link = folder / program.name
                if program.name not in programs and os.access(program, os.X_OK):
                    link.unlink(missing_ok=True)
                    link.symlink_to(program)
        return str(folder)

    def test_an_archive_with_another_content_is_refused(self):
        release = self.release()
        release.archive.write_bytes(release.archive.read_bytes() + b"x")
        ran = self.run_installer(release, "--from", str(release.folder))
        self.assert_refused(ran, "its checksum differs")

    def test_an_incomplete_script_does_nothing(self):
        release = self.release()
        whole = release.installer.read_text()
        release.installer.write_text(whole[: whole.rindex("main")])
        self.run_installer(release, "--from", str(release.folder))
        self.assertFalse(self.to.exists())

    def test_help_prints_the_usage_also_without_a_file(self):
        ran = self.run_installer(self.release(), "--help")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        for words in ("--from URL", "--uninstall", "EBB_RELEASE"):
            self.assertIn(words, ran.stdout)
        self.assertFalse(self.to.exists())

    def test_wrong_words_are_named(self):
        release = self.release()
        self.assert_refused(self.run_installer(release), "--from URL")
        others = ("ebb.example", "localhost.ebb.example", "127.0.0.1.ebb.example:80", "localhost:80@ebb.example", "localhost:")
        for other in others:
            self.assert_refused(self.run_installer(release, "--from", f"http://{other}/"), "http is not safe")
        self.assert_refused(self.run_installer(release, "--unknown"), "unknown arguments")
        name = release.archive.name.replace(platform.machine(), "riscv64")
        sums = release.folder / "SHA256SUMS"
        sums.write_text(sums.read_text().replace(release.archive.name, name))
        self.assert_refused(self.run_installer(release, "--from", str(release.folder)), "the release has no ebb for")

    @unittest.skipUnless(shutil.which("minisign"), "minisign is not installed (scripts/setup release)")
    def test_a_signature_is_verified_by_minisign_and_by_openssl(self):
        release = self.release(self.key)
        for path in ("", self.path_without("minisign")):
            ran = self.run_installer(release, "--from", str(release.folder), path=path)
            self.assert_installed(ran)
            self.assertIn("the signature is valid", ran.stdout)
            shutil.rmtree(self.to)
        none = self.path_without("minisign", "openssl")
        self.assert_refused(self.run_installer(release, "--from", str(release.folder), path=none), "install minisign")

    @unittest.skipUnless(shutil.which("minisign"), "minisign is not installed (scripts/setup release)")
    def test_other_checksums_another_key_and_no_signature_are_refused(self):
        release = self.release(self.key)
        openssl = self.path_without("minisign")
        sums, signature = release.folder / "SHA256SUMS", release.folder / "SHA256SUMS.minisig"
        good = sums.read_text()

        def refused(why: str) -> None:
            for path in ("", openssl):
                self.assert_refused(self.run_installer(release, "--from", str(release.folder), path=path), why)

        sums.write_text(good + "\n")
        refused("the signature of the release is not valid")
        sums.write_text(good)
        other = self.place / "other.key"
        subprocess.run(["minisign", "-GWf", "-s", other, "-p", self.place / "other.pub"], check=True, capture_output=True)
        sign(other, release.folder)
        refused("the signature of the release is not valid")
        signature.unlink()
        refused("failed to fetch SHA256SUMS.minisig")


if __name__ == "__main__":
    unittest.main()
