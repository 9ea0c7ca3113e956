"""infra/install.sh with a release that is a folder or a server on loopback: what it verifies, and that a
refused release changes nothing. The program is a script; the installer only copies it and asks for its version."""

import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import loopback  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = "#!/bin/sh\necho ebb 9.8.7\n"
# All programs that infra/install.sh runs for `ebb`.
USED = set("""aws base64 cat chmod cp curl cut grep gzip head id minisign mkdir mktemp mv openssl rm sed sha256sum tail tar
uname wget""".split())


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
        self.write_sums()
        text = (ROOT / "infra/install.sh").read_text()
        if key:
            public = folder / "key.pub"
            subprocess.run(["minisign", "-GWf", "-s", key, "-p", public], check=True, capture_output=True)
            sign(key, folder)
            text = text.replace("public_key=''", f"public_key='{public.read_text().splitlines()[-1]}'", 1)
        self.installer = folder / "install.sh"
        self.installer.write_text(text)

    def write_sums(self) -> None:
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in self.folder.glob("*.tar.gz")]
        (self.folder / "SHA256SUMS").write_text("".join(sums))

    def add_probe(self) -> None:
        """The archive of the probe, as `make release` packs it, with a script as the program."""
        program = self.folder / "program"
        program.write_text("#!/bin/sh\necho ebb-probe 9.8.7\n")
        archive = self.folder / f"ebb-probe-9.8.7-linux-{platform.machine()}.tar.gz"
        subprocess.run([ROOT / "scripts/package-probe", program, archive], check=True, capture_output=True)
        program.unlink()
        self.write_sums()


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

    def run_installer(self, release: Release, *words: str, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs it as `curl … | sh` does, with the options before the word `probe`. Only `variables` name a proxy."""
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"PATH": path or os.environ["PATH"]} | variables
        environment.pop("EBB_RELEASE", None)
        command = ["/bin/sh", "-s", "--", "--to", str(self.to), *words]
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
        url = self.server(loopback.files(release.folder)) + "/"
        self.assert_installed(self.run_installer(release, "--from", url))
        shutil.rmtree(self.to)
        self.assert_refused(self.run_installer(release, "--from", f"{url}absent"), "failed to fetch SHA256SUMS")
        if shutil.which("wget"):
            self.assert_installed(self.run_installer(release, "--from", url, path=self.path_without("curl")))

    def test_a_redirect_to_http_is_refused(self):
        release = self.release()
        plain = self.server(loopback.files(release.folder))

        class Redirect(loopback.FilesHandler):
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
        return self.until_end(loopback.serve(handler))

    def until_end(self, server) -> str:
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return loopback.url(server)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_a_release_by_https_comes_through_the_proxy(self):
        release = self.release()
        secure, proxy = loopback.proxied(release.folder, self.place)
        self.until_end(secure)
        proxy = self.until_end(proxy)
        wgetrc = self.place / "wgetrc"
        wgetrc.write_text(f"ca_certificate = {self.place}/ca.pem\n")
        trust = {"CURL_CA_BUNDLE": f"{self.place}/ca.pem", "WGETRC": str(wgetrc)}
        paths = [self.path_without("wget")] + [self.path_without("curl")] * bool(shutil.which("wget"))
        words = ("--from", f"https://{loopback.NAME}")
        for path in paths:
            self.assert_refused(self.run_installer(release, *words, path=path, **trust), "failed to fetch SHA256SUMS")
            for name in ("https_proxy", "HTTPS_PROXY"):
                passed = self.place / "passed"
                passed.unlink(missing_ok=True)
                self.assert_installed(self.run_installer(release, *words, path=path, **trust, **{name: proxy}))
                # The checksums and the archive.
                self.assertEqual(passed.read_text(), f"CONNECT {loopback.NAME}:443\n" * 2, name)
                shutil.rmtree(self.to)
            for name in ("no_proxy", "NO_PROXY"):
                ran = self.run_installer(release, *words, path=path, **trust, HTTPS_PROXY=proxy, **{name: loopback.NAME})
                self.assert_refused(ran, "failed to fetch SHA256SUMS")

    def test_a_request_to_this_machine_passes_no_proxy(self):
        release = self.release()
        passed = self.place / "passed"
        proxy = self.server(loopback.proxy_of(0, passed))
        plain = self.server(loopback.files(release.folder))
        for path in ["", self.path_without("curl")] if shutil.which("wget") else [""]:
            ran = self.run_installer(release, "--from", plain, path=path, http_proxy=proxy, all_proxy=proxy)
            self.assert_installed(ran)
            shutil.rmtree(self.to)
        self.assertFalse(passed.exists())

    def test_a_bucket_is_read_by_the_aws_cli(self):
        release = self.release()
        # A stand-in, which knows one bucket.
        path = self.path_with(aws=f"""
            [ "$1 $2 $3 $#" = "s3 cp --only-show-errors 5" ] || exit 252
            case $4 in
              s3://bucket/ebb/*) cp "{release.folder}/${{4#s3://bucket/ebb/}}" "$5" ;;
              *) echo "NoSuchBucket" >&2; exit 1 ;;
            esac""")
        self.assert_installed(self.run_installer(release, "--from", "s3://bucket/ebb/", path=path))
        shutil.rmtree(self.to)
        self.assert_refused(self.run_installer(release, "--from", "s3://other/ebb", path=path), "NoSuchBucket")
        without = self.path_without("aws")
        self.assert_refused(self.run_installer(release, "--from", "s3://bucket/ebb", path=without), "the AWS CLI is not installed")

    def test_a_program_that_does_not_run_here_replaces_nothing(self):
        folder = self.place / "release"
        folder.mkdir()
        release = Release(folder, program=b"#!/bin/sh\nexit 1\n")
        self.to.mkdir()
        (self.to / "ebb").write_text("earlier")
        ran = self.run_installer(release, "--from", str(folder))
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertIn("does not run on this machine", ran.stderr)
        self.assertEqual([file.read_text() for file in self.to.iterdir()], ["earlier"])

    def test_the_probe_is_installed_also_on_a_kernel_that_is_too_old(self):
        release = self.release()
        release.add_probe()
        words = ("--from", str(release.folder), "probe", "--place", "file:///srv/ebb")

        def run(kernel: str, user: str = "0", path: str = "") -> subprocess.CompletedProcess[str]:
            # Stand-ins for the kernel, root and systemd. With DESTDIR, the script `install` starts nothing.
            root = self.place / "root"
            shutil.rmtree(root, ignore_errors=True)
            names = {"uname": f"""if [ "$1" = -r ]; then echo {kernel}; else exec {shutil.which("uname")} "$@"; fi""",
                     "id": f"echo {user}"}
            path = path or self.path_with(**names, systemctl="exit 1")
            return self.run_installer(release, *words, path=path, DESTDIR=str(root))

        why = "the probe will sample /proc, and miss short processes"
        for kernel in ("5.4.0-150-generic", "4.18.0-553.el8_10.x86_64", "3.10"):
            ran = run(kernel)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(f"Linux {kernel} is older than 5.10: {why}", ran.stdout)
            self.assertEqual((self.place / "root/etc/ebb/probe.toml").read_text().splitlines()[0], 'place = "file:///srv/ebb"')
            self.assertIn("9.8.7", (self.place / "root/usr/local/bin/ebb-probe").read_text())
        for kernel in ("5.10.0-30-amd64", "6.1.0-rc3", "10.0"):
            ran = run(kernel)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertNotIn("older", ran.stdout)
        self.assert_refused(run("6.1.0", user="1000"), "run this as root")
        self.assertFalse((self.place / "root").exists())

    def path_with(self, **programs: str) -> str:
        """The present PATH after a folder with these shell scripts."""
        folder = Path(tempfile.mkdtemp(dir=self.place))
        for name, script in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    def path_without(self, *programs: str) -> str:
        """A PATH with the programs that the installer uses, but without these."""
        folder = Path(tempfile.mkdtemp(dir=self.place))
        for name in USED - set(programs):
            if found := shutil.which(name):
                (folder / name).symlink_to(found)
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
