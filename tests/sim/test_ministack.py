"""MiniStack with its additions attests identities and runs functions; the seed fits both.

boto3's models are the contract, except where a reply has no model.
"""

import io
import json
import subprocess
import sys
import time
import unittest
import urllib.request
import zipfile

from botocore.exceptions import ClientError

from filled import filled, seed
from simulators import HERE


class Identity(unittest.TestCase):
    def setUp(self):
        self.nodes = [n for n in filled().world["nodes"] if n["credentials"]][:2]

    def test_sts_names_the_session_after_the_instance(self):
        for node in self.nodes:
            self.assertRegex(node["credentials"]["user_id"], rf"^AROA\w+:{node['instance_id']}$")
            caller = filled().client("sts", node=node).get_caller_identity()
            self.assertEqual(caller["UserId"], node["credentials"]["user_id"])

    def test_sqs_attests_who_sent_and_when(self):
        url = filled().client("sqs").create_queue(QueueName="attested")["QueueUrl"]
        one, two = self.nodes
        filled().client("sqs", node=one).send_message(QueueUrl=url, MessageBody="one")
        entries = [{"Id": "a", "MessageBody": "two"}]
        filled().client("sqs", node=two).send_message_batch(QueueUrl=url, Entries=entries)
        filled().client("sqs").send_message(QueueUrl=url, MessageBody="admin")
        for wanted in ({"MessageSystemAttributeNames": ["SenderId", "SentTimestamp"]}, {"AttributeNames": ["All"]}):
            sqs = filled().client("sqs")
            got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, **wanted)
            senders = {m["Body"]: m["Attributes"]["SenderId"] for m in got["Messages"]}
            self.assertEqual(senders["one"], one["credentials"]["user_id"])
            self.assertEqual(senders["two"], two["credentials"]["user_id"])
            self.assertEqual(senders["admin"], filled().world["account_id"])
            for message in got["Messages"]:
                self.assertAlmostEqual(int(message["Attributes"]["SentTimestamp"]) / 1000, time.time(), delta=5)

    def test_sqs_attests_over_the_query_protocol_too(self):
        filled().client("sqs").create_queue(QueueName="query")
        key = self.nodes[0]["credentials"]["access_key_id"]
        path = f"{filled().sim.ministack_url}/{filled().world['account_id']}/query"

        def call(action: str, access_key: str) -> str:
            scope = f"{access_key}/20260101/us-east-1/sqs/aws4_request"
            headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = f"Action={action}&Version=2012-11-05&MessageBody=m&AttributeName.1=SenderId".encode()
            with urllib.request.urlopen(urllib.request.Request(path, body, headers)) as answer:
                return answer.read().decode()

        call("SendMessage", key)
        self.assertIn(self.nodes[0]["credentials"]["user_id"], call("ReceiveMessage", "test"))

    def test_s3_lets_a_node_write_under_its_own_prefix_only(self):
        filled().client("s3").create_bucket(Bucket="ebb-ingest")
        one, two = self.nodes
        own, other = (f"ingest/v1/{n['credentials']['user_id']}/boot/start/1.steps.zst" for n in (one, two))
        bucket = filled().client("s3", node=one)
        bucket.put_object(Bucket="ebb-ingest", Key=own, Body=b"mine")
        for key in (other, "ingest/v1/", "ingest/v1/x/y"):
            with self.assertRaises(ClientError) as refused:
                bucket.put_object(Bucket="ebb-ingest", Key=key, Body=b"x" * 200_000)
            self.assertEqual(refused.exception.response["Error"]["Code"], "AccessDenied")
            self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 403)
        filled().client("s3").put_object(Bucket="ebb-ingest", Key=other, Body=b"an administrator may")
        self.assertEqual(filled().client("s3").get_object(Bucket="ebb-ingest", Key=own)["Body"].read(), b"mine")

    def test_credentials_are_renewed_for_another_role(self):
        copy = filled().out / "renewed.json"
        copy.write_text((filled().out / "world.json").read_text())
        role = f"arn:aws:iam::{filled().world['account_id']}:role/another"
        command = [sys.executable, str(HERE / "credentials.py"), "--world", str(copy), "--node-role", role]
        subprocess.run([*command, "--ministack", filled().sim.ministack_url], check=True, timeout=120)
        for before, after in zip(filled().world["nodes"], json.loads(copy.read_text())["nodes"], strict=True):
            self.assertNotEqual(before["credentials"] or 0, after["credentials"] or 1)


