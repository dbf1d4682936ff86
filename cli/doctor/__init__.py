"""Checks of ``shadowprice doctor``: one file per subject, listed in :mod:`cli.doctor.command`."""
