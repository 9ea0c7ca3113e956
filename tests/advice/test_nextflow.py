"""The configuration for Nextflow is Groovy, and holds what Nextflow's reference names.

Nextflow itself comes from its own site only, so this is read by a parser of Groovy
3's grammar: `process` directives and the selector `withName` after Nextflow's
reference, pages "Configuration" and "Process directives".
"""

import re
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groovy_parser.parser import parse_and_digest_groovy_content
from lark.exceptions import LarkError

from program import HOSTILE, ebb, needs_program, report

Node = dict[str, Any]
_STRATEGIES = {"terminate", "finish", "ignore", "retry"}
_RETRY = ("errorStrategy", "maxRetries")


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("children", ()):
        yield from _walk(child)


def _leaves(node: Node) -> list[str]:
    return [one["value"] for one in _walk(node) if "leaf" in one]


def _selectors(tree: Node) -> dict[str, dict[str, list[str]]]:
    """Directives by selector, each as the leaves of what it is set to."""
    found: dict[str, dict[str, list[str]]] = {}
    for node in _walk(tree):
        children = node.get("children", ())
        if len(children) == 3 and _leaves(children[0]) == ["withName"] and children[1].get("leaf") == "COLON":
            text = next(one["value"] for one in _walk(children[2]) if one.get("leaf") == "STRING_LITERAL")
            sets = (one["children"] for one in _walk(children[2]) if len(one.get("children", ())) == 3)
            found[text] = {
                _leaves(name)[0]: _leaves(value) for name, is_set, value in sets if is_set.get("leaf") == "ASSIGN"
            }
    return found


def _parse(text: str) -> Node:
    tree: Node = parse_and_digest_groovy_content(text)
    return tree


@needs_program
class Nextflow(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        names = {"variant-call": "NFCORE_RNASEQ:STAR_ALIGN", "fastqc": HOSTILE}
        path, self.steps = report(Path(folder.name), names)
        self.tune = ("tune", "--report", str(path), "--format", "nextflow")
        self.text = ebb(*self.tune)

    def test_it_is_one_process_scope_of_selectors(self):
        tree = _parse(self.text)
        self.assertEqual(_leaves(tree)[0], "process")
        changed = {s["step"]: s for s in self.steps if s["asks"] != s["should_ask"]}
        selectors = _selectors(tree)
        self.assertEqual(len(selectors), len(changed))
        for pattern, directives in selectors.items():
            self.assertLessEqual(set(directives), {"cpus", "memory", "time"})
            plain = _unescaped(pattern)
            [name] = [name for name in changed if re.fullmatch(plain, name)]
            self._check(directives, changed[name])

    def _check(self, directives: dict[str, list[str]], step: dict[str, Any]) -> None:
        self.assertEqual(directives["cpus"], [str(-(-step["should_ask"]["cores"] // 1000))])
        sizes = [step["should_ask"]["memory"], *step["risk"]["attempts"]]
        memory = "".join(directives["memory"])
        written = ",".join(f"{-(-size // 2**20)}.MB" for size in sizes)
        self.assertEqual(memory, f"{{[{written}].get(Math.min(task.attempt,{len(sizes)})-1)}}")

    def test_the_retry_policy_is_the_pipelines_own_unless_asked(self):
        without = _selectors(_parse(self.text))
        replaced = _selectors(_parse(ebb(*self.tune, "--with-retry")))
        self.assertEqual(set(without), set(replaced))
        for name, directives in replaced.items():
            rest = {key: value for key, value in directives.items() if key not in _RETRY}
            self.assertEqual(rest, without[name])
            sizes = re.search(r"task.attempt,(\d+)", "".join(directives["memory"]))
            self.assertEqual(directives["maxRetries"], [str(int(sizes[1]) - 1)])
            strategy = "".join(directives["errorStrategy"])
            self.assertIn("task.exitStatusin((130..145)+[104,175])?", strategy)
            named = re.findall(r"[?:]'?(\w+)", strategy)
            self.assertTrue(named and set(named) <= _STRATEGIES, strategy)

    def test_names_of_slurm_jobs_match_the_processes_that_they_are_of(self):
        columns = "JobID|JobName|State|ExitCode|Elapsed|TotalCPU|MaxRSS|ReqMem|AllocCPUS|NTasks|NNodes|Submit|Start|End|Timelimit"
        lines = [columns]
        for number in range(30):
            job, day = 100 + number, number % 28 + 1
            times = f"2026-03-{day:02}T08:00:00|2026-03-{day:02}T08:00:10|2026-03-{day:02}T08:30:10"
            name = f"nf-NFCORE_RNASEQ_RNASEQ_STAR_ALIGN_(S{number})"
            lines.append(f"{job}|{name}|COMPLETED|0:0|00:30:00|00:50:00||64G|16||1|{times}|2-00:00:00")
            held = f"{4_000_000 + 1_000 * number}K"
            lines.append(f"{job}.batch|batch|COMPLETED|0:0|00:30:00|00:50:00|{held}||16|1|1|{times}|")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            text = ebb("import", file.name, "--format", "nextflow")
        [(pattern, directives)] = _selectors(_parse(text)).items()
        selector = re.compile(_unescaped(pattern))
        self.assertTrue(selector.fullmatch("NFCORE_RNASEQ:RNASEQ:STAR_ALIGN"), pattern)
        self.assertTrue(selector.fullmatch("NFCORE_RNASEQ_RNASEQ_STAR_ALIGN"), pattern)
        self.assertFalse(selector.fullmatch("NFCORE_RNASEQ:RNASEQ:STAR_ALIGN_IGENOMES"), pattern)
        self.assertIn("names of Slurm jobs", text)
        lower = r"task\.attempt==1\?\d+\.m:\d+\.m\*\(task\.attempt-1\)"
        self.assertRegex("".join(directives["time"]), rf"^\{{({lower}|\d+\.m\*task\.attempt)\}}$")

    def test_lines_that_hand_names_over_are_settings_of_the_executor(self):
        directives = {"awsbatch": "resourceLabels", "slurm": "clusterOptions"}
        for executor in ("local", "slurm", "awsbatch", "k8s", "google-batch"):
            with self.subTest(executor=executor):
                text = ebb("init", "--engine", "nextflow", "--executor", executor)
                leaves = _leaves(_parse(text))
                known = {"resourceLabels", "clusterOptions", "containerOptions", "beforeScript"}
                self.assertEqual([one for one in leaves if one in known], [*filter(None, [directives.get(executor)])])
                trace = leaves[leaves.index("trace") :]
                self.assertEqual(trace[:8], ["trace", "{", "enabled", "=", "true", "raw", "=", "true"])
                fields = trace[trace.index("fields") + 2].split(",")
                self.assertEqual(len(fields), len(set(fields)))
                self.assertLessEqual({"hash", "native_id", "process", "tag", "name", "attempt"}, set(fields))

    def test_the_parser_refuses_what_is_no_groovy(self):
        text = "process {\n    withName: 'a' {\n        cpus = 1\n    }\n}\n"
        self.assertEqual(_selectors(_parse(text)), {"a": {"cpus": ["1"]}})
        for was, broken in (("cpus = ", "cpus = = "), ("'a'", "a'"), ("    }\n}", "    }\n")):
            with self.assertRaises(LarkError):
                _parse(text.replace(was, broken, 1))


def _unescaped(literal: str) -> str:
    """What Groovy makes of a string in single quotes."""
    return re.sub(r"\\(.)", r"\1", literal)


if __name__ == "__main__":
    unittest.main()
