"""Compares recorded calls with the policies of a plan, in both directions.

Each recorded call must be allowed by the policy of its program. Each action on each resource of a policy must be
in the recording of `programs_played.py`, except those that `rights.toml` lists with the reason.
"""

import fnmatch
import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from account import ACCOUNT_ID
from extensions.calls import Call, Session
from module_plans import ROOT, Plan, planned
from policies import Policy, Request, is_allowed, listed, statements
from programs_played import CONTACTS, COST_EXPORT, FROM, MEMBER, REGION, SEED_SESSION

_ORGANIZATION = "o-a1b2c3d4e5"
_NOTHING: Policy = {"Statement": []}

# The administrator of the tests: he creates the account and asks the functions.
_ADMINISTRATORS = {"test"}

# Tests fill another account with a session of the role that the product uses there.
_SESSIONS_OF_TESTS = {SEED_SESSION}

# The tests of the probe create this role themselves, in an account without the module (probe/tests/real/account.py).
_ROLES_OF_TESTS = {"node"}

# The command line, whose access keys `programs_played.py` sets, acts with the policy of a scan.
_COMMAND_LINE = "ebb"

# Source: AWS STS API reference, page `GetCallerIdentity`: "No permissions are required".
_WITHOUT_PERMISSION = {"sts:GetCallerIdentity"}

KEY = f"arn:aws:kms:{REGION}:{ACCOUNT_ID}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:events"

# The module with every setting that adds a permission to a program.
VARIABLES: dict[str, Any] = {
    "cost_export_bucket": COST_EXPORT,
    "email_contact_list": CONTACTS,
    "email_from": FROM,
    "email_to": ["team@example.org"],
    "events_webhook_key": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "events_webhook_url": "https://events.example.org",
    "kms_key_arns": [KEY],
    "member_accounts": ["organization", MEMBER],
    "slack_webhook_url": "https://hooks.example.org/ebb",
    "topic_arn": TOPIC,
    "webhooks": {"tickets": {"url": "https://tickets.example.org"}},
}

# The holder of the policy of each role in a plan. The role of a member is made by its own module.
_ROLES = {
    "ebb-member": "module.member.aws_iam_role_policy.read",
    "ebb-node": "module.ebb.aws_iam_policy.node[0]",
    "ebb-schedule": "module.ebb.aws_iam_role_policy.schedule",
    "ebb-sweeper": "module.ebb.aws_iam_role_policy.sweeper",
    "ebb-tune": "module.ebb.aws_iam_role_policy.tune",
}


@dataclass(frozen=True)
class Right:
    """An action on one resource pattern of a statement that allows it."""

    program: str
    action: str
    resource: str


@dataclass(frozen=True)
class Policies:
    """What programs may do: their own policies by name, and those of the bucket and the queues by ARN."""

    programs: dict[str, Policy]
    resources: dict[str, Policy] = field(default_factory=dict)

    def allow(self, made: "Made") -> bool:
        """Whether the call is allowed, with the keys that AWS adds to its context."""
        call = made.call
        request = Request(f"arn:aws:iam::{made.account}:role/{made.program}", call.action or "", call.resource, made.context)
        holder = ":".join(call.resource.split(":")[:6]).partition("/")[0]
        return is_allowed(request, self.programs[made.program], self.resources.get(holder, _NOTHING), made.account)

    def rights(self) -> Iterator[Right]:
        """Every right of every program."""
        for program, policy in self.programs.items():
            for statement in statements(policy):
                for action in listed(statement["Action"]):
                    for resource in listed(statement["Resource"]):
                        yield Right(program, action, resource)


@dataclass(frozen=True)
class Made:
    """A recorded call of a program."""

    program: str
    session: str
    account: str
    user_id: str | None
    call: Call

    @property
    def context(self) -> dict[str, str]:
        """The keys of conditions: those of the call, and those that AWS knows and the simulators do not.
        The simulators speak HTTP, have one organization, and start no instances."""
        known = {
            "aws:SecureTransport": "true",
            "aws:ResourceAccount": ACCOUNT_ID,
            "aws:PrincipalOrgID": _ORGANIZATION,
            "aws:ResourceOrgID": _ORGANIZATION,
            "s3:TlsVersion": "1.3",
        }
        if self.user_id:
            known["aws:userid"] = self.user_id
        if self.program == "ebb-node":
            known["ec2:SourceInstanceARN"] = f"arn:aws:ec2:{REGION}:{self.account}:instance/{self.session}"
        return known | self.call.context

    def __str__(self) -> str:
        return f"{self.program} ({self.session}): {self.call.action} on {self.call.resource} in {self.call.region}"


