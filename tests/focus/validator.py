"""The FinOps Foundation's validator of FOCUS, run offline on what `ebb` writes."""

import contextlib
import importlib.machinery
import importlib.util
import io
import logging
import os
import sys

import polars

VERSION = "1.2"

# Features that apply to Ebb's rows. The bill by machine names no commitment and no capacity
# reservation, so those columns are null. For such rows, rules contradict each other: a column must
# be null, and the same column must not be (CommitmentDiscountStatus-C-003-C and -C-004-C).
SUPPORTED = [
    "ACCOUNT_NAMING_SUPPORTED",
    "AVAILABILITY_ZONE_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED",
    "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
    "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED",
    "NEGOTIATED_PRICING_SUPPORTED",
    "PRICING_BILLING_CURRENCY_DIFFERENCES_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED",
    "REGION_SUPPORTED",
    "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
    "SUB_ACCOUNT_SUPPORTED",
    "TAGGING_SUPPORTED",
    "UNIT_PRICING_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED",
    "VIRTUAL_CURRENCY_SUPPORTED",
]

# InvoiceId-C-004-C says that InvoiceId is null and -C-005-C that it is not; InvoiceId-C-003-C
# asks for one of the two.
ONE_OF_TWO = {"InvoiceId-C-005-C"}

NEWER = r"""f"'{k.replace('\"', '\"\"')}'" for k in ignore_keys"""
OLDER = r""""'" + k.replace('"', '""') + "'" for k in ignore_keys"""


class InWordsOf311(importlib.machinery.SourceFileLoader):
    """Reads the one line that Python before 3.12 cannot."""

    def get_data(self, path):
        data = super().get_data(path)
        if not path.endswith("focus_to_duckdb_converter.py"):
            return data
        if data.count(NEWER.encode()) != 1:
            raise ImportError(f"{path} is not the version that this was written for")
        return data.replace(NEWER.encode(), OLDER.encode())


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.endswith(".focus_to_duckdb_converter"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec.loader = InWordsOf311(spec.loader.name, spec.loader.path)
        return spec


if sys.version_info < (3, 12):
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Finder)

from focus_validator.rules.spec_rules import SpecRules  # noqa: E402
from focus_validator.validator import Validator  # noqa: E402


def typed(csv, types):
    """The rows with the types that FOCUS gives its columns: CSV has none, and a validator that
    guesses takes the id of an account for a number."""
    rows = polars.read_csv(io.BytesIO(csv), infer_schema_length=0)
    numbers = [c for c in rows.columns if str(types.get(c, "")).startswith("float")]
    times = [c for c in rows.columns if str(types.get(c, "")).startswith("datetime")]
    return rows.with_columns(
        polars.col(numbers).cast(polars.Float64),
        polars.col(times).str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC"),
    )


def failures(csv):
    """The rules that do not hold, each with what the validator says; and how many were looked
    at."""
    logging.disable(logging.CRITICAL)
    import focus_validator

    package = os.path.dirname(focus_validator.__file__)
    rules = dict(
        rules_version=VERSION,
        rules_block_remote_download=True,
        applicability_criteria=",".join(SUPPORTED),
        focus_dataset="CostAndUsage",
    )
    # It looks for its currency codes from where its package is.
    with contextlib.chdir(os.path.dirname(package)):
        validator = Validator(None, None, "console", **rules)
        validator.spec_rules.load()
        data = typed(csv, validator.spec_rules.get_column_types())
        with contextlib.redirect_stdout(io.StringIO()):
            results = validator.spec_rules.validate(data).by_rule_id
    looked_at = {
        name: result
        for name, result in results.items()
        if not result.get("details", {}).get("skipped")
    }
    bad = {
        name: result["details"].get("message") or result["details"]
        for name, result in looked_at.items()
        if not result["ok"]
    }
    return bad, set(looked_at)
