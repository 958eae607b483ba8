"""Reports that several pages show, under one name and settings, so that they are computed once."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from analysis.reports import CertificateReport, RatesReport, Report
from analysis.running.jobs import TOLERANCE
from analysis.running.subject import Subject
from analysis.spectra import growth_rates
from app import computing
from app.state import Visit
from odevit.errors import UserError

CERTIFIED = 4  # images of a certificate that is computed here


def stored_certificate(visit: Visit) -> CertificateReport | None:
    """The certificate in the model's folder, None where there is none that can be read or it is of other weights."""
    try:
        report = Report.load(visit.entry.path / "certificate.npz")
    except UserError:
        return None
    return report if isinstance(report, CertificateReport) and report.provenance.model == visit.hash else None


def certificate(visit: Visit) -> CertificateReport | None:
    """The stored certificate, else one that is computed if the visitor asked for it (`ask_certificates`), else None."""
    found = stored_certificate(visit)
    if found is None and st.session_state.get(f"certify {visit.hash}"):
        return computing.reports(visit, "certificate", CERTIFIED)[0]
    return found


def ask_certificates(visits: Sequence[Visit], key: str) -> None:
    """A button that asks for the certificates of these models; `key` is its own."""
    hashes = tuple(visit.hash for visit in visits)
    st.button("Compute it (about a minute for a small model)", on_click=_certify, args=(hashes,), key=key)


def _certify(hashes: tuple[str, ...]) -> None:
    for key in hashes:
        st.session_state[f"certify {key}"] = True


def rates(visit: Visit, times: Sequence[float]) -> tuple[RatesReport, ...]:
    """Norm, logarithmic norm and abscissa of the Jacobian along the chosen image's path, one report for each of these times."""
    grid = np.asarray(visit.model.grid.times)
    parts = [(f"rates at t = {t:g}", partial(_rates_at, t=t, k=int(np.abs(grid - t).argmin()))) for t in times]
    return computing.custom(visit, "rates", f"1: {TOLERANCE}, {list(times)}", parts)


def _rates_at(who: Subject, *, t: float, k: int) -> RatesReport:
    x = who.trajectory(who.images).x[k]
    return growth_rates(who.model.field, x, t, batch_dims=1, tolerance=TOLERANCE, seed=who.seed)
