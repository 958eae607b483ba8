"""Entry of the browser app: `odevit app`, or `python -m streamlit run app/main.py`."""

from app.shell import run

run()
