"""CloudFormation: StackSets remember all that they were created with, and instances are deleted by units.

Follows the CloudFormation API reference, types `StackSet` (`AutoDeployment`, `Capabilities`, and roles only with
the permission model SELF_MANAGED) and `StackInstanceSummary` (`OrganizationalUnitId`), and actions
`DeleteStackInstances` (`DeploymentTargets`) and `ListStackSets` (`Status`). moto 5.2.5 forgets the first two, makes
up the roles, answers no unit, deletes only listed accounts, and lists deleted StackSets too.
"""

from typing import Any

from moto.cloudformation.models import CloudFormationBackend, StackInstance, StackInstances
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult

_create_stack_set = CloudFormationResponse.create_stack_set
_create_instances = StackInstances.create_instances
_to_dict = StackInstance.to_dict
_list_stack_sets = CloudFormationBackend.list_stack_sets


def _create_whole(self: CloudFormationResponse) -> ActionResult:
    answer = _create_stack_set(self)
    stack_set = self.cloudformation_backend.describe_stack_set(self._get_param("StackSetName"))
    stack_set.auto_deployment = self._get_params().get("AutoDeployment")  # type: ignore[attr-defined]
    stack_set.capabilities = self._get_param("Capabilities", [])  # type: ignore[attr-defined]
    if stack_set.permission_model == "SERVICE_MANAGED":
        stack_set.administration_role_arn = stack_set.execution_role_name = None  # type: ignore[assignment]
    return answer


def _create_with_units(
    self: StackInstances, accounts: Any, regions: Any, parameters: Any, targets: dict[str, Any], permission_model: Any
) -> list[dict[str, Any]]:
    answer = _create_instances(self, accounts, regions, parameters, targets, permission_model)
    for unit in targets.get("OrganizationalUnitIds", []):
        below = {unit, *(child.id for child in self.org_backend.ou if child.parent_id == unit)}
        members = {account.id for account in self.org_backend.accounts if account.parent_id in below}
        for instance in self.stack_instances:
            if instance.account_id in members:
                instance.ebb_unit = unit  # type: ignore[attr-defined]
    return answer


def _to_dict_with_unit(self: StackInstance) -> dict[str, Any]:
    unit = getattr(self, "ebb_unit", None)
    return _to_dict(self) | ({"OrganizationalUnitId": unit} if unit else {})


def _delete_stack_instances(self: CloudFormationResponse) -> ActionResult:
    name, targets = self._get_param("StackSetName"), self._get_params().get("DeploymentTargets") or {}
    units = targets.get("OrganizationalUnitIds", [])
    instances = self.cloudformation_backend.describe_stack_set(name).instances.stack_instances
    accounts = [instance.account_id for instance in instances if getattr(instance, "ebb_unit", None) in units]
    accounts += self._get_param("Accounts", [])
    stack_set = self.cloudformation_backend.delete_stack_instances(name, accounts, self._get_param("Regions", []))
    return ActionResult({"OperationId": stack_set.operations[-1]["OperationId"]})


def _list_active(self: CloudFormationBackend) -> list[Any]:
    return [stack_set for stack_set in _list_stack_sets(self) if stack_set.status == "ACTIVE"]


def install() -> None:
    """Replaces the answers."""
    CloudFormationResponse.create_stack_set = _create_whole  # type: ignore[method-assign]
    StackInstances.create_instances = _create_with_units  # type: ignore[method-assign]
    StackInstance.to_dict = _to_dict_with_unit  # type: ignore[method-assign]
    CloudFormationBackend.list_stack_sets = _list_active  # type: ignore[method-assign]
    CloudFormationResponse.delete_stack_instances = _delete_stack_instances  # type: ignore[method-assign]
