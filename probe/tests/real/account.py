"""A simulated account with one queue, one bucket and one node's credentials.

`python account.py make URL` makes them and prints what the node is given;
`python account.py read URL` prints what arrived, bodies in base64.
"""

import base64
import json
import sys

import boto3

BUCKET = "ebb"
INSTANCE = "i-0123456789abcdef0"


def client(service: str, url: str):
    """A client of the account's own key."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, endpoint_url=url, region_name="us-east-1", **keys)


def make(url: str) -> dict:
    """Creates the queue, the bucket and the node's role."""
    client("s3", url).create_bucket(Bucket=BUCKET)
    queue = client("sqs", url).create_queue(QueueName="heartbeats")["QueueUrl"]
    trust = {"Version": "2012-10-17", "Statement": []}
    role = client("iam", url).create_role(RoleName="node", AssumeRolePolicyDocument=json.dumps(trust))
    session = client("sts", url).assume_role(RoleArn=role["Role"]["Arn"], RoleSessionName=INSTANCE)
    keys = session["Credentials"]
    return {
        "queue_url": queue,
        "bucket": BUCKET,
        "node": INSTANCE,
        "user_id": session["AssumedRoleUser"]["AssumedRoleId"],
        "environment": {
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
            "AWS_SESSION_TOKEN": keys["SessionToken"],
        },
    }


def read(url: str) -> dict:
    """Receives every message and reads every object."""
    sqs, s3 = client("sqs", url), client("s3", url)
    queue = sqs.get_queue_url(QueueName="heartbeats")["QueueUrl"]
    messages = []
    while True:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["SenderId"])
        if not answer.get("Messages"):
            break
        messages += [{"sender": m["Attributes"]["SenderId"], "body": m["Body"]} for m in answer["Messages"]]
    objects = {}
    for entry in s3.list_objects_v2(Bucket=BUCKET, Prefix="ingest/").get("Contents", []):
        body = s3.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
        objects[entry["Key"]] = base64.b64encode(body).decode()
    return {"messages": messages, "objects": objects}


if __name__ == "__main__":
    command, url = sys.argv[1:]
    json.dump({"make": make, "read": read}[command](url), sys.stdout)
