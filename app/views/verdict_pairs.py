"""The certificates of two models side by side, with what differs marked."""

import streamlit as st

from analysis.reports import CertificateReport, Verdict
from app import panels
from app.state import Visit
from app.views.shared_reports import ask_certificates, certificate


def show(visits: tuple[Visit, Visit], names: tuple[str, str], plot: str, command: str) -> None:
    """The table; where a certificate is not stored, a button that computes it.

    Args:
        visits, names: the models.   plot: name of the table among the plots of the app.   command: for the terminal.
    """
    found = [certificate(visit) for visit in visits]
    missing = [visit for visit, report in zip(visits, found) if report is None]
    if missing:
        panels.nothing(f"No certificate of {' and '.join(v.entry.name for v in missing)} is stored in the model's folder.")
        ask_certificates(missing, "certify pair")
        return
    first, second = (report for report in found if report is not None)
    rows = verdict_rows(first, second, names)
    different = sum(bool(row["differs"]) for row in rows)
    with st.container(border=True):
        st.markdown(f"**Certificates**: {different} of {len(rows)} verdicts differ")
        st.table(rows, border="horizontal", hide_index=True)
        grounds = "; ".join(f"{name}: {panels.plain(report.grounds)}" for name, report in zip(names, (first, second)))
        st.caption(f"Marked: another status, another yes or no, or a verdict that only one has. {grounds}.")
        made = panels.remember(visits[0], (first, second), name=plot, title="Verdicts of both", command=command, paper=None)
        panels.downloads(made, plot)


def verdict_rows(first: CertificateReport, second: CertificateReport, names: tuple[str, str]) -> list[dict[str, str]]:
    """A row for each verdict of either, Markdown; "differs" is marked where status, or a known yes or no, is another."""
    tables = [{v.name: v for v in report.verdicts} for report in (first, second)]
    rows = []
    for name in dict.fromkeys([*tables[0], *tables[1]]):
        one, two = (table.get(name) for table in tables)
        differs = one is None or two is None or (one.status, one.holds) != (two.status, two.holds)
        known = one or two
        assert known is not None
        rows.append({
            "differs": ":material/difference: **differs**" if differs else "",
            "question": panels.plain(known.question), names[0]: _cell(one), names[1]: _cell(two),
        })  # fmt: skip
    return rows


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "left out for this model"
    colour, icon = panels.STATUS[verdict.status]
    return f":{colour}-badge[{icon} {verdict.status}] {panels.plain(verdict.answer)}"
