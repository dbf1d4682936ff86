from serving.client.client import Correction as Correction
from serving.client.client import DecisionClient as DecisionClient
from serving.client.client import Decisions as Decisions
from serving.client.client import LedgerClient as LedgerClient
from serving.client.client import Outcome as Outcome

__all__ = ["Correction", "DecisionClient", "Decisions", "LedgerClient", "Outcome"]
