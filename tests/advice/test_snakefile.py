"""The program that `ebb import --snakefile` runs lists the requests of a run, with each
Snakemake that is installed here."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import ROOT

_LISTER = (ROOT / "crates/workflows/src/import/snakefile.py").read_text()
_CACHE = Path(os.environ.get("EBB_CACHE") or Path.home() / ".cache" / "ebb")
_PYTHONS = [sys.executable, *map(str, _CACHE.glob("venv-snakemake7/bin/python"))]

_RULES = """
rule a:
    output: "a"
    threads: 64
    resources: mem_mb=64000, runtime=360
    shell: "true"
rule b:
    output: "b"
    threads: 2
    shell: "true"
"""


class Lister(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _run(self, python: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-c", _LISTER, "workflow/Snakefile", "60", *options]
        environment = {name: value for name, value in os.environ.items() if name != "SNAKEMAKE_PROFILE"}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=90
        )

    def _check(self, expect: dict[str, tuple[object, ...]], *options: str, note: str = "") -> None:
        """The threads, megabytes, megabytes per core and minutes of rules."""
        for python in _PYTHONS:
            with self.subTest(python):
                ran = self._run(python, *options)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                listing = json.loads(ran.stdout)
                columns = ("threads", "mem_mb", "mem_mb_per_cpu", "runtime_minutes")
                rules = {rule["name"]: tuple(rule[column] for column in columns) for rule in listing["rules"]}
                self.assertEqual({name: rules[name] for name in expect}, expect)
                self.assertIn(note, "\n".join(listing["notes"]))

    def test_a_profile_changes_the_requests(self):
        self._write("workflow/Snakefile", _RULES)
        as_written = {"a": (64, 64000, None, 360), "b": (2, None, None, None)}
        self._check(as_written)
        profile = "set-threads:\n  a: 8\nset-resources:\n  a:\n    mem_mb: 32000\n    runtime: 2h\n"
        self._write("workflow/profiles/default/config.yaml", profile + "default-resources:\n  - mem_mb=3000\n")
        both = {"a": (8, 32000, None, 120), "b": (2, 3000, None, None)}
        self._check(both, note="workflow/profiles/default/config.yaml")
        self._check(as_written, "--workflow-profile=none")
        # A section of the workflow profile replaces that of another profile.
        self._write("other/config.yaml", "set-threads:\n  b: 1\ndefault-resources:\n  mem_mb_per_cpu: 500\n")
        self._check(both, "--profile=other")
        per_core = {"a": (64, 64000, 500, 360), "b": (1, None, 500, None)}
        self._check(per_core, "--profile=other", "--workflow-profile=none", note="other/config.yaml")

    def test_an_expression_or_a_template_is_unknown(self):
        self._write("workflow/Snakefile", _RULES)
        self._write("p/config.yaml", 'set-threads:\n  - a=input.size\nset-resources:\n  - "a:mem_mb=1000 * attempt"\n')
        self._check({"a": (None, None, None, 360), "b": (2, None, None, None)}, "--profile=p")
        # The form of Ebb's own profiles.
        self._write("p/config.yaml", 'set-resources:\n  a:\n    mem_mb: "[5000, 8000][min(attempt, 2) - 1]"\n')
        self._check({"a": (64, 5000, None, 360)}, "--profile=p")
        self._write("p/config.yaml", "__use_yte__: true\n?if True:\n  set-threads:\n    a: 4\n")
        self._check({"a": (None,) * 4, "b": (None,) * 4}, "--profile=p", note="template")

    def test_a_function_counts_if_it_needs_no_job(self):
        functions = {
            "lambda wildcards, attempt: 16000 * attempt": 16000,
            "lambda wc: 500": 500,
            "lambda wildcards, attempt: 1000 if wildcards.s else 2": None,
            "lambda wildcards, attempt: 10 * len(wildcards)": None,
            "swallows": None,
            "lambda wildcards, input, attempt: 1000": None,
            "lambda wildcards, attempt: sys.exit(0)": None,
            "lambda wildcards, attempt: None": None,
            "lambda attempt: 1000 * attempt": None,
        }
        head = "import sys\ndef swallows(wildcards):\n    try: return wildcards.n\n    except: return 5\n"
        rule = 'rule {}:\n    output: "{}"\n    resources: {}\n    shell: "true"\n'
        rules = [rule.format(f"r{n}", n, f"mem_mb={text}") for n, text in enumerate(functions)]
        expect = {f"r{n}": (1, mb, None, None) for n, mb in enumerate(functions.values())}
        sizes = {"mem='16GB'": 16000, "mem_gb=16": 16000, "mem=lambda w, attempt: f'{attempt}GB'": 1000}
        rules += [rule.format(f"s{n}", f"s{n}", text) for n, text in enumerate(sizes)]
        expect |= {f"s{n}": (1, mb, None, None) for n, mb in enumerate(sizes.values())}
        rules.append(rule.format("t", "t", "runtime=lambda wildcards, attempt: 30 * attempt"))
        expect["t"] = (1, None, None, 30)
        self._write("workflow/Snakefile", head + "".join(rules))
        self._check(expect)

    def test_a_size_replaces_the_megabytes_of_a_default(self):
        rule = 'rule {0}:\n    output: "{0}"\n    resources: {1}\n    shell: "true"\n'
        self._write("workflow/Snakefile", rule.format("a", "mem='16GB'") + rule.format("b", "mem_mb=16000"))
        self._write("p/config.yaml", "default-resources:\n  - mem_mb=1000\nset-resources:\n  b:\n    mem: 32GB\n")
        self._check({"a": (1, 16000, None, None), "b": (1, 32000, None, None)}, "--profile=p")
        for python in _PYTHONS:
            listing = json.loads(self._run(python, "--profile=p").stdout)
            is_old = listing["snakemake"] < "9"
            self.assertEqual(any("write mem_mb" in note for note in listing["notes"]), is_old, listing)

    def test_the_file_of_a_profile_depends_on_the_release(self):
        self._write("workflow/Snakefile", _RULES)
        for name, threads in (("config.yaml", 3), ("config.v8+.yaml", 4), ("config.v99+.yaml", 5)):
            self._write(f"p/{name}", f"set-threads:\n  a: {threads}\n")
        for python in _PYTHONS:
            listing = json.loads(self._run(python, "--profile=p").stdout)
            expect = 3 if listing["snakemake"].startswith("7.") else 4
            self.assertEqual(listing["rules"][0]["threads"], expect, python)

    def test_a_configuration_is_given_or_named(self):
        self._write("workflow/Snakefile", 'rule a:\n    output: "a"\n    threads: config["n"]\n    shell: "true"\n')
        self._write("my.yaml", "n: 7\n")
        self._write("p/config.yaml", "configfile: my.yaml\n")
        self._check({"a": (7, None, None, None)}, "--configfile=my.yaml")
        self._check({"a": (7, None, None, None)}, "--profile=p")
        for python in _PYTHONS:
            refused = self._run(python)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn("--configfile", refused.stderr)


if __name__ == "__main__":
    unittest.main()