class Ministack(unittest.TestCase):
    """What the product leans on and the pinned MiniStack already does."""

    def test_conditional_puts_are_refused_when_the_object_moved(self):
        s3 = filled().client("s3")
        s3.create_bucket(Bucket="ebb-conditions")
        first = s3.put_object(Bucket="ebb-conditions", Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
        s3.put_object(Bucket="ebb-conditions", Key="k", Body=b"2", IfMatch=first)
        for condition in ({"IfNoneMatch": "*"}, {"IfMatch": first}):
            with self.assertRaises(ClientError) as refused:
                s3.put_object(Bucket="ebb-conditions", Key="k", Body=b"3", **condition)
            self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 412)

    def test_listing_pages_and_metadata_return(self):
        s3 = filled().client("s3")
        s3.create_bucket(Bucket="ebb-pages")
        for number in range(25):
            s3.put_object(Bucket="ebb-pages", Key=f"p/{number:02}", Body=b"", Metadata={"reason": f"r{number}"})
        lister = s3.get_paginator("list_objects_v2")
        pages = lister.paginate(Bucket="ebb-pages", Prefix="p/", PaginationConfig={"PageSize": 10})
        self.assertEqual([p["KeyCount"] for p in pages], [10, 10, 5])
        self.assertEqual(s3.head_object(Bucket="ebb-pages", Key="p/03")["Metadata"], {"reason": "r3"})

    def test_sent_email_can_be_read_back(self):
        ses = filled().client("sesv2")
        ses.create_email_identity(EmailIdentity="ebb@example.com")
        content = {"Simple": {"Subject": {"Data": "waste"}, "Body": {"Text": {"Data": "1 node"}}}}
        to = {"ToAddresses": ["team@example.com"]}
        sent = ses.send_email(FromEmailAddress="ebb@example.com", Destination=to, Content=content)
        with urllib.request.urlopen(f"{filled().sim.ministack_url}/_ministack/ses/messages") as answer:
            mails = json.load(answer)["messages"][filled().world["account_id"]]
        mail = next(m for m in mails if m["MessageId"] == sent["MessageId"])
        self.assertEqual((mail["Subject"], mail["BodyText"], mail["To"]), ("waste", "1 node", to["ToAddresses"]))

    def test_a_binary_runs_as_a_function_and_sees_both_simulators(self):
        iam, functions = filled().client("iam"), filled().client("lambda")
        iam.create_role(RoleName="function", AssumeRolePolicyDocument="{}")
        role = f"arn:aws:iam::{filled().world['account_id']}:role/function"
        made = functions.create_function(
            FunctionName="echo",
            Runtime="provided.al2023",
            Role=role,
            Handler="bootstrap",
            Code={"ZipFile": _bootstrap()},
        )
        answer = json.load(functions.invoke(FunctionName="echo", Payload=b"{}")["Payload"])
        endpoints = json.loads(answer["body"])["endpoints"]
        self.assertEqual(endpoints["AWS_ENDPOINT_URL"], filled().sim.ministack_url)
        self.assertEqual(endpoints["AWS_ENDPOINT_URL_EC2"], filled().sim.moto_url)
        gateway = filled().client("apigatewayv2")
        api = gateway.create_api(Name="tune", ProtocolType="HTTP")["ApiId"]
        target = gateway.create_integration(
            ApiId=api, IntegrationType="AWS_PROXY", IntegrationUri=made["FunctionArn"], PayloadFormatVersion="2.0"
        )["IntegrationId"]
        gateway.create_route(ApiId=api, RouteKey="GET /v1/steps/{step}/recommendation", Target=f"integrations/{target}")
        gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
        url = f"{filled().sim.ministack_url}/_aws/execute-api/{api}/$default/v1/steps/demo-overasked/recommendation"
        with urllib.request.urlopen(url) as reply:
            event = json.load(reply)["event"]
        self.assertEqual((event["version"], event["pathParameters"]), ("2.0", {"step": "demo-overasked"}))


def _bootstrap() -> bytes:
    """A custom runtime of a few lines; any executable named `bootstrap` will do."""
    code = f"""#!{sys.executable}
import json, os, urllib.request
api = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(api + "next") as reply:
        event, request = json.load(reply), reply.headers["Lambda-Runtime-Aws-Request-Id"]
    endpoints = {{k: v for k, v in os.environ.items() if k.startswith("AWS_ENDPOINT_URL")}}
    body = json.dumps({{"event": event, "endpoints": endpoints}})
    answer = json.dumps({{"statusCode": 200, "body": body}}).encode()
    urllib.request.urlopen(api + request + "/response", answer).close()
"""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, code)
    return packed.getvalue()


class Seed(unittest.TestCase):
    def test_the_world_does_not_say_what_is_waste(self):
        keys = set(filled().world) | {k for n in filled().world["nodes"] for k in n}
        keys |= {k for n in filled().world["nodes"] for s in n["steps"] for k in s}
        self.assertFalse(keys & {"planted", "waste", "idle", "kind", "variant", "standby", "agent_connected"})

    def test_everything_planted_exists(self):
        nodes = {n["instance_id"] for n in filled().world["nodes"]}
        steps = {s["job_name"] for n in filled().world["nodes"] for s in n["steps"]}
        jobs = {s["job_id"] for n in filled().world["nodes"] for s in n["steps"]}
        self.assertLessEqual(set(filled().resources("idle_node")), nodes)
        self.assertLessEqual(set(filled().resources("overprovisioned_step")), steps)
        self.assertLessEqual(set(filled().resources("stuck_batch_job", "no_progress")), jobs)

    def test_a_simulator_that_is_not_there_ends_with_an_error(self):
        ended = seed(filled().out / "none", "http://127.0.0.1:9", filled().sim.ministack_url)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("seed: POST http://127.0.0.1:9", ended.stderr)


if __name__ == "__main__":
    unittest.main()
