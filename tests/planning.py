"""Requests and plans for tests, in one line."""

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.checks import UNBOUNDED
from dpq_sklearn.forecast.enough_data import chosen_plan
from dpq_sklearn.ledger import ledger as ledger_module
from dpq_sklearn.releases import release as release_module
from dpq_sklearn.releases.plans import plan_choice, plan_quantiles
from dpq_sklearn.releases.request import Column, CountRole, Request


def request_of(probabilities, *, eps=1.0, delta=0.0, rho=None, bounds=UNBOUNDED, **fields):
    """Return a request for columns with these probabilities and the same bounds."""
    columns = [Column(of_column, bounds) for of_column in probabilities]
    return Request(columns, TotalBudget(eps, delta, rho), **fields)


def plan_of_columns(probabilities, **fields):
    return plan_quantiles(request_of(probabilities, **fields))


def plan_of_fit(candidates, **fields):
    """Return the choice among candidates: a list of the probabilities of all columns each."""
    fields["count"] = CountRole.CHOOSES
    return plan_choice([request_of(each, **fields) for each in candidates], chosen_plan)


def give_releases_one_id_and_time(monkeypatch):
    """Replace the random ids of releases and their times, so that fits can be compared whole."""
    monkeypatch.setattr(ledger_module, "new_release_id", lambda: "0" * 32)
    monkeypatch.setattr(release_module, "_now", lambda: "2000-01-01T00:00:00+00:00")
