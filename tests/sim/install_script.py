"""The script of `terraform/modules/probe` that installs the probe, filled in as Terraform does."""

import re

from simulators import HERE

_TEMPLATE = HERE.parent.parent / "terraform/modules/probe/install.sh.tftpl"


def rendered(package: dict[str, str]) -> str:
    """Inserts `${name}`, and turns `$${` into `${`."""
    return re.sub(r"\$\$\{|\$\{(\w+)\}", lambda found: package[found[1]] if found[1] else "${", _TEMPLATE.read_text())
