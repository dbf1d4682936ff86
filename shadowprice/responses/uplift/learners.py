"""The S- and T-learner: first stages of the two-stage method (Künzel et al., PNAS 2019)."""

from __future__ import annotations

from shadowprice.responses.uplift.two_outcome import TwoOutcomeModel


class SLearnerModel(TwoOutcomeModel):
    """One network with the level among its inputs."""

    network_name = "s_learner"


class TLearnerModel(TwoOutcomeModel):
    """One network per level."""

    network_name = "t_learner"
