"""What a plan of the Terraform module grants."""

import json
import shutil
import unittest
from functools import cache
from typing import Any

from account import ACCOUNT_ID
from filled import filled
from module_plans import ROOT, Plan, planned
from policies import Policy, Request, conditions, is_allowed, listed, statements

_OTHER = "210987654321"
_ORGANIZATION = "o-a1b2c3d4e5"
_CLUSTER = f"arn:aws:eks:us-east-1:{ACCOUNT_ID}:cluster/c"
_PROVIDER = f"arn:aws:iam::{ACCOUNT_ID}:oidc-provider/oidc.eks.example.org/id/C"
_BUCKET = f"arn:aws:s3:::ebb-{ACCOUNT_ID}-us-east-1"
_KEY = f"arn:aws:kms:us-east-1:{ACCOUNT_ID}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_QUEUE = f"arn:aws:sqs:us-east-1:{ACCOUNT_ID}:ebb-heartbeats"

# These services pass no source account when they assume a role.
_WITHOUT_SOURCE = {"ec2.amazonaws.com", "lambda.amazonaws.com"}


def _role(name: str, account: str = ACCOUNT_ID) -> str:
    return f"arn:aws:iam::{account}:role/{name}"


_ALL_KINDS = {
    "ec2": {"role_arns": [_role("batch", _OTHER)]},
    "eks_pod_identity": {"role_arns": [_role("pod")], "cluster_arns": [_CLUSTER]},
    "irsa": {"role_arns": [_role("irsa")], "oidc_provider_arns": [_PROVIDER]},
    "roles_anywhere": {"role_arns": [_role("rack")], "common_names": ["*.example.org"]},
}


# The variables of the module in each plan that every policy is checked in.
_VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "every kind": {"senders": _ALL_KINDS, "shards": 2},
    "organization": {"senders": {"ec2": {"organization_id": _ORGANIZATION}}},
    "on premises": {"senders": {"roles_anywhere": _ALL_KINDS["roles_anywhere"]}},
    "athena": {"athena": True},
    "path": {"iam_path": "/teams/ebb/", "member_iam_path": "/readers/", "kms_key_arns": [_KEY]},
}


@cache
def plans() -> dict[str, Plan]:
    """The plan of each variant."""
    ebb = {
        "member_accounts": ["organization", _OTHER],
        "email_from": "ebb@example.org",
        "email_to": ["team@example.org"],
        "topic_arn": f"arn:aws:sns:us-east-1:{ACCOUNT_ID}:events",
        "slack_webhook_url": "https://hooks.example.org/ebb",
    }
    member = {"sweeper_role_arn": _role("ebb-sweeper"), "external_id": "ebb", "organization_id": _ORGANIZATION}
    return planned({name: ebb | variables for name, variables in _VARIANTS.items()}, member)


def setUpModule() -> None:
    """Makes the plans once; an error ends every test here."""
    if shutil.which("terraform") is None:
        raise unittest.SkipTest("terraform is not here (scripts/setup test gets it)")
    plans()


class Evaluation(unittest.TestCase):
    """The rules of IAM that the other tests here rely on."""

    def check(self, condition: dict[str, Any], context: dict[str, str], expect: bool) -> None:
        """Whether a statement with this condition applies."""
        allow = {"Statement": [{"Effect": "Allow", "Action": "a:B", "Resource": "*", "Condition": condition}]}
        request = Request(_role("r"), "a:B", "arn:aws:a:::x", context)
        self.assertEqual(is_allowed(request, allow, {"Statement": []}, ACCOUNT_ID), expect, (condition, context))

    def test_a_missing_key_matches_negated_operators_only(self):
        for operator, expect in (("StringLike", False), ("StringNotLike", True), ("ArnLike", False), ("ArnNotLike", True)):
            self.check({operator: {"k": "arn:aws:a:::*"}}, {}, expect)
            self.check({operator: {"k": "arn:aws:a:::*"}}, {"k": "arn:aws:a:::y"}, not expect)
        self.check({"Null": {"k": "true"}}, {}, True)
        self.check({"Null": {"k": "true"}}, {"k": "v"}, False)

    def test_all_conditions_and_one_value_hold(self):
        self.check({"StringEquals": {"k": ["a", "b"], "l": "c"}}, {"K": "b", "l": "c"}, True)
        self.check({"StringEquals": {"k": ["a", "b"], "l": "c"}}, {"k": "b"}, False)
        self.check({"StringNotEquals": {"k": ["a", "b"]}}, {"k": "b"}, False)
        self.check({"ArnLike": {"k": "arn:aws:ec2:*:1:instance/*"}}, {"k": "arn:aws:ec2:x:2:y:1:instance/i"}, False)

    def test_an_unknown_operator_is_an_error(self):
        with self.assertRaises(KeyError):
            self.check({"StringSomehow": {"k": "a"}}, {}, True)


