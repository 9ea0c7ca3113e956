"""Evaluates policies of IAM offline, as far as the Terraform module uses their language.

Sources: IAM user guide, "Policy evaluation logic", "Condition operators" (a key that is
missing matches the negated operators only) and "Variables and tags". An operator that is
not known here is an error, so that nothing passes unseen.
"""

import re
from dataclasses import dataclass, field
from typing import Any

Policy = dict[str, Any]


def listed(value: Any) -> list[Any]:
    """JSON of a policy has one value or a list of them."""
    return value if isinstance(value, list) else [value]


def statements(policy: Policy) -> list[dict[str, Any]]:
    """The statements of a policy."""
    return listed(policy["Statement"])


@dataclass(frozen=True)
class Request:
    """One call: the role that makes it, and the context that AWS fills in."""

    role: str
    action: str
    resource: str
    context: dict[str, str] = field(default_factory=dict)

    @property
    def account(self) -> str:
        """The account of the role."""
        return self.role.split(":")[4]


def _matches(pattern: str, value: str) -> bool:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _arn_matches(pattern: str, value: str) -> bool:
    patterns, values = pattern.split(":", 5), value.split(":", 5)
    return len(patterns) == len(values) and all(map(_matches, patterns, values))


_POSITIVE = {
    "ArnEquals": _arn_matches,
    "ArnLike": _arn_matches,
    "Bool": lambda expected, value: expected == value,
    "NumericLessThan": lambda limit, value: float(value) < float(limit),
    "StringEquals": lambda expected, value: expected == value,
    "StringLike": _matches,
}
_NEGATED = {
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "StringNotEquals": "StringEquals",
    "StringNotLike": "StringLike",
}


def _filled(text: str, context: dict[str, str]) -> str | None:
    """The text with its variables; None where one of them is missing."""
    names = re.findall(r"\$\{([^}]+)\}", text)
    if any(name.lower() not in context for name in names):
        return None
    return re.sub(r"\$\{([^}]+)\}", lambda name: context[name[1].lower()], text)


def _holds(operator: str, key: str, expected: list[str], context: dict[str, str]) -> bool:
    value = context.get(key.lower())
    if operator == "Null":
        return (value is None) == (expected == ["true"])
    if value is None:
        return {**dict.fromkeys(_POSITIVE, False), **dict.fromkeys(_NEGATED, True)}[operator]
    values = [filled for text in expected if (filled := _filled(text, context)) is not None]
    if operator in _NEGATED:
        return not any(_POSITIVE[_NEGATED[operator]](text, value) for text in values)
    return any(_POSITIVE[operator](text, value) for text in values)


def conditions(statement: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Operator, key and values of each condition."""
    blocks = statement.get("Condition", {}).items()
    return [(operator, key, listed(values)) for operator, block in blocks for key, values in block.items()]


def _covers(statement: dict[str, Any], request: Request, context: dict[str, str]) -> bool:
    def is_resource(patterns: Any) -> bool:
        filled = (_filled(pattern, context) for pattern in listed(patterns))
        return any(pattern is not None and _matches(pattern, request.resource) for pattern in filled)

    if "NotResource" in statement:
        is_covered = not is_resource(statement["NotResource"])
    else:
        is_covered = is_resource(statement["Resource"])
    actions = listed(statement["Action"])
    return is_covered and any(_matches(action.lower(), request.action.lower()) for action in actions)


def _names(statement: dict[str, Any], request: Request) -> bool:
    principal = statement["Principal"]
    if principal == "*":
        return True
    named = listed(principal.get("AWS", []))
    return "*" in named or request.role in named or any(name.endswith(f"::{request.account}:root") for name in named)


def _effects(policy: Policy, request: Request) -> set[str]:
    context = {key.lower(): value for key, value in request.context.items()}
    context |= {"aws:principalaccount": request.account, "aws:principalarn": request.role}
    return {
        statement["Effect"]
        for statement in statements(policy)
        if ("Principal" not in statement or _names(statement, request))
        and _covers(statement, request, context)
        and all(_holds(*condition, context) for condition in conditions(statement))
    }


def is_allowed(request: Request, identity: Policy, resource: Policy, owner: str) -> bool:
    """Whether the role's policy and the resource's policy, together, allow the call.

    Within the owner's account one of them is enough; across accounts it takes both.
    """
    by_role, by_resource = _effects(identity, request), _effects(resource, request)
    if "Deny" in by_role | by_resource:
        return False
    if request.account == owner:
        return "Allow" in by_role | by_resource
    return "Allow" in by_role and "Allow" in by_resource
