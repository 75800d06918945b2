"""Privacy losses as text, as HTML, and with the field names of a public registry.

The registry is the Differential Privacy Deployments Registry (OpenDP, 2025). Facts that it has no
fields for are kept under the name of this package.
"""

import math
from textwrap import indent
from typing import TYPE_CHECKING, Any

from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.markup import html_element, html_table, text_table
from dpq_sklearn.version import __version__

if TYPE_CHECKING:
    from dpq_sklearn.accounting.losses import PrivacyLoss

NOT_COVERED = (
    "the rows that transform returns, and a model trained on them",
    "the time that a call takes",
    "whether there were any rows",
    "types and names of columns, parameters, bounds, decimals and priors: they must be public",
)
_PRIVACY_UNITS = {Neighbours.ROWS: "Row", Neighbours.PEOPLE: "Person"}
_POST_PROCESSING = (
    "Edges, tails, labels, reports and warnings are computed from released numbers and public "
    "facts alone."
)
_DATA_DOMAIN = (
    "Tables of real numbers. Missing values are ignored, and numbers beyond bounds are clipped. "
    "For categories: tables of text, numbers and booleans, in which missing values are a category."
)


def chance_of_a_right_guess(loss: "PrivacyLoss") -> float:
    """Return the largest probability that a guess whether somebody is in the data is right.

    It is 0.5 without a release. Someone who guesses yes for outcomes in S is right with
    probability (P(S) + 1 - Q(S)) / 2, which is largest where P(S) = e^eps Q(S) + delta and
    1 - Q(S) = e^eps (1 - P(S)) + delta.
    """
    factor = math.exp(min(loss.eps, 700.0))
    return min((factor + loss.delta) / (factor + 1), 1.0)


def variant(loss: "PrivacyLoss") -> str:
    """Return the name of the privacy definition that the loss refers to."""
    if loss.eps == math.inf:
        return "Zero-concentrated DP"
    return "Approximate DP" if loss.delta > 0 else "Pure DP"


def guarantee(loss: "PrivacyLoss") -> str:
    """Return the guarantee as a sentence."""
    who = "one person with all their rows" if loss.neighbours is Neighbours.PEOPLE else "one row"
    if loss.eps == math.inf:
        return f"Adding or removing {who} costs at most rho={loss.rho:g} of zero-concentrated DP."

    beyond = f", and beyond that by at most delta={loss.delta:g}" if loss.delta > 0 else ""
    return (
        f"Adding or removing {who} changes the probability of every outcome by a factor of at most "
        f"e^{loss.eps:g}{beyond}. So a guess whether somebody is in the data is right in at most "
        f"{chance_of_a_right_guess(loss):.1%} of the cases, instead of 50% without the release."
    )


def described(loss: "PrivacyLoss") -> dict[str, str]:
    """Return all known facts about a loss as names and texts, for tables."""
    known = {
        "definition": variant(loss),
        "eps": _number(loss.eps),
        "delta": _number(loss.delta),
        "rho (zCDP)": _number(loss.rho),
        "pure eps": _number(loss.pure_eps),
        "neighbours": _neighbours(loss).in_words,
        "shared by": loss.segments,
        "composition": loss.account,
        "mechanism": loss.mechanism,
        "mechanism calls": str(n_draws(loss)) if loss.events else None,
        "randomness": _randomness(loss),
        "charged to": _charged_to(loss),
        "release": loss.release_id,
        "time": loss.time,
    }
    return {name: text for name, text in known.items() if text is not None}


def n_draws(loss: "PrivacyLoss") -> int:
    """Return the number of draws and of noisy counts that one record meets."""
    return sum(event.times for event in loss.events)


def as_text(loss: "PrivacyLoss") -> str:
    """Return a few lines that describe the loss."""
    return f"{guarantee(loss)}\n{indent(text_table(described(loss).items()), '  ')}"


def as_html(loss: "PrivacyLoss") -> str:
    """Return a paragraph and a table of HTML that describe the loss."""
    return f"<div>{html_element('p', guarantee(loss))}{html_table(described(loss).items())}</div>"


def as_dict(loss: "PrivacyLoss") -> dict[str, Any]:
    """Return the loss with the field names of the registry, as a dict for JSON."""
    return {
        "dp_flavor": {
            "name": variant(loss),
            "input_metric": "Symmetric distance: " + _neighbours(loss).in_words,
            "bound_on_input_distance": 1,
            "output_measure": _output_measure(loss),
            "bound_on_output_distance": _parameters(loss),
            "data_domain": _DATA_DOMAIN,
            "unprotected_quantities": "; ".join(NOT_COVERED),
        },
        "privacy_loss": {
            "privacy_unit": _PRIVACY_UNITS[_neighbours(loss)],
            "privacy_unit_description": _neighbours(loss).in_words,
            "privacy_parameters": _parameters(loss),
            "privacy_parameters_description": guarantee(loss),
        },
        "model": {"model_name": "Central", "access_type": "Non-interactive"},
        "accounting": {"composition": loss.account, "post_processing": _POST_PROCESSING},
        "implementation": {"mechanisms": _mechanisms(loss)},
        "dpq_sklearn": {
            "version": __version__,
            "release_id": loss.release_id,
            "time": loss.time,
            "ledger": loss.ledger,
            "eps_in_ledger": loss.eps_in_ledger,
            "eps": _finite(loss.eps),
            "delta": loss.delta,
            "rho": _finite(loss.rho),
            "pure_eps": _finite(loss.pure_eps),
            "seeded": not loss.os_randomness,
            "account": loss.account,
            "mechanism": loss.mechanism,
            "n_draws": n_draws(loss),
            "segments": loss.segments,
        },
    }


def _neighbours(loss: "PrivacyLoss") -> Neighbours:
    return Neighbours(loss.neighbours)


def _parameters(loss: "PrivacyLoss") -> dict[str, float | None]:
    if loss.eps == math.inf:
        return {"rho": _finite(loss.rho)}
    return {"epsilon": loss.eps, "delta": loss.delta}


def _output_measure(loss: "PrivacyLoss") -> str:
    measures = {
        "Pure DP": "Max divergence",
        "Approximate DP": "Hockey-stick divergence",
        "Zero-concentrated DP": "Zero-concentrated divergence",
    }
    return measures[variant(loss)]


def _mechanisms(loss: "PrivacyLoss") -> str:
    events = ", ".join(f"{event.times} x {event.kind.value}" for event in loss.events)
    name = f"{loss.mechanism}: " if loss.mechanism else ""
    return f"{name}{events or 'not recorded'}; {_randomness(loss)}"


def _randomness(loss: "PrivacyLoss") -> str:
    if loss.os_randomness:
        return "from the operating system"
    return "seeded: anyone who knows the seed can remove the noise"


def _charged_to(loss: "PrivacyLoss") -> str | None:
    if loss.ledger is None or loss.eps_in_ledger is None or loss.eps_in_ledger <= loss.eps:
        return loss.ledger
    return f"{loss.ledger}, which counts eps={loss.eps_in_ledger:g} for it"


def _number(number: float | None) -> str | None:
    return None if number is None or number == math.inf else f"{number:g}"


def _finite(number: float | None) -> float | None:
    """Return None for infinity, which JSON cannot represent."""
    return None if number == math.inf else number