def policies() -> tuple[Policies, Policies]:
    """The policies of a plan of the module, and the one of a scan. The second ones are those of two shards, as
    some tests have."""
    member = {"sweeper_role_arn": f"arn:aws:iam::{ACCOUNT_ID}:role/ebb-sweeper", "organization_id": _ORGANIZATION}
    plans = planned({"one": VARIABLES, "two": VARIABLES | {"shards": 2}}, member)
    one, two = (Policies(_of_programs(plans[name]), _of_resources(plans[name])) for name in ("one", "two"))
    return one, two


def _of_programs(plan: Plan) -> dict[str, Policy]:
    found = plan.policies()
    scan = json.loads((ROOT / "infra/scan-policy.json").read_text())
    return {role: found[address] for role, address in _ROLES.items()} | {_COMMAND_LINE: scan}


def _of_resources(plan: Plan) -> dict[str, Policy]:
    found = plan.policies()
    queues = {
        f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{resource['values']['name']}": found[address]
        for address, resource in plan.resources.items()
        if resource["type"] == "aws_sqs_queue" and address in found
    }
    return queues | {f"arn:aws:s3:::ebb-{ACCOUNT_ID}-{REGION}": found["module.ebb.aws_s3_bucket_policy.ebb"]}


def read(folder: Path) -> list[Made]:
    """The calls in the files of a folder, without those of the tests themselves."""
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    sessions = {one["session_key"]: Session(**one) for one in lines if "session_key" in one}
    made = []
    for call in (Call(**one) for one in lines if "session_key" not in one):
        session = sessions.get(call.key)
        if session is not None:
            account = session.principal.split(":")[4]
            _, program, name = session.principal.split("/")
            made.append(Made(program, name, account, session.user_id, call))
        elif call.key not in _ADMINISTRATORS:
            program, _, name = call.key.partition("-")
            made.append(Made(program, name, ACCOUNT_ID, None, call))
    return [one for one in made if one.session not in _SESSIONS_OF_TESTS and one.program not in _ROLES_OF_TESTS]


def refused(rules: Policies, made: Iterable[Made]) -> list[str]:
    """Each call that the policy of its program does not allow."""
    found = set()
    for one in made:
        if one.program not in rules.programs:
            found.add(f"no policy is known for the caller of {one}")
        elif one.call.action is None:
            found.add(f"the action of a call is not known: {one}")
        elif one.call.action not in _WITHOUT_PERMISSION and not rules.allow(one):
            found.add(f"not allowed: {one}")
    return sorted(found)


def unused(rules: Policies, made: Iterable[Made], exceptions: list[dict[str, str]], skipped: set[str]) -> list[str]:
    """Each right that nothing used and no exception names, and each exception that is out of date."""
    seen = {(one.program, one.call.action, one.call.resource) for one in made}
    used, idle = set(), set()
    for right in rules.rights():
        if right.program not in skipped:
            (used if any(_uses(call, right) for call in seen) else idle).add(right)
    found = [f"never used: {one.program}: {one.action} on {one.resource}" for one in idle if not _named(one, exceptions)]
    for exception in exceptions:
        if exception["program"] in skipped:
            continue
        wrong = [right for right in used if _named(right, [exception])]
        found += [f"an exception is out of date, because it was used: {one.program}: {one.action} on {one.resource}" for one in wrong]
        if not wrong and not any(_named(right, [exception]) for right in idle):
            found.append(f"an exception names no right: {exception['program']}: {exception['action']} on {exception['resource']}")
    return sorted(found)


def _uses(call: tuple[str, str | None, str], right: Right) -> bool:
    program, action, resource = call
    pattern = right.resource.replace("${aws:userid}", "*")
    return program == right.program and action == right.action and fnmatch.fnmatchcase(resource, pattern)


def _named(right: Right, exceptions: list[dict[str, str]]) -> bool:
    return any(
        one["program"] == right.program
        and fnmatch.fnmatchcase(right.action, one["action"])
        and fnmatch.fnmatchcase(right.resource, one["resource"])
        for one in exceptions
    )


def exceptions() -> list[dict[str, str]]:
    """The rights that the simulators cannot show in use, with their reasons."""
    found = tomllib.loads((Path(__file__).parent / "rights.toml").read_text())["exception"]
    for one in found:
        if one.keys() != {"program", "action", "resource", "reason"}:
            raise ValueError(f"rights.toml: {one}")
    return found