class Policies(unittest.TestCase):
    def allowing(self) -> list[tuple[str, dict[str, Any]]]:
        """Each statement of every plan that allows something, with where it is."""
        return [
            (f"{name}: {address}: {statement.get('Sid')}", statement)
            for name, found in plans().items()
            for address, policy in found.policies().items()
            for statement in statements(policy)
            if statement["Effect"] == "Allow"
        ]

    def test_every_policy_is_in_the_plan(self):
        programs = {f"aws_iam_role{part}.{name}" for name in ("schedule", "sweeper", "tune") for part in ("", "_policy")}
        common = programs | {"aws_iam_role.node", "aws_s3_bucket_policy.ebb"}
        common |= {"aws_sqs_queue.dead_letters", "aws_sqs_queue.heartbeats[0]"}
        common |= {"module.observability.aws_sns_topic_policy.alarms[0]"}
        others = {f'aws_iam_policy.sender["{kind}"]' for kind in _ALL_KINDS if kind != "ec2"}
        expected = {
            "default": common | {"aws_iam_policy.node[0]"},
            "organization": common | {"aws_iam_policy.node[0]"},
            "every kind": common | others | {"aws_iam_policy.node[0]", "aws_sqs_queue.heartbeats[1]"},
            "on premises": common | {'aws_iam_policy.sender["roles_anywhere"]'},
            "athena": common | {"aws_iam_policy.node[0]", "module.athena[0].aws_iam_policy.analyst"},
            "path": common | {"aws_iam_policy.node[0]"},
        }
        for name, addresses in expected.items():
            member = {f"module.member.aws_iam_role{part}" for part in (".member", "_policy.read")}
            found = plans()[name].policies().keys()
            self.assertEqual(found, {f"module.ebb.{address}" for address in addresses} | member, name)

    def test_nothing_is_allowed_by_a_pattern_of_actions(self):
        for where, statement in self.allowing():
            self.assertFalse({"NotAction", "NotPrincipal", "NotResource"} & statement.keys(), where)
            self.assertNotIn("*", "".join(listed(statement["Action"])), where)

    def test_only_reading_is_allowed_on_every_resource(self):
        for where, statement in self.allowing():
            if "*" in listed(statement.get("Resource", [])):
                for action in listed(statement["Action"]):
                    self.assertRegex(action, r"^[a-z0-9-]+:(Describe|Get|List)\w+$", where)

    def test_a_bucket_is_one_of_this_account(self):
        seen = 0
        for where, statement in self.allowing():
            actions = listed(statement["Action"])
            if "Principal" not in statement and any(action.startswith("s3:") for action in actions):
                self.assertIn(("StringEquals", "aws:ResourceAccount", [ACCOUNT_ID]), conditions(statement), where)
                self.assertTrue(all(arn.startswith(_BUCKET) for arn in listed(statement["Resource"])), where)
                seen += 1
        self.assertGreater(seen, 20)

    def test_no_principal_is_allowed_without_a_limit(self):
        for where, statement in self.allowing():
            principal = statement.get("Principal")
            if principal is None:
                continue
            self.assertIsInstance(principal, dict, where)
            keys = {key for _, key, _ in conditions(statement)}
            for name in listed(principal.get("AWS", [])):
                self.assertTrue(name == _role("ebb-sweeper") or keys & {"aws:PrincipalArn", "aws:PrincipalOrgID"}, where)
                self.assertTrue(name != "*" or "aws:PrincipalOrgID" in keys, where)
            for name in listed(principal.get("Service", [])):
                self.assertTrue(name in _WITHOUT_SOURCE or {"aws:SourceAccount", "aws:SourceArn"} <= keys, where)

    def test_another_organization_is_not_entered(self):
        seen = 0
        for where, statement in self.allowing():
            arns = listed(statement.get("Resource", []))
            if "sts:AssumeRole" in listed(statement["Action"]) and any("::*:" in arn for arn in arns):
                organization = ("StringEquals", "aws:ResourceOrgID", ["${aws:PrincipalOrgID}"])
                self.assertEqual(conditions(statement), [organization], where)
                seen += 1
        self.assertEqual(seen, len(plans()))

    def test_members_let_in_one_role_of_the_organization(self):
        policy = plans()["default"].policies()["module.member.aws_iam_role.member"]
        [statement] = statements(policy)
        self.assertEqual(statement["Principal"], {"AWS": _role("ebb-sweeper")})
        expected = {("aws:PrincipalOrgID", _ORGANIZATION), ("sts:ExternalId", "ebb")}
        self.assertEqual({(key, *values) for _, key, values in conditions(statement)}, expected)

    def test_only_tls_is_accepted(self):
        everyone = {"Effect": "Deny", "Principal": "*"}
        insecure = {"Condition": {"Bool": {"aws:SecureTransport": "false"}}}
        for found in plans().values():
            holders = {a: p for a, p in found.policies().items() if "aws_sqs_queue." in a or "bucket_policy" in a}
            self.assertEqual(len(holders), 1 + len(found.values("aws_sqs_queue")))
            for address, policy in holders.items():
                of_bucket = "bucket" in address
                action = {"Action": "s3:*" if of_bucket else "sqs:*"}
                denies = [{k: v for k, v in s.items() if k not in ("Sid", "Resource")} for s in statements(policy)]
                self.assertIn(everyone | insecure | action, denies, address)
                if of_bucket:
                    old = {"Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}}
                    self.assertIn(everyone | old | action, denies, address)

    def test_policies_of_queues_fit_the_quotas(self):
        # Source: Amazon SQS developer guide, "Amazon SQS policy quotas".
        for found in plans().values():
            for address, policy in found.policies().items():
                if "aws_sqs_queue." not in address:
                    continue
                every = statements(policy)
                self.assertLessEqual(len(json.dumps(policy)), 8192)
                self.assertLessEqual(len(every), 20)
                self.assertLessEqual(sum(len(conditions(s)) for s in every), 10, address)
                self.assertLessEqual(max(len(listed(s["Action"])) for s in every), 7)


class Analyst(unittest.TestCase):
    """Who queries the lake reads it, and writes results only."""

    def check(self, action: str, arn: str, expect: bool, context: dict[str, str] | None = None) -> None:
        """Whether a role with the policy may do this."""
        found = plans()["athena"].policies()
        identity = found["module.ebb.module.athena[0].aws_iam_policy.analyst"]
        bucket = found["module.ebb.aws_s3_bucket_policy.ebb"] if action.startswith("s3:") else {"Statement": []}
        secure = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3", "aws:ResourceAccount": ACCOUNT_ID}
        request = Request(_role("analyst"), action, arn, secure | {"aws:userid": "AROA1:ana"} | (context or {}))
        self.assertEqual(is_allowed(request, identity, bucket, ACCOUNT_ID), expect, (action, arn, context))

    def test_it_reads_the_lake_and_no_other_folder(self):
        self.check("s3:GetObject", f"{_BUCKET}/lake/steps/_delta_log/00000000000000000000.json", True)
        self.check("s3:ListBucket", _BUCKET, True, {"s3:prefix": "lake/steps/_delta_log/"})
        self.check("s3:ListBucket", _BUCKET, False, {"s3:prefix": "config/"})
        self.check("s3:ListBucket", _BUCKET, False)
        for folder in ("config", "decisions", "details", "ingest", "reports", "state"):
            self.check("s3:GetObject", f"{_BUCKET}/{folder}/x", False)
        self.check("s3:GetObject", f"{_BUCKET}/lake/x", False, {"aws:ResourceAccount": _OTHER})

    def test_it_writes_results_of_queries_only(self):
        self.check("s3:PutObject", f"{_BUCKET}/queries/1.csv", True)
        self.check("s3:GetObject", f"{_BUCKET}/queries/1.csv", True)
        self.check("s3:PutObject", f"{_BUCKET}/lake/steps/x.parquet", False)
        self.check("s3:DeleteObject", f"{_BUCKET}/lake/steps/x.parquet", False)
        self.check("s3:DeleteObject", f"{_BUCKET}/queries/1.csv", False)

    def test_it_uses_its_workgroup_and_database_only(self):
        here = f"us-east-1:{ACCOUNT_ID}"
        self.check("athena:StartQueryExecution", f"arn:aws:athena:{here}:workgroup/ebb", True)
        self.check("athena:StartQueryExecution", f"arn:aws:athena:{here}:workgroup/primary", False)
        self.check("athena:UpdateWorkGroup", f"arn:aws:athena:{here}:workgroup/ebb", False)
        self.check("glue:GetTable", f"arn:aws:glue:{here}:table/ebb/steps", True)
        self.check("glue:GetTable", f"arn:aws:glue:{here}:table/payroll/salaries", False)
        self.check("glue:UpdateTable", f"arn:aws:glue:{here}:table/ebb/steps", False)

    def test_a_bucket_without_athena_has_no_folder_for_results(self):
        bucket = plans()["default"].policies()["module.ebb.aws_s3_bucket_policy.ebb"]
        wide = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
        secure = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3", "aws:userid": "AROA1:ana"}
        request = Request(_role("admin"), "s3:PutObject", f"{_BUCKET}/queries/1.csv", secure)
        self.assertFalse(is_allowed(request, wide, bucket, ACCOUNT_ID))


class MemberTemplate(unittest.TestCase):
    """The template for StackSets creates the same role as the module."""

    def role(self, **parameters: str) -> tuple[Policy, Policy]:
        """Trust and permissions of the role that a stack of the template has created."""
        stacks = filled().client("cloudformation")
        name = f"member-{len(parameters)}"
        stacks.create_stack(
            StackName=name,
            TemplateBody=(ROOT / "terraform/modules/member/template.json").read_text(),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        stacks.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
        [stack] = stacks.describe_stacks(StackName=name)["Stacks"]
        [output] = stack["Outputs"]
        iam, created = filled().client("iam"), output["OutputValue"].split("/")[-1]
        role = iam.get_role(RoleName=created)["Role"]
        self.assertEqual(role["Path"], parameters.get("Path", "/"))
        trust = role["AssumeRolePolicyDocument"]
        read = iam.get_role_policy(RoleName=created, PolicyName="read")["PolicyDocument"]
        stacks.delete_stack(StackName=name)
        return trust, read

    def test_it_equals_the_module(self):
        planned = plans()["default"].policies()
        trust, read = self.role(SweeperRoleArn=_role("ebb-sweeper"), ExternalId="ebb", OrganizationId=_ORGANIZATION)
        self.assertEqual(_plain(trust), _plain(planned["module.member.aws_iam_role.member"]))
        self.assertEqual(_plain(read), _plain(planned["module.member.aws_iam_role_policy.read"]))

    def test_without_ids_it_has_no_condition(self):
        trust, _ = self.role(SweeperRoleArn=_role("ebb-sweeper"))
        [statement] = statements(trust)
        self.assertNotIn("Condition", statement)
        self.assertEqual(statement["Principal"], {"AWS": _role("ebb-sweeper")})


    def test_it_has_the_path(self):
        # MiniStack ignores the boundary of a role in a template; module_lifecycle.py checks it with moto.
        self.role(SweeperRoleArn=_role("ebb-sweeper"), Path="/readers/")


def _plain(policy: Policy) -> list[dict[str, Any]]:
    """The statements with lists in one form and order; Terraform writes a list of one as its value."""
    return [
        statement
        | {key: sorted(listed(statement[key])) for key in ("Action", "Resource") if key in statement}
        | {"Condition": sorted(conditions(statement))}
        for statement in statements(policy)
    ]


class Senders(unittest.TestCase):
    """Who may send for a node, and write where."""

    secure = {"aws:SecureTransport": "true", "s3:TlsVersion": "1.3", "aws:ResourceAccount": ACCOUNT_ID}
    instance = {"ec2:SourceInstanceARN": f"arn:aws:ec2:us-east-1:{ACCOUNT_ID}:instance/i-0abc"}
    foreign = {"ec2:SourceInstanceARN": f"arn:aws:ec2:us-east-1:{_OTHER}:instance/i-0abc"}
    pod = {"aws:PrincipalTag/eks-cluster-arn": _CLUSTER}
    token = {"aws:FederatedProvider": _PROVIDER}
    certificate = {"aws:PrincipalTag/x509Subject/CN": "r1.example.org"}

    # A role with every permission that an administrator can give it.
    wide = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}

    def identity(self, found: Plan, kind: str) -> Policy:
        """The policy that a sender of this kind gets from the module."""
        address = "aws_iam_policy.node[0]" if kind == "ec2" else f'aws_iam_policy.sender["{kind}"]'
        return found.policies()[f"module.ebb.{address}"]

    def check(self, which: str, kind: str | None, role: str, session: str, proof: dict[str, str], expect: bool):
        """Whether a session sends, and puts under its own name; `None` has wide permissions."""
        found = plans()[which]
        identity = self.wide if kind is None else self.identity(found, kind)
        context = self.secure | {"aws:userid": f"AROA1:{session}"} | proof
        own = f"{_BUCKET}/ingest/v1/AROA1:{session}/b/p/1.steps.zst"
        policies = found.policies()
        queue = policies["module.ebb.aws_sqs_queue.heartbeats[0]"]
        bucket = policies["module.ebb.aws_s3_bucket_policy.ebb"]
        for action, arn, policy in (("sqs:SendMessage", _QUEUE, queue), ("s3:PutObject", own, bucket)):
            request = Request(role, action, arn, context)
            why = (which, kind, role, session, proof, action)
            self.assertEqual(is_allowed(request, identity, policy, ACCOUNT_ID), expect, why)

    def test_an_instance_sends_by_default(self):
        node = _role("ebb-node")
        self.check("default", "ec2", node, "i-0abc", self.instance, True)
        self.check("default", "ec2", node, "i-0abc", {}, False)
        self.check("default", "ec2", node, "i-0abc", self.foreign, False)
        self.check("default", "ec2", node, "i-0abc", self.instance | {"aws:SecureTransport": "false"}, False)
        self.check("default", "ec2", _role("batch"), "i-0abc", self.instance, True)
        self.check("default", None, _role("admin"), "ana", {}, False)
        self.check("default", None, _role("admin"), "i-0abc", {}, False)
        self.check("default", None, _role("pod"), "eks-c-p-1", self.pod, False)
        self.check("default", "ec2", _role("batch", _OTHER), "i-0abc", self.foreign, False)

    def test_a_node_role_with_a_path_is_known(self):
        self.check("path", "ec2", _role("teams/ebb/ebb-node"), "i-0abc", self.instance, True)
        bucket = json.dumps(plans()["path"].policies()["module.ebb.aws_s3_bucket_policy.ebb"])
        self.assertIn(_role("teams/ebb/ebb-node"), bucket)

    def test_each_kind_needs_its_role_and_its_proof(self):
        every = {
            "eks_pod_identity": (_role("pod"), "eks-c-p-1", self.pod),
            "irsa": (_role("irsa"), "worker", self.token),
            "roles_anywhere": (_role("rack"), "0a1b2c", self.certificate),
        }
        for kind, (role, session, proof) in every.items():
            [(key, _)] = proof.items()
            self.check("every kind", kind, role, session, proof, True)
            self.check("every kind", kind, role, session, {}, False)
            self.check("every kind", kind, role, session, {key: "another"}, False)
            self.check("every kind", None, _role("admin"), session, proof, False)
            self.check("every kind", None, role, "i-0abc", proof, False)

    def test_an_instance_sends_next_to_other_kinds(self):
        self.check("every kind", "ec2", _role("ebb-node"), "i-0abc", self.instance, True)
        self.check("every kind", "ec2", _role("batch", _OTHER), "i-0abc", self.foreign, True)
        self.check("every kind", "ec2", _role("another", _OTHER), "i-0abc", self.foreign, False)
        self.check("every kind", None, _role("batch", _OTHER), "i-0abc", {}, False)

    def test_instances_of_the_organization_send(self):
        ours, member = {"aws:PrincipalOrgID": _ORGANIZATION}, _role("batch", _OTHER)
        self.check("organization", "ec2", member, "i-0abc", self.foreign | ours, True)
        self.check("organization", "ec2", _role("ebb-node"), "i-0abc", self.instance | ours, True)
        self.check("organization", None, member, "i-0abc", self.foreign, False)
        self.check("organization", None, member, "i-0abc", self.foreign | {"aws:PrincipalOrgID": "o-zzzzzzzzzz"}, False)
        self.check("organization", None, member, "i-0abc", ours, False)
        self.check("organization", None, member, "ana", ours, False)
        self.check("organization", None, member, "i-0abc", self.instance | ours, False)
        self.check("organization", None, _role("admin"), "i-0abc", ours, False)

    def test_instances_of_the_organization_read_rules_and_nothing_else(self):
        policy = plans()["organization"].policies()["module.ebb.aws_s3_bucket_policy.ebb"]

        def check(action: str, key: str, proof: dict[str, str], expect: bool) -> None:
            context = self.secure | {"aws:userid": "AROA1:i-0abc", "aws:PrincipalOrgID": _ORGANIZATION} | proof
            request = Request(_role("batch", _OTHER), action, f"{_BUCKET}/{key}", context)
            self.assertEqual(is_allowed(request, self.wide, policy, ACCOUNT_ID), expect, (action, key, proof))

        for key, expect in (("config/rules.toml", True), ("config/ebb-probe.tar.gz", True), ("config/policy.toml", False)):
            check("s3:GetObject", key, self.foreign, expect)
            check("s3:GetObject", key, {}, False)
            check("s3:GetObject", key, self.instance, False)
        for key in ("lake/x", "reports/latest/a", "decisions/v1/findings.json", "ingest/v1/AROA1:i-0abc/b/p/1.steps.zst"):
            check("s3:GetObject", key, self.foreign, False)
        for key in ("config/rules.toml", "ingest/v1/AROA2:i-0abd/b/p/1.steps.zst", "lake/x"):
            check("s3:PutObject", key, self.foreign, False)
            check("s3:DeleteObject", key, self.foreign, False)

    def test_a_node_reads_its_rules_and_its_package(self):
        identity = self.identity(plans()["default"], "ec2")
        policy = plans()["default"].policies()["module.ebb.aws_s3_bucket_policy.ebb"]
        for key, expect in (("rules.toml", True), ("ebb-probe.tar.gz", True), ("policy.toml", False)):
            request = Request(_role("ebb-node"), "s3:GetObject", f"{_BUCKET}/config/{key}", self.secure | self.instance)
            self.assertEqual(is_allowed(request, identity, policy, ACCOUNT_ID), expect, key)

    def test_a_kind_that_is_off_does_not_send(self):
        self.check("on premises", "roles_anywhere", _role("rack"), "0a1b2c", self.certificate, True)
        self.check("on premises", None, _role("ebb-node"), "i-0abc", self.instance, False)

    def test_a_sender_writes_under_its_own_name_only(self):
        policy = plans()["default"].policies()["module.ebb.aws_s3_bucket_policy.ebb"]

        def check(role: str, action: str, key: str, expect: bool) -> None:
            context = self.secure | self.instance | {"aws:userid": "AROA1:i-0abc"}
            request = Request(_role(role), action, f"{_BUCKET}/{key}", context)
            self.assertEqual(is_allowed(request, self.wide, policy, ACCOUNT_ID), expect, (role, action, key))

        for role in ("ebb-node", "batch"):
            check(role, "s3:PutObject", "ingest/v1/AROA1:i-0abc/b/p/1.steps.zst", True)
            check(role, "s3:PutObject", "ingest/v1/AROA1:i-0abd/b/p/1.steps.zst", False)
            check(role, "s3:PutObject", "ingest/v1/AROA2:i-0abc/b/p/1.steps.zst", False)
            check(role, "s3:PutObject", "elsewhere", False)
            check(role, "s3:GetObject", "config/rules.toml", True)
        for key in ("config/rules.toml", "decisions/v1/findings.json", "state/v1/0", "lake/x", "reports/latest/a"):
            check("ebb-node", "s3:PutObject", key, False)
            check("ebb-node", "s3:DeleteObject", key, False)
            check("admin", "s3:PutObject", key, True)

    def test_the_programs_write_their_own_folders(self):
        policies = plans()["default"].policies()
        bucket = policies["module.ebb.aws_s3_bucket_policy.ebb"]

        def check(program: str, action: str, key: str, expect: bool) -> None:
            identity = policies[f"module.ebb.aws_iam_role_policy.{program}"]
            context = self.secure | {"aws:userid": f"AROA9:ebb-{program}"}
            request = Request(_role(f"ebb-{program}"), action, f"{_BUCKET}/{key}", context)
            self.assertEqual(is_allowed(request, identity, bucket, ACCOUNT_ID), expect, (program, action, key))
            elsewhere = Request(request.role, action, request.resource, context | {"aws:ResourceAccount": _OTHER})
            self.assertFalse(is_allowed(elsewhere, identity, bucket, ACCOUNT_ID))

        opening = "state/opening/of=01/shard=00.json"
        check("sweeper", "s3:PutObject", opening, True)
        check("sweeper", "s3:DeleteObject", opening, True)
        check("sweeper", "s3:PutObject", "dead-letter/x", True)
        check("sweeper", "s3:PutObject", "details/index.json", True)
        check("sweeper", "s3:DeleteObject", "details/index.json", False)
        check("sweeper", "s3:DeleteObject", "ingest/v1/AROA1:i-0abc/b/p/1.steps.zst", True)
        check("sweeper", "s3:DeleteObject", "lake/heartbeats/dt=2026-11-20/part-1.parquet", True)
        check("sweeper", "s3:AbortMultipartUpload", "lake/x", True)
        check("sweeper", "s3:AbortMultipartUpload", "reports/x", False)
        check("sweeper", "s3:DeleteObject", "reports/latest/report.json", False)
        check("sweeper", "s3:DeleteObject", "state/v1/0", False)
        check("sweeper", "s3:PutObject", "decisions/v1/findings.json", False)
        check("sweeper", "s3:PutObject", "ingest/v1/AROA1:i-0abc/b/p/1.steps.zst", False)
        check("tune", "s3:PutObject", "decisions/v1/findings.json", True)
        check("tune", "s3:DeleteObject", "decisions/v1/findings.json", False)
        check("tune", "s3:PutObject", "config/policy.toml", False)
        check("tune", "s3:GetObject", "details/index.json", True)
        check("tune", "s3:GetObject", "lake/catalogue/v1/prices.json", True)
        check("tune", "s3:GetObject", "lake/steps/dt=2026-11-20/part-1.parquet", False)
        check("tune", "s3:PutObject", "details/index.json", False)


class Settings(unittest.TestCase):
    """What protects the bucket and the API, other than policies."""

    def one(self, kind: str) -> dict[str, Any]:
        """The planned values of the only resource of one type."""
        [values] = plans()["default"].values(kind)
        return values

    def test_the_bucket_is_private_encrypted_and_versioned(self):
        block = self.one("aws_s3_bucket_public_access_block")
        names = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
        self.assertTrue(all(block[name] for name in names))
        self.assertEqual(
            self.one("aws_s3_bucket_ownership_controls")["rule"], [{"object_ownership": "BucketOwnerEnforced"}]
        )
        self.assertEqual(self.one("aws_s3_bucket_versioning")["versioning_configuration"][0]["status"], "Enabled")
        encryption = self.one("aws_s3_bucket_server_side_encryption_configuration")["rule"][0]
        self.assertEqual(encryption["apply_server_side_encryption_by_default"][0]["sse_algorithm"], "AES256")

    def test_every_old_version_ends(self):
        rules = self.one("aws_s3_bucket_lifecycle_configuration")["rule"]
        self.assertTrue(all(rule["status"] == "Enabled" for rule in rules))
        ends = {
            rule["filter"][0]["prefix"]: rule["noncurrent_version_expiration"][0]["noncurrent_days"]
            for rule in rules
            if rule["noncurrent_version_expiration"]
        }
        kept = {"config/": 90, "decisions/": 90}
        brief = ("dead-letter/", "details/", "ingest/", "lake/", "names/", "reports/", "state/")
        self.assertEqual(ends, kept | dict.fromkeys(brief, 1))
        markers = {
            rule["filter"][0]["prefix"]
            for rule in rules
            if any(expiration["expired_object_delete_marker"] for expiration in rule["expiration"])
        }
        self.assertEqual(markers, ends.keys())

    def test_the_api_is_throttled_and_logged(self):
        stage = self.one("aws_apigatewayv2_stage")
        [limits] = stage["default_route_settings"]
        self.assertEqual((limits["throttling_rate_limit"], limits["throttling_burst_limit"]), (20, 40))
        fields = json.loads(stage["access_log_settings"][0]["format"])
        self.assertIn("$context.routeKey", fields.values())
        for value in fields.values():
            self.assertRegex(value, r"^\$context\.[A-Za-z.]+$")
            self.assertNotRegex(value.lower(), "query|path|token|header")
        groups = plans()["default"].values("aws_cloudwatch_log_group")
        self.assertEqual(len(groups), 3)
        self.assertTrue(all(group["retention_in_days"] == 30 for group in groups))


if __name__ == "__main__":
    unittest.main()
