"""Overview: what models there are, what the chosen one is, the verdicts on it, each with a link to the page that shows why."""

import re
from functools import partial

import streamlit as st

from analysis import figures
from analysis.reports import HistoryReport, Verdict, model_folders
from analysis.token_paths import solver_in_words
from app import charts, panels, shell, uploads
from app.loading import Entry, models
from app.state import Visit
from app.views.shared_reports import ask_certificates, certificate, stored_certificate
from odevit.evaluate import macs, parameters, trained_nfe

WHY = {  # verdict -> page that shows its grounds
    "existence": "lipschitz", "growth": "lipschitz", "Lipschitz": "lipschitz", "step": "spectra", "stability": "spectra",
    "rates": "spectra", "sensitivity": "stability", "error": "solver", "ODE": "solver", "structure": "spectra",
}  # fmt: skip
MEANING = (
    ":green-badge[:material/verified: proven] a theorem whose constants come from the weights. "
    ":blue-badge[:material/straighten: measured] at the images and times named here, not elsewhere. "
    ":orange-badge[:material/warning: vacuous] true, and far too weak to say anything."
)
TRAINING = """Logged once an epoch. Training accuracy is on augmented images, with label smoothing in the loss; validation on
plain ones, with the averaged weights where the run keeps them (EMA)."""


def show(visit: Visit) -> None:
    """The page."""
    panels.head("Overview", "Is the model well-posed, is it stable, and how do we know?")
    _numbers(visit)
    with panels.section():
        _verdicts(visit)
    with panels.section():
        _training(visit)
    left, right = st.columns([3, 2])
    with left, panels.section("Models"):
        _list()
    with right, panels.section("Card"):
        _card(visit.entry)


def _numbers(visit: Visit) -> None:
    model, entry = visit.model, visit.entry
    cost = macs(model) / 1e6
    accuracy = "not known" if entry.accuracy is None else f"{entry.accuracy:.1%}"
    panels.numbers([
        ("Parameters", f"{parameters(model):,}", "All of them, embedding and head included."),
        ("MACs an image", f"{cost:.3g} M", "Multiply-accumulates of one solve, attention included."),
        ("NFE", f"{trained_nfe(model)}", f"Calls of the field in one solve: {_solver(visit)}."),
        ("Accuracy, validation", accuracy, "Of the epoch that was kept; its card says how many images."),
    ])  # fmt: skip


def _solver(visit: Visit) -> str:
    solver = visit.model.solver
    return f"{solver_in_words(solver.method, solver.steps)} over t in [0, {solver.horizon:g}]"


def _verdicts(visit: Visit) -> None:
    """The certificate: the one in the model's folder where it belongs to these weights, else computed when asked."""
    report = certificate(visit)
    if report is None:
        panels.nothing("No certificate of these weights is stored in the model's folder.")
        ask_certificates([visit], "certify")
        return
    where = "stored in the model's folder" if stored_certificate(visit) else f"computed here on {report.images} images"
    with st.container(border=True):
        st.markdown("**Certificate**")
        for verdict in report.verdicts:
            _verdict(verdict)
        st.caption(f"{panels.plain(f'{report.subject}: {report.solve}. {report.grounds}')}; {where}.")
        st.markdown(f":small[{MEANING}]")
        with st.expander("What was left out, and what a reader must know"):
            st.markdown("\n".join(f"- {panels.plain(line)}" for line in (*report.skipped, *report.notes)) or "Nothing.")
        made = panels.remember(
            visit, (report,), name="certificate", title="Certificate", paper=lambda: figures.certificate_table(report),
            command=f"odevit analyze {visit.entry.argument} --reports certificate --images {report.images} "
            "--out runs/certificate",
        )  # fmt: skip
        panels.downloads(made, "certificate", markdown=report.to_markdown)


def _verdict(verdict: Verdict) -> None:
    """One row: status, question, answer, why."""
    status, words, why = st.columns([1.3, 7, 1.2], vertical_alignment="center")
    colour, icon = panels.STATUS[verdict.status]
    status.markdown(f":{colour}-badge[{icon} {verdict.status}]")
    words.markdown(f"**{verdict.question}** {panels.plain(verdict.answer)}")
    with why:
        shell.link(WHY.get(verdict.name, "spectra"), "why")


def _training(visit: Visit) -> None:
    report = model_folders.of_folder(visit.entry.path).get("history")
    if not isinstance(report, HistoryReport):
        panels.nothing("This folder has no log.csv, so there are no training curves.")
        return
    panels.plot(
        visit, partial(charts.training_history, report), [report], name="training", title="Training", status="measured",
        what=TRAINING, note=f"{len(report.epoch)} epochs", paper=lambda: figures.training_curves(report),
        command=f"odevit figures {visit.entry.argument} --only training_curves --out runs/figures",
    )  # fmt: skip


def _list() -> None:
    rows = []
    for e in models():
        facts = {"model": e.name, "kind": e.title, "validation": e.accuracy, "data": e.source}
        rows.append(facts | ({"why not": e.reason} if e.reason else {}))
    st.dataframe(rows, hide_index=True, column_config={"validation": st.column_config.NumberColumn(format="percent")})
    uploads.offer()


def _card(entry: Entry) -> None:
    """README.md of the model's folder, as plain Markdown without its header; pictures become links."""
    path = entry.path / "README.md"
    if not path.is_file():
        panels.nothing("This folder has no README.md.")
        return
    text = path.read_text(encoding="utf-8", errors="replace")[:20_000]
    if text.startswith("---"):
        text = text.partition("---")[2].partition("\n---")[2]
    text = re.sub(r"!+(?=\[)", "", text)
    with st.expander("README.md"):
        st.markdown(text.replace("\n# ", "\n#### ").replace("\n## ", "\n##### "))
