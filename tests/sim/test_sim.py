"""moto with its additions answers as the AWS API reference says.

boto3's models are the contract: every call goes through them.
"""

import json
import time
import unittest
import urllib.error
import urllib.request
from datetime import date, datetime, timedelta, timezone
from typing import Any

from botocore.exceptions import ClientError
from botocore.parsers import RpcV2CBORParser
from botocore.serialize import RpcV2CBORSerializer

from filled import filled


def instances() -> dict[str, dict[str, Any]]:
    """Every instance of the account by its id."""
    found = {}
    for region in filled().world["regions"]:
        for page in filled().client("ec2", region).get_paginator("describe_instances").paginate():
            found |= {i["InstanceId"]: i for r in page["Reservations"] for i in r["Instances"]}
    return found


def signed(region: str) -> str:
    """As much of a signature as the simulator reads."""
    return f"AWS4-HMAC-SHA256 Credential=test/20260101/{region}/monitoring/aws4_request, Signature=0"


class Fleet(unittest.TestCase):
    def test_instances_have_ages_types_tags_and_markets(self):
        found = instances()
        self.assertGreaterEqual(len(found), 44)
        for node in filled().world["nodes"]:
            instance = found[node["instance_id"]]
            age = (filled().at - instance["LaunchTime"]).total_seconds()
            self.assertAlmostEqual(age, node["age_seconds"], delta=90)
            self.assertEqual(instance["InstanceType"], node["instance_type"])
            tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
            self.assertLessEqual({"Name", "Owner", "Project"}, set(tags))
            self.assertEqual(tags["Name"], node["name"])
        self.assertTrue(any(i.get("InstanceLifecycle") == "spot" for i in found.values()))
        self.assertEqual({i["State"]["Name"] for i in found.values()}, {"running", "stopped"})

    def test_one_idle_node_belongs_to_the_autoscaling_group(self):
        groups = []
        for region in filled().world["regions"]:
            groups += filled().client("autoscaling", region).describe_auto_scaling_groups()["AutoScalingGroups"]
        members = {i["InstanceId"] for g in groups for i in g["Instances"]}
        self.assertEqual(len(groups), 1)
        self.assertEqual(len(members & set(filled().resources("idle_node"))), 1)

    def test_volumes_and_addresses_are_attached_or_alone(self):
        states, idle = set(), set()
        for region in filled().world["regions"]:
            states |= {v["State"] for v in filled().client("ec2", region).describe_volumes()["Volumes"]}
            idle |= {"AssociationId" in a for a in filled().client("ec2", region).describe_addresses()["Addresses"]}
        self.assertEqual(states, {"available", "in-use"})
        self.assertEqual(idle, {True, False})

    def test_spot_prices_are_below_list_and_recent(self):
        history = filled().client("ec2").describe_spot_price_history(InstanceTypes=["m5.large"])["SpotPriceHistory"]
        self.assertGreaterEqual(len({p["AvailabilityZone"] for p in history}), 2)
        for price in history:
            self.assertTrue(0.01 < float(price["SpotPrice"]) < 0.096)
            self.assertLess(datetime.now(timezone.utc) - price["Timestamp"], timedelta(days=1))

    def test_metrics_answer_for_a_node_without_a_probe(self):
        node = next(n for n in filled().world["nodes"] if n["profile"] == "silent")
        now = datetime.now(timezone.utc)
        query = {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization"}
        query["Dimensions"] = [{"Name": "InstanceId", "Value": node["instance_id"]}]
        for statistic in ("Average", "Maximum", "Sum"):
            stat = {"Metric": query, "Period": 300, "Stat": statistic}
            answer = filled().client("cloudwatch", node["region"]).get_metric_data(
                MetricDataQueries=[{"Id": "cpu", "MetricStat": stat}], StartTime=now - timedelta(hours=2), EndTime=now
            )
            values = answer["MetricDataResults"][0]["Values"]
            self.assertGreater(len(values), 10)
            self.assertTrue(all(value > 20 for value in values))

    def test_metrics_answer_in_the_protocol_of_newer_sdks(self):
        node = next(n for n in filled().world["nodes"] if n["profile"] == "silent")
        watch = filled().client("cloudwatch", node["region"])
        operation = watch.meta.service_model.operation_model("GetMetricData")
        dimensions = [{"Name": "InstanceId", "Value": node["instance_id"]}]
        metric = {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization", "Dimensions": dimensions}
        now = datetime.now(timezone.utc)
        asked = {
            "MetricDataQueries": [{"Id": "cpu", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Maximum"}}],
            "StartTime": now - timedelta(hours=2),
            "EndTime": now,
        }
        sent = RpcV2CBORSerializer().serialize_to_request(asked, operation)
        headers = dict(sent["headers"]) | {"Authorization": signed(node["region"])}
        url = filled().sim.moto_url + sent["url_path"]
        with urllib.request.urlopen(urllib.request.Request(url, bytes(sent["body"]), headers), timeout=20) as answer:
            told = {"status_code": 200, "headers": answer.headers, "body": answer.read()}
        (result,) = RpcV2CBORParser().parse(told, operation.output_shape)["MetricDataResults"]
        self.assertEqual(len(result["Timestamps"]), len(result["Values"]))
        self.assertGreater(len(result["Values"]), 10)
        self.assertTrue(all(value > 20 for value in result["Values"]))

    def test_every_instance_but_the_probes_is_labelled_simulated(self):
        for id, instance in instances().items():
            tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
            label = None if id == filled().world["probe_node"] else "true"
            self.assertEqual(tags.get("ebb:simulated"), label, id)


class Batch(unittest.TestCase):
    def setUp(self):
        self.batch = filled().client("batch", filled().world["batch"]["region"])
        self.ecs = filled().client("ecs", filled().world["batch"]["region"])
        self.cluster = filled().world["batch"]["cluster_arn"]

    def jobs(self, status: str) -> list[dict[str, Any]]:
        listed = self.batch.list_jobs(jobQueue=filled().world["batch"]["queue"], jobStatus=status)["jobSummaryList"]
        return self.batch.describe_jobs(jobs=[j["jobId"] for j in listed])["jobs"] if listed else []

    def workers(self) -> list[dict[str, Any]]:
        arns = self.ecs.list_container_instances(cluster=self.cluster)["containerInstanceArns"]
        answer = self.ecs.describe_container_instances(cluster=self.cluster, containerInstances=arns)
        return answer["containerInstances"]

    def test_jobs_stay_in_every_state(self):
        for status in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED"):
            for _ in range(3):
                self.assertTrue(self.jobs(status), status)

    def test_every_job_but_the_probes_is_labelled_simulated(self):
        probe = next(n for n in filled().world["nodes"] if n["instance_id"] == filled().world["probe_node"])
        measured = {s["job_id"] for s in probe["steps"]}
        self.assertGreaterEqual(len(measured), 5)
        for status in ("RUNNABLE", "RUNNING", "SUCCEEDED"):
            for job in self.jobs(status):
                label = None if job["jobId"] in measured else "true"
                self.assertEqual(job["tags"].get("ebb:simulated"), label, job["jobName"])

    def test_a_running_job_names_its_worker_and_its_task(self):
        tasks = self.ecs.list_tasks(cluster=self.cluster)["taskArns"]
        described = self.ecs.describe_tasks(cluster=self.cluster, tasks=tasks)["tasks"]
        by_arn = {t["taskArn"]: t for t in described}
        by_worker = {w["containerInstanceArn"]: w["ec2InstanceId"] for w in self.workers()}
        steps = {s["step_id"]: n["instance_id"] for n in filled().world["nodes"] for s in n["steps"]}
        running = self.jobs("RUNNING")
        self.assertEqual(len(running), len(steps))
        for job in running:
            container = job["container"]
            task = by_arn[container["taskArn"]]
            self.assertEqual(task["containerInstanceArn"], container["containerInstanceArn"])
            self.assertEqual(task["lastStatus"], "RUNNING")
            node = by_worker[container["containerInstanceArn"]]
            self.assertEqual(node, steps[container["taskArn"].rsplit("/", 1)[-1]])
            self.assertLess(job["createdAt"], job["startedAt"])
            self.assertNotIn("stoppedAt", job)
            asked = {r["type"]: int(r["value"]) for r in container["resourceRequirements"]}
            self.assertEqual((container["vcpus"], container["memory"]), (asked["VCPU"], asked["MEMORY"]))

    def test_a_finished_job_lists_its_attempt(self):
        for status, code in (("SUCCEEDED", 0), ("FAILED", 1)):
            for job in self.jobs(status):
                attempt = job["attempts"][0]
                self.assertEqual(attempt["container"]["exitCode"], code)
                self.assertEqual(attempt["container"]["taskArn"], job["container"]["taskArn"])
                self.assertLess(job["startedAt"], job["stoppedAt"])

    def test_a_blocked_job_says_why_and_a_fresh_one_does_not(self):
        blocked = filled().resources("stuck_batch_job", "runnable_blocked")
        for job in self.jobs("RUNNABLE"):
            reason = job.get("statusReason", "")
            self.assertEqual(reason.startswith("MISCONFIGURATION:"), job["jobId"] in blocked)
            if job["jobId"] not in blocked:
                self.assertLess(time.time() * 1000 - job["createdAt"], 10_000)

    def test_only_the_planted_worker_lost_its_agent(self):
        lost = [w["ec2InstanceId"] for w in self.workers() if not w["agentConnected"]]
        self.assertEqual(lost, filled().resources("stuck_batch_job", "agent_disconnected"))
        for worker in self.workers():
            self.assertGreaterEqual(worker["runningTasksCount"], 1)

    def test_a_queue_tells_who_stands_at_its_front(self):
        queue = filled().world["batch"]["queue"]
        front = self.batch.get_job_queue_snapshot(jobQueue=queue)["frontOfQueue"]["jobs"]
        waiting = {job["jobArn"] for job in self.jobs("RUNNABLE")}
        self.assertEqual({job["jobArn"] for job in front}, waiting)
        self.assertTrue(waiting)

    def test_the_queue_leads_to_the_cluster(self):
        queue = self.batch.describe_job_queues(jobQueues=[filled().world["batch"]["queue"]])["jobQueues"][0]
        environment = queue["computeEnvironmentOrder"][0]["computeEnvironment"]
        found = self.batch.describe_compute_environments(computeEnvironments=[environment])["computeEnvironments"][0]
        self.assertEqual(found["ecsClusterArn"], self.cluster)

    def test_an_unknown_state_is_refused(self):
        body = json.dumps({"region": "us-east-1", "jobs": [{"jobId": "none", "status": "RUNNING"}]}).encode()
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{filled().sim.moto_url}/moto-api/ebb/batch/jobs", body)
        self.assertEqual(refused.exception.code, 400)
        refused.exception.close()


class CostExplorer(unittest.TestCase):
    def ask(self, days: int, **more: Any) -> dict[str, Any]:
        today = datetime.now(timezone.utc).date()
        service = {"Dimensions": {"Key": "SERVICE", "Values": ["Amazon Elastic Compute Cloud - Compute"]}}
        request: dict[str, Any] = {
            "TimePeriod": {"Start": (today - timedelta(days=days)).isoformat(), "End": today.isoformat()},
            "Granularity": "DAILY",
            "Filter": service,
            "Metrics": ["NetAmortizedCost"],
            "GroupBy": [{"Type": "DIMENSION", "Key": "RESOURCE_ID"}],
        }
        return filled().client("ce").get_cost_and_usage_with_resources(**request | more)

    def test_each_day_lists_resources_with_decimal_amounts(self):
        days = self.ask(14)["ResultsByTime"]
        self.assertEqual(len(days), 14)
        ids = {*instances(), "NoResourceId"}
        for day in days:
            start = date.fromisoformat(day["TimePeriod"]["Start"])
            self.assertEqual(day["Estimated"], start >= datetime.now(timezone.utc).date() - timedelta(days=1))
            for group in day["Groups"]:
                self.assertIn(group["Keys"][0], ids)
                amount = group["Metrics"]["NetAmortizedCost"]
                self.assertGreater(float(amount["Amount"]), 0)
                self.assertEqual(amount["Unit"], "USD")
        self.assertGreater(len(days[-1]["Groups"]), 20)

    def test_pages_add_up_to_the_total(self):
        grouped, token = [], None
        while True:
            page = self.ask(14, **({"NextPageToken": token} if token else {}))
            grouped += [g for day in page["ResultsByTime"] for g in day["Groups"]]
            token = page.get("NextPageToken")
            if token is None:
                break
        total = self.ask(14, GroupBy=[])["ResultsByTime"]
        sums = [sum(float(g["Metrics"]["NetAmortizedCost"]["Amount"]) for g in grouped)]
        sums += [sum(float(d["Total"]["NetAmortizedCost"]["Amount"]) for d in total)]
        self.assertAlmostEqual(sums[0], sums[1], places=4)

    def test_services_and_tags_each_add_up_to_the_day(self):
        today = datetime.now(timezone.utc).date()
        asked = {
            "TimePeriod": {"Start": (today - timedelta(days=5)).isoformat(), "End": today.isoformat()},
            "Granularity": "DAILY",
            "Metrics": ["NetAmortizedCost"],
        }
        ce = filled().client("ce")
        whole = ce.get_cost_and_usage(**asked)["ResultsByTime"]
        for by in ({"Type": "DIMENSION", "Key": "SERVICE"}, {"Type": "TAG", "Key": "Project"}):
            parts = ce.get_cost_and_usage(**asked, GroupBy=[by])["ResultsByTime"]
            for day, part in zip(whole, parts, strict=True):
                amounts = [float(group["Metrics"]["NetAmortizedCost"]["Amount"]) for group in part["Groups"]]
                self.assertAlmostEqual(sum(amounts), float(day["Total"]["NetAmortizedCost"]["Amount"]), places=4)
                self.assertGreater(len(amounts), 1)

    def test_what_it_cannot_serve_is_refused(self):
        for days, more in ((15, {}), (14, {"Granularity": "MONTHLY"}), (14, {"Metrics": ["Nonsense"]})):
            with self.assertRaises(ClientError) as refused:
                self.ask(days, **more)
            self.assertEqual(refused.exception.response["Error"]["Code"], "ValidationException")


if __name__ == "__main__":
    unittest.main()
