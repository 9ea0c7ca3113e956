"""The validator of the FinOps Foundation takes what `ebb scan` and `ebb costs` write as FOCUS."""

import csv
import io
import json
import os
import subprocess
import unittest
from decimal import Decimal

import validator

PROGRAM = os.environ["EBB_PROGRAM"]


def scan(form):
    asked = [PROGRAM, "scan", "--demo", "--format", form]
    return subprocess.run(asked, check=True, capture_output=True).stdout


def costs(form):
    asked = [PROGRAM, "costs", "--demo", "--format", form]
    return subprocess.run(asked, check=True, capture_output=True).stdout


def rows(text):
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


def changed(text, change):
    """The same file with every row changed."""
    all_rows = rows(text)
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, all_rows[0].keys())
    writer.writeheader()
    for row in all_rows:
        change(row)
        writer.writerow(row)
    return out.getvalue().encode()


class Focus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = scan("focus")

    def test_every_rule_holds(self):
        bad, looked_at = validator.failures(self.text)
        self.assertEqual(set(bad), validator.ONE_OF_TWO, bad)
        self.assertIn("InvoiceId-C-003-C", looked_at)
        self.assertGreater(len(looked_at), 290)

    def test_what_is_broken_is_noticed(self):
        def without(column):
            return changed(self.text, lambda row: row.update({column: ""}))

        for column, rule in [
            ("BilledCost", "BilledCost-C-003-M"),
            ("BillingPeriodStart", "BillingPeriodStart-C-003-M"),
            ("ServiceCategory", "ServiceCategory-C-002-M"),
        ]:
            bad, _ = validator.failures(without(column))
            self.assertIn(rule, bad)

    def test_the_rows_of_each_day_are_its_bill(self):
        report = json.loads(scan("json"))
        billed = {day["day"]: Decimal(day["billed_usd"]) for day in report["ledger"]}
        self.assertEqual(len(billed), 7)
        told = dict.fromkeys(billed, Decimal(0))
        for row in rows(self.text):
            if row["x_RowKind"] != "finding":
                told[row["ChargePeriodStart"][:10]] += Decimal(row["BilledCost"])
        self.assertEqual(told, billed)

    def test_every_rule_holds_for_costs_by_the_names_of_tasks(self):
        text = costs("focus")
        bad, looked_at = validator.failures(text)
        self.assertEqual(set(bad), validator.ONE_OF_TWO, bad)
        self.assertGreater(len(looked_at), 290)
        billed = {day["day"]: Decimal(day["billed_usd"]) for day in json.loads(scan("json"))["ledger"]}
        told = dict.fromkeys(billed, Decimal(0))
        for row in rows(text):
            told[row["ChargePeriodStart"][:10]] += Decimal(row["BilledCost"])
        self.assertEqual(told, billed)
        of_tasks = [json.loads(row["Tags"]) for row in rows(text) if row["x_RowKind"] == "tasks"]
        self.assertIn("assembly", {tags.get("pipeline") for tags in of_tasks})

    def test_a_finding_is_no_charge_and_counts_as_the_report_counts_it(self):
        report = json.loads(scan("json"))
        found = [row for row in rows(self.text) if row["x_RowKind"] == "finding"]
        self.assertEqual(
            [row["x_FindingId"] for row in found],
            [finding["id"] for finding in report["findings"]],
        )
        self.assertEqual({Decimal(row["BilledCost"]) for row in found}, {Decimal(0)})
        counted = sum(
            Decimal(row["x_CountedSavingPerMonth"] or 0)
            for row in found
            if row["x_SavingIsUpperBound"] == "false"
        )
        self.assertEqual(counted, Decimal(report["totals"]["saving_a_month_usd"]))


if __name__ == "__main__":
    unittest.main()
