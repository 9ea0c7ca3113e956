"""Systems Manager: documents and associations of State Manager, which MiniStack lacks.

Only what Terraform's provider calls. A document has versions, and an association names one of them; no
command runs. Source: Systems Manager API reference, actions `CreateDocument`, `UpdateDocument`,
`DescribeDocument`, `GetDocument`, `CreateAssociation`, `UpdateAssociation`, `DescribeAssociation` and
`ListAssociations`.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

from ministack.core.responses import error_response_json, json_response
from ministack.services import ssm

Data = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]

_ACCOUNT = "123456789012"

_documents: dict[str, Data] = {}
_associations: dict[str, Data] = {}
_tags: dict[tuple[str, str], dict[str, str]] = {}


def _refuse(code: str, text: str) -> Answer:
    return error_response_json(code, text, 400)


def _described(document: Data, number: str) -> Data:
    content = document["versions"][number]
    described = {
        "CreatedDate": document["created"],
        "DefaultVersion": document["default"],
        "Description": json.loads(content)["description"],
        "DocumentFormat": document["format"],
        "DocumentType": document["type"],
        "DocumentVersion": number,
        "Hash": hashlib.sha256(content.encode()).hexdigest(),
        "HashType": "Sha256",
        "LatestVersion": str(len(document["versions"])),
        "Name": document["name"],
        "Owner": _ACCOUNT,
        "PlatformTypes": ["Linux"],
        "SchemaVersion": json.loads(content)["schemaVersion"],
        "Status": "Active",
        "Tags": _listed("Document", document["name"]),
    }
    return described | ({"TargetType": document["target"]} if document["target"] else {})


def _number(document: Data, version: str | None) -> str | None:
    """The number of a version; None where there is no such version."""
    latest = str(len(document["versions"]))
    number = {None: document["default"], "$DEFAULT": document["default"], "$LATEST": latest}.get(version, version)
    return number if number in document["versions"] else None


def _create_document(data: Data) -> Answer:
    name = data["Name"]
    if name in _documents:
        return _refuse("DocumentAlreadyExists", f"Document with name {name} already exists.")
    try:
        content = json.loads(data["Content"])
        well_formed = content["schemaVersion"] == "2.2" and content["mainSteps"]
    except (KeyError, ValueError):
        well_formed = False
    if not well_formed:
        return _refuse("InvalidDocumentContent", "JSON is not well-formed, or it has no steps.")
    _documents[name] = {
        "created": int(time.time()),
        "default": "1",
        "format": data.get("DocumentFormat", "JSON"),
        "name": name,
        "target": data.get("TargetType"),
        "type": data.get("DocumentType", "Command"),
        "versions": {"1": data["Content"]},
    }
    _tags[("Document", name)] = {tag["Key"]: tag["Value"] for tag in data.get("Tags", [])}
    return json_response({"DocumentDescription": _described(_documents[name], "1")})


def _with_document(answer: Callable[[Data, Data, str], Answer]) -> Callable[[Data], Answer]:
    """Looks up the document and its version."""

    def called(data: Data) -> Answer:
        document = _documents.get(data["Name"])
        if document is None:
            return _refuse("InvalidDocument", f"Document with name {data['Name']} does not exist.")
        number = _number(document, data.get("DocumentVersion"))
        if number is None:
            return _refuse("InvalidDocumentVersion", "The document version is not valid.")
        return answer(data, document, number)

    return called


def _describe_document(data: Data, document: Data, number: str) -> Answer:
    return json_response({"Document": _described(document, number)})


def _get_document(data: Data, document: Data, number: str) -> Answer:
    described = _described(document, number)
    shown = {key: described[key] for key in ("DocumentFormat", "DocumentType", "DocumentVersion", "Name", "Status")}
    return json_response(shown | {"Content": document["versions"][number]})


def _update_document(data: Data, document: Data, number: str) -> Answer:
    if document["versions"][number] == data["Content"]:
        return _refuse("DuplicateDocumentContent", "The content of the document is a duplicate.")
    number = str(len(document["versions"]) + 1)
    document["versions"][number] = data["Content"]
    return json_response({"DocumentDescription": _described(document, number)})


def _update_default(data: Data, document: Data, number: str) -> Answer:
    document["default"] = number
    return json_response({"Description": {"Name": document["name"], "DefaultVersion": number}})


def _permission(data: Data, document: Data, number: str) -> Answer:
    return json_response({"AccountIds": [], "AccountSharingInfoList": []})


def _delete_document(data: Data, document: Data, number: str) -> Answer:
    if any(association["Name"] == document["name"] for association in _associations.values()):
        return _refuse("AssociatedInstances", "You must disassociate a document before you can delete it.")
    del _documents[document["name"]]
    return json_response({})


_STORED = (
    "AssociationName", "ComplianceSeverity", "DocumentVersion", "MaxConcurrency", "MaxErrors", "Name",
    "ScheduleExpression", "Targets",
)


def _association(data: Data, known: Data) -> Answer:
    document = _documents.get(data["Name"])
    if document is None or _number(document, data.get("DocumentVersion")) is None:
        return _refuse("InvalidDocument", f"Document with name {data['Name']} does not exist.")
    stored = known | {key: data[key] for key in _STORED if key in data}
    stored.setdefault("DocumentVersion", "$DEFAULT")
    _associations[stored["AssociationId"]] = stored
    return json_response({"AssociationDescription": stored})


def _create_association(data: Data) -> Answer:
    number = str(uuid.uuid4())
    overview = {"Status": "Success", "DetailedStatus": "Success"}
    _tags[("Association", number)] = {tag["Key"]: tag["Value"] for tag in data.get("Tags", [])}
    return _association(data, {"AssociationId": number, "AssociationVersion": "1", "Overview": overview})


def _with_association(answer: Callable[[Data, Data], Answer]) -> Callable[[Data], Answer]:
    def called(data: Data) -> Answer:
        known = _associations.get(data["AssociationId"])
        return _refuse("AssociationDoesNotExist", "") if known is None else answer(data, known)

    return called


def _update_association(data: Data, known: Data) -> Answer:
    return _association({"Name": known["Name"]} | data, known)


def _describe_association(data: Data, known: Data) -> Answer:
    return json_response({"AssociationDescription": known})


def _delete_association(data: Data, known: Data) -> Answer:
    del _associations[known["AssociationId"]]
    return json_response({})


def _listed(kind: str, name: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in _tags.get((kind, name), {}).items()]


def _list_documents(data: Data) -> Answer:
    return json_response({"DocumentIdentifiers": [{"Name": name} for name in sorted(_documents)]})


def _list_associations(data: Data) -> Answer:
    # The type Association has fewer fields than AssociationDescription.
    shown = ("AssociationId", "AssociationName", "DocumentVersion", "Name", "Overview", "ScheduleExpression", "Targets")
    listed = [{key: one[key] for key in shown if key in one} for one in _associations.values()]
    return json_response({"Associations": listed})


_ACTIONS: dict[str, Callable[[Data], Answer]] = {
    "CreateAssociation": _create_association,
    "CreateDocument": _create_document,
    "DeleteAssociation": _with_association(_delete_association),
    "DeleteDocument": _with_document(_delete_document),
    "DescribeAssociation": _with_association(_describe_association),
    "DescribeDocument": _with_document(_describe_document),
    "DescribeDocumentPermission": _with_document(_permission),
    "GetDocument": _with_document(_get_document),
    "ListAssociations": _list_associations,
    "ListDocuments": _list_documents,
    "UpdateAssociation": _with_association(_update_association),
    "UpdateDocument": _with_document(_update_document),
    "UpdateDocumentDefaultVersion": _with_document(_update_default),
}


def install() -> None:
    """Answers these actions, and leaves the others to MiniStack."""
    original = ssm.handle_request

    async def handle(method: str, path: str, headers: dict[str, str], body: bytes, query: Data) -> Answer:
        action = headers.get("x-amz-target", "").split(".")[-1]
        data = json.loads(body or b"{}")
        if action in _ACTIONS:
            return _ACTIONS[action](data)
        if action == "ListTagsForResource" and data.get("ResourceType") in ("Association", "Document"):
            return json_response({"TagList": _listed(data["ResourceType"], data["ResourceId"])})
        return await original(method, path, headers, body, query)

    ssm.handle_request = handle
