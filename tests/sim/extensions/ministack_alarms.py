"""CloudWatch: `DescribeAlarms` in the query protocol answers every field of an alarm.

MiniStack stores all of them, and leaves most out of its XML. Terraform's provider speaks this
protocol and would change each alarm again. Source: CloudWatch API reference, type "MetricAlarm".
"""

from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from ministack.services import cloudwatch

# Times are stored as seconds since 1970.
_TIMES = ("AlarmConfigurationUpdatedTimestamp", "StateUpdatedTimestamp")


def _xml(value: Any) -> str:
    """A value in the form of the query protocol."""
    if isinstance(value, dict):
        members = {name: member for name, member in value.items() if member is not None}
        return "".join(f"<{name}>{_xml(_time(name, member))}</{name}>" for name, member in members.items())
    if isinstance(value, list):
        return "".join(f"<member>{_xml(member)}</member>" for member in value)
    if isinstance(value, bool):
        return str(value).lower()
    return escape(str(value))


def _time(name: str, value: Any) -> Any:
    return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z") if name in _TIMES else value


def install() -> None:
    """Replaces the answer for requests without JSON or CBOR that ask for alarms by name or prefix."""
    original = cloudwatch._describe_alarms

    def describe(params: dict[str, Any], cbor: Any, is_cbor: bool, is_json: bool = False) -> Any:
        if is_cbor or is_json:
            return original(params, cbor, is_cbor, is_json)
        names = [cloudwatch._p(params, f"AlarmNames.member.{number}") for number in range(1, 101)]
        # The JSON form has the whole alarms, in the order and pages of the service.
        asked = {
            "AlarmNames": [name for name in names if name],
            "AlarmNamePrefix": cloudwatch._p(params, "AlarmNamePrefix") or None,
            "StateValue": cloudwatch._p(params, "StateValue") or None,
            "MaxRecords": cloudwatch._p(params, "MaxRecords") or None,
            "NextToken": cloudwatch._p(params, "NextToken") or None,
        }
        status, headers, body = original({}, asked, False, True)
        if status != 200:
            return original(params, cbor, is_cbor, is_json)
        found = cloudwatch.json.loads(body)
        answer = {name: found.get(name) for name in ("MetricAlarms", "CompositeAlarms", "NextToken")}
        return cloudwatch._xml(200, "DescribeAlarmsResponse", f"<DescribeAlarmsResult>{_xml(answer)}</DescribeAlarmsResult>")

    cloudwatch._describe_alarms = describe
