"""A thin client: one call per choice, retried safely, with a local default where nobody answers.

with Client(address, tenant="acme", token=token, local_default="tone=warm,length=short") as client:
    chosen = client.select("public_copy", unit_id="customer-42", context={"channel": "mail"})
    ...
    client.report_outcome(chosen, 1.0)
"""

from runtime.client.asks import Measured, Selected, SelectionAsk
from runtime.client.exchange import TIMEOUT_S
from runtime.client.http_client import MAX_UNSETTLED, Client

__all__ = ["MAX_UNSETTLED", "TIMEOUT_S", "Client", "Measured", "Selected", "SelectionAsk"]
