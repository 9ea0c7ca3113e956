"""SQS: `SenderId` names the credential that sent the message.

Follows the SQS API reference, page `ReceiveMessage`, attribute `SenderId`: "For
an IAM user, returns the IAM user ID … For an IAM role, returns the IAM role ID"
— in practice `AROA…:<role session name>`. MiniStack 1.5.33 answers the account
id for everyone. Its JSON and query protocols both build the attributes of a
sent message in one function, which is replaced here.
"""

from typing import Any

from ministack.services import sqs

from . import ministack_caller


def install() -> None:
    """Makes SendMessage and SendMessageBatch remember who sent."""
    original = sqs._build_send_sys_attrs

    def with_sender(now: float, sys_attrs_input: dict[str, Any]) -> dict[str, str]:
        attributes = original(now, sys_attrs_input)
        sender = ministack_caller.user_id()
        if sender is not None:
            attributes["SenderId"] = sender
        return attributes

    sqs._build_send_sys_attrs = with_sender
