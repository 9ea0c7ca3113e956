"""The world is a function of its seed and holds what the demo promises."""

import unittest
from collections import Counter

from catalogue import GPU_TYPES, TYPES
from world import IDLE_NODE, OVERPROVISIONED_STEP, STUCK_BATCH_JOB, World, generate

SEEDS = range(200)
GIB = 1024**3


class WorldTest(unittest.TestCase):
    def each(self, waste: bool = True):
        for seed in SEEDS:
            with self.subTest(seed=seed, waste=waste):
                yield generate(seed, waste)

    def test_the_same_seed_gives_the_same_world(self):
        self.assertEqual(repr(generate(5)), repr(generate(5)))
        self.assertNotEqual(repr(generate(5)), repr(generate(6)))

    def test_there_are_44_to_60_instances_in_three_regions(self):
        for world in self.each():
            self.assertIn(len(world.nodes), range(44, 61))
            self.assertEqual(len({n.region for n in world.nodes}), 3)
            self.assertEqual(len({n.key for n in world.nodes}), len(world.nodes))
            members = Counter(n.member for n in world.nodes)
            self.assertIn(members["asg"], range(3, 6))
            self.assertIn(members["batch"] + members["probe"], range(4, 8))
            self.assertTrue(all(n.type_name in TYPES and n.owner and n.project for n in world.nodes))
            self.assertEqual({n.lifecycle for n in world.nodes}, {"spot", "on-demand"})

    def test_every_kind_of_waste_is_planted_and_one_idle_node_is_in_the_group(self):
        for world in self.each():
            kinds = Counter((p.kind, p.variant) for p in world.planted)
            self.assertGreaterEqual(kinds[IDLE_NODE, None], 2)
            self.assertGreaterEqual(kinds[STUCK_BATCH_JOB, "no_progress"], 2)
            self.assertGreaterEqual(kinds[STUCK_BATCH_JOB, "runnable_blocked"], 1)
            self.assertEqual(kinds[STUCK_BATCH_JOB, "agent_disconnected"], 1)
            self.assertGreaterEqual(kinds[OVERPROVISIONED_STEP, None], 2)
            idle = {p.resource for p in world.planted if p.kind == IDLE_NODE}
            self.assertEqual([n.member for n in world.nodes if n.key in idle].count("asg"), 1)

    def test_which_and_how_much_varies_with_the_seed(self):
        planted = [frozenset(p.resource for p in generate(s).planted) for s in SEEDS]
        self.assertGreater(len(set(planted)), len(planted) // 2)
        self.assertGreater(len({len(p) for p in planted}), 3)

    def test_quiet_nodes_are_planted_exempt_or_not_to_be_judged(self):
        for world in self.each():
            idle = {p.resource for p in world.planted if p.kind == IDLE_NODE}
            for node in world.nodes:
                if node.profile == "quiet" and node.state == "running":
                    self.assertEqual(node.key in idle, not node.standby and node.type_name not in GPU_TYPES)
                else:
                    self.assertNotIn(node.key, idle)
        for waste in (True, False):
            for world in self.each(waste):
                self.assertTrue(any(n.profile == "gappy" for n in world.nodes))
                self.assertTrue(any(n.profile == "quiet" and n.type_name in GPU_TYPES for n in world.nodes))
                self.assertTrue(any(n.profile == "quiet" and n.standby for n in world.nodes))

    def test_every_batch_worker_runs_a_job_that_works(self):
        for waste in (True, False):
            for world in self.each(waste):
                at_work = {j.worker for j in world.jobs if j.status == "RUNNING" and j.step and j.step.cpu_cores > 0.5}
                self.assertLessEqual({n.key for n in world.nodes if n.member == "batch"}, at_work)

    def test_what_is_asked_of_a_worker_fits_on_it(self):
        for world in self.each():
            for node in world.nodes:
                running = [j for j in world.jobs if j.worker == node.key and j.status == "RUNNING"]
                self.assertLessEqual(sum(j.vcpus for j in running), TYPES[node.type_name].vcpus)
                self.assertLessEqual(sum(j.memory_bytes for j in running), TYPES[node.type_name].memory_bytes)

    def test_no_job_is_older_than_its_worker(self):
        for world in self.each():
            ages = {n.key: n.age_s for n in world.nodes}
            for job in world.jobs:
                if job.worker is not None:
                    self.assertLess(job.started_age_s, ages[job.worker])

    def test_only_planted_steps_ask_for_far_more_than_they_use(self):
        for world in self.each():
            planted = {p.resource for p in world.planted if p.kind == OVERPROVISIONED_STEP}
            stuck = {p.resource for p in world.planted if p.variant == "no_progress"}
            for job in world.jobs:
                if job.step is None or job.name in stuck:
                    continue
                wide = job.step.cpu_cores < job.vcpus / 2 and job.step.memory_bytes < job.memory_bytes / 2
                self.assertEqual(wide, job.name in planted, job)

    def test_jobs_are_in_every_state_and_have_their_own_names(self):
        states = {"SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED"}
        for world in self.each():
            self.assertEqual({j.status for j in world.jobs}, states)
            self.assertEqual(len({j.name for j in world.jobs}), len(world.jobs))
            self.assertTrue(all(len(j.task_id) == 32 for j in world.jobs if j.task_id))

    def test_a_world_without_waste_has_none(self):
        for world in self.each(waste=False):
            self.assertEqual(world.planted, [])
            self.assertTrue(all(n.agent_connected for n in world.nodes))
            self.assertFalse([j for j in world.jobs if (j.status_reason or "").startswith("MISCONFIGURATION")])
            self.assertEqual(_probe_jobs(world), {"demo-cpu", "demo-disk", "demo-short"})

    def test_the_probe_node_runs_the_five_steps_of_the_demo(self):
        for world in self.each():
            names = {"demo-cpu", "demo-disk", "demo-short", "demo-overasked", "demo-silent"}
            self.assertEqual(_probe_jobs(world), names)


def _probe_jobs(world: World) -> set[str]:
    probe = next(n.key for n in world.nodes if n.member == "probe")
    return {j.name for j in world.jobs if j.worker == probe}


if __name__ == "__main__":
    unittest.main()
