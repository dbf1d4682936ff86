"""Steps of a run after its training: days with retrains beside a frozen model, or the flat policy of a refused one."""
